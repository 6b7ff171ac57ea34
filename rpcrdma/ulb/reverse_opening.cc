#include "rpcrdma/ulb/reverse_opening.h"

#include "rpcrdma/xdr/xdr_reader.h"

namespace cw::rpcrdma {
namespace {

// RFC 8881: operation numbers, the flag, and the channel_dir_from_client4 values CDFC4_BACK (2), CDFC4_FORE_OR_BOTH (3) and
// CDFC4_BACK_OR_BOTH (7), which share a bit that CDFC4_FORE (1) lacks.
constexpr uint32_t kBindConnToSession = 41;
constexpr uint32_t kCreateSession = 43;
constexpr uint32_t kSequence = 53;
constexpr uint32_t kFlagConnBackChannel = 2;
constexpr uint32_t kBackChannelBit = 2;
constexpr uint64_t kSessionIdBytes = 16;
constexpr uint64_t kSequenceArgumentBytes = kSessionIdBytes + 4 * 4;  // sequence, slot, highest slot, cache this

bool operation_opens(XdrReader& reader, uint32_t operation) {
  if (operation == kCreateSession) {
    reader.skip(8 + 4);  // client id, sequence
    const uint32_t flags = reader.u32();
    return reader.ok() && (flags & kFlagConnBackChannel) != 0;
  }
  if (operation == kBindConnToSession) {
    reader.skip(kSessionIdBytes);
    const uint32_t direction = reader.u32();
    return reader.ok() && (direction & kBackChannelBit) != 0;
  }
  return false;
}

// Both stand first in their COMPOUND, or CREATE_SESSION right behind SEQUENCE.
bool compound_opens(XdrReader& reader) {
  (void)reader.skip_opaque(UINT32_MAX);  // tag
  const uint32_t minor_version = reader.u32();
  const uint32_t count = reader.u32();
  if (minor_version == 0 || count == 0) {
    return false;
  }
  uint32_t operation = reader.u32();
  if (operation == kSequence && count > 1) {
    reader.skip(kSequenceArgumentBytes);
    operation = reader.u32();
  }
  return reader.ok() && operation_opens(reader, operation);
}

bool is_protected(const RpcCallHeader& header) {
  return header.flavor == static_cast<uint32_t>(AuthFlavor::kRpcsecGss) && header.gss_procedure == kGssProcedureData &&
         header.gss_service != kGssServiceNone;
}

}  // namespace

bool opens_reverse_direction(const CallContext& context, const Chain& call) {
  const RpcCallHeader& header = context.header;
  if (header.header_bytes == 0) {
    return false;
  }
  if (header.program == kBenchProgram) {
    return header.version == kBenchVersion && header.procedure == static_cast<uint32_t>(BenchProcedure::kCallback);
  }
  if (header.program != kNfsProgram || header.version != kNfs4Version || header.procedure != kNfs4Compound) {
    return false;
  }
  if (context.binding == Binding::kNfs4) {
    XdrReader reader(call);
    reader.skip(header.header_bytes);
    return compound_opens(reader);
  }
  return is_protected(header);
}

}  // namespace cw::rpcrdma
