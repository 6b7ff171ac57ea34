#include "rpcrdma/ulb/procedures.h"

#include <array>

#include "base/assert.h"
#include "rpcrdma/ulb/binding.h"
#include "rpcrdma/ulb/nfsv4_results.h"

namespace cw::rpcrdma {
namespace {

constexpr uint32_t kNfs3First = 0;
constexpr uint32_t kNfs4First = kNfs3First + kNfs3Procedures;
constexpr uint32_t kPrincipalsFirst = kNfs4First + kNfs4Procedures;
constexpr uint32_t kBenchFirst = kPrincipalsFirst + kNfs4Principals;

struct Principal {
  uint8_t operation;
  const char* name;
};
// By number.
constexpr std::array<Principal, kNfs4Principals> kPrincipals = {{{3, "access"},
                                                                 {4, "close"},
                                                                 {5, "commit"},
                                                                 {6, "create"},
                                                                 {9, "getattr"},
                                                                 {15, "lookup"},
                                                                 {18, "open"},
                                                                 {25, "read"},
                                                                 {26, "readdir"},
                                                                 {28, "remove"},
                                                                 {34, "setattr"},
                                                                 {38, "write"}}};

// In the order of the procedures' numbers, program by program: procedure_row() adds the number to the program's first row.
constexpr std::array<const char*, kNfs3Procedures> kNfs3Names = {
    "null",  "getattr", "setattr", "lookup", "access", "readlink", "read",        "write",  "create", "mkdir",    "symlink",
    "mknod", "remove",  "rmdir",   "rename", "link",   "readdir",  "readdirplus", "fsstat", "fsinfo", "pathconf", "commit"};
constexpr std::array<const char*, kNfs4Procedures> kNfs4Names = {"null", "compound"};
constexpr std::array<const char*, kBenchProcedures> kBenchNames = {"null", "echo", "source", "sink"};

constexpr std::array<ProcedureName, kProcedureRows> all_names() {
  std::array<ProcedureName, kProcedureRows> names{};
  for (uint32_t i = 0; i < kNfs3Procedures; ++i) {
    names[kNfs3First + i] = {"nfs3", kNfs3Names[i]};
  }
  for (uint32_t i = 0; i < kNfs4Procedures; ++i) {
    names[kNfs4First + i] = {"nfs4", kNfs4Names[i]};
  }
  for (uint32_t i = 0; i < kNfs4Principals; ++i) {
    names[kPrincipalsFirst + i] = {"nfs4", kPrincipals[i].name};
  }
  for (uint32_t i = 0; i < kBenchProcedures; ++i) {
    names[kBenchFirst + i] = {"bench", kBenchNames[i]};
  }
  names[kProcedureRowOther] = {"other", "other"};
  return names;
}
constexpr std::array<ProcedureName, kProcedureRows> kNames = all_names();

// By operation number.
constexpr std::array<uint8_t, nfsv4::kOperationLast + 1> rows_of_principals() {
  std::array<uint8_t, nfsv4::kOperationLast + 1> rows{};
  rows.fill(kNfs4First + kNfs4Compound);
  for (uint32_t i = 0; i < kNfs4Principals; ++i) {
    rows[kPrincipals[i].operation] = static_cast<uint8_t>(kPrincipalsFirst + i);
  }
  return rows;
}
constexpr std::array<uint8_t, nfsv4::kOperationLast + 1> kRowsOfPrincipals = rows_of_principals();

}  // namespace

uint32_t procedure_row(uint32_t program, uint32_t version, uint32_t procedure, uint32_t principal) {
  if (program == kNfsProgram && version == kNfs3Version && procedure < kNfs3Procedures) {
    return kNfs3First + procedure;
  }
  if (program == kNfsProgram && version == kNfs4Version && procedure < kNfs4Procedures) {
    return procedure == kNfs4Compound && principal < kRowsOfPrincipals.size() ? kRowsOfPrincipals[principal]
                                                                              : kNfs4First + procedure;
  }
  if (program == kBenchProgram && version == kBenchVersion && procedure < kBenchProcedures) {
    return kBenchFirst + procedure;
  }
  return kProcedureRowOther;
}

const ProcedureName& procedure_name(uint32_t row) {
  CW_ASSERT(row < kProcedureRows);
  return kNames[row];
}

}  // namespace cw::rpcrdma
