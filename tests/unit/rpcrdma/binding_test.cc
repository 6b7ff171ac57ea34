#include "rpcrdma/ulb/binding.h"

#include <gtest/gtest.h>

#include "base/heap_buffer_pool.h"
#include "rpcrdma/xdr/xdr_reader.h"
#include "tests/unit/rpcrdma/bytes.h"

namespace cw::rpcrdma {
namespace {

using test::ByteVector;

class BindingTest : public ::testing::Test {
 protected:
  HeapBufferPool pool{256, 4096, 8};

  Chain chain(const ByteVector& raw, size_t piece = 4096) { return test::chain_of(pool, raw, piece); }

  CallContext inspect(uint32_t program, uint32_t version, uint32_t procedure) {
    return inspect_call(chain(test::words({7, 0, 2, program, version, procedure, 1, 0, 0, 0})));
  }
  CallContext inspect_gss(uint32_t gss_procedure, uint32_t service) {
    return inspect_call(chain(test::words({7, 0, 2, kNfsProgram, 4, 1, 6, 20, 1, gss_procedure, 9, service, 0, 0, 0})));
  }
  ReducibleItems find(const CallContext& context, const ByteVector& results, uint32_t accept_status = 0) {
    ByteVector reply = test::words({7, 1, 0, 0, 0, accept_status});
    test::add(reply, results);
    return find_reducible(context, chain(reply, 41));
  }
};

constexpr uint64_t kReplyHeader = kAcceptedReplyBytes;

void expect_one(const ReducibleItems& found, uint64_t results_offset, uint32_t length) {
  ASSERT_EQ(found.count, 1u);
  EXPECT_EQ(found.items[0].offset, kReplyHeader + results_offset);
  EXPECT_EQ(found.items[0].length, length);
}

// Proves RPCRDMA-3.4.2-1, RPCRDMA-6-1.
TEST_F(BindingTest, OnlyProceduresWithEligibleResultsAreBound) {
  for (uint32_t procedure = 0; procedure < 30; ++procedure) {
    EXPECT_EQ(inspect(kNfsProgram, 3, procedure).binding, procedure == 5 || procedure == 6 ? Binding::kNfs3 : Binding::kNone);
    EXPECT_EQ(inspect(kNfsProgram, 4, procedure).binding, procedure == 1 ? Binding::kNfs4 : Binding::kNone);
    EXPECT_EQ(inspect(kNfsProgram, 2, procedure).binding, Binding::kNone);
    EXPECT_EQ(inspect(kBenchProgram, 1, procedure).binding, procedure == 1 || procedure == 2 ? Binding::kBench : Binding::kNone);
    EXPECT_EQ(inspect(kBenchProgram, 2, procedure).binding, Binding::kNone);
  }
}

// Proves RPCRDMA-6-2.
TEST_F(BindingTest, OtherProgramsHaveNoBinding) {
  for (const uint32_t program : {100000u, 100005u, 100021u, 100227u, 0x40000000u}) {
    const CallContext context = inspect(program, 3, 6);
    EXPECT_EQ(context.binding, Binding::kNone);
    EXPECT_EQ(context.header.program, program);
  }
}

// Proves RPCRDMA-8.2.2.3-4
TEST_F(BindingTest, ProtectedBodiesAreNotBound) {
  EXPECT_EQ(inspect_gss(0, 1).binding, Binding::kNfs4);
  EXPECT_EQ(inspect_gss(0, 2).binding, Binding::kNone);
  EXPECT_EQ(inspect_gss(0, 3).binding, Binding::kNone);
  EXPECT_EQ(inspect_gss(0, 0).binding, Binding::kNone);
  EXPECT_EQ(inspect_gss(0, 4).binding, Binding::kNone);
}

// Proves RPCRDMA-8.2.2-2.
TEST_F(BindingTest, GssContextCallsAreNotBound) {
  for (const uint32_t procedure : {1u, 2u, 3u, 4u}) {
    EXPECT_EQ(inspect_gss(procedure, 1).binding, Binding::kNone);
  }
}

TEST_F(BindingTest, BrokenCallGetsAContextAsFarAsItCouldBeRead) {
  const ByteVector call = test::words({0x55, 0, 2, kNfsProgram, 3, 6, 1, 0, 0, 0});
  for (size_t length = 0; length < call.size(); ++length) {
    const CallContext context = inspect_call(chain(ByteVector(call.begin(), call.begin() + static_cast<ptrdiff_t>(length))));
    EXPECT_EQ(context.binding, Binding::kNone);
    EXPECT_EQ(context.header.xid, length >= 4 ? 0x55u : 0u);
  }
  EXPECT_EQ(inspect_call(chain(test::words({0x55, 1, 2, kNfsProgram, 3, 6, 1, 0, 0, 0}))).binding, Binding::kNone);
}

ByteVector nfs3_attributes(bool present) {
  ByteVector results = test::words({present ? 1u : 0u});
  results.resize(results.size() + (present ? 84 : 0), 0xAA);
  return results;
}

TEST_F(BindingTest, Nfs3ReadDataIsFound) {
  const CallContext read = inspect(kNfsProgram, 3, 6);
  for (const bool attributes : {false, true}) {
    for (const uint32_t length : {0u, 1u, 4u, 9009u}) {
      ByteVector results = test::words({0});
      test::add(results, nfs3_attributes(attributes));
      test::add_words(results, {length, 1});
      const uint64_t offset = results.size() + 4;
      test::add_opaque(results, ByteVector(length, 0x77));
      expect_one(find(read, results), offset, length);
    }
  }
}

TEST_F(BindingTest, Nfs3ReadlinkPathIsFound) {
  ByteVector results = test::words({0});
  test::add(results, nfs3_attributes(true));
  const uint64_t offset = results.size() + 4;
  test::add_opaque(results, ByteVector(900, 'x'));
  expect_one(find(inspect(kNfsProgram, 3, 5), results), offset, 900);
}

TEST_F(BindingTest, Nfs3ErrorHasNothingToReduce) {
  ByteVector results = test::words({5});
  test::add(results, nfs3_attributes(true));
  EXPECT_EQ(find(inspect(kNfsProgram, 3, 6), results).count, 0u);
}

TEST_F(BindingTest, Nfs3DataCutShortIsNotListed) {
  ByteVector results = test::words({0, 0, 8, 1, 8, 1, 2});
  expect_one(find(inspect(kNfsProgram, 3, 6), results), 20, 8);
  results.resize(results.size() - 4);
  EXPECT_EQ(find(inspect(kNfsProgram, 3, 6), results).count, 0u);
  results = test::words({0, 0, 8, 1, UINT32_MAX, 1, 2});
  EXPECT_EQ(find(inspect(kNfsProgram, 3, 6), results).count, 0u);
}

// Proves RPCRDMA-4.3.2.2-5: rPC-level failures have no eligible result
TEST_F(BindingTest, RpcErrorsHaveNothingToReduce) {
  const ByteVector results = test::words({0, 0, 8, 1, 8, 1, 2});
  for (const uint32_t status : {1u, 2u, 3u, 4u, 5u}) {
    EXPECT_EQ(find(inspect(kNfsProgram, 3, 6), results, status).count, 0u);
  }
  ByteVector denied = test::words({7, 1, 1, 0, 2, 2});
  test::add(denied, results);
  EXPECT_EQ(find_reducible(inspect(kNfsProgram, 3, 6), chain(denied)).count, 0u);
}

TEST_F(BindingTest, BenchResultsAreFoundAtTheirPlaces) {
  expect_one(find(inspect(kBenchProgram, 1, 1), test::words({4, 0})), 4, 4);
  expect_one(find(inspect(kBenchProgram, 1, 2), test::words({0, 0xCC, 5, 0, 0})), 12, 5);
  EXPECT_EQ(find(inspect(kBenchProgram, 1, 3), test::words({8, 0, 0})).count, 0u);
}

// COMPOUND results: status, empty tag, count.
ByteVector compound_results(std::initializer_list<uint32_t> words, uint32_t operations) {
  ByteVector results = test::words({0, 0, operations});
  test::add_words(results, words);
  return results;
}

// RFC 8267: chunks pair with operations, so a READ at the end of file is listed too.
TEST_F(BindingTest, Nfs4ReadOfNothingIsListedWithLengthZero) {
  const auto found = find(inspect(kNfsProgram, 4, 1), compound_results({25, 0, 1, 0, 25, 0, 0, 4, 0xDD}, 2));
  ASSERT_EQ(found.count, 2u);
  EXPECT_EQ(found.items[0].offset, kReplyHeader + 12 + 16);
  EXPECT_EQ(found.items[0].length, 0u);
  EXPECT_EQ(found.items[1].offset, kReplyHeader + 12 + 32);
  EXPECT_EQ(found.items[1].length, 4u);
}

// RFC 8267: one Write chunk per READ_PLUS, for its first data content
TEST_F(BindingTest, Nfs4ReadPlusListsItsFirstDataOnly) {
  const auto found = find(inspect(kNfsProgram, 4, 1), compound_results({68, 0, 1,    3,                // eof, three contents
                                                                        1,  0, 0,    0,         4096,  // hole
                                                                        0,  0, 4096, 4,         0xDD,  // data
                                                                        0,  0, 8192, 4,         0xEE,  // data
                                                                        27, 0, 4,    0x61626364},      // READLINK
                                                                       2));
  ASSERT_EQ(found.count, 2u);
  EXPECT_EQ(found.items[0].offset, kReplyHeader + 12 + 16 + 20 + 16);
  EXPECT_EQ(found.items[0].length, 4u);
  EXPECT_EQ(found.items[1].offset, kReplyHeader + 12 + 16 + 60 + 12);
  EXPECT_EQ(found.items[1].length, 4u);
}

TEST_F(BindingTest, Nfs4ReadPlusOfHolesTakesItsChunkWithNothing) {
  const auto found = find(inspect(kNfsProgram, 4, 1), compound_results({68, 0, 1, 1, 1, 0, 0, 0, 4096, 25, 0, 1, 4, 0xDD}, 2));
  ASSERT_EQ(found.count, 2u);
  EXPECT_EQ(found.items[0].length, 0u);
  EXPECT_EQ(found.items[1].length, 4u);
}

TEST_F(BindingTest, Nfs4WalkStopsAtTheOperationThatFailed) {
  // LOCK denied carries data that looks like nothing; what a hostile server puts behind it is not walked.
  const ByteVector results = compound_results({25, 0, 1, 4, 0xDD, 12, 10010, 0, 0, 0, 1, 1, 0, 7, 0, 25, 0, 1, 4, 0xEE}, 3);
  const auto found = find(inspect(kNfsProgram, 4, 1), results);
  ASSERT_EQ(found.count, 1u);
  EXPECT_EQ(found.items[0].length, 4u);
}

TEST_F(BindingTest, Nfs4UnknownOperationEndsTheWalk) {
  for (const uint32_t operation : {0u, 1u, 2u, 76u, 10044u, UINT32_MAX}) {
    EXPECT_EQ(find(inspect(kNfsProgram, 4, 1), compound_results({operation, 0, 25, 0, 1, 4, 0xDD}, 2)).count, 0u);
  }
}

TEST_F(BindingTest, Nfs4OperationCountBeyondTheResultsIsHarmless) {
  expect_one(find(inspect(kNfsProgram, 4, 1), compound_results({25, 0, 1, 4, 0xDD}, UINT32_MAX)), 12 + 16, 4);
}

TEST_F(BindingTest, ItemsBeyondTheMostThatAreListedStayInline) {
  for (const uint32_t reads : {kReducibleItemsMax - 1, kReducibleItemsMax, kReducibleItemsMax + 5}) {
    ByteVector results = test::words({0, 0, reads});
    for (uint32_t i = 0; i < reads; ++i) {
      test::add_words(results, {25, 0, 1, 4, i});
    }
    EXPECT_EQ(find(inspect(kNfsProgram, 4, 1), results).count, std::min(reads, kReducibleItemsMax));
  }
}

TEST_F(BindingTest, HugeArrayCountsEndWithTheReply) {
  // READDIR, TEST_STATEID, SECINFO, LAYOUTGET and GETDEVICELIST with counts that no reply holds.
  for (const uint32_t operation : {26u, 55u, 33u, 50u, 48u, 74u, 61u}) {
    ByteVector results = compound_results({operation, 0}, 2);
    results.resize(results.size() + 400, 0xFF);
    EXPECT_EQ(find(inspect(kNfsProgram, 4, 1), results).count, 0u);
  }
}

}  // namespace
}  // namespace cw::rpcrdma
