#include "rpcrdma/ulb/binding.h"

#include "rpcrdma/ulb/arguments.h"
#include "rpcrdma/ulb/nfsv3.h"
#include "rpcrdma/ulb/nfsv4.h"
#include "rpcrdma/ulb/xdr_shape.h"

namespace cw::rpcrdma {
namespace {

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

bool is_plain(const RpcCallHeader& header) {
  if (header.flavor != static_cast<uint32_t>(AuthFlavor::kRpcsecGss)) {
    return true;
  }
  return header.gss_procedure == kGssProcedureData && header.gss_service == kGssServiceNone;
}

CallContext inspect_call(const Chain& call) {
  CallContext context;
  inspect_call(XdrReader(call), context);
  return context;
}

void inspect_call(XdrReader call, CallContext& context) {
  context.binding = Binding::kNone;
  if (read_rpc_call(call, context.header).ok()) {
    context.binding = binding_of(context.header);
  }
}

void inspect_call(const RpcCallHeader& header, CallContext& context) {
  context.header = header;
  context.binding = binding_of(header);
}

namespace {

void find_results(XdrReader& reader, const CallContext& context, ReducibleItems& found) {
  if (context.binding == Binding::kNone) {
    return;
  }
  const auto header = read_rpc_reply(reader);
  if (!header.ok() || !header->success()) {
    return;
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
}

}  // namespace

ReducibleItems find_reducible(const CallContext& context, const Chain& reply) {
  ReducibleItems found;
  XdrReader reader(reply);
  find_results(reader, context, found);
  return found;
}

bool reduces_eligible_arguments(const CallContext& context, const Chain& call, const ChunkList& chunks) {
  ReducibleItems found;
  XdrReader reader(call);
  find_eligible_arguments(reader, context.header, found);
  uint32_t item = 0;
  for (uint32_t at = 0; at < chunks.read_count;) {
    const uint32_t position = chunks.read[at].position;
    uint64_t bytes = 0;
    for (; at < chunks.read_count && chunks.read[at].position == position; ++at) {
      bytes += chunks.read[at].segment.length;
    }
    if (position == 0 || bytes == 0) {
      continue;
    }
    while (item < found.count && found.items[item].offset < position) {
      ++item;
    }
    const bool eligible = item < found.count && found.items[item].offset == position &&
                          (bytes == found.items[item].length || bytes == xdr_padded(found.items[item].length));
    if (!eligible) {
      return false;
    }
  }
  return true;
}

bool reduces_eligible_arguments(const CallContext& context, XdrReader reduced, Reduction& moved) {
  ReducibleItems found;
  found.reduction = &moved;
  find_eligible_arguments(reduced, context.header, found);
  return moved.is_sound();
}

bool reduces_eligible_results(const CallContext& context, XdrReader reduced, Reduction& moved) {
  ReducibleItems found;
  found.reduction = &moved;
  find_results(reduced, context, found);
  return moved.is_sound();
}

}  // namespace cw::rpcrdma
