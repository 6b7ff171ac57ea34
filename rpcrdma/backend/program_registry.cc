#include "rpcrdma/backend/backend.h"
#include "rpcrdma/rpc/rpc_message.h"
#include "rpcrdma/xdr/xdr_reader.h"
#include "rpcrdma/xdr/xdr_writer.h"

namespace cw::rpcrdma {
namespace {

constexpr uint32_t kMismatchBytes = kAcceptedReplyBytes + 8;
constexpr uint32_t kRejectRpcMismatch = 0;  // RFC 5531 reject_stat
constexpr uint32_t kDeniedBytes = 24;

bool push_reply(BufferPool& pool, Bytes raw, Chain& reply) {
  return reply.append_copy(pool, raw);
}

bool reply_status(BufferPool& pool, uint32_t xid, AcceptStatus status, Chain& reply) {
  uint8_t raw[kAcceptedReplyBytes];
  write_accepted_reply(raw, xid, status);
  return push_reply(pool, raw, reply);
}

// RFC 5531 9: the lowest and highest version of the program that there is.
bool reply_mismatch(BufferPool& pool, uint32_t xid, uint32_t low, uint32_t high, Chain& reply) {
  uint8_t raw[kMismatchBytes];
  write_accepted_reply(std::span(raw).first<kAcceptedReplyBytes>(), xid, AcceptStatus::kProgramMismatch);
  store_be32(raw + kAcceptedReplyBytes, low);
  store_be32(raw + kAcceptedReplyBytes + 4, high);
  return push_reply(pool, raw, reply);
}

bool reply_rpc_mismatch(BufferPool& pool, uint32_t xid, Chain& reply) {
  uint8_t raw[kDeniedBytes];
  XdrWriter writer(raw);
  writer.u32(xid);
  writer.u32(static_cast<uint32_t>(RpcMessageType::kReply));
  writer.u32(static_cast<uint32_t>(ReplyStatus::kDenied));
  writer.u32(kRejectRpcMismatch);
  writer.u32(kRpcVersion);
  writer.u32(kRpcVersion);
  return push_reply(pool, raw, reply);
}

// What is said to a call whose header could not be read to its end. The XID is taken from the stream, since the header may lack
// it.
bool reply_malformed(BufferPool& pool, const Chain& message, Chain& reply) {
  XdrReader reader(message);
  const uint32_t xid = reader.u32();
  if (const auto parsed = parse_rpc_call(message); !parsed.ok() && parsed.error() == Error::kUnsupported) {
    return reply_rpc_mismatch(pool, xid, reply);
  }
  return reply_status(pool, xid, AcceptStatus::kGarbageArguments, reply);
}

}  // namespace

bool ProgramRegistry::add(Program& program) {
  if (count_ == kProgramsMax || find(program.program(), program.version()) != nullptr) {
    return false;
  }
  entries_[count_++] = {.program = program.program(), .version = program.version(), .answers = &program};
  return true;
}

Program* ProgramRegistry::find(uint32_t program, uint32_t version) {
  for (uint32_t i = 0; i < count_; ++i) {
    const Entry& entry = entries_[i];
    if (entry.program == program && entry.version == version) {
      return entry.answers;
    }
  }
  return nullptr;
}

bool ProgramRegistry::dispatch(const CallContext& context, const Chain& message, const ReplyPools& pools, Chain& reply) {
  const RpcCallHeader& header = context.header;
  if (header.header_bytes == 0) {
    return reply_malformed(pools.packets, message, reply);
  }
  uint32_t low = UINT32_MAX;
  uint32_t high = 0;
  for (uint32_t i = 0; i < count_; ++i) {
    const Entry& entry = entries_[i];
    if (entry.program != header.program) {
      continue;
    }
    if (entry.version == header.version) {
      return entry.answers->call(context, message, pools, reply);
    }
    low = entry.version < low ? entry.version : low;
    high = entry.version > high ? entry.version : high;
  }
  return low <= high ? reply_mismatch(pools.packets, header.xid, low, high, reply)
                     : reply_status(pools.packets, header.xid, AcceptStatus::kProgramUnavailable, reply);
}

}  // namespace cw::rpcrdma
