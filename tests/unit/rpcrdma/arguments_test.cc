// Which arguments may be reduced, what a header says was reduced, and when the two disagree (RFC 8166 6.1, RFC 8267).
#include "rpcrdma/ulb/arguments.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "base/heap_buffer_pool.h"
#include "rpcrdma/ulb/nfsv4_arguments.h"
#include "tests/unit/rpcrdma/bytes.h"

namespace cw::rpcrdma {
namespace {

using test::ByteVector;

constexpr uint32_t kHeaderBytes = 40;  // an RPC call header with AUTH_NONE

ByteVector call_of(uint32_t program, uint32_t version, uint32_t procedure, const ByteVector& arguments) {
  ByteVector call = test::words({7, 0, 2, program, version, procedure, 0, 0, 0, 0});
  test::add(call, arguments);
  return call;
}

class ArgumentsTest : public ::testing::Test {
 protected:
  HeapBufferPool pool{256, 4096, 8};

  ReducibleItems find(const ByteVector& call) {
    const Chain chain = test::chain_of(pool, call, 41);
    ReducibleItems found;
    XdrReader reader(chain);
    find_eligible_arguments(reader, inspect_call(chain).header, found);
    return found;
  }
  void expect_one(const ByteVector& call, uint64_t offset, uint32_t length) {
    const ReducibleItems found = find(call);
    ASSERT_EQ(found.count, 1u);
    EXPECT_EQ(found.items[0].offset, kHeaderBytes + offset);
    EXPECT_EQ(found.items[0].length, length);
  }
  // The server's question, for one Read chunk.
  bool may_move(const ByteVector& call, uint32_t position, uint32_t length) {
    ChunkList chunks;
    chunks.read[chunks.read_count++] = {.position = position, .segment = {.length = length}};
    const Chain chain = test::chain_of(pool, call, 100);
    return reduces_eligible_arguments(inspect_call(chain), chain, chunks);
  }
};

ByteVector compound_call(std::initializer_list<uint32_t> operations, uint32_t count) {
  ByteVector arguments = test::words({0, 1, count});
  test::add_words(arguments, operations);
  return call_of(kNfsProgram, 4, 1, arguments);
}

// Proves RPCRDMA-3.4.2-1, RPCRDMA-6.1-8: eligibility is what the tables say, by procedure and place.
TEST_F(ArgumentsTest, WriteDataAndLinkTextsAreEligible) {
  ByteVector write3 = test::words({8, 1, 2, 0, 0, 5, 2});
  test::add_opaque(write3, ByteVector(5, 'w'));
  expect_one(call_of(kNfsProgram, 3, 7, write3), 32, 5);
  ByteVector symlink3 = test::words({4, 0xF, 3, 0x61626300, 1, 0777, 0, 1, 5, 1, 0, 9, 2, 1, 1, 1});
  test::add_opaque(symlink3, ByteVector(6, 'p'));
  expect_one(call_of(kNfsProgram, 3, 10, symlink3), 68, 6);
  ByteVector write2(32 + 12, 1);
  test::add_opaque(write2, ByteVector(9, 'w'));
  expect_one(call_of(kNfsProgram, 2, 8, write2), 48, 9);
  ByteVector symlink2(32, 1);
  test::add_opaque(symlink2, ByteVector(2, 'n'));
  test::add_opaque(symlink2, ByteVector(3, 'p'));
  expect_one(call_of(kNfsProgram, 2, 13, symlink2), 44, 3);
  expect_one(call_of(kBenchProgram, 1, 1, test::words({4, 9})), 4, 4);
  expect_one(call_of(kBenchProgram, 1, 3, test::words({1, 4, 9})), 8, 4);
}

// Proves RPCRDMA-3.4.2-1: and nothing else, in any procedure of any program.
TEST_F(ArgumentsTest, EveryOtherArgumentIsNot) {
  ByteVector arguments = test::words({4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4});
  for (uint32_t procedure = 0; procedure < 30; ++procedure) {
    EXPECT_EQ(find(call_of(kNfsProgram, 3, procedure, arguments)).count, procedure == 7 || procedure == 10 ? 1u : 0u)
        << procedure;
    EXPECT_EQ(find(call_of(kNfsProgram, 5, procedure, arguments)).count, 0u);
    EXPECT_EQ(find(call_of(100005, 3, procedure, arguments)).count, 0u);
    EXPECT_EQ(find(call_of(kBenchProgram, 2, procedure, arguments)).count, 0u);
  }
}

// WRITE stands behind the operations that a client sends before it; CREATE's other types have no text.
TEST_F(ArgumentsTest, CompoundsAreWalkedToTheWriteAndTheLinkText) {
  expect_one(compound_call({53, 1, 1,          1, 1, 3, 0, 1, 0,                          // SEQUENCE
                            22, 3, 0xAABBCC00,                                            // PUTFH
                            38, 1, 2,          3, 4, 0, 0, 2, 5, 0x01020304, 0x05000000,  // WRITE
                            9,  1, 0x18},                                                 // GETATTR
                           4),
             12 + 36 + 12 + 36, 5);
  expect_one(compound_call({24, 6, 5, 4, 0x61616161, 1, 0x62000000, 0, 0}, 2), 12 + 4 + 12, 4);
  EXPECT_EQ(find(compound_call({24, 6, 2, 1, 0x62000000, 0, 0}, 2)).count, 0u);
  expect_one(
      compound_call({18, 1, 2, 3, 4, 5, 4, 0xA, 1, 3, 6, 6, 1, 2, 4, 0x777, 0, 3, 0x66696c00,  // OPEN, exclusive with attributes
                     38, 1, 2, 3, 4, 0, 0, 2,   4, 9},
                    2),
      12 + 76 + 36, 4);
}

// Two reduced items in one COMPOUND: both are found, in order.
TEST_F(ArgumentsTest, SeveralWritesOfACompoundAreAllEligible) {
  const ReducibleItems found = find(compound_call({38, 1, 2, 3, 4, 0, 0, 2, 4, 9, 38, 1, 2, 3, 4, 0, 0, 2, 3, 9}, 2));
  ASSERT_EQ(found.count, 2u);
  EXPECT_EQ(found.items[0].offset, kHeaderBytes + 12u + 36);
  EXPECT_EQ(found.items[1].offset, kHeaderBytes + 12u + 36 + 4 + 36);
}

TEST_F(ArgumentsTest, AnUnknownOperationEndsTheWalk) {
  for (const uint32_t operation : {0u, 1u, 2u, 76u, 10044u, UINT32_MAX}) {
    EXPECT_EQ(find(compound_call({operation, 38, 1, 2, 3, 4, 0, 0, 2, 4, 9}, 2)).count, 0u);
  }
}

// Proves RPCRDMA-8.2.2-2, RPCRDMA-8.2.2.3-4, RPCRDMA-8.2.2.2-1: integrity and privacy leave nothing eligible, nor have the
// messages
// of RPCSEC_GSS itself anything; authentication alone changes nothing.
TEST_F(ArgumentsTest, ProtectedCallsHaveNoEligibleArgument) {
  const auto gss = [](uint32_t gss_procedure, uint32_t service) {
    ByteVector call = test::words({7, 0, 2, kNfsProgram, 3, 7, 6, 20, 1, gss_procedure, 9, service, 0, 0, 0});
    test::add(call, test::words({8, 1, 2, 0, 0, 4, 2, 4, 0x77777777}));
    return call;
  };
  const uint32_t position = 60 + 32;
  EXPECT_EQ(find(gss(0, 1)).count, 1u);
  EXPECT_TRUE(may_move(gss(0, 1), position, 4));
  for (const uint32_t service : {2u, 3u}) {
    EXPECT_EQ(find(gss(0, service)).count, 0u);
    EXPECT_FALSE(may_move(gss(0, service), position, 4));
  }
  for (const uint32_t gss_procedure : {1u, 2u, 3u}) {
    EXPECT_FALSE(may_move(gss(gss_procedure, 1), position, 4));
  }
}

// Proves RPCRDMA-3.4.5.2-2, RPCRDMA-3.4.5.2-5: a chunk is as long as its item, with or without the roundup, and no other length.
TEST_F(ArgumentsTest, AChunkIsAsLongAsItsItem) {
  ByteVector echo = test::words({5});
  test::add(echo, ByteVector(8, 1));
  const ByteVector call = call_of(kBenchProgram, 1, 1, echo);
  for (uint32_t length = 1; length < 12; ++length) {
    EXPECT_EQ(may_move(call, 44, length), length == 5 || length == 8) << length;
  }
  EXPECT_FALSE(may_move(call, 40, 5));
  EXPECT_FALSE(may_move(call, 48, 5));
  EXPECT_TRUE(may_move(call, 40, 0)) << "an empty chunk moves nothing";
}

// Proves RPCRDMA-3.4.4.3-1, RPCRDMA-6.1-1, RPCRDMA-6.1-3: in all tables an eligible item is one opaque<> or string<>, which has
// no
// arms and no parts; a union is none, its arms may hold one.
TEST_F(ArgumentsTest, OnlyOpaquesAreEligible) {
  uint32_t eligible = 0;
  uint32_t in_arms = 0;
  const auto check = [&](const auto& self, Shape shape, bool in_arm) -> void {
    for (uint32_t i = 0; i < shape.count; ++i) {
      const Element& element = shape.elements[i];
      if (element.kind == ElementKind::kReducible) {
        ++eligible;
        in_arms += in_arm ? 1 : 0;
        EXPECT_EQ(element.arm_count, 0u);
        EXPECT_EQ(element.body.count, 0u);
        continue;
      }
      self(self, element.body, in_arm);
      for (uint32_t arm = 0; arm < element.arm_count; ++arm) {
        self(self, element.arms[arm].shape, true);
      }
    }
  };
  for (const Shape& shape : nfsv4::arguments::kShapes) {
    check(check, shape, false);
  }
  for (const nfsv4::Operation& operation : nfsv4::kOperations) {
    check(check, operation.success, false);
  }
  EXPECT_EQ(eligible, 5u) << "WRITE, CREATE; READ, READLINK, READ_PLUS";
  EXPECT_EQ(in_arms, 2u) << "CREATE's link text, READ_PLUS's data";
}

constexpr Element kItem[] = {reducible()};
constexpr Element kAfter[] = {words(1)};
constexpr Arm kArms[] = {{1, shape(kItem)}, {2, shape(kAfter)}};
constexpr Element kOptional[] = {union_of(kArms), words(1)};

// Proves RPCRDMA-3.4.4.2-1, RPCRDMA-3.4.4.2-2, RPCRDMA-3.4.4.3-2: of optional data, and of a union, what moves is the content
// alone:
// presence flag and count stay, and with another arm there is nothing to move.
TEST_F(ArgumentsTest, OfOptionalDataTheFlagStaysAndTheContentMoves) {
  ReducibleItems found;
  const ByteVector present = test::words({1, 4, 0xDDDDDDDD, 9});
  XdrReader reader{Bytes(present)};
  walk(reader, shape(kOptional), found);
  ASSERT_EQ(found.count, 1u);
  EXPECT_EQ(found.items[0].offset, 8u);
  EXPECT_EQ(found.items[0].length, 4u);
  for (const uint32_t flag : {0u, 2u}) {
    ReducibleItems none;
    const ByteVector absent = test::words({flag, 9, 9});
    XdrReader other{Bytes(absent)};
    walk(other, shape(kOptional), none);
    EXPECT_EQ(none.count, 0u);
  }
}

// The client's view: the walk over what is left knows where the moved items were.
TEST_F(ArgumentsTest, AReducedStreamIsWalkedAroundWhatWasMoved) {
  const ByteVector left = compound_call({38, 1, 2, 3, 4, 0, 0, 2, 5, 22, 1, 0x01000000, 38, 1, 2, 3, 4, 0, 0, 2, 4, 9, 1, 0}, 4);
  const Chain chain = test::chain_of(pool, left, 100);
  const CallContext context = inspect_call(chain);
  const auto sound = [&](std::initializer_list<std::pair<uint64_t, uint64_t>> chunks) {
    Reduction moved(Reduction::Kind::kArguments);
    for (const auto& [position, bytes] : chunks) {
      moved.add_read_chunk(position, bytes);
    }
    return reduces_eligible_arguments(context, XdrReader(chain), moved);
  };
  const uint64_t first = 40 + 12 + 36;
  const uint64_t second = first + 8 + 12 + 36;
  EXPECT_TRUE(sound({{first, 5}, {second, 4}}));
  EXPECT_TRUE(sound({{first, 8}, {second, 4}}));
  EXPECT_FALSE(sound({{first, 6}, {second, 4}}));
  EXPECT_FALSE(sound({{first, 5}, {second + 4, 4}}));
  EXPECT_FALSE(sound({{first - 4, 5}}));
  EXPECT_FALSE(sound({{first, 5}, {second, 4}, {second + 8, 4}})) << "nothing eligible is there";
}

// Results: `returned` bytes per Write chunk against a reply whose data are moved or not.
class ResultsTest : public ArgumentsTest {
 protected:
  struct Chunk {
    bool offered;
    uint32_t bytes;
  };
  bool sound(uint32_t program, uint32_t version, uint32_t procedure, const ByteVector& results, std::vector<Chunk> chunks) {
    CallContext context = inspect_call(test::chain_of(pool, call_of(program, version, procedure, {}), 100));
    ByteVector reply = test::words({7, 1, 0, 0, 0, 0});
    test::add(reply, results);
    Reduction moved(Reduction::Kind::kResults);
    for (const Chunk& chunk : chunks) {
      moved.add_write_chunk(chunk.offered, chunk.bytes);
    }
    return reduces_eligible_results(context, XdrReader(Bytes(reply)), moved);
  }
};

// Proves RPCRDMA-4.3.2.1-4, RPCRDMA-4.3.2.3-2: which chunk holds which result follows from the decoded reply.
TEST_F(ResultsTest, ChunksPairWithTheResultsOfTheReply) {
  const ByteVector echo = test::words({4});
  EXPECT_TRUE(sound(kBenchProgram, 1, 1, echo, {{true, 4}}));
  EXPECT_FALSE(sound(kBenchProgram, 1, 1, echo, {{true, 3}}));
  // READ fails nothing here: two READs, the second chunk empty, so that its data are in the stream.
  const ByteVector reads = test::words({0, 0, 3, 25, 0, 1, 8, 25, 0, 1, 4, 0xDD, 25, 0, 1, 2});
  EXPECT_TRUE(sound(kNfsProgram, 4, 1, reads, {{true, 8}, {false, 0}, {true, 2}}));
  EXPECT_FALSE(sound(kNfsProgram, 4, 1, reads, {{true, 8}, {true, 4}, {true, 2}}));
  // The end of the file takes its chunk with some servers and not with others; both are understood.
  const ByteVector empty_first = test::words({0, 0, 2, 25, 0, 1, 0, 25, 0, 1, 8});
  EXPECT_TRUE(sound(kNfsProgram, 4, 1, empty_first, {{true, 0}, {true, 8}}));
  EXPECT_TRUE(sound(kNfsProgram, 4, 1, empty_first, {{true, 8}, {true, 0}}));
  // Only the first content of a READ_PLUS may have been moved.
  const ByteVector read_plus = test::words({0, 0, 1, 68, 0, 1, 2, 0, 0, 0, 4, 0, 0, 8192, 4, 0xEE});
  EXPECT_TRUE(sound(kNfsProgram, 4, 1, read_plus, {{true, 4}}));
}

// Proves RPCRDMA-6.1-11: what came in a Write chunk without being eligible.
TEST_F(ResultsTest, AResultThatIsNotEligibleMayNotBeMoved) {
  EXPECT_FALSE(sound(kNfsProgram, 3, 1, test::words({0}), {{true, 84}})) << "GETATTR";
  EXPECT_FALSE(sound(kBenchProgram, 1, 3, test::words({4, 9}), {{true, 4}})) << "SINK";
  EXPECT_FALSE(sound(100005, 3, 1, test::words({4}), {{true, 4}})) << "no binding";
  EXPECT_FALSE(sound(kBenchProgram, 1, 1, test::words({4}), {{true, 4}, {true, 4}})) << "one more than there are";
  EXPECT_TRUE(sound(kNfsProgram, 3, 1, test::words({0}), {{true, 0}}));
}

// Proves RPCRDMA-6.1-12: what came in the stream although a chunk was there for it.
TEST_F(ResultsTest, AnEligibleResultHasToBeMovedWhenItCan) {
  EXPECT_FALSE(sound(kBenchProgram, 1, 1, test::words({4, 0xDD}), {{true, 0}}));
  EXPECT_TRUE(sound(kBenchProgram, 1, 1, test::words({4, 0xDD}), {{false, 0}})) << "an empty chunk asks for it";
  EXPECT_TRUE(sound(kBenchProgram, 1, 1, test::words({4, 0xDD}), {}));
}

// Whatever bytes follow, the walk ends and nothing outside is read.
TEST_F(ArgumentsTest, RandomArgumentsAreHarmless) {
  EXPECT_TRUE(rc::check([this] {
    const auto arguments = *rc::gen::container<ByteVector>(rc::gen::arbitrary<uint8_t>());
    for (const uint32_t version : {2u, 3u, 4u}) {
      for (const uint32_t procedure : {1u, 7u, 8u, 10u, 13u}) {
        const ByteVector call = call_of(kNfsProgram, version, procedure, arguments);
        const ReducibleItems found = find(call);
        for (uint32_t i = 0; i < found.count; ++i) {
          RC_ASSERT(found.items[i].offset + xdr_padded(found.items[i].length) <= call.size());
        }
      }
    }
  }));
}

}  // namespace
}  // namespace cw::rpcrdma
