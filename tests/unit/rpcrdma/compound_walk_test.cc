#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "base/heap_buffer_pool.h"
#include "rpcrdma/ulb/nfsv4.h"
#include "rpcrdma/ulb/nfsv4_results.h"
#include "tests/unit/rpcrdma/compound_generator.h"

namespace cw::rpcrdma {
namespace {

using test::ByteVector;
using test::CompoundGenerator;

const CallContext kCompound{.header = {.program = kNfsProgram, .version = 4, .procedure = 1}, .binding = Binding::kNfs4};

void expect_items(const ReducibleItems& found, const std::vector<ReducibleItem>& expected, size_t count) {
  ASSERT_EQ(found.count, count);
  for (uint32_t i = 0; i < count; ++i) {
    EXPECT_EQ(found.items[i].offset, expected[i].offset);
    EXPECT_EQ(found.items[i].length, expected[i].length);
  }
}

// Walks the results to their end: every byte must be accounted for.
void expect_walked_whole(const ByteVector& reply) {
  XdrReader reader{Bytes(reply)};
  ASSERT_TRUE(read_rpc_reply(reader).ok());
  ReducibleItems items;
  find_in_compound(reader, items);
  EXPECT_TRUE(reader.ok());
  EXPECT_EQ(reader.remaining(), 0u);
}

// Proves RPCRDMA-6.4-1.
TEST(CompoundWalk, EveryOperationIsWalkedOverToItsLastByte) {
  for (uint32_t operation = nfsv4::kOperationFirst; operation <= nfsv4::kOperationLast; ++operation) {
    SCOPED_TRACE(nfsv4::find_operation(operation)->name);
    for (uint64_t seed = 0; seed < 200; ++seed) {
      CompoundGenerator generator(seed);
      generator.make_of({operation});
      expect_walked_whole(generator.reply());
    }
  }
}

TEST(CompoundWalk, ReadIsFoundBehindEveryOperation) {
  HeapBufferPool pool(64, 4096, 1);
  for (uint32_t operation = nfsv4::kOperationFirst; operation <= nfsv4::kOperationLast; ++operation) {
    SCOPED_TRACE(nfsv4::find_operation(operation)->name);
    for (uint64_t seed = 0; seed < 50; ++seed) {
      CompoundGenerator generator(seed * 977 + operation);
      generator.make_of({operation, 25, operation, 27});
      const auto found = find_reducible(kCompound, test::chain_of(pool, generator.reply(), 333));
      expect_items(found, generator.items(), generator.items().size());
    }
  }
}

// Proves RPCRDMA-3.4.4.4-3: what the table says and what the generator writes agree for any COMPOUND
TEST(CompoundWalk, FindsEveryItemOfAnyCompound) {
  EXPECT_TRUE(rc::check([] {
    CompoundGenerator generator(*rc::gen::arbitrary<uint64_t>());
    generator.make(*rc::gen::inRange<uint32_t>(0, 20));
    HeapBufferPool pool(2048, 512, 1);
    const auto piece = *rc::gen::inRange<size_t>(32, 512);
    const auto found = find_reducible(kCompound, test::chain_of(pool, generator.reply(), piece));
    RC_ASSERT(found.count == std::min<size_t>(generator.items().size(), kReducibleItemsMax));
    for (uint32_t i = 0; i < found.count; ++i) {
      RC_ASSERT(found.items[i].offset == generator.items()[i].offset);
      RC_ASSERT(found.items[i].length == generator.items()[i].length);
      RC_ASSERT(found.items[i].offset % 4 == 0);
    }
  }));
}

TEST(CompoundWalk, TruncatedAtEveryLengthFindsOnlyWhatIsWhole) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    CompoundGenerator generator(seed);
    generator.make_of({53, 22, 25, 9, 68, 26, 27});
    HeapBufferPool pool(8, 8192, 1);
    for (size_t length = 0; length <= generator.reply().size(); ++length) {
      const auto found = find_reducible(kCompound, test::chain_of(pool, Bytes(generator.reply()).first(length), 8192));
      ASSERT_LE(found.count, generator.items().size());
      for (uint32_t i = 0; i < found.count; ++i) {
        ASSERT_EQ(found.items[i].offset, generator.items()[i].offset);
        ASSERT_EQ(found.items[i].length, generator.items()[i].length);
        ASSERT_LE(found.items[i].offset + xdr_padded(found.items[i].length), length);
      }
    }
  }
}

TEST(CompoundWalk, FlippedBytesNeverLeadOutOfTheReply) {
  EXPECT_TRUE(rc::check([] {
    CompoundGenerator generator(*rc::gen::arbitrary<uint64_t>());
    generator.make(*rc::gen::inRange<uint32_t>(1, 12));
    ByteVector reply = generator.reply();
    for (int flips = *rc::gen::inRange(1, 6); flips > 0; --flips) {
      reply[*rc::gen::inRange<size_t>(0, reply.size())] = *rc::gen::arbitrary<uint8_t>();
    }
    HeapBufferPool pool(2048, 512, 1);
    const auto found = find_reducible(kCompound, test::chain_of(pool, reply, 100));
    uint64_t end = 0;
    for (uint32_t i = 0; i < found.count; ++i) {
      RC_ASSERT(found.items[i].offset % 4 == 0);
      RC_ASSERT(found.items[i].offset >= end);
      end = found.items[i].offset + xdr_padded(found.items[i].length);
      RC_ASSERT(end <= reply.size());
    }
  }));
}

// Behind an operation that is not known, or that failed, nothing is found, whatever stands there; before it everything is.
TEST(CompoundWalk, FindsWhatIsBeforeAnUnknownOrFailedOperationAndNothingBehindIt) {
  HeapBufferPool pool(64, 4096, 1);
  for (uint64_t seed = 0; seed < 3'000; ++seed) {
    CompoundGenerator generator(seed);
    generator.make_hostile(1 + static_cast<uint32_t>(seed % 12));
    const auto found = find_reducible(kCompound, test::chain_of(pool, generator.reply(), 333));
    const uint32_t operations = static_cast<uint32_t>(generator.operations().size());
    // A count that lies is followed to the end of the operations or to itself.
    ASSERT_LE(found.count, std::min<size_t>(generator.items().size(), kReducibleItemsMax)) << seed << " of " << operations;
    for (uint32_t i = 0; i < found.count; ++i) {
      ASSERT_EQ(found.items[i].offset, generator.items()[i].offset) << seed;
      ASSERT_EQ(found.items[i].length, generator.items()[i].length) << seed;
    }
  }
}

TEST(CompoundWalk, RandomBytesAreHarmlessForEveryBinding) {
  EXPECT_TRUE(rc::check([] {
    ByteVector reply = test::words({1, 1, 0, 0, 0, 0});
    test::add(reply, *rc::gen::container<ByteVector>(rc::gen::arbitrary<uint8_t>()));
    HeapBufferPool pool(256, 64, 1);
    for (const Binding binding : {Binding::kNone, Binding::kNfs3, Binding::kNfs4, Binding::kBench}) {
      for (const uint32_t procedure : {1u, 2u, 5u, 6u}) {
        CallContext context{.binding = binding};
        context.header.procedure = procedure;
        const auto found = find_reducible(context, test::chain_of(pool, reply, 37));
        for (uint32_t i = 0; i < found.count; ++i) {
          RC_ASSERT(found.items[i].offset + xdr_padded(found.items[i].length) <= reply.size());
        }
      }
    }
  }));
}

}  // namespace
}  // namespace cw::rpcrdma
