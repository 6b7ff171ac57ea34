// The calls of a client's process: how they are put together and how their answers are judged.
#include <algorithm>

#include "apps/sim/caller.h"
#include "rpcrdma/xdr/xdr_writer.h"

namespace cw::sim {
namespace {

using rpcrdma::BenchProcedure;

constexpr uint32_t kAuthShort = 2;
constexpr uint32_t kArgumentBytesMax = 12;
// RPC-over-RDMA header: without chunks, per Read segment, per Write or Reply chunk, per segment of these.
constexpr uint32_t kHeaderBytes = 28;
constexpr uint32_t kReadSegmentBytes = 24;
constexpr uint32_t kChunkBytes = 8;
constexpr uint32_t kSegmentBytes = 16;

constexpr uint8_t kZeros[4] = {};

bool sends_data(BenchProcedure procedure) {
  return procedure == BenchProcedure::kEcho || procedure == BenchProcedure::kSink;
}
bool gets_data(BenchProcedure procedure) {
  return procedure == BenchProcedure::kEcho || procedure == BenchProcedure::kSource;
}

uint32_t reply_bytes(const CallPlan& plan) {
  const auto data = static_cast<uint32_t>(rpcrdma::xdr_padded(plan.bytes));
  switch (plan.procedure) {
    case BenchProcedure::kNull:
      return rpcrdma::kAcceptedReplyBytes;
    case BenchProcedure::kEcho:
      return rpcrdma::kBenchEchoReplyBytes + data;
    case BenchProcedure::kSource:
      return rpcrdma::kBenchSourceReplyBytes + data;
    case BenchProcedure::kSink:
      return rpcrdma::kBenchSinkReplyBytes;
    case BenchProcedure::kCallback:
      return rpcrdma::kAcceptedReplyBytes;
  }
  return 0;
}

// Header and arguments without the data, with the attempt in the credential.
struct Head {
  uint8_t raw[kTaggedHeaderBytes + kArgumentBytesMax] = {};
  rpcrdma::XdrWriter writer{raw};

  Head(const CallPlan& plan, uint32_t attempt, uint64_t seed, Bytes data) {
    uint8_t tag[kTagBytes];
    Ledger::write_tag(tag, attempt);
    writer.u32(0);
    writer.u32(static_cast<uint32_t>(rpcrdma::RpcMessageType::kCall));
    writer.u32(rpcrdma::kRpcVersion);
    writer.u32(rpcrdma::kBenchProgram);
    writer.u32(rpcrdma::kBenchVersion);
    writer.u32(static_cast<uint32_t>(plan.procedure));
    writer.u32(kAuthShort);
    writer.opaque(tag);
    writer.zeros(8);
    if (plan.procedure == BenchProcedure::kSink) {
      writer.u32(rpcrdma::bench_checksum(data));
    }
    if (plan.procedure != BenchProcedure::kNull) {
      writer.u32(plan.bytes);
    }
    if (plan.procedure == BenchProcedure::kSource || plan.procedure == BenchProcedure::kCallback) {
      writer.u64(seed);
    }
    CW_ASSERT(writer.ok());
  }
  [[nodiscard]] Bytes bytes() const { return writer.written(); }
};

}  // namespace

// A call while it is put together.
struct Caller::Building {
  rpcrdma::ClientCall call;
  rpcrdma::ReadChunkSource read;
  MutableBytes write;
};

void Caller::lay_out_call(const CallPlan& plan, Slot& slot, Building& building) {
  const WorldOptions& hosts = scenario_.hosts;
  const uint32_t limit = std::min(hosts.load.inline_bytes, hosts.gateway_inline_bytes);
  const bool sends = sends_data(plan.procedure);
  const bool gets = gets_data(plan.procedure);
  const uint32_t segment_max = hosts.segment_bytes_max;
  const auto segments = [&](uint32_t bytes) { return segment_max == 0 ? 1 : bytes / segment_max + 1; };
  const uint32_t stream = kTaggedHeaderBytes + kArgumentBytesMax + (sends ? plan.bytes + 3 : 0);
  const uint32_t reply = reply_bytes(plan);
  const bool reply_fits = kHeaderBytes + reply <= limit;

  const bool long_call = plan.shape == CallShape::kLongCall || plan.shape == CallShape::kLongBoth;
  const bool no_room = plan.shape == CallShape::kNoRoom;
  slot.reply_chunk =
      plan.shape == CallShape::kReplyChunk || plan.shape == CallShape::kLongBoth || (!gets && !reply_fits && !no_room);
  slot.placed = gets && plan.bytes > 0 && !slot.reply_chunk && !no_room && (plan.shape == CallShape::kReduced || !reply_fits);
  slot.must_be_refused = no_room && !reply_fits;
  uint32_t header = kHeaderBytes;
  header += slot.placed ? kChunkBytes + kSegmentBytes * segments(plan.bytes) : 0;
  header += slot.reply_chunk ? kChunkBytes + kSegmentBytes * segments(reply) : 0;
  const bool reduced = sends && plan.bytes > 0 && !long_call && (plan.shape == CallShape::kReduced || header + stream > limit);

  slot.memory = GuardedMemory();
  slot.memory.resize(Area::kSource, sends ? plan.bytes : 0);
  slot.memory.resize(Area::kWrite, slot.placed ? plan.bytes : 0);
  slot.memory.resize(Area::kReply, slot.reply_chunk ? reply : 0);
  slot.memory.resize(Area::kLongCall, long_call ? (stream + 3) / 4 * 4 : 0);
  slot.memory.lay_out();
  building.call.long_call = long_call;
  if (slot.placed) {
    building.write = slot.memory.of(Area::kWrite);
    building.call.writes = {&building.write, 1};
  }
  if (slot.reply_chunk) {
    building.call.reply_memory = slot.memory.of(Area::kReply);
  }
  if (reduced) {
    const uint32_t arguments = plan.procedure == BenchProcedure::kSink ? 8 : 4;
    building.read = {kTaggedHeaderBytes + arguments, slot.memory.of(Area::kSource)};
    building.call.reads = {&building.read, 1};
  }
}

bool Caller::submit(Instant now, Lane& lane, uint32_t slot_index, rpcrdma::ClientEndpoint& endpoint) {
  const uint32_t index = pending_.front();
  const CallPlan& plan = plan_.calls[index];
  Slot& slot = lane.slots[slot_index];
  Building building;
  lay_out_call(plan, slot, building);
  rpcrdma::ClientCall& call = building.call;
  call.user_data = slot_index;
  const MutableBytes data = slot.memory.of(Area::kSource);
  rpcrdma::fill_bench_pattern(pattern_of(index), 0, data);

  const uint32_t attempt = ledger_.begin();
  const Head head(plan, attempt, pattern_of(index), data);
  const Bytes pad = Bytes(kZeros).first(static_cast<size_t>(rpcrdma::xdr_pad(data.size())));
  uint32_t digest = rpcrdma::bench_checksum(head.bytes().subspan(4));
  digest = rpcrdma::bench_checksum_more(rpcrdma::bench_checksum_more(digest, data), pad);
  ledger_.sent(attempt, digest);

  bool built = true;
  if (call.long_call) {
    rpcrdma::XdrWriter writer(slot.memory.of(Area::kLongCall));
    writer.raw(head.bytes());
    writer.raw(data);
    writer.raw(pad);
    CW_ASSERT(writer.ok());
    call.long_call_memory = slot.memory.of(Area::kLongCall).first(static_cast<size_t>(writer.offset()));
  } else {
    built = call.message.append_copy(host_.packets, head.bytes());
    if (call.reads.empty()) {
      built = built && call.message.append_copy(host_.packets, data) && call.message.append_copy(host_.packets, pad);
    }
  }
  const Status submitted = built ? endpoint.submit(now, std::move(call)) : Status(fail(Error::kNoResources));
  if (!submitted.ok()) {
    ledger_.take_back(attempt);
    if (submitted.error() == Error::kLimit || submitted.error() == Error::kBadValue) {
      verdict_.fail(Oracle::kConsistency, "the client endpoint refuses a call that it should take");
      pending_.pop_front();
    }
    return false;
  }
  pending_.pop_front();
  ++stats_.shapes[static_cast<size_t>(plan.shape)];
  slot.busy = true;
  slot.attempt = attempt;
  slot.call = index;
  slot.xid = endpoint.last_xid();
  slot.cancel_at = plan.cancel_after == Duration() || cancelled_[index] ? Instant::never() : now + plan.cancel_after;
  ++lane.in_flight;
  ++in_flight_;
  if (lane.in_flight > scenario_.hosts.credits) {
    verdict_.fail(Oracle::kCredits, "more calls in flight than the gateway ever grants");
  }
  return true;
}

void Caller::on_answer(Slot& slot, const CallPlan& plan, const rpcrdma::ClientReply& reply) {
  if (slot.must_be_refused) {
    verdict_.fail(Oracle::kPayload, "a result was answered that has no room");
  } else if (!answer_is_right(slot, plan, reply)) {
    verdict_.fail(Oracle::kPayload, "attempt " + std::to_string(slot.attempt) + ": wrong answer to " +
                                        load::to_string(plan.procedure) + " of " + std::to_string(plan.bytes) + " bytes, " +
                                        to_string(plan.shape));
  }
  std::vector<uint8_t> sent(slot.memory.of(Area::kSource).size());
  rpcrdma::fill_bench_pattern(pattern_of(slot.call), 0, sent);
  const MutableBytes source = slot.memory.of(Area::kSource);
  verdict_.expect(std::equal(sent.begin(), sent.end(), source.begin()), Oracle::kMemory, "memory to be read was written");
}

bool Caller::answer_is_right(Slot& slot, const CallPlan& plan, const rpcrdma::ClientReply& reply) {
  rpcrdma::BenchReply bench;
  bench.message = &reply.message;
  bench.placed = slot.placed;
  if (slot.placed) {
    const MutableBytes memory = slot.memory.of(Area::kWrite);
    if (reply.write_bytes[0] > memory.size()) {
      return false;
    }
    bench.placed_data = Bytes(memory).first(reply.write_bytes[0]);
  }
  if (reply.reply_chunk_bytes > 0) {
    const MutableBytes memory = slot.memory.of(Area::kReply);
    if (!slot.reply_chunk || reply.reply_chunk_bytes > memory.size()) {
      return false;
    }
    bench.long_reply = Bytes(memory).first(reply.reply_chunk_bytes);
  }
  const MutableBytes source = slot.memory.of(Area::kSource);
  switch (plan.procedure) {
    case BenchProcedure::kNull:
    case BenchProcedure::kCallback:
      return rpcrdma::check_bench_null(bench);
    case BenchProcedure::kEcho:
      return rpcrdma::check_bench_echo(bench, source);
    case BenchProcedure::kSource:
      return rpcrdma::check_bench_source(bench, plan.bytes, pattern_of(slot.call));
    case BenchProcedure::kSink:
      return rpcrdma::check_bench_sink(bench, source);
  }
  return false;
}

}  // namespace cw::sim
