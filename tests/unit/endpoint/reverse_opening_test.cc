// Which calls say that their client takes calls (RFC 8167 6).
#include "rpcrdma/ulb/reverse_opening.h"

#include <gtest/gtest.h>

#include "base/heap_buffer_pool.h"
#include "tests/unit/endpoint/words.h"

namespace cw::rpcrdma {
namespace {

constexpr uint32_t kCreateSession = 43;
constexpr uint32_t kBindConnToSession = 41;

class ReverseOpening : public ::testing::Test {
 protected:
  bool opens(const Words& call) {
    const Chain chain = chain_of(pool, call.bytes(), 64);
    return opens_reverse_direction(inspect_call(chain), chain);
  }
  // COMPOUND with a tag of three bytes.
  static Words compound(uint32_t minor_version, uint32_t operations, uint32_t version = 4) {
    return rpc_call(9, 1, kNfsProgram, version).add({3, 0x61626300, minor_version, operations});
  }
  static Words create_session(Words words, uint32_t flags) { return words.add({kCreateSession, 1, 2, 7, flags, 0, 0}); }
  static Words bind_connection(Words words, uint32_t direction) {
    return words.add({kBindConnToSession, 1, 2, 3, 4, direction, 0});
  }
  HeapBufferPool pool{64, 2048, 16};
};

// Proves BIDI-3.2-2
TEST_F(ReverseOpening, CreateSessionWithTheBackChannelFlag) {
  EXPECT_TRUE(opens(create_session(compound(1, 1), 2)));
  EXPECT_TRUE(opens(create_session(compound(2, 1), 3)));
  EXPECT_FALSE(opens(create_session(compound(1, 1), 0)));
  EXPECT_FALSE(opens(create_session(compound(1, 1), 1)));  // persistence
  EXPECT_FALSE(opens(create_session(compound(1, 1), 4)));  // RDMA mode
  EXPECT_FALSE(opens(create_session(compound(0, 1), 2)));  // no operation of minor version 0
}

TEST_F(ReverseOpening, CreateSessionBehindSequence) {
  const Words sequence = compound(1, 2).add({53, 1, 2, 3, 4, 5, 6, 7, 0});
  EXPECT_TRUE(opens(create_session(sequence, 2)));
  EXPECT_FALSE(opens(create_session(sequence, 1)));
  EXPECT_FALSE(opens(compound(1, 1).add({53, 1, 2, 3, 4, 5, 6, 7, 0})));
  EXPECT_FALSE(opens(compound(1, 2).add({53, 1, 2, 3, 4, 5, 6, 7, 0, 22, 0})));  // PUTFH
}

// Proves BIDI-3.2-2, BIDI-3.2-3
TEST_F(ReverseOpening, BindConnToSessionForTheBackChannel) {
  EXPECT_FALSE(opens(bind_connection(compound(1, 1), 1)));  // CDFC4_FORE
  for (const uint32_t direction : {2u, 3u, 7u}) {
    EXPECT_TRUE(opens(bind_connection(compound(1, 1), direction)));
  }
}

// Proves BIDI-3.1-1, BIDI-6-8
TEST_F(ReverseOpening, NothingElseOfNfs) {
  EXPECT_FALSE(opens(compound(1, 1).add({42, 1, 2, 3, 4, 0, 0, 0})));  // EXCHANGE_ID
  EXPECT_FALSE(opens(compound(0, 1).add({35, 1, 2, 3, 4, 0, 0, 0})));  // SETCLIENTID
  EXPECT_FALSE(opens(compound(1, 0)));
  EXPECT_FALSE(opens(rpc_call(9, 0, kNfsProgram, 4)));
  EXPECT_FALSE(opens(create_session(compound(1, 1, 3), 2)));
  EXPECT_FALSE(opens(rpc_call(9, 1, 100005, 4).add({0, 1, 1, kCreateSession, 1, 2, 7, 2})));
}

TEST_F(ReverseOpening, TheBenchProgramsCallback) {
  EXPECT_TRUE(opens(rpc_call(9, static_cast<uint32_t>(BenchProcedure::kCallback)).add({1, 2, 3})));
  EXPECT_FALSE(opens(rpc_call(9, static_cast<uint32_t>(BenchProcedure::kEcho)).add({0})));
}

// RFC 2203: what integrity and privacy protect is not looked into.
TEST_F(ReverseOpening, AProtectedCompoundLeavesItToTheServer) {
  const auto gss = [](uint32_t procedure, uint32_t service) {
    return Words{9, 0, 2, kNfsProgram, 4, 1, 6, 20, 1, procedure, 5, service, 0, 0, 0, 8, 1, 2, 3};
  };
  EXPECT_TRUE(opens(gss(0, 2)));
  EXPECT_TRUE(opens(gss(0, 3)));
  EXPECT_FALSE(opens(gss(0, 1)));  // plain body: looked into
  EXPECT_FALSE(opens(gss(1, 3)));  // context creation
}

TEST_F(ReverseOpening, WhatIsCutOffOpensNothing) {
  const Words whole = create_session(compound(1, 2).add({53, 1, 2, 3, 4, 5, 6, 7, 0}), 2);
  for (size_t bytes = 0; bytes + 8 < whole.size(); ++bytes) {
    EXPECT_FALSE(opens(Words(whole).cut(bytes))) << bytes;
  }
  EXPECT_FALSE(opens(rpc_call(9, 1, kNfsProgram, 4).add({0xffff'ffff, 0, 1, 1})));  // a tag without end
}

}  // namespace
}  // namespace cw::rpcrdma
