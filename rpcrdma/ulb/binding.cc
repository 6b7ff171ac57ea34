#include "rpcrdma/ulb/binding.h"

#include "rpcrdma/ulb/nfsv3.h"
#include "rpcrdma/ulb/nfsv4.h"
#include "rpcrdma/ulb/xdr_shape.h"

namespace cw::rpcrdma {
namespace {

// RFC 8166 notes 30: protected bodies are never reduced; nor are the tokens of RPCSEC_GSS context calls, which are not results.
bool is_plain(const RpcCallHeader& header) {
  if (header.flavor != static_cast<uint32_t>(AuthFlavor::kRpcsecGss)) {
    return true;
  }
  return header.gss_procedure == kGssProcedureData && header.gss_service == kGssServiceNone;
}

Binding binding_of(const RpcCallHeader& header) {
  if (!is_plain(header)) {
    return Binding::kNone;
  }
  if (header.program == kNfsProgram) {
    if (header.version == kNfs4Version && header.procedure == kNfs4Compound) {
      return Binding::kNfs4;
    }
    if (header.version == kNfs3Version && (header.procedure == kNfs3Read || header.procedure == kNfs3Readlink)) {
      return Binding::kNfs3;
    }
    return Binding::kNone;
  }
  const bool bench = header.program == kBenchProgram && header.version == kBenchVersion;
  const bool eligible = header.procedure == static_cast<uint32_t>(BenchProcedure::kEcho) ||
                        header.procedure == static_cast<uint32_t>(BenchProcedure::kSource);
  return bench && eligible ? Binding::kBench : Binding::kNone;
}

void find_in_bench(XdrReader& reader, uint32_t procedure, ReducibleItems& items) {
  if (procedure == static_cast<uint32_t>(BenchProcedure::kSource)) {
    reader.skip(8);  // checksum
  }
  take_reducible(reader, items);
}

}  // namespace

CallContext inspect_call(const Chain& call) {
  CallContext context;
  inspect_call(call, context);
  return context;
}

void inspect_call(const Chain& call, CallContext& context) {
  context = CallContext{};
  XdrReader reader(call);
  if (read_rpc_call(reader, context.header).ok()) {
    context.binding = binding_of(context.header);
  }
}

ReducibleItems find_reducible(const CallContext& context, const Chain& reply) {
  ReducibleItems found;
  if (context.binding == Binding::kNone) {
    return found;
  }
  XdrReader reader(reply);
  const auto header = read_rpc_reply(reader);
  if (!header.ok() || !header->success()) {
    return found;
  }
  switch (context.binding) {
    case Binding::kNfs3:
      find_in_nfs3(reader, context.header.procedure, found);
      break;
    case Binding::kNfs4:
      find_in_compound(reader, found);
      break;
    case Binding::kBench:
      find_in_bench(reader, context.header.procedure, found);
      break;
    case Binding::kNone:
      break;
  }
  return found;
}

}  // namespace cw::rpcrdma
