#include "apps/sim/caller.h"

#include <algorithm>

namespace cw::sim {
namespace {

using rpcrdma::CallStatus;

constexpr Duration kReconnectPause = Duration::ms(50);
constexpr Duration kMemoryPause = Duration::ms(1);

}  // namespace

Caller::Caller(Instant now, const Scenario& scenario, const ClientPlan& plan, std::deque<uint32_t>& pending, ClientStack& host,
               Ledger& ledger, Verdict& verdict)
    : scenario_(scenario),
      plan_(plan),
      pending_(pending),
      host_(host),
      ledger_(ledger),
      verdict_(verdict),
      lanes_(plan.connections),
      cancelled_(plan.calls.size()),
      wanted_(plan.calls.size(), now),
      repeats_(plan.endless) {
  for (Lane& lane : lanes_) {
    lane.slots.resize(scenario.hosts.load.window);
  }
}

void Caller::abandon() {
  for (Lane& lane : lanes_) {
    end_lane(Instant(), lane, Outcome::kUnknown);
  }
}

void Caller::turn(Instant now) {
  wake_ = Instant::never();
  client::Client& client = host_.client;
  client.run(now);
  while (const auto id = client.poll_ready()) {
    const auto lane = std::find_if(lanes_.begin(), lanes_.end(), [&](const Lane& other) { return other.id == id; });
    CW_ASSERT(lane != lanes_.end());
    take_replies(now, *lane);
  }
  client::ClientEvent event;
  while (client.poll_event(event)) {
    on_event(now, event);
  }
  for (uint32_t i = 0; i < lanes_.size(); ++i) {
    Lane& lane = lanes_[i];
    cancel_due(now, lane);  // may give the lane up: before it is looked at whether it has to be opened
    if (!lane.id && !finished_) {
      if (lane.retry <= now) {
        open(now, lane);
      } else {
        again_at(lane.retry);
      }
    }
    fill(now, i);
  }
}

void Caller::take_replies(Instant now, Lane& lane) {
  const auto id = lane.id;
  rpcrdma::ClientReply reply;
  // A reply may be why the lane is given up.
  while (lane.id && lane.id == id && host_.client.endpoint(*id) != nullptr && host_.client.endpoint(*id)->poll_reply(reply)) {
    on_reply(now, lane, reply);
  }
}

void Caller::cancel_due(Instant now, Lane& lane) {
  for (Slot& slot : lane.slots) {
    if (!slot.busy || !lane.id) {
      continue;
    }
    if (now < slot.cancel_at) {
      again_at(slot.cancel_at);
      continue;
    }
    slot.cancel_at = Instant::never();
    cancelled_[slot.call] = true;
    if (host_.client.cancel(*lane.id, slot.xid).ok()) {
      take_replies(now, lane);
    }
  }
}

void Caller::open(Instant now, Lane& lane) {
  const auto id = host_.client.connect(now, sim_ip(scenario_.hosts.ipv6, 1), scenario_.hosts.load.service_port);
  if (!id.ok()) {
    verdict_.fail(Oracle::kConsistency, "a client has no room for its own connections");
    lane.retry = now + kReconnectPause;
    return;
  }
  ++stats_.connects;
  lane.id = *id;
  lane.connected = false;
}

void Caller::on_event(Instant now, const client::ClientEvent& event) {
  const auto lane = std::find_if(lanes_.begin(), lanes_.end(), [&](const Lane& other) { return other.id == event.id; });
  if (lane == lanes_.end()) {
    verdict_.fail(Oracle::kEndState, "a client hears of a connection that it does not have");
    return;
  }
  switch (event.kind) {
    case client::ClientEvent::Kind::kConnected:
      verdict_.expect(!lane->connected, Oracle::kEndState, "a connection was established twice");
      lane->connected = true;
      ++stats_.connected;
      return;
    case client::ClientEvent::Kind::kRefused:
      verdict_.expect(!lane->connected, Oracle::kEndState, "a connection was refused after it had been established");
      ++stats_.refused;
      break;
    case client::ClientEvent::Kind::kLost:
      verdict_.expect(lane->connected, Oracle::kEndState, "a connection was lost before it was established");
      ++stats_.lost;
      count_cause(event.qp_error);
      break;
  }
  end_lane(now, *lane, Outcome::kLost);
  lane->id.reset();
  lane->connected = false;
  lane->retry = now + kReconnectPause;
}

void Caller::count_cause(const verbs::QueuePairError& error) {
  for (size_t cause = 0; cause < stats_.lost_causes.size(); ++cause) {
    stats_.lost_causes[cause] += error.cause == rc::to_string(static_cast<rc::QpErrorCause>(cause)) ? 1 : 0;
  }
}

void Caller::fill(Instant now, uint32_t lane_index) {
  Lane& lane = lanes_[lane_index];
  rpcrdma::ClientEndpoint* endpoint = lane.connected && !finished_ ? host_.client.endpoint(*lane.id) : nullptr;
  if (endpoint == nullptr || endpoint->failed()) {
    return;
  }
  for (uint32_t i = 0; i < lane.slots.size() && !pending_.empty() && endpoint->calls_allowed() > 0; ++i) {
    Slot& slot = lane.slots[i];
    if (slot.busy) {
      continue;
    }
    if (now < slot.free_at) {
      again_at(slot.free_at);
      continue;
    }
    if (!submit(now, lane, i, *endpoint)) {
      again_at(now + kMemoryPause);
      return;
    }
  }
}

void Caller::on_reply(Instant now, Lane& lane, const rpcrdma::ClientReply& reply) {
  ++stats_.statuses[static_cast<size_t>(reply.status)];
  if (reply.user_data >= lane.slots.size() || !lane.slots[reply.user_data].busy) {
    verdict_.fail(Oracle::kAnsweredOnce, "an outcome came for a call that is not in flight");
    return;
  }
  Slot& slot = lane.slots[reply.user_data];
  const CallPlan& plan = plan_.calls[slot.call];
  switch (reply.status) {
    case CallStatus::kReplied:
      on_answer(slot, plan, reply);
      end_slot(now, lane, slot, Outcome::kAnswered);
      return;
    case CallStatus::kErrorChunk:
      verdict_.expect(slot.must_be_refused, Oracle::kBlame, "ERR_CHUNK for a call that has room for its result");
      end_slot(now, lane, slot, Outcome::kRefused);
      return;
    case CallStatus::kErrorVersion:
    case CallStatus::kBadReply:
      verdict_.fail(Oracle::kBlame, std::string("a call ends by ") + rpcrdma::to_string(reply.status));
      end_slot(now, lane, slot, Outcome::kRefused);
      return;
    case CallStatus::kConnectionLost:
      end_slot(now, lane, slot, Outcome::kLost);
      return;
    case CallStatus::kCancelled:
    case CallStatus::kTimeout:
      // As the kernel's client: a server that does not answer is tried on a new connection, at the latest when the calls that it
      // did not answer hold every credit: nothing would ever be sent again, and so nobody would notice that the peer is dead.
      end_slot(now, lane, slot, Outcome::kTimeout);
      if (plan_.stays_after_timeout && host_.client.endpoint(*lane.id)->calls_allowed() > 0) {
        return;
      }
      host_.client.disconnect(now, *lane.id);
      end_lane(now, lane, Outcome::kLost);
      lane.id.reset();
      lane.connected = false;
      lane.retry = now + kReconnectPause;
      return;
  }
}

void Caller::end_slot(Instant now, Lane& lane, Slot& slot, Outcome outcome) {
  ledger_.ended(slot.attempt, outcome);
  verdict_.expect(slot.memory.guards_hold(), Oracle::kMemory, "memory around a chunk was written");
  // Keys end before the application hears of the call's end (RFC 8166 4.4), unless the process and all it had are gone.
  const bool abandoned = outcome == Outcome::kUnknown;
  verdict_.expect(abandoned || !host_.memory.exposes(slot.memory.raw()), Oracle::kMemory, "a key outlives its call");
  retired_memory_.retire(std::move(slot.memory));
  slot.memory = GuardedMemory();
  slot.busy = false;
  slot.free_at = now + plan_.pause;
  --lane.in_flight;
  --in_flight_;
  if (outcome != Outcome::kAnswered && outcome != Outcome::kRefused) {
    pending_.push_back(slot.call);
    return;
  }
  service_.answered += 1;
  service_.longest_wait = std::max(service_.longest_wait, now - wanted_[slot.call]);
  wanted_[slot.call] = Instant::never();
  if (repeats_) {
    pending_.push_back(slot.call);
    wanted_[slot.call] = slot.free_at;
  }
}

Service Caller::service(Instant now) const {
  Service out = service_;
  for (const Instant wanted : wanted_) {
    out.longest_wait = wanted.is_never() ? out.longest_wait : std::max(out.longest_wait, now - wanted);
  }
  return out;
}

void Caller::end_lane(Instant now, Lane& lane, Outcome outcome) {
  for (Slot& slot : lane.slots) {
    if (slot.busy) {
      end_slot(now, lane, slot, outcome);
    }
  }
}

void Caller::disconnect_one(Instant now) {
  Lane& lane = lanes_[next_to_break_++ % lanes_.size()];
  if (!lane.id) {
    return;
  }
  ++stats_.disconnects;
  host_.client.disconnect(now, *lane.id);
  end_lane(now, lane, Outcome::kLost);
  lane.id.reset();
  lane.connected = false;
  lane.retry = now + Duration::ms(1);
}

void Caller::finish(Instant now) {
  finished_ = true;
  for (Lane& lane : lanes_) {
    if (lane.id) {
      host_.client.disconnect(now, *lane.id);
      end_lane(now, lane, Outcome::kLost);
      lane.id.reset();
      lane.connected = false;
    }
  }
}

}  // namespace cw::sim
