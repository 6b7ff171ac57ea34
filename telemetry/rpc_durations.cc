#include "telemetry/rpc_durations.h"

#include "base/assert.h"
#include "rpcrdma/ulb/binding.h"

namespace cw::telemetry {
namespace {

constexpr uint32_t kNfs3First = 0;
constexpr uint32_t kNfs4First = kNfs3First + kNfs3Procedures;
constexpr uint32_t kBenchFirst = kNfs4First + kNfs4Procedures;

// In the order of the procedures' numbers, program by program: rpc_row_of() adds the number to the program's first row.
constexpr std::array<RpcProcedureRow, kRpcRowCount> kProcedureRows = {{
    {"nfs3", "null"},     {"nfs3", "getattr"}, {"nfs3", "setattr"},     {"nfs3", "lookup"},   {"nfs3", "access"},
    {"nfs3", "readlink"}, {"nfs3", "read"},    {"nfs3", "write"},       {"nfs3", "create"},   {"nfs3", "mkdir"},
    {"nfs3", "symlink"},  {"nfs3", "mknod"},   {"nfs3", "remove"},      {"nfs3", "rmdir"},    {"nfs3", "rename"},
    {"nfs3", "link"},     {"nfs3", "readdir"}, {"nfs3", "readdirplus"}, {"nfs3", "fsstat"},   {"nfs3", "fsinfo"},
    {"nfs3", "pathconf"}, {"nfs3", "commit"},  {"nfs4", "null"},        {"nfs4", "compound"}, {"bench", "null"},
    {"bench", "echo"},    {"bench", "source"}, {"bench", "sink"},       {"other", "other"},
}};

}  // namespace

uint32_t rpc_row_of(uint32_t program, uint32_t version, uint32_t procedure) {
  if (program == rpcrdma::kNfsProgram && version == 3 && procedure < kNfs3Procedures) {
    return kNfs3First + procedure;
  }
  if (program == rpcrdma::kNfsProgram && version == 4 && procedure < kNfs4Procedures) {
    return kNfs4First + procedure;
  }
  if (program == rpcrdma::kBenchProgram && version == rpcrdma::kBenchVersion && procedure < kBenchProcedures) {
    return kBenchFirst + procedure;
  }
  return kRpcRowOther;
}

const RpcProcedureRow& rpc_row(uint32_t row) {
  CW_ASSERT(row < kRpcRowCount);
  return kProcedureRows[row];
}

}  // namespace cw::telemetry
