// The procedures that calls are counted under. Program, version and procedure come from the wire, so the table is closed:
// programs with an upper-layer binding have a row for each procedure, NFSv4 has one for each operation that a COMPOUND is likely
// to be about, and everything else shares the row "other". No peer can fill it.
#pragma once

#include <cstdint>

namespace cw::rpcrdma {

// Labels, in lower case.
struct ProcedureName {
  const char* program;
  const char* procedure;
};

inline constexpr uint32_t kNfs3Procedures = 22;  // RFC 1813: NULL .. COMMIT
inline constexpr uint32_t kNfs4Procedures = 2;   // RFC 7530: NULL, COMPOUND
inline constexpr uint32_t kNfs4Principals = 12;  // operations with a row of their own: each costs 26 series of /metrics
inline constexpr uint32_t kBenchProcedures = 4;  // BenchProcedure, without CALLBACK
inline constexpr uint32_t kProcedureRows = kNfs3Procedures + kNfs4Procedures + kNfs4Principals + kBenchProcedures + 1;
inline constexpr uint32_t kProcedureRowOther = kProcedureRows - 1;

// The row of a call, from numbers of its header that may be anything. `principal`: of a COMPOUND (CompoundCall); one without a
// row of its own counts under "compound". O(1).
[[nodiscard]] uint32_t procedure_row(uint32_t program, uint32_t version, uint32_t procedure, uint32_t principal);
// Precondition: row < kProcedureRows.
[[nodiscard]] const ProcedureName& procedure_name(uint32_t row);

}  // namespace cw::rpcrdma
