#include "rpcrdma/ulb/compound_call.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>
#include <tuple>
#include <vector>

#include "base/heap_buffer_pool.h"
#include "rpcrdma/ulb/binding.h"
#include "rpcrdma/ulb/procedures.h"
#include "tests/unit/rpcrdma/bytes.h"

namespace cw::rpcrdma {
namespace {

using test::ByteVector;

constexpr uint32_t kUnknownOperation = 76;

class CompoundCalls : public ::testing::Test {
 protected:
  static ByteVector call_of(std::initializer_list<uint32_t> operations, uint32_t count, uint32_t procedure = kNfs4Compound) {
    ByteVector call = test::words({7, 0, 2, kNfsProgram, kNfs4Version, procedure, 0, 0, 0, 0});
    test::add_words(call, {0, 1, count});
    test::add_words(call, operations);
    return call;
  }
  CompoundCall read(const ByteVector& call) {
    const Chain chain = test::chain_of(pool, call, 29);
    CompoundCall out;
    out.count = 9;
    out.principal = 9;
    read_compound_call(inspect_call(chain).header, chain, out);
    return out;
  }
  std::vector<uint32_t> operations(const ByteVector& call) {
    const CompoundCall found = read(call);
    return {found.operations().begin(), found.operations().end()};
  }

  HeapBufferPool pool{256, 4096, 8};
};

#define SEQUENCE 53, 1, 1, 1, 1, 3, 0, 1, 0
#define PUTFH 22, 4, 0xAAAAAAAA
#define GETATTR 9, 1, 0x18
#define ACCESS 3, 0x1F

TEST_F(CompoundCalls, AReadIsAboutReading) {
  const ByteVector call = call_of({SEQUENCE, PUTFH, 25, 1, 2, 3, 4, 0, 0, 4096, GETATTR}, 4);
  EXPECT_EQ(operations(call), (std::vector<uint32_t>{53, 22, 25, 9}));
  EXPECT_EQ(read(call).principal, 25u);
}

TEST_F(CompoundCalls, WhatStandsBehindTheDataOfAWriteIsFound) {
  const ByteVector call = call_of({SEQUENCE, PUTFH, 38, 1, 2, 3, 4, 0, 0, 2, 8, 0x11111111, 0x22222222, GETATTR}, 4);
  EXPECT_EQ(operations(call), (std::vector<uint32_t>{53, 22, 38, 9}));
  EXPECT_EQ(read(call).principal, 38u);
}

TEST_F(CompoundCalls, ThoseThatLeadThereRankBelowWhatIsAskedFor) {
  EXPECT_EQ(read(call_of({SEQUENCE}, 1)).principal, 53u);
  EXPECT_EQ(read(call_of({SEQUENCE, PUTFH}, 2)).principal, 22u);
  EXPECT_EQ(read(call_of({SEQUENCE, PUTFH, GETATTR}, 3)).principal, 9u);
  EXPECT_EQ(read(call_of({SEQUENCE, PUTFH, ACCESS, GETATTR}, 4)).principal, 3u);
  EXPECT_EQ(read(call_of({24, 10, GETATTR}, 3)).principal, 9u) << "PUTROOTFH, GETFH";
  EXPECT_EQ(read(call_of({SEQUENCE, PUTFH, 32, PUTFH, 29, 1, 0x61000000, 1, 0x62000000}, 5)).principal, 29u) << "SAVEFH, RENAME";
  EXPECT_EQ(read(call_of({SEQUENCE, PUTFH, 15, 1, 0x61000000, 10, GETATTR}, 5)).principal, 15u) << "LOOKUP, GETFH";
  EXPECT_EQ(read(call_of({SEQUENCE, 15, 1, 0x61000000, 28, 1, 0x62000000}, 3)).principal, 15u) << "of two equals the first";
}

TEST_F(CompoundCalls, AnUnknownOperationEndsTheList) {
  for (const uint32_t unknown : {0u, 2u, kUnknownOperation, 10044u, UINT32_MAX}) {
    const ByteVector call = call_of({SEQUENCE, unknown, 25, 1, 2, 3, 4, 0, 0, 4096}, 3);
    EXPECT_EQ(operations(call), (std::vector<uint32_t>{53})) << unknown;
    EXPECT_EQ(read(call).principal, 53u);
  }
}

// That it ends, whatever it reads: each prefix of a call, and a count that no call could hold.
TEST_F(CompoundCalls, WhateverEndsEarlyEndsTheList) {
  const ByteVector whole = call_of({SEQUENCE, PUTFH, 25, 1, 2, 3, 4, 0, 0, 4096, GETATTR}, UINT32_MAX);
  EXPECT_EQ(operations(whole), (std::vector<uint32_t>{53, 22, 25, 9}));
  for (size_t bytes = 0; bytes < whole.size(); ++bytes) {
    EXPECT_LE(read(ByteVector(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(bytes))).count, 4u);
  }
}

TEST_F(CompoundCalls, SixteenAreLookedAt) {
  ByteVector call = call_of({}, 40);
  for (uint32_t i = 0; i < 40; ++i) {
    if (i < 20) {
      test::add_words(call, {24});
    } else {
      test::add_words(call, {9, 0});
    }
  }
  EXPECT_EQ(read(call).count, CompoundCall::kOperationsMax);
  EXPECT_EQ(read(call).principal, 24u);
}

TEST_F(CompoundCalls, OtherCallsHaveNone) {
  EXPECT_EQ(read(call_of({SEQUENCE}, 1, 0)).count, 0u) << "NULL";
  ByteVector nfs3 = call_of({SEQUENCE}, 1);
  store_be32(nfs3.data() + 16, 3);
  EXPECT_EQ(read(nfs3).count, 0u);
  // RPCSEC_GSS with privacy: what stands there is encrypted.
  ByteVector sealed = test::words({7, 0, 2, kNfsProgram, kNfs4Version, kNfs4Compound, 6, 20, 1, 0, 5, 3, 0, 0, 0});
  test::add_words(sealed, {0, 1, 1, SEQUENCE});
  EXPECT_EQ(read(sealed).count, 0u);
  EXPECT_EQ(read(sealed).principal, 0u);
}

TEST(ProcedureRows, MatchTheProgramsAndTheRestIsOther) {
  const auto name_of = [](uint32_t program, uint32_t version, uint32_t procedure, uint32_t principal = 0) {
    const ProcedureName& name = procedure_name(procedure_row(program, version, procedure, principal));
    return std::string(name.program) + " " + name.procedure;
  };
  EXPECT_EQ(name_of(100003, 3, 0), "nfs3 null");
  EXPECT_EQ(name_of(100003, 3, 6), "nfs3 read");
  EXPECT_EQ(name_of(100003, 3, 7), "nfs3 write");
  EXPECT_EQ(name_of(100003, 3, 17), "nfs3 readdirplus");
  EXPECT_EQ(name_of(100003, 3, 21, 25), "nfs3 commit");
  EXPECT_EQ(name_of(100003, 4, 0, 25), "nfs4 null");
  EXPECT_EQ(name_of(100003, 4, 1), "nfs4 compound");
  EXPECT_EQ(name_of(0x2000cafe, 1, 3), "bench sink");
  for (const auto& [program, version, procedure] :
       {std::tuple(100003u, 3u, 22u), std::tuple(100003u, 2u, 0u), std::tuple(100003u, 4u, 2u), std::tuple(0x2000cafeu, 1u, 4u),
        std::tuple(100005u, 3u, 1u), std::tuple(UINT32_MAX, UINT32_MAX, UINT32_MAX)}) {
    EXPECT_EQ(procedure_row(program, version, procedure, 25), kProcedureRowOther);
  }
}

// A principal operation has the row with its name, or "compound"; each row is somebody's.
TEST(ProcedureRows, OfNfs4CarryTheNamesOfTheirOperations) {
  uint32_t own = 0;
  for (uint32_t operation = 0; operation < 300; ++operation) {
    const std::string row = procedure_name(procedure_row(kNfsProgram, kNfs4Version, kNfs4Compound, operation)).procedure;
    const char* name = nfs4_operation_name(operation);
    if (row != "compound") {
      ++own;
      ASSERT_NE(name, nullptr) << operation;
      EXPECT_EQ(row, name);
    }
  }
  EXPECT_EQ(own, kNfs4Principals);
  EXPECT_EQ(nfs4_operation_name(2), nullptr);
  EXPECT_EQ(nfs4_operation_name(kUnknownOperation), nullptr);
  EXPECT_STREQ(nfs4_operation_name(25), "read");
}

}  // namespace
}  // namespace cw::rpcrdma
