#include "apps/load/load_driver.h"

#include <algorithm>
#include <cmath>

#include "apps/load/bench_workload.h"

namespace cw::load {
namespace {

constexpr Duration kReconnectPause = Duration::ms(200);
constexpr Duration kProfileStep = Duration::ms(1);  // how often the number of connections follows its profile

uint32_t reply_slot(const rpcrdma::ClientReply& reply) {
  return static_cast<uint32_t>(reply.user_data);
}

}  // namespace

const char* to_string(BenchProcedure procedure) noexcept {
  return to_string(static_cast<CallKind>(procedure));
}

uint32_t reverse_credits_for(BenchProcedure procedure, uint32_t window) noexcept {
  return procedure == BenchProcedure::kCallback ? std::min(window, 256u) : 0;
}

LoadDriver::LoadDriver(const LoadOptions& options, client::Client& client, BufferPool& pool, Workload* workload)
    : options_(options),
      client_(client),
      mix_(options.calls()),
      random_(options.seed),
      own_workload_(workload == nullptr ? std::make_unique<BenchWorkload>(pool) : nullptr),
      workload_(workload == nullptr ? *own_workload_ : *workload),
      slots_(size_t{options.connections} * options.window),
      lanes_(options.connections),
      lane_of_client_(options.connections),
      ready_lanes_(options.connections) {
  (void)programs_.add(bench_);
  client_.serve(programs_);
  hungry_.reserve(options_.connections);
  asking_again_.reserve(options_.connections);
  if (options_.open_loop) {
    const OpenLoopOptions& loop = *options_.open_loop;
    open_loop_.emplace(ArrivalSchedule(loop.rate, loop.arrivals, loop.burst, random_), loop.queue_max);
  }
  for (uint32_t i = 0; i < slots_.size(); ++i) {
    Slot& slot = slots_[i];
    slot.number = i;
    slot.lane = i / options_.window;
    workload_.prepare(slot, mix_);
    lanes_[slot.lane].free_slots.push_back(i);
  }
}

void LoadDriver::start(Instant now) {
  const double first = options_.connection_profile ? options_.connection_profile->at(Duration()) : options_.connections;
  wanted_ = std::min(static_cast<uint32_t>(std::lround(first)), options_.connections);
  for (uint32_t lane = 0; lane < wanted_; ++lane) {
    lanes_[lane].wanted = true;
    open(now, lane);
  }
}

void LoadDriver::begin(Instant now) {
  begun_ = now;
  if (open_loop_) {
    open_loop_->stop();
    open_loop_->start(now);
  }
  next_profile_ = options_.connection_profile && !options_.connection_profile->is_constant() ? now : Instant::never();
  next_churn_ = options_.churn_per_second > 0 ? now : Instant::never();
}

void LoadDriver::open(Instant now, uint32_t index) {
  Lane& lane = lanes_[index];
  lane.retry = Instant::never();
  lane.draining = false;
  lane.opened = now;
  given_up_ -= lane.given_up ? 1 : 0;
  lane.given_up = false;
  const auto port = static_cast<uint16_t>(options_.service_port + index % options_.services);
  const auto id = client_.connect(now, options_.server, port);
  if (!id.ok()) {
    ++stats_.refused;
    last_rejection_ = id.error() == Error::kBadValue ? verbs::Rejection{verbs::RejectReason::kNoAnswer, "no_route"}
                                                     : verbs::Rejection{verbs::RejectReason::kNoResources, "no_resources"};
    give_up(lane);
    return;
  }
  lane.id = *id;
  if (lane_of_client_.size() <= id->value()) {
    lane_of_client_.resize(id->value() + 1);
  }
  lane_of_client_[id->value()] = index;
}

void LoadDriver::stop() {
  stopping_ = true;
  if (open_loop_) {
    open_loop_->stop();
  }
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
  if (open_loop_) {
    arrived_before_ = open_loop_->arrived();
    overflowed_before_ = open_loop_->overflowed();
  }
}

Instant LoadDriver::next_deadline() const {
  if (stopping_) {
    return Instant::never();
  }
  const Instant lanes = earlier(next_retry_, earlier(next_churn_, next_profile_));
  return open_loop_ ? earlier(lanes, open_loop_->next_due()) : lanes;
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
    if (lanes_[index].draining) {
      close_when_idle(now, index);
    }
  }
  stats_.called_back = client_.rpcrdma_stats().reverse_replies - called_back_before_;
  client::ClientEvent event;
  while (client_.poll_event(event)) {
    worked = true;
    on_event(now, event);
  }
  feed_hungry(now);
  if (open_loop_) {
    serve_open_loop(now);
  }
  if (next_retry_ <= now) {
    retry_lost(now);
  }
  if (next_profile_ <= now && !stopping_) {
    follow_profile(now);
  }
  if (next_churn_ <= now && !stopping_) {
    churn(now);
  }
  return worked;
}

void LoadDriver::retry_lost(Instant now) {
  next_retry_ = Instant::never();
  for (uint32_t index = 0; index < lanes_.size(); ++index) {
    if (lanes_[index].retry <= now) {
      open(now, index);
    }
    next_retry_ = earlier(next_retry_, lanes_[index].retry);
  }
}

void LoadDriver::follow_profile(Instant now) {
  next_profile_ = now + kProfileStep;
  const double value = std::max(options_.connection_profile->at(now - begun_), 0.0);
  const uint32_t wanted = std::min(static_cast<uint32_t>(std::lround(value)), options_.connections);
  for (; wanted_ < wanted; ++wanted_) {
    Lane& lane = lanes_[wanted_];
    lane.wanted = true;
    lane.draining = false;
    if (!lane.id) {
      open(now, wanted_);
    } else {
      fill(now, lane, wanted_);
    }
  }
  while (wanted_ > wanted) {
    Lane& lane = lanes_[--wanted_];
    lane.wanted = false;
    lane.draining = true;
    lane.retry = Instant::never();
    close_when_idle(now, wanted_);
  }
}

// A connection at a time, in turn; one that is being opened or closed is passed over.
void LoadDriver::churn(Instant now) {
  const Duration pause = Duration::ns(std::max<int64_t>(1, std::llround(1e9 / options_.churn_per_second)));
  for (; next_churn_ <= now; next_churn_ = next_churn_ + pause) {
    uint32_t looked = 0;
    while (looked < wanted_) {
      ++looked;
      const uint32_t index = churn_lane_++ % std::max(wanted_, 1u);
      Lane& lane = lanes_[index];
      if (lane.id && !lane.draining && client_.endpoint(*lane.id) != nullptr) {
        lane.draining = true;
        close_when_idle(now, index);
        break;
      }
      if (looked == wanted_) {
        ++stats_.churn_missed;
      }
    }
  }
}

void LoadDriver::close_when_idle(Instant now, uint32_t index) {
  Lane& lane = lanes_[index];
  if (!lane.id || lane.free_slots.size() < options_.window || has_resend(lane)) {
    return;
  }
  client_.disconnect(now, *lane.id);
  lane.id.reset();
  lane.draining = false;
  ++stats_.closed;
  if (lane.wanted && !stopping_) {
    open(now, index);
  }
}

void LoadDriver::on_event(Instant now, const client::ClientEvent& event) {
  const uint32_t index = lane_of_client_[event.id.value()];
  Lane& lane = lanes_[index];
  switch (event.kind) {
    case client::ClientEvent::Kind::kConnected:
      ++stats_.connected;
      stats_.connect.record(now - lane.opened);
      fill(now, lane, index);
      if (lane.draining) {
        close_when_idle(now, index);
      }
      return;
    case client::ClientEvent::Kind::kRefused:
      ++stats_.refused;
      last_rejection_ = event.rejection;
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
  lane.draining = false;
  if (!lane.wanted) {
    return;
  }
  if (options_.reconnect && !stopping_) {
    lane.retry = now + kReconnectPause;
    next_retry_ = earlier(next_retry_, lane.retry);
  } else {
    give_up(lane);
  }
}

void LoadDriver::give_up(Lane& lane) {
  lane.given_up = true;
  ++given_up_;
}

rpcrdma::ClientEndpoint* LoadDriver::endpoint_with_room(const Lane& lane) {
  if (!lane.id || lane.free_slots.empty()) {
    return nullptr;
  }
  if ((stopping_ || lane.draining) && !has_resend(lane)) {
    return nullptr;
  }
  rpcrdma::ClientEndpoint* endpoint = client_.endpoint(*lane.id);
  return endpoint == nullptr || endpoint->failed() || endpoint->calls_allowed() == 0 ? nullptr : endpoint;
}

void LoadDriver::fill(Instant now, Lane& lane, uint32_t index) {
  while (rpcrdma::ClientEndpoint* endpoint = endpoint_with_room(lane)) {
    if (open_loop_ && !has_resend(lane)) {
      if (!lane.listed) {
        lane.listed = ready_lanes_.push(uint32_t{index});
      }
      return;
    }
    if (!submit(now, now, lane, *endpoint)) {
      be_hungry(lane, index);
      return;
    }
  }
}

// No memory or send queue room for the moment: the next turn asks again.
void LoadDriver::be_hungry(Lane& lane, uint32_t index) {
  if (!lane.hungry) {
    lane.hungry = true;
    hungry_.push_back(index);
  }
}

void LoadDriver::feed_hungry(Instant now) {
  if (hungry_.empty()) {
    return;
  }
  asking_again_.swap(hungry_);
  for (const uint32_t index : asking_again_) {
    lanes_[index].hungry = false;
    fill(now, lanes_[index], index);
  }
  asking_again_.clear();
}

// The connections take turns: one that took a call goes to the end of the line, one that cannot leaves it until it can again.
void LoadDriver::serve_open_loop(Instant now) {
  if (!stopping_) {
    open_loop_->advance(now);
  }
  while (!open_loop_->empty() && !ready_lanes_.empty()) {
    const uint32_t index = ready_lanes_.pop();
    Lane& lane = lanes_[index];
    lane.listed = false;
    rpcrdma::ClientEndpoint* endpoint = endpoint_with_room(lane);
    if (endpoint == nullptr) {
      continue;
    }
    if (!submit(now, open_loop_->front(), lane, *endpoint)) {
      be_hungry(lane, index);
      continue;
    }
    open_loop_->pop();
    lane.listed = ready_lanes_.push(uint32_t{index});
  }
  stats_.arrived = open_loop_->arrived() - arrived_before_;
  stats_.overflowed = open_loop_->overflowed() - overflowed_before_;
}

bool LoadDriver::submit(Instant now, Instant due, Lane& lane, rpcrdma::ClientEndpoint& endpoint) {
  const uint32_t index = lane.free_slots.back();
  Slot& slot = slots_[index];
  if (!slot.resend) {
    slot.due = due;
    if (!slot.drawn) {
      slot.sequence = sequence_++;
      slot.entry = mix_.draw(random_);
      slot.drawn = true;
    }
  }
  CallDraft draft;
  if (!workload_.build(mix_.entries()[slot.entry], endpoint.thresholds(), slot, draft)) {
    return false;
  }
  draft.call.user_data = index;
  if (slot.resend) {
    draft.call.resent_xid = slot.xid;
  }
  if (!endpoint.submit(now, std::move(draft.call)).ok()) {
    return false;
  }
  if (slot.resend) {
    ++stats_.resent;
    --waiting_to_resend_;
    slot.resend = false;
  }
  slot.drawn = false;
  slot.xid = endpoint.last_xid();
  lane.free_slots.pop_back();
  ++in_flight_;
  return true;
}

// Its slot is on top of the free ones from here on, so that the call is the first on the next connection.
void LoadDriver::on_lost(uint32_t index) {
  Slot& slot = slots_[index];
  lanes_[slot.lane].free_slots.push_back(index);
  --in_flight_;
  if (options_.reconnect) {
    slot.resend = true;
    ++waiting_to_resend_;
    ++stats_.interrupted;
    return;
  }
  ++stats_.failed[static_cast<size_t>(rpcrdma::CallStatus::kConnectionLost)];
  ++stats_.entries[slot.entry].failed;
}

void LoadDriver::on_reply(Instant now, rpcrdma::ClientReply& reply) {
  const uint32_t index = reply_slot(reply);
  Slot& slot = slots_[index];
  if (reply.status == rpcrdma::CallStatus::kConnectionLost) {
    on_lost(index);
    return;
  }
  std::vector<uint32_t>& free_slots = lanes_[slot.lane].free_slots;
  const bool others_first = has_resend(lanes_[slot.lane]);
  free_slots.insert(others_first ? free_slots.begin() : free_slots.end(), index);
  --in_flight_;
  EntryStats& entry = stats_.entries[slot.entry];
  if (reply.status != rpcrdma::CallStatus::kReplied) {
    ++stats_.failed[static_cast<size_t>(reply.status)];
    ++entry.failed;
    return;
  }
  const MixEntry& kind = mix_.entries()[slot.entry];
  const bool in_full = options_.verify_every != 0 && slot.sequence % options_.verify_every == 0;
  if (!workload_.check(kind, reply, slot, in_full)) {
    ++stats_.wrong;
    ++entry.failed;
    return;
  }
  const uint64_t bytes = uint64_t{kind.bytes} * ((sends_data(kind.kind) ? 1 : 0) + (receives_data(kind.kind) ? 1 : 0));
  ++stats_.calls;
  stats_.bytes += bytes;
  ++entry.calls;
  entry.bytes += bytes;
  entry.latency.record(now - slot.due);
  if (open_loop_) {
    stats_.service.record(now - reply.sent);
  }
}

}  // namespace cw::load
