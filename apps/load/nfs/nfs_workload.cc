#include "apps/load/nfs/nfs_workload.h"

#include <algorithm>
#include <cstring>

#include "apps/nfs/call.h"
#include "rpcrdma/rpc/rpc_message.h"
#include "rpcrdma/ulb/arguments.h"
#include "rpcrdma/ulb/binding.h"
#include "rpcrdma/xdr/xdr_reader.h"
#include "rpcrdma/xdr/xdr_writer.h"

namespace cw::load {
namespace {

using rpcrdma::XdrReader;
using rpcrdma::XdrWriter;

// RFC 1813: fattr3, and what surrounds results.
constexpr uint32_t kAttributesBytes = 84;
constexpr uint32_t kPreAttributesBytes = 24;
constexpr uint32_t kReadReplyBytes = rpcrdma::kAcceptedReplyBytes + 4 + 4 + kAttributesBytes + 4 + 4 + 4;
constexpr uint32_t kWriteReplyBytes =
    rpcrdma::kAcceptedReplyBytes + 4 + 4 + kPreAttributesBytes + 4 + kAttributesBytes + 4 + 4 + 8;
constexpr uint32_t kReplyBytesMax = std::max(kReadReplyBytes, kWriteReplyBytes);
constexpr uint32_t kRegularFile = 1;
constexpr uint32_t kUnstable = 0;
constexpr uint32_t kFileSync = 2;
constexpr size_t kCallBytesMax = 256;

uint32_t procedure_of(CallKind kind) {
  switch (kind) {
    case CallKind::kGetattr:
      return 1;
    case CallKind::kRead:
      return rpcrdma::kNfs3Read;
    case CallKind::kWrite:
      return rpcrdma::kNfs3Write;
    case CallKind::kNull:
    case CallKind::kEcho:
    case CallKind::kSource:
    case CallKind::kSink:
    case CallKind::kCallback:
      break;
  }
  return 0;
}

void skip_optional(XdrReader& in, uint32_t bytes) {
  if (in.boolean()) {
    in.skip(bytes);
  }
}

// splitmix64's mixer: neighbouring sequences go to places that have nothing in common.
uint64_t scattered(uint64_t value) {
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ULL;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebULL;
  return value ^ (value >> 31);
}

}  // namespace

void NfsWorkload::prepare(Slot& slot, const CallMix& mix) {
  slot.result.resize(mix.received_bytes_max());
}

NfsWorkload::Place NfsWorkload::place_of(const MixEntry& entry, uint64_t sequence) const {
  const uint64_t blocks = entry.bytes > 0 ? files_.file_bytes / entry.bytes : 1;
  const uint64_t number = options_.sequential ? sequence : scattered(sequence + 1);
  return {.file = static_cast<size_t>(number / blocks % files_.handles.size()), .offset = number % blocks * entry.bytes};
}

bool NfsWorkload::build(const MixEntry& entry, const rpcrdma::InlineThresholds& thresholds, Slot& slot, CallDraft& draft) {
  rpcrdma::ClientCall& call = draft.call;
  const Place place = place_of(entry, slot.sequence);
  uint8_t raw[kCallBytesMax];
  XdrWriter out(raw);
  nfs::write_call_header(out, rpcrdma::kNfsProgram, rpcrdma::kNfs3Version, procedure_of(entry.kind));
  const bool writes = entry.kind == CallKind::kWrite;
  if (entry.kind != CallKind::kNull) {
    out.opaque(files_.handles[place.file]);
  }
  if (entry.kind == CallKind::kRead || writes) {
    out.u64(place.offset);
    out.u32(entry.bytes);
  }
  if (writes) {
    out.u32(options_.stable ? kFileSync : kUnstable);
    out.u32(entry.bytes);
  }
  CW_ASSERT(out.ok());
  bool built = call.message.append_copy(pool_, out.written());
  if (writes && entry.bytes > 0) {
    const MutableBytes data = pattern_.at(place.offset, entry.bytes);
    if (out.offset() + rpcrdma::xdr_padded(entry.bytes) + kHeaderRoom <= thresholds.send_bytes) {
      static constexpr uint8_t kZeros[4] = {};
      built = built && call.message.append_copy(pool_, data) &&
              call.message.append_copy(pool_, Bytes(kZeros).first(rpcrdma::xdr_pad(entry.bytes)));
    } else {
      draft.read = {static_cast<uint32_t>(out.offset()), data};
      call.reads = {&draft.read, 1};
    }
  }
  if (!built) {
    call.message.clear();
    return false;
  }
  const bool reads = entry.kind == CallKind::kRead;
  slot.placed =
      reads && entry.bytes > 0 && kReadReplyBytes + rpcrdma::xdr_padded(entry.bytes) + kHeaderRoom > thresholds.receive_bytes;
  if (slot.placed) {
    draft.write = MutableBytes(slot.result).first(entry.bytes);
    call.writes = {&draft.write, 1};
    call.result_bytes_max = entry.bytes;
  }
  call.reply_bytes_max = kReplyBytesMax + (reads && !slot.placed ? rpcrdma::xdr_padded(entry.bytes) : 0);
  return true;
}

bool NfsWorkload::check(const MixEntry& entry, const rpcrdma::ClientReply& reply, const Slot& slot, bool in_full) {
  XdrReader in(reply.message);
  const auto header = rpcrdma::read_rpc_reply(in);
  if (!header.ok() || !header->success()) {
    return false;
  }
  if (entry.kind == CallKind::kNull) {
    return in.remaining() == 0;
  }
  if (in.u32() != 0) {
    return false;  // nfsstat3
  }
  if (entry.kind == CallKind::kGetattr) {
    const bool is_file = in.u32() == kRegularFile;
    in.skip(size_t{4} * 4);
    const bool has_size = in.u64() == files_.file_bytes;
    in.skip(kAttributesBytes - 5 * 4 - 8);
    return is_file && has_size && in.ok() && in.remaining() == 0;
  }
  if (entry.kind == CallKind::kWrite) {
    skip_optional(in, kPreAttributesBytes);
    skip_optional(in, kAttributesBytes);
    const bool whole = in.u32() == entry.bytes;
    in.skip(4 + 8);
    return whole && in.ok() && in.remaining() == 0;
  }
  skip_optional(in, kAttributesBytes);
  const uint32_t count = in.u32();
  (void)in.boolean();  // eof
  const uint32_t length = in.u32();
  if (!in.ok() || count != entry.bytes || length != entry.bytes) {
    return false;
  }
  const Bytes wanted = pattern_.at(place_of(entry, slot.sequence).offset, entry.bytes);
  if (slot.placed) {
    return reply.write_bytes[0] == entry.bytes && in.remaining() == 0 &&
           (!in_full || std::memcmp(slot.result.data(), wanted.data(), wanted.size()) == 0);
  }
  if (in.remaining() != rpcrdma::xdr_padded(entry.bytes)) {
    return false;
  }
  uint8_t piece[512];
  for (size_t done = 0; in_full && done < wanted.size(); done += sizeof(piece)) {
    const size_t take = std::min(sizeof(piece), wanted.size() - done);
    in.copy(MutableBytes(piece).first(take));
    if (!in.ok() || std::memcmp(piece, wanted.data() + done, take) != 0) {
      return false;
    }
  }
  return true;
}

}  // namespace cw::load
