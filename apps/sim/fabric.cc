#include "apps/sim/fabric.h"

#include <algorithm>
#include <array>
#include <cinttypes>

#include "rocev2/rc/retransmit.h"

namespace cw::sim {
namespace {

// A deadline is a lower bound: asking again has to take a little time. A turn of a poll core while something waits for memory.
constexpr Duration kAskAgain = Duration::us(33);
constexpr Duration kPollForMemory = Duration::us(200);
constexpr size_t kPortQueueFrames = 512;
constexpr uint64_t kTurnsBetweenChecks = 64;
constexpr Duration kNextTurn = Duration::us(1);  // of a poll core that has something to do
constexpr uint64_t kStreamSeeds = 0x7463'7000;   // what streams draw is nobody else's

}  // namespace

Fabric::Fabric(const Scenario& scenario, Verdict& verdict, const FabricTaps& taps)
    : scenario_(scenario),
      verdict_(verdict),
      taps_(taps),
      ledger_(verdict),
      program_(ledger_),
      options_(scenario.hosts),
      tcp_(scenario.hosts.iwarp.tcp, scenario.seed ^ kStreamSeeds),
      hosts_(1 + scenario.clients.size() + scenario.hostiles.size()),
      watch_(verdict),
      clients_(scenario.clients.size()),
      hostiles_(scenario.hostiles.size()) {
  options_.program = &program_;
  options_.tcp = scenario.wires == Wires::kRoce ? nullptr : &tcp_;
  if (!hostiles_.empty()) {
    ledger_.admit_strangers();
  }
  // A server refuses a client by its address only where that is what it sees.
  options_.backend_from_client =
      std::ranges::find(scenario.hostiles, HostileKind::kRefusedByBackend, &Hostile::kind) != scenario.hostiles.end();
  for (uint32_t i = 0; i < scenario.faults.size(); ++i) {
    const Fault& fault = scenario.faults[i];
    if (is_stream_fault(fault.kind)) {
      tcp_.add_fault(1 + fault.client, fault, start_);
    } else if (!is_link_fault(fault.kind)) {
      Happening happening{.fault = i};
      if (fault.at_frame == 0) {
        happening.begins = start_ + fault.from;
        happening.ends = start_ + fault.until;
      }
      happenings_.push_back(happening);
    }
  }
  make_cables();
  make_gateway();
  for (uint32_t i = 0; i < clients_.size(); ++i) {
    for (uint32_t call = 0; call < scenario.clients[i].calls.size(); ++call) {
      clients_[i].pending.push_back(call);
    }
    make_client(i);
  }
}

Fabric::~Fabric() {
  starved_.clear();
}

void Fabric::make_cables() {
  for (uint32_t i = 0; i < clients_.size(); ++i) {
    std::unique_ptr<Link> to_gateway = std::make_unique<Wire>(flight_, scenario_.link_delay);
    std::unique_ptr<Link> to_client = std::make_unique<Wire>(flight_, scenario_.link_delay);
    for (const Fault& fault : scenario_.faults) {
      if (!is_link_fault(fault.kind) || fault.client != i) {
        continue;
      }
      Fault one_way = fault;
      if (fault.direction != Direction::kToClient) {
        to_gateway = decorate(std::move(to_gateway), one_way, start_);
      }
      one_way.seed = ~fault.seed;
      if (fault.direction != Direction::kToGateway) {
        to_client = decorate(std::move(to_client), one_way, start_);
      }
    }
    clients_[i].to_gateway = std::move(to_gateway);
    clients_[i].to_client = std::move(to_client);
  }
  for (uint32_t i = 0; i < hostiles_.size(); ++i) {
    const auto wire = [&] { return std::make_unique<Wire>(flight_, scenario_.link_delay); };
    hostiles_[i] = {.peer = nullptr,
                    .to_gateway = hostile_cable(wire(), scenario_.hostiles[i], start_),
                    .to_hostile = cable_to_hostile(wire(), scenario_.hostiles[i]),
                    .bare = wire()};
  }
}

bool Fabric::is_up(uint32_t host) const {
  if (host == kGateway) {
    return gateway_ != nullptr;
  }
  return host < host_of_hostile(0) ? clients_[host - 1].stack != nullptr : hostiles_[host - host_of_hostile(0)].peer != nullptr;
}

Link& Fabric::cable_to(uint32_t host) const {
  return host < host_of_hostile(0) ? *clients_[host - 1].to_client : *hostiles_[host - host_of_hostile(0)].to_hostile;
}

Instant Fabric::next_event() const {
  Instant next = earlier(flight_.next_at(), tcp_.next_at());
  for (uint32_t host = 0; host < hosts_.size(); ++host) {
    if (is_up(host)) {
      const HostClock& clock = hosts_[host];
      next = earlier(next, std::max(clock.dirty ? now_ : clock.next, clock.paused_until));
    }
  }
  for (const Happening& happening : happenings_) {
    if (!happening.over) {
      next = earlier(next, happening.begun ? happening.ends : happening.begins);
    }
  }
  for (uint32_t i = 0; i < hostiles_.size(); ++i) {
    const Hostile& hostile = scenario_.hostiles[i];
    for (const Duration at : {hostile.from, hostile.turns, hostile.until}) {
      next = now_ < start_ + at ? earlier(next, start_ + at) : next;
    }
  }
  return next;
}

bool Fabric::step(Instant limit) {
  const Instant next = next_event();
  if (next > limit) {
    now_ = std::max(now_, limit);
    return false;
  }
  now_ = std::max(now_, next);
  run_happenings();
  run_hostiles();
  Arrival frame;
  while (flight_.take(now_, frame)) {
    deliver(std::move(frame));
  }
  advance_streams();
  for (uint32_t host = 0; host < hosts_.size(); ++host) {
    HostClock& clock = hosts_[host];
    if (is_up(host) && clock.paused_until <= now_ && (clock.dirty || clock.next <= now_)) {
      serve(host);
    }
  }
  return true;
}

void Fabric::advance_streams() {
  tcp_.advance(now_, [this](uint32_t host, Bytes bytes) {
    hosts_[host].dirty = true;
    if (!bytes.empty()) {
      ++segments_;
      hash_.add(tcp_.now(), host, bytes);
    }
    trace(bytes.empty() ? "stream" : "segment", host, bytes.size());
    if (!bytes.empty()) {
      begin_at_count();
    }
  });
}

TcpHost* Fabric::tcp_of(uint32_t host) const {
  if (!is_up(host)) {
    return nullptr;
  }
  return host == kGateway            ? gateway_->tcp.get()
         : host < host_of_hostile(0) ? clients_[host - 1].stack->tcp.get()
                                     : hostiles_[host - host_of_hostile(0)].peer->host().tcp.get();
}

const iwarp::IwarpTransport* Fabric::iwarp_of(uint32_t host) const {
  if (!is_up(host)) {
    return nullptr;
  }
  return host == kGateway            ? gateway_->iwarp.get()
         : host < host_of_hostile(0) ? clients_[host - 1].stack->iwarp.get()
                                     : hostiles_[host - host_of_hostile(0)].peer->host().iwarp.get();
}

void Fabric::deliver(Arrival&& frame) {
  ++frames_;
  hash_.add(frame.at, frame.to, frame.raw);
  if (taps_.pcap != nullptr) {
    taps_.pcap->write(frame.at, frame.raw);
  }
  trace("frame", frame.to, frame.raw.size());
  HostClock& clock = hosts_[frame.to];
  if (is_up(frame.to)) {
    if (clock.paused_until <= now_) {
      hand_over(frame.to, frame);
      clock.dirty = true;
    } else if (clock.queue.size() < kPortQueueFrames) {
      clock.queue.push_back(std::move(frame));
    }
  }
  begin_at_count();
}

void Fabric::begin_at_count() {
  for (Happening& happening : happenings_) {
    const Fault& fault = scenario_.faults[happening.fault];
    if (fault.at_frame > 0 && fault.at_frame == frames_ + segments_ && !happening.begun) {
      take_burst();  // what came before this frame is not to be lost with it
      happening.begins = now_;
      happening.ends = now_ + fault.until;
      begin(happening);
    }
  }
}

void Fabric::hand_over(uint32_t host, const Arrival& frame) {
  const Instant host_now = clock_of(host);
  if (host == kGateway) {
    burst_.push_back(frame.raw);
    return;
  }
  const bool is_client = host < host_of_hostile(0);
  if (is_client && refuses(host - 1, frame)) {
    return;
  }
  ClientStack& stack = is_client ? *clients_[host - 1].stack : hostiles_[host - host_of_hostile(0)].peer->host();
  undelivered_ += deliver_frame(host_now, stack.node, stack.packets, frame.raw) ? 0 : 1;
}

void Fabric::take_burst() {
  if (!burst_.empty()) {
    undelivered_ += deliver_frames(clock_of(kGateway), gateway_->node, gateway_->packets, burst_);
    burst_.clear();
  }
}

// The gateway is to blame when it let the SEND that ended the key overtake its own repetition: when the request is not a copy
// that the network made, has been under way for no longer than the gateway has to reckon with, and the client did not end the
// key by itself because it gave up.
bool Fabric::refuses(uint32_t index, const Arrival& frame) {
  ClientSlot& slot = clients_[index];
  if (!scenario_.clients[index].standard) {
    return false;
  }
  const auto view = wire::PacketView::parse(frame.raw);
  if (!view.ok() || !wire::verify_icrc(*view)) {
    return false;
  }
  std::vector<uint8_t> refusal =
      slot.plain.refusal_of(*view, slot.stack->node.endpoint(), slot.stack->memory, slot.stack->packets);
  if (refusal.empty()) {
    return false;
  }
  ++reads_refused_;
  trace("refusal", 1 + index, view->bth.psn.value());
  const Duration under_way = clock_of(kGateway) - frame.sent_at;
  const bool expected = under_way <= std::max(rc::kRepetitionLifeLeast, scenario_.link_delay * 2);
  verdict_.expect(frame.copied || !expected || slot.caller->gave_up_calls(), Oracle::kBlame,
                  "a SEND of the gateway overtook a repeated READ request, whose key was dead then");
  slot.to_gateway->push(now_, Transit{.from = 1 + index, .to = kGateway, .raw = std::move(refusal)});
  return true;
}

void Fabric::serve(uint32_t host) {
  HostClock& clock = hosts_[host];
  if (!clock.queue.empty()) {
    for (const Arrival& frame : clock.queue) {
      hand_over(host, frame);
    }
    clock.queue.clear();
  }
  if (host == kGateway) {
    take_burst();
  }
  clock.dirty = false;
  const bool check = ++service_turns_ % kTurnsBetweenChecks == 0;
  if (host == kGateway) {
    serve_gateway(clock_of(host));
    if (check && gateway_ != nullptr) {
      watch_.check_consistency(*gateway_);
    }
  } else if (host >= host_of_hostile(0)) {
    serve_hostile(host - host_of_hostile(0));
  } else {
    serve_client(host - 1, clock_of(host));
    if (check) {
      check_consistency(*clients_[host - 1].stack, verdict_);
    }
  }
  if (is_up(host)) {
    plan_next(host);
  }
}

void Fabric::serve_gateway(Instant host_now) {
  gateway_->turn(host_now);
  watch_.look(*gateway_);
  transmit(gateway_->node, gateway_->packets, host_now, [this, host_now](std::vector<uint8_t>&& raw) {
    // A switch: one station by its address, else everybody.
    const bool to_all = (raw[0] & 1) != 0;
    for (uint32_t host = 1; host < hosts_.size(); ++host) {
      if (to_all || raw[5] == 1 + host) {
        cable_to(host).push(now_, Transit{.from = kGateway, .to = host, .sent_at = host_now, .raw = raw});
      }
    }
  });
  if (draining_ && gateway_->gateway.is_quiet()) {
    kill_gateway();
    make_gateway();
  } else if (handing_over_ && gateway_->gateway.stats().connections_open == 0) {
    end_hand_over();
  }
}

void Fabric::serve_client(uint32_t index, Instant host_now) {
  ClientSlot& slot = clients_[index];
  slot.stack->node.on_deadline(host_now);
  if (slot.stack->tcp) {
    slot.stack->tcp->receive(host_now);
  }
  slot.caller->turn(host_now);
  if (slot.stack->tcp) {
    slot.stack->tcp->transmit(host_now);
  }
  const bool standard = scenario_.clients[index].standard;
  transmit(slot.stack->node, slot.stack->packets, host_now, [&](std::vector<uint8_t>&& raw) {
    if (!standard || slot.plain.sends(raw)) {
      slot.to_gateway->push(now_, Transit{.from = 1 + index, .to = kGateway, .raw = std::move(raw)});
    }
  });
}

void Fabric::serve_hostile(uint32_t index) {
  HostileSlot& slot = hostiles_[index];
  const uint32_t host = host_of_hostile(index);
  slot.peer->turn(now_);
  transmit(slot.peer->host().node, slot.peer->host().packets, now_, [&](std::vector<uint8_t>&& raw) {
    slot.to_gateway->push(now_, Transit{.from = host, .to = kGateway, .raw = std::move(raw)});
  });
  std::optional<rc::RcQpInfo> victim;
  clients_[0].stack->node.endpoint().for_each_qp([&](rc::RcQp& qp) {
    if (const rc::RcQpInfo info = qp.info(); info.path.remote == sim_ip(scenario_.hosts.ipv6, 1)) {  // it is connected
      victim = info;
    }
  });
  for (std::vector<uint8_t>& frame : slot.peer->forge(now_, victim ? &*victim : nullptr)) {
    slot.bare->push(now_, Transit{.from = host, .to = kGateway, .raw = std::move(frame)});
  }
}

template <typename Send>
void Fabric::transmit(node::Node& node, BufferPool& pool, Instant host_now, Send&& send) {
  wire::TxBatch batch(pool);
  bool full = true;
  while (full) {
    node.poll_transmit(host_now, batch);
    full = batch.full();
    for (const wire::TxPacket& packet : batch.packets()) {
      send(packet.raw());
    }
    batch.clear();
  }
}

void Fabric::plan_next(uint32_t host) {
  HostClock& clock = hosts_[host];
  Instant deadline;
  bool waits_for_memory = false;
  if (host == kGateway) {
    deadline = gateway_->next_deadline();
    const bool runs_here = options_.backend == gateway::BackendKind::kBuiltin && !options_.run_on_workers;
    waits_for_memory = !starved_.empty() || (runs_here && gateway_->gateway.stats().backends[0].calls_in_flight > 0);
  } else if (host >= host_of_hostile(0)) {
    deadline = hostiles_[host - host_of_hostile(0)].peer->next_deadline();
  } else {
    const ClientSlot& slot = clients_[host - 1];
    deadline = earlier(slot.stack->next_deadline(), slot.caller->next_deadline());
  }
  clock.next = deadline.is_never() ? deadline : std::max(deadline + (Duration() - clock.offset), now_ + kAskAgain);
  if (const iwarp::IwarpTransport* iwarp = iwarp_of(host)) {
    std::array<uint64_t, 1> ready{};
    if (tcp_of(host)->has_work() || iwarp->has_events() || iwarp->peek_ready(ready) > 0) {
      clock.next = earlier(clock.next, now_ + kNextTurn);
    }
  }
  if (waits_for_memory) {
    clock.next = earlier(clock.next, now_ + kPollForMemory);
  }
}

void Fabric::trace(const char* what, uint32_t host, uint64_t number) {
  if (taps_.trace != nullptr) {
    std::fprintf(taps_.trace, "%12" PRId64 " ns host %" PRIu32 " %s %" PRIu64 " hash %016" PRIx64 "\n", (now_ - start_).to_ns(),
                 host, what, number, hash_.value());
  }
}

}  // namespace cw::sim
