#include "tests/loadgen/load_driver.h"

#include <algorithm>

#include "rpcrdma/backend/bench_client.h"
#include "rpcrdma/xdr/xdr_reader.h"

namespace cw::load {
namespace {

// RPC-over-RDMA header: 28 octets without chunks; one Read or Write chunk of one segment adds up to 24.
constexpr uint32_t kHeaderRoom = 28 + 24;
constexpr Duration kReconnectPause = Duration::ms(200);

}  // namespace

std::optional<BenchProcedure> parse_operation(std::string_view name) {
  for (const BenchProcedure procedure : {BenchProcedure::kNull, BenchProcedure::kEcho, BenchProcedure::kSource,
                                         BenchProcedure::kSink, BenchProcedure::kCallback}) {
    if (name == to_string(procedure)) {
      return procedure;
    }
  }
  return std::nullopt;
}

const char* to_string(BenchProcedure procedure) noexcept {
  switch (procedure) {
    case BenchProcedure::kNull:
      return "null";
    case BenchProcedure::kEcho:
      return "echo";
    case BenchProcedure::kSource:
      return "source";
    case BenchProcedure::kSink:
      return "sink";
    case BenchProcedure::kCallback:
      return "callback";
  }
  return "unknown";
}

uint32_t reverse_credits_for(BenchProcedure procedure, uint32_t window) noexcept {
  return procedure == BenchProcedure::kCallback ? std::min(window, 256u) : 0;
}

LoadDriver::LoadDriver(const LoadOptions& options, client::Client& client, BufferPool& pool)
    : options_(options), client_(client), pool_(pool), lanes_(options.connections), lane_of_client_(options.connections) {
  const bool sends = options_.operation == BenchProcedure::kEcho || options_.operation == BenchProcedure::kSink;
  const bool receives = options_.operation == BenchProcedure::kEcho || options_.operation == BenchProcedure::kSource;
  slots_.resize(size_t{options_.connections} * options_.window);
  (void)programs_.add(bench_);
  client_.serve(programs_);
  hungry_.reserve(options_.connections);
  asking_again_.reserve(options_.connections);
  for (uint32_t i = 0; i < slots_.size(); ++i) {
    Slot& slot = slots_[i];
    slot.lane = i / options_.window;
    if (sends) {
      slot.data.resize(options_.bytes);
      rpcrdma::fill_bench_pattern(i, 0, slot.data);
    }
    if (receives) {
      slot.result.resize(options_.bytes);
    }
    lanes_[slot.lane].free_slots.push_back(i);
  }
}

void LoadDriver::start(Instant now) {
  for (uint32_t lane = 0; lane < lanes_.size(); ++lane) {
    open(now, lane);
  }
}

void LoadDriver::open(Instant now, uint32_t index) {
  Lane& lane = lanes_[index];
  lane.retry = Instant::never();
  const auto port = static_cast<uint16_t>(options_.service_port + index % options_.services);
  const auto id = client_.connect(now, options_.server, port);
  if (!id.ok()) {
    ++stats_.refused;
    last_reject_ = cm::RejectReason::kNoResources;
    ++given_up_;
    return;
  }
  lane.id = *id;
  if (lane_of_client_.size() <= id->value()) {
    lane_of_client_.resize(id->value() + 1);
  }
  lane_of_client_[id->value()] = index;
}

void LoadDriver::resume(Instant now) {
  stopping_ = false;
  for (uint32_t index = 0; index < lanes_.size(); ++index) {
    fill(now, lanes_[index], index);
  }
}

void LoadDriver::reset_stats() {
  const uint64_t connected = stats_.connected;
  stats_ = LoadStats{};
  stats_.connected = connected;
  called_back_before_ = client_.rpcrdma_stats().reverse_replies;
}

bool LoadDriver::turn(Instant now) {
  client_.run(now);
  bool worked = false;
  while (const auto id = client_.poll_ready()) {
    worked = true;
    const uint32_t index = lane_of_client_[id->value()];
    rpcrdma::ClientEndpoint& endpoint = *client_.endpoint(*id);
    rpcrdma::ClientReply reply;
    while (endpoint.poll_reply(reply)) {
      on_reply(now, reply);
    }
    fill(now, lanes_[index], index);
  }
  stats_.called_back = client_.rpcrdma_stats().reverse_replies - called_back_before_;
  client::ClientEvent event;
  while (client_.poll_event(event)) {
    worked = true;
    on_event(now, event);
  }
  if (!hungry_.empty()) {
    asking_again_.swap(hungry_);
    for (const uint32_t index : asking_again_) {
      lanes_[index].hungry = false;
      fill(now, lanes_[index], index);
    }
    asking_again_.clear();
  }
  if (options_.reconnect) {
    for (uint32_t index = 0; index < lanes_.size(); ++index) {
      if (lanes_[index].retry <= now) {
        open(now, index);
      }
    }
  }
  return worked;
}

void LoadDriver::on_event(Instant now, const client::ClientEvent& event) {
  const uint32_t index = lane_of_client_[event.id.value()];
  Lane& lane = lanes_[index];
  switch (event.kind) {
    case client::ClientEvent::Kind::kConnected:
      ++stats_.connected;
      fill(now, lane, index);
      return;
    case client::ClientEvent::Kind::kRefused:
      ++stats_.refused;
      last_reject_ = event.reason;
      break;
    case client::ClientEvent::Kind::kLost:
      ++stats_.lost;
      last_qp_error_ = event.qp_error;
      break;
  }
  // Calls whose endpoint went before its outcomes were polled have none any more: their slots are free again.
  for (uint32_t i = 0; i < options_.window; ++i) {
    const uint32_t slot = index * options_.window + i;
    if (std::find(lane.free_slots.begin(), lane.free_slots.end(), slot) == lane.free_slots.end()) {
      on_lost(slot);
    }
  }
  lane.id.reset();
  if (options_.reconnect && !stopping_) {
    lane.retry = now + kReconnectPause;
  } else {
    ++given_up_;
  }
}

void LoadDriver::fill(Instant now, Lane& lane, uint32_t index) {
  if (stopping_ || !lane.id) {
    return;
  }
  rpcrdma::ClientEndpoint* endpoint = client_.endpoint(*lane.id);
  if (endpoint == nullptr || endpoint->failed()) {
    return;
  }
  while (!lane.free_slots.empty() && endpoint->calls_allowed() > 0) {
    if (!submit(now, lane, *endpoint)) {
      // No memory or send queue room for the moment: the next turn asks again.
      if (!lane.hungry) {
        lane.hungry = true;
        hungry_.push_back(index);
      }
      return;
    }
  }
}

// The thresholds are the connection's: after a reconnect they may be others (RFC 8797 4).
bool LoadDriver::call_fits_inline(const rpcrdma::ClientEndpoint& endpoint) const {
  return rpcrdma::kBenchSinkPosition + options_.bytes + 3 + kHeaderRoom <= endpoint.thresholds().send_bytes;
}

bool LoadDriver::result_fits_inline(const rpcrdma::ClientEndpoint& endpoint) const {
  return rpcrdma::kBenchSourceReplyBytes + options_.bytes + 3 + kHeaderRoom <= endpoint.thresholds().receive_bytes;
}

// The longest reply stream, less what is placed: no procedure's reply head is longer than SOURCE's.
uint64_t LoadDriver::reply_bytes_max(bool placed) const {
  const bool receives = options_.operation == BenchProcedure::kEcho || options_.operation == BenchProcedure::kSource;
  return rpcrdma::kBenchSourceReplyBytes + (receives && !placed ? rpcrdma::xdr_padded(options_.bytes) : 0);
}

bool LoadDriver::submit(Instant now, Lane& lane, rpcrdma::ClientEndpoint& endpoint) {
  const uint32_t index = lane.free_slots.back();
  Slot& slot = slots_[index];
  slot.sequence = slot.resend ? slot.sequence : sequence_++;
  rpcrdma::ClientCall call;
  if (slot.resend) {
    call.resent_xid = slot.xid;
  }
  call.user_data = index;
  rpcrdma::ReadChunkSource read;
  MutableBytes write(slot.result);
  const auto where = call_fits_inline(endpoint) ? rpcrdma::BenchData::kInStream : rpcrdma::BenchData::kReduced;
  bool built = false;
  switch (options_.operation) {
    case BenchProcedure::kNull:
      built = rpcrdma::build_bench_null(pool_, call.message);
      break;
    case BenchProcedure::kEcho:
      built = rpcrdma::build_bench_echo(pool_, slot.data, where, call.message);
      read = {rpcrdma::kBenchEchoPosition, slot.data};
      break;
    case BenchProcedure::kSource:
      built = rpcrdma::build_bench_source(pool_, options_.bytes, slot.sequence, call.message);
      break;
    case BenchProcedure::kSink:
      built = rpcrdma::build_bench_sink(pool_, slot.data, where, call.message);
      read = {rpcrdma::kBenchSinkPosition, slot.data};
      break;
    case BenchProcedure::kCallback:
      built = rpcrdma::build_bench_callback(pool_, options_.bytes, slot.sequence, call.message);
      break;
  }
  if (!built) {
    return false;
  }
  if (!read.memory.empty() && where == rpcrdma::BenchData::kReduced) {
    call.reads = {&read, 1};
  }
  slot.placed = !slot.result.empty() && !result_fits_inline(endpoint);
  if (slot.placed) {
    call.writes = {&write, 1};
    call.result_bytes_max = options_.bytes;
  }
  call.reply_bytes_max = reply_bytes_max(slot.placed);
  if (!endpoint.submit(now, std::move(call)).ok()) {
    return false;
  }
  stats_.resent += slot.resend ? 1 : 0;
  slot.resend = false;
  slot.xid = endpoint.last_xid();
  lane.free_slots.pop_back();
  ++in_flight_;
  return true;
}

// Its slot is on top of the free ones from here on, so that the call is the first on the next connection.
void LoadDriver::on_lost(uint32_t slot) {
  slots_[slot].resend = options_.reconnect;
  lanes_[slots_[slot].lane].free_slots.push_back(slot);
  --in_flight_;
  ++stats_.failed[static_cast<size_t>(rpcrdma::CallStatus::kConnectionLost)];
}

void LoadDriver::on_reply(Instant now, rpcrdma::ClientReply& reply) {
  const uint32_t index = static_cast<uint32_t>(reply.user_data);
  Slot& slot = slots_[index];
  if (reply.status == rpcrdma::CallStatus::kConnectionLost) {
    on_lost(index);
    return;
  }
  std::vector<uint32_t>& free_slots = lanes_[slot.lane].free_slots;
  const bool others_first = !free_slots.empty() && slots_[free_slots.back()].resend;
  free_slots.insert(others_first ? free_slots.begin() : free_slots.end(), index);
  --in_flight_;
  if (reply.status != rpcrdma::CallStatus::kReplied) {
    ++stats_.failed[static_cast<size_t>(reply.status)];
    return;
  }
  if (!check(reply, slot)) {
    ++stats_.wrong;
    return;
  }
  ++stats_.calls;
  stats_.bytes += slot.data.size() + slot.result.size();
  stats_.latency.record(now - reply.sent);
}

bool LoadDriver::check(const rpcrdma::ClientReply& reply, const Slot& slot) const {
  rpcrdma::BenchReply bench;
  bench.message = &reply.message;
  bench.placed = slot.placed;
  if (slot.placed) {
    if (reply.write_bytes[0] > slot.result.size()) {
      return false;
    }
    bench.placed_data = Bytes(slot.result.data(), reply.write_bytes[0]);
  }
  if (slot.sequence % options_.verify_every != 0) {
    const auto status = rpcrdma::bench_status(bench);
    return status.ok() && *status == rpcrdma::AcceptStatus::kSuccess &&
           (!slot.placed || reply.write_bytes[0] == slot.result.size());
  }
  switch (options_.operation) {
    case BenchProcedure::kNull:
      return rpcrdma::check_bench_null(bench);
    case BenchProcedure::kEcho:
      return rpcrdma::check_bench_echo(bench, slot.data);
    case BenchProcedure::kSource:
      return rpcrdma::check_bench_source(bench, options_.bytes, slot.sequence);
    case BenchProcedure::kSink:
      return rpcrdma::check_bench_sink(bench, slot.data);
    case BenchProcedure::kCallback:
      return rpcrdma::check_bench_null(bench);
  }
  return false;
}

}  // namespace cw::load
