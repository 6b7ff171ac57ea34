#include "apps/load/bench_workload.h"

#include "rpcrdma/backend/bench_client.h"

namespace cw::load {
namespace {

// The thresholds are the connection's: after a reconnect they may be others (RFC 8797 4).
bool call_fits_inline(uint32_t bytes, const rpcrdma::InlineThresholds& thresholds) {
  return rpcrdma::kBenchSinkPosition + bytes + 3 + kHeaderRoom <= thresholds.send_bytes;
}

// No procedure's reply head is longer than SOURCE's.
bool result_fits_inline(uint32_t bytes, const rpcrdma::InlineThresholds& thresholds) {
  return rpcrdma::kBenchSourceReplyBytes + bytes + 3 + kHeaderRoom <= thresholds.receive_bytes;
}

}  // namespace

void BenchWorkload::prepare(Slot& slot, const CallMix& mix) {
  slot.data.resize(mix.sent_bytes_max());
  rpcrdma::fill_bench_pattern(slot.number, 0, slot.data);
  slot.result.resize(mix.received_bytes_max());
}

bool BenchWorkload::build(const MixEntry& entry, const rpcrdma::InlineThresholds& thresholds, Slot& slot, CallDraft& draft) {
  rpcrdma::ClientCall& call = draft.call;
  const bool sends = sends_data(entry.kind);
  const MutableBytes data = MutableBytes(slot.data).first(sends ? entry.bytes : 0);
  const auto where = call_fits_inline(entry.bytes, thresholds) ? rpcrdma::BenchData::kInStream : rpcrdma::BenchData::kReduced;
  uint32_t position = 0;
  bool built = false;
  switch (entry.kind) {
    case CallKind::kEcho:
      built = rpcrdma::build_bench_echo(pool_, data, where, call.message);
      position = rpcrdma::kBenchEchoPosition;
      break;
    case CallKind::kSource:
      built = rpcrdma::build_bench_source(pool_, entry.bytes, slot.sequence, call.message);
      break;
    case CallKind::kSink:
      built = rpcrdma::build_bench_sink(pool_, data, where, call.message);
      position = rpcrdma::kBenchSinkPosition;
      break;
    case CallKind::kCallback:
      built = rpcrdma::build_bench_callback(pool_, entry.bytes, slot.sequence, call.message);
      break;
    case CallKind::kNull:
    case CallKind::kGetattr:
    case CallKind::kRead:
    case CallKind::kWrite:
      built = rpcrdma::build_bench_null(pool_, call.message);
      break;
  }
  if (!built) {
    return false;
  }
  if (!data.empty() && where == rpcrdma::BenchData::kReduced) {
    draft.read = {position, data};
    call.reads = {&draft.read, 1};
  }
  const bool receives = receives_data(entry.kind);
  slot.placed = receives && entry.bytes > 0 && !result_fits_inline(entry.bytes, thresholds);
  if (slot.placed) {
    draft.write = MutableBytes(slot.result).first(entry.bytes);
    call.writes = {&draft.write, 1};
    call.result_bytes_max = entry.bytes;
  }
  call.reply_bytes_max = rpcrdma::kBenchSourceReplyBytes + (receives && !slot.placed ? rpcrdma::xdr_padded(entry.bytes) : 0);
  return true;
}

bool BenchWorkload::check(const MixEntry& entry, const rpcrdma::ClientReply& reply, const Slot& slot, bool in_full) {
  rpcrdma::BenchReply bench;
  bench.message = &reply.message;
  bench.placed = slot.placed;
  if (slot.placed) {
    if (reply.write_bytes[0] > entry.bytes) {
      return false;
    }
    bench.placed_data = Bytes(slot.result.data(), reply.write_bytes[0]);
  }
  if (!in_full) {
    const auto status = rpcrdma::bench_status(bench);
    return status.ok() && *status == rpcrdma::AcceptStatus::kSuccess && (!slot.placed || reply.write_bytes[0] == entry.bytes);
  }
  switch (entry.kind) {
    case CallKind::kEcho:
      return rpcrdma::check_bench_echo(bench, Bytes(slot.data).first(entry.bytes));
    case CallKind::kSource:
      return rpcrdma::check_bench_source(bench, entry.bytes, slot.sequence);
    case CallKind::kSink:
      return rpcrdma::check_bench_sink(bench, Bytes(slot.data).first(entry.bytes));
    case CallKind::kNull:
    case CallKind::kCallback:
      return rpcrdma::check_bench_null(bench);
    case CallKind::kGetattr:
    case CallKind::kRead:
    case CallKind::kWrite:
      break;
  }
  return false;
}

}  // namespace cw::load
