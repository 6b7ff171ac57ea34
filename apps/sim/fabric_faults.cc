// How processes come and go, and how the faults that are not a link's are acted out.
#include <algorithm>
#include <utility>

#include "apps/sim/fabric.h"
#include "apps/sim/reload.h"

namespace cw::sim {
namespace {

constexpr uint32_t kHostileBackend = 1u << 1;  // the second one, as a set
constexpr uint64_t kSeedStep = 1'000'003;      // between the randomness of two lives of a process

uint32_t host_of(const Fault& fault) {
  switch (fault.kind) {
    case FaultKind::kKillClient:
    case FaultKind::kDisconnect:
    case FaultKind::kPauseClient:
    case FaultKind::kClockJumpClient:
      return 1 + fault.client;
    default:
      return Fabric::kGateway;
  }
}

}  // namespace

void Fabric::make_gateway() {
  gateway_ = std::make_unique<GatewayHost>(options_, scenario_.seed * 3 + 1 + kSeedStep * generation_++);
  watch_.reset();
  hosts_[kGateway] = HostClock{.offset = hosts_[kGateway].offset};
  set_backend_mood();
  for (const std::vector<uint8_t>& saved : std::exchange(handed_over_, {})) {
    (void)gateway_->gateway.take_over(clock_of(kGateway), saved);
  }
  if (gateway_closes_) {
    gateway_->gateway.shut_down(clock_of(kGateway));
  }
}

void Fabric::make_client(uint32_t index) {
  ClientSlot& slot = clients_[index];
  WorldOptions options = options_;
  options.tcp = scenario_.clients[index].iwarp ? &tcp_ : nullptr;
  options.client_recovers_selectively = !scenario_.clients[index].standard;
  slot.plain = {};
  slot.stack =
      std::make_unique<ClientStack>(options, scenario_.seed * 3 + 2 + kSeedStep * generation_++, static_cast<uint8_t>(2 + index));
  slot.caller = std::make_unique<Caller>(clock_of(1 + index), scenario_, scenario_.clients[index], slot.pending, *slot.stack,
                                         ledger_, verdict_);
  hosts_[1 + index] = HostClock{.offset = hosts_[1 + index].offset};
  if (clients_close_) {
    slot.caller->finish(clock_of(1 + index));
  }
}

// They come when their time has come, and are dead when it is over; their backend is what they say in between.
void Fabric::run_hostiles() {
  for (uint32_t i = 0; i < hostiles_.size(); ++i) {
    HostileSlot& slot = hostiles_[i];
    const Hostile& hostile = scenario_.hostiles[i];
    const bool is_there = start_ + hostile.from <= now_ && now_ < start_ + hostile.until;
    const bool turned = is_there && start_ + hostile.turns <= now_;
    if (is_there == (slot.peer != nullptr) && turned == slot.turned) {
      continue;
    }
    trace(to_string(hostile.kind), host_of_hostile(i), turned ? 1 : 0);
    slot.turned = turned;
    if (!is_there) {
      if (TcpHost* tcp = tcp_of(host_of_hostile(i))) {
        tcp->die(Death::kSilent);
      }
      slot.peer.reset();
    } else if (slot.peer == nullptr) {
      slot.peer =
          std::make_unique<HostilePeer>(scenario_, hostile, static_cast<uint8_t>(1 + host_of_hostile(i)), tcp_, start_, now_);
    }
    hosts_[host_of_hostile(i)].dirty = true;
    set_backend_mood();
  }
}

// A process dies: nobody is told.
void Fabric::kill_gateway() {
  if (gateway_ != nullptr) {
    watch_.look(*gateway_);
    coverage_.add(*gateway_);
    starved_.clear();
    if (gateway_->tcp) {
      gateway_->tcp->die(tcp_.draw_death());
    }
    gateway_.reset();
    burst_.clear();
    draining_ = false;
    shut_down_ = false;
    handing_over_ = false;
  }
}

// The process ends, and leaves behind what it has written down.
void Fabric::end_hand_over() {
  if (handing_over_) {
    handed_over_ = gateway_->gateway.take_handed_over();
    kill_gateway();
  }
}

void Fabric::kill_client(uint32_t index) {
  ClientSlot& slot = clients_[index];
  if (slot.stack != nullptr) {
    slot.caller->abandon();
    verdict_.expect(slot.caller->retired_memory().is_untouched(), Oracle::kMemory, "memory was written after its keys had ended");
    coverage_.add(*slot.stack);
    coverage_.add(slot.caller->stats());
    clients_timed_out_ = clients_timed_out_ || slot.caller->gave_up_calls();
    if (slot.stack->tcp) {
      slot.stack->tcp->die(tcp_.draw_death());
    }
    slot.caller.reset();
    slot.stack.reset();
  }
}

void Fabric::run_happenings() {
  for (Happening& happening : happenings_) {
    if (!happening.begun && happening.begins <= now_) {
      begin(happening);
    }
    if (happening.begun && !happening.over && happening.ends <= now_) {
      end(happening);
    }
  }
}

void Fabric::begin(Happening& happening) {
  const Fault& fault = scenario_.faults[happening.fault];
  const uint32_t host = host_of(fault);
  happening.begun = true;
  trace(to_string(fault.kind), host, happening.fault);
  switch (fault.kind) {
    case FaultKind::kKillGateway:
      kill_gateway();
      return;
    case FaultKind::kKillClient:
      kill_client(fault.client);
      return;
    case FaultKind::kDrainGateway:
      if (gateway_ != nullptr) {
        gateway_->gateway.shut_down(clock_of(kGateway));
        shut_down_ = true;
      }
      break;
    case FaultKind::kHandOverGateway:
      if (gateway_ != nullptr && !shut_down_ && !handing_over_) {
        gateway_->gateway.hand_over(clock_of(kGateway));
        handing_over_ = true;
      }
      break;
    case FaultKind::kDisconnect:
      if (is_up(host)) {
        clients_[fault.client].caller->disconnect_one(clock_of(host));
      }
      break;
    case FaultKind::kReload:
      reload(reloaded_options(options_, fault.seed));
      break;
    case FaultKind::kPauseGateway:
    case FaultKind::kPauseClient:
      hosts_[host].paused_until = std::max(hosts_[host].paused_until, happening.ends);
      return;
    case FaultKind::kClockJumpGateway:
    case FaultKind::kClockJumpClient:
      hosts_[host].offset = hosts_[host].offset + fault.time;
      break;
    case FaultKind::kStarvePackets:
      starve(fault.amount);
      break;
    case FaultKind::kBackendCloses:
      if (gateway_ != nullptr) {
        gateway_->backend.close_all(clock_of(kGateway));
      }
      set_backend_mood();
      break;
    default:
      set_backend_mood();
      break;
  }
  hosts_[host].dirty = true;
}

void Fabric::end(Happening& happening) {
  const Fault& fault = scenario_.faults[happening.fault];
  happening.over = true;
  switch (fault.kind) {
    case FaultKind::kKillGateway:
      if (gateway_ == nullptr) {
        make_gateway();
      }
      return;
    case FaultKind::kKillClient:
      if (clients_[fault.client].stack == nullptr) {
        make_client(fault.client);
      }
      return;
    case FaultKind::kReload:
      reload(restored_options(options_));
      hosts_[kGateway].dirty = true;
      return;
    case FaultKind::kHandOverGateway:
      end_hand_over();
      if (gateway_ == nullptr) {
        make_gateway();
      }
      return;
    case FaultKind::kDrainGateway:
      draining_ = shut_down_;
      hosts_[kGateway].dirty = true;
      return;
    case FaultKind::kStarvePackets:
      starved_.clear();
      hosts_[kGateway].dirty = true;
      return;
    default:
      set_backend_mood();
      return;
  }
}

// Nobody is dropped by another configuration, at once or later: who is there keeps what it began with.
void Fabric::reload(gateway::GatewayOptions fresh) {
  if (gateway_ == nullptr) {
    return;
  }
  const uint64_t before = gateway_->gateway.stats().connections_open;
  gateway_->gateway.reconfigure(fresh);
  verdict_.expect(gateway_->gateway.stats().connections_open == before, Oracle::kEndState, "a reload dropped a connection");
  watch_.look(*gateway_);
}

// What the server behind the gateway is like now: the sum of the faults at work.
void Fabric::set_backend_mood() {
  if (gateway_ == nullptr) {
    return;
  }
  SimBackend& backend = gateway_->backend;
  backend.refuses = false;
  backend.silent = false;
  backend.talks_nonsense = false;
  backend.close_after_calls = 0;
  backend.call_delay = Duration::us(20);
  backend.call_jitter = Duration::us(20);
  backend.open_delay = Duration::us(50);
  backend.refusing_backends = 0;
  backend.silent_backends = 0;
  backend.hung_backends = 0;
  backend.refused_clients.clear();
  backend.slow_backends = 0;
  for (uint32_t i = 0; i < hostiles_.size(); ++i) {
    if (!hostiles_[i].turned) {
      continue;
    }
    const Hostile& hostile = scenario_.hostiles[i];
    backend.refusing_backends |= hostile.kind == HostileKind::kBackendDead ? kHostileBackend : 0;
    backend.silent_backends |= hostile.kind == HostileKind::kBackendHung ? kHostileBackend : 0;
    backend.hung_backends |= hostile.kind == HostileKind::kBackendStops ? kHostileBackend : 0;
    if (hostile.kind == HostileKind::kRefusedByBackend) {
      backend.refused_clients.push_back(sim_ip(options_.ipv6, static_cast<uint8_t>(1 + host_of_hostile(i))));
    }
    if (hostile.kind == HostileKind::kBackendSlow) {
      backend.slow_backends |= kHostileBackend;
      backend.slow_by = hostile.time;
    }
  }
  for (const Happening& happening : happenings_) {
    const Fault& fault = scenario_.faults[happening.fault];
    if (!happening.begun || happening.over) {
      continue;
    }
    backend.refuses = backend.refuses || fault.kind == FaultKind::kBackendRefuses;
    backend.silent = backend.silent || fault.kind == FaultKind::kBackendSilent;
    backend.talks_nonsense = backend.talks_nonsense || fault.kind == FaultKind::kBackendNonsense;
    if (fault.kind == FaultKind::kBackendCloses) {
      backend.close_after_calls = fault.amount;
    }
    if (fault.kind == FaultKind::kBackendSlow) {
      backend.call_delay = fault.time;
      backend.call_jitter = fault.time;
      backend.open_delay = fault.time;
    }
  }
}

void Fabric::starve(uint32_t permille) {
  if (gateway_ == nullptr) {
    return;
  }
  for (uint32_t count = options_.packet_buffers * permille / 1000; count > 0; --count) {
    Buffer* buffer = gateway_->packets.allocate_one();
    if (buffer == nullptr) {
      return;
    }
    starved_.push_back(buffer);
  }
}

}  // namespace cw::sim
