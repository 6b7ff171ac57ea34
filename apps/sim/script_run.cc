#include "apps/sim/script_run.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <map>

#include "apps/sim/link/timing.h"
#include "apps/sim/link/wire.h"
#include "apps/sim/rc_pair.h"

namespace cw::sim {
namespace {

constexpr uint64_t kSeed = 23;
constexpr verbs::ProtectionDomain kDomain{1};
constexpr Duration kLongest = Duration::seconds(10);
// Posted and not completed, of all queue pairs: what the pools of a node can hold.
constexpr uint64_t kPostedBytesMax = 1u << 20;
constexpr uint32_t kFirstPsn[2] = {0xff'ffc0, 200};  // the first wraps during the work

bool holds_nothing(const ScriptWork& work) {
  return work.peer == PeerKind::kStandard;
}

// Which packets of one direction of a connection the receiver has executed, by their arrival alone.
class ArrivalModel {
 public:
  explicit ArrivalModel(bool holds) : holds_(holds) {}
  // `psn`: relative; `span`: PSNs that it takes. True when it has been executed before.
  bool on_arrival(uint32_t psn, uint32_t span) {
    if (psn < expected_) {
      return true;
    }
    if (psn > expected_) {
      if (holds_) {
        held_.emplace(psn, span);
      }
      return false;
    }
    expected_ += span;
    for (auto next = held_.begin(); next != held_.end() && next->first <= expected_; next = held_.erase(next)) {
      expected_ = std::max(expected_, next->first + next->second);
    }
    return false;
  }

 private:
  bool holds_;
  uint32_t expected_ = 0;
  std::map<uint32_t, uint32_t> held_;
};

class ScriptRun {
 public:
  ScriptRun(const ScriptWork& work, const FaultScript& script) : work_(work), script_(script) {
    EndpointOptions endpoint{.qp_max = 32, .send_work_max = 2048, .receive_work_max = 2048, .read_replay_max = 32};
    endpoint.recovery.gaps_max = 64;
    for (uint32_t i = 0; i < 2; ++i) {
      nodes_[i] = std::make_unique<RcNode>(kSeed * 2 + i, endpoint, true);
    }
    for (uint32_t i = 0; i < work.qps; ++i) {
      open_connection(i);
    }
    std::vector<ScriptedConnection> known;
    for (const Connection& connection : connections_) {
      known.push_back({.qpn = {connection.qps[0]->local_qpn(), connection.qps[1]->local_qpn()},
                       .first_psn = {wire::Psn(kFirstPsn[0]), wire::Psn(kFirstPsn[1])}});
    }
    known_ = known;
    for (auto& link : links_) {
      auto wire = std::make_unique<Wire>(flight_, ScriptWork::kOneWay);
      auto line = std::make_unique<Bottleneck>(
          std::move(wire), Window{}, 1,
          Bottleneck::Options{.bits_per_second = ScriptWork::kBitsPerSecond, .queue_bytes = UINT32_MAX});
      link = std::make_unique<ScriptedFaults>(std::move(line), script, known);
    }
    outcome_.events.resize(script.size());
    outcome_.qps.resize(work.qps);
  }

  ScriptOutcome run() {
    const uint32_t ahead = std::min(ScriptWork::kMessagesAhead, work_.messages);
    outcome_.finished = run_until(ahead);
    begin_ = now_;
    outcome_.finished = outcome_.finished && run_until(work_.messages);
    outcome_.time = now_ - begin_;
    settle();
    check_memory();
    for (uint32_t i = 0; i < 2; ++i) {
      outcome_.stats[i] = nodes_[i]->endpoint->stats();
      outcome_.damaged[i] = nodes_[i]->bad_frames;
      outcome_.wire[i].sequence_naks_sent += naks_swallowed_[i];
      outcome_.wire[i].packets_sent += naks_swallowed_[i];
    }
    note_firings();
    for (Connection& connection : connections_) {
      for (uint32_t i = 0; i < 2; ++i) {
        nodes_[i]->endpoint->destroy_qp(*connection.qps[i]);
      }
    }
    outcome_.buffers_left = 0;
    for (const auto& node : nodes_) {
      outcome_.buffers_left += node->payload_pool.in_use() + node->head_pool.in_use();
    }
    return std::move(outcome_);
  }

 private:
  struct Connection {
    rc::RcQp* qps[2] = {};
    std::vector<uint8_t> memory;  // of node 1: what is written to it or read from it, one place for each message
    verbs::Rkey key;
    uint32_t posted = 0;
    uint32_t completed = 0;                                                   // at node 0
    uint32_t received = 0;                                                    // SENDs at node 1
    wire::Psn limit[2] = {wire::Psn(kFirstPsn[0]), wire::Psn(kFirstPsn[1])};  // behind what has been asked for
    std::map<PacketIdentity, uint32_t> transmissions;
    std::vector<ArrivalModel> arrived;  // by the node where they arrive
  };

  void open_connection(uint32_t index) {
    Connection connection;
    for (uint32_t i = 0; i < 2; ++i) {
      rc::RcOptions options;
      options.domain = kDomain;
      options.remote_access = verbs::RemoteAccess::kReadWrite;
      options.responder_resources_max = 16;
      options.receive_bytes_max = ScriptWork::kMessageBytesMax;
      options.selective_recovery = i == 0 || !holds_nothing(work_);  // the standard peer says NAK at once
      connection.qps[i] = *nodes_[i]->endpoint->create_qp(options);
    }
    for (uint32_t i = 0; i < 2; ++i) {
      rc::RcConnect connect;
      connect.path = RcPair::path(i);
      connect.remote_qpn = connection.qps[1 - i]->local_qpn();
      connect.local_first_psn = wire::Psn(kFirstPsn[i]);
      connect.remote_first_psn = wire::Psn(kFirstPsn[1 - i]);
      connect.path_mtu_bytes = work_.mtu_bytes;
      connect.initiator_depth = 16;
      connect.responder_resources = 16;
      connect.peer_hold_packets = holds_nothing(work_) ? 0 : rc::HeldPackets::kSpan;
      CW_ASSERT(nodes_[i]->endpoint->connect_qp(*connection.qps[i], connect).ok());
    }
    const size_t bytes = size_t{work_.messages} * work_.message_bytes;
    connection.memory = work_.work == StreamKind::kRead ? std::vector<uint8_t>() : std::vector<uint8_t>(bytes, 0);
    if (work_.work == StreamKind::kRead) {
      for (uint32_t message = 0; message < work_.messages; ++message) {
        const std::vector<uint8_t> data = payload_of(index, message);
        connection.memory.insert(connection.memory.end(), data.begin(), data.end());
      }
    }
    connection.qps[1]->post_receives(work_.messages);
    connection.arrived = {ArrivalModel(true), ArrivalModel(!holds_nothing(work_))};
    connections_.push_back(std::move(connection));
    Connection& kept = connections_.back();
    kept.key = *nodes_[1]->memory.register_region(kDomain, kept.memory, verbs::RemoteAccess::kReadWrite);
  }
  [[nodiscard]] std::vector<uint8_t> payload_of(uint32_t qp, uint32_t message) const {
    return random_bytes(uint64_t{qp} * 1000 + message + 1, work_.message_bytes);
  }

  // Until each queue pair has completed so many messages. False when that takes too long, or nothing more will ever happen.
  bool run_until(uint32_t messages) {
    const Instant end = now_ + kLongest;
    while (true) {
      bool done = true;
      for (uint32_t i = 0; i < connections_.size(); ++i) {
        post(i, messages);
        drain(i);
        done = done && connections_[i].completed == messages &&
               (work_.work != StreamKind::kSend || connections_[i].received == messages);
      }
      if (done) {
        return true;
      }
      if (now_ > end || !step()) {
        return false;
      }
    }
  }
  // What is still on the wire arrives, so that both ends have seen the same.
  void settle() {
    transmit();
    while (!flight_.empty() || !links_[0]->next_at().is_never() || !links_[1]->next_at().is_never()) {
      const Instant next = earlier(links_[0]->next_at(), links_[1]->next_at());
      now_ = std::max(now_, next);
      deliver_due();
      transmit();
      for (uint32_t i = 0; i < connections_.size(); ++i) {
        drain(i);
      }
    }
  }

  void post(uint32_t index, uint32_t messages) {
    Connection& connection = connections_[index];
    const uint64_t share = kPostedBytesMax / work_.qps;
    while (connection.posted < messages && !connection.qps[0]->in_error() &&
           (connection.posted == connection.completed ||
            uint64_t{connection.posted + 1 - connection.completed} * work_.message_bytes <= share)) {
      const uint32_t message = connection.posted++;
      const verbs::WorkId id(message);
      const uint64_t address = nodes_[1]->memory.address_of(connection.key) + uint64_t{message} * work_.message_bytes;
      rc::RcQp& qp = *connection.qps[0];
      if (work_.work == StreamKind::kRead) {
        CW_ASSERT(
            qp.post_read({.id = id, .rkey = connection.key, .remote_address = address, .length = work_.message_bytes}).ok());
        continue;
      }
      Chain chain;
      CW_ASSERT(chain.append_copy(nodes_[0]->payload_pool, payload_of(index, message)));
      if (work_.work == StreamKind::kSend) {
        CW_ASSERT(qp.post_send({.id = id, .payload = std::move(chain)}).ok());
      } else {
        CW_ASSERT(qp.post_write({.id = id, .payload = std::move(chain), .rkey = connection.key, .remote_address = address}).ok());
      }
    }
  }

  void violate(uint32_t qp, uint32_t message, const char* what) {
    outcome_.violations.push_back("qp " + std::to_string(qp) + ", message " + std::to_string(message) + ": " + what);
  }
  void drain(uint32_t index) {
    Connection& connection = connections_[index];
    verbs::Completion completion;
    while (connection.qps[0]->poll_completion(completion)) {
      const uint32_t message = connection.completed++;
      if (completion.status != verbs::WcStatus::kSuccess) {
        violate(index, message, verbs::to_string(completion.status));
      } else if (completion.id != verbs::WorkId(message)) {
        violate(index, message, "completed out of order");
      } else if (work_.work == StreamKind::kRead && bytes_of(completion.payload) != payload_of(index, message)) {
        violate(index, message, "payload");
      }
      completion.payload.clear();
      outcome_.qps[index].time = now_ - begin_;
    }
    while (connection.qps[1]->poll_completion(completion)) {
      const uint32_t message = connection.received++;
      if (completion.status != verbs::WcStatus::kSuccess || bytes_of(completion.payload) != payload_of(index, message)) {
        violate(index, message, "received otherwise than it was sent");
      }
      completion.payload.clear();
    }
    for (const rc::RcQp* qp : connection.qps) {
      const uint64_t rate = qp->info().rate_bytes_per_second;
      uint64_t& lowest = outcome_.qps[index].lowest_rate;
      lowest = rate > 0 && (lowest == 0 || rate < lowest) ? rate : lowest;
    }
  }
  void check_memory() {
    for (uint32_t i = 0; i < connections_.size() && work_.work == StreamKind::kWrite; ++i) {
      for (uint32_t message = 0; message < work_.messages; ++message) {
        const std::vector<uint8_t> data = payload_of(i, message);
        if (!std::equal(data.begin(), data.end(),
                        connections_[i].memory.begin() + static_cast<std::ptrdiff_t>(message) * work_.message_bytes)) {
          violate(i, message, "payload");
        }
      }
    }
  }

  // As RcPair::step.
  bool step() {
    transmit();
    Instant deadline = Instant::never();
    for (const auto& node : nodes_) {
      deadline = earlier(deadline, node->endpoint->next_deadline());
    }
    if (!deadline.is_never()) {
      deadline = std::max(deadline, now_ + Duration::us(20));  // a deadline is a lower bound: to ask again takes a little time
    }
    const Instant next = earlier(deadline, std::max(now_, earlier(links_[0]->next_at(), links_[1]->next_at())));
    if (next.is_never()) {
      return false;
    }
    now_ = next;
    deliver_due();
    for (const auto& node : nodes_) {
      node->endpoint->on_deadline(now_);
    }
    return true;
  }
  void transmit() {
    for (uint32_t i = 0; i < 2; ++i) {
      wire::TxBatch batch(nodes_[i]->head_pool);
      do {
        batch.clear();
        nodes_[i]->endpoint->poll_transmit(now_, batch);
        for (const wire::TxPacket& packet : batch.packets()) {
          send(i, packet.raw());
        }
      } while (!batch.empty());
    }
  }
  void send(uint32_t from, std::vector<uint8_t>&& raw) {
    if (from == 1 && holds_nothing(work_) && !plain_.sends(raw)) {
      ++naks_swallowed_[from];
      return;
    }
    links_[from]->push(now_, Transit{.from = from, .to = 1 - from, .raw = raw});
    note_firings();
    note_sent(from, raw);
  }
  void deliver_due() {
    Arrival arrival;
    while (links_[0]->poll(now_, arrival) || links_[1]->poll(now_, arrival)) {
      deliver(arrival);
    }
  }
  void deliver(const Arrival& arrival) {
    RcNode& node = *nodes_[arrival.to];
    Buffer* frame = node.payload_pool.allocate_one();
    CW_ASSERT(frame != nullptr && frame->append(arrival.raw) == arrival.raw.size());
    const auto view = wire::PacketView::parse(frame->bytes());
    if (!view.ok() || !wire::verify_icrc(*view)) {
      ++node.bad_frames;
      release_buffers(frame);
      return;
    }
    note_arrival(arrival.to, *view);
    const auto refusal = arrival.to == 1 && holds_nothing(work_)
                             ? plain_.refusal_of(*view, *node.endpoint, node.memory, node.head_pool)
                             : std::vector<uint8_t>();
    if (!refusal.empty() || !node.endpoint->on_packet(now_, *view, frame, 0)) {
      release_buffers(frame);
    }
  }

  // What is on the wire.

  void note_firings() {
    for (const auto& link : links_) {
      for (const ScriptedFaults::Firing& firing : link->firings()) {
        EventOutcome& event = outcome_.events[firing.event];
        if (!event.fired) {
          event.fired = true;
          event.at = firing.at - begin_;
          const uint32_t to = firing.packet.direction == PacketDirection::kOut ? 1 : 0;
          outcome_.wire[to].damaged_arrived += script_[firing.event].action == ScriptAction::kCorrupt ? 1 : 0;
          fired_.push_back(firing);
        }
      }
    }
  }
  // The damage that the script does lies behind this.
  void note_sent(uint32_t from, const std::vector<uint8_t>& raw) {
    const auto view = wire::PacketView::parse(raw);
    CW_ASSERT(view.ok());
    const auto identity = identify(*view, 1 - from, known_);
    CW_ASSERT(identity.has_value());
    WireCounts& wire = outcome_.wire[from];
    ++wire.packets_sent;
    switch (identity->packet) {
      case PacketClass::kRequest:
      case PacketClass::kResponse:
        wire.payload_bytes_sent += view->payload.size();
        note_sent_data(from, *identity, *view);
        return;
      case PacketClass::kAcknowledgement: {
        const wire::AethKind kind = view->aeth().kind();
        wire.acks_sent += kind == wire::AethKind::kAck ? 1 : 0;
        wire.rnr_naks_sent += kind == wire::AethKind::kRnrNak ? 1 : 0;
        wire.sequence_naks_sent += is_sequence_nak(*view) ? 1 : 0;
        wire.gap_reports_sent += view->traits->kind == wire::OpcodeKind::kGapReport ? 1 : 0;
        return;
      }
      case PacketClass::kAny:
      case PacketClass::kCount:
        CW_ASSERT(view->traits->kind == wire::OpcodeKind::kCongestion);
        ++wire.cnps_sent;
        outcome_.cnps.push_back(now_);
        return;
    }
  }
  static bool is_sequence_nak(const wire::PacketView& view) {
    return view.aeth() == wire::Aeth::nak(wire::NakCode::kPsnSequenceError, view.aeth().msn);
  }
  [[nodiscard]] uint32_t span_of(const wire::PacketView& view) const {
    if (view.traits->kind != wire::OpcodeKind::kReadRequest) {
      return 1;
    }
    return std::max(1u, (view.reth().length + work_.mtu_bytes - 1) / work_.mtu_bytes);
  }
  void note_sent_data(uint32_t from, const PacketIdentity& packet, const wire::PacketView& view) {
    Connection& connection = connections_[packet.qp];
    QpOutcome& qp = outcome_.qps[packet.qp];
    const uint32_t times = ++connection.transmissions[packet];
    qp.transmissions_max = std::max(qp.transmissions_max, times);
    bool again = times > 1;
    if (packet.packet == PacketClass::kRequest) {
      wire::Psn& limit = connection.limit[from];
      again = view.bth.psn.distance_to(limit) > 0;
      const wire::Psn end = view.bth.psn.plus(span_of(view));
      limit = limit.distance_to(end) > 0 ? end : limit;
    }
    if (!again) {
      return;
    }
    WireCounts& wire = outcome_.wire[from];
    ++(packet.packet == PacketClass::kRequest ? wire.requests_repeated : wire.responses_repeated);
    qp.first_repeated = std::min(qp.first_repeated.value_or(packet.psn), packet.psn);
    const auto last = std::find_if(fired_.rbegin(), fired_.rend(),
                                   [&](const ScriptedFaults::Firing& firing) { return firing.packet.qp == packet.qp; });
    if (last != fired_.rend()) {
      EventOutcome& event = outcome_.events[last->event];
      ++event.packets_repeated;
      event.bytes_repeated += view.payload.size();
    }
  }
  void note_arrival(uint32_t to, const wire::PacketView& view) {
    WireCounts& wire = outcome_.wire[to];
    ++wire.packets_arrived;
    wire.marked_arrived += view.ecn == 3 ? 1 : 0;
    const auto identity = identify(view, to, known_);
    CW_ASSERT(identity.has_value());
    Connection& connection = connections_[identity->qp];
    switch (identity->packet) {
      case PacketClass::kRequest: {
        const bool again = connection.arrived[to].on_arrival(identity->psn, span_of(view));
        wire.requests_arrived_again += again ? 1 : 0;
        wire.reads_arrived_again += again && view.traits->kind == wire::OpcodeKind::kReadRequest ? 1 : 0;
        break;
      }
      case PacketClass::kAcknowledgement:
        wire.sequence_naks_arrived += is_sequence_nak(view) ? 1 : 0;
        wire.acks_arrived += view.aeth().kind() == wire::AethKind::kAck ? 1 : 0;
        break;
      case PacketClass::kResponse:
        break;
      case PacketClass::kAny:
      case PacketClass::kCount:
        ++wire.cnps_arrived;
        return;
    }
    for (const ScriptedFaults::Firing& firing : fired_) {
      EventOutcome& event = outcome_.events[firing.event];
      if (!event.recovered_after && stands_for(*identity, firing.packet)) {
        event.recovered_after = now_ - firing.at;
      }
    }
  }
  // The arrival of `packet` makes up for what happened to `other`.
  static bool stands_for(const PacketIdentity& packet, const PacketIdentity& other) {
    const bool later = packet.packet == PacketClass::kAcknowledgement && packet.psn >= other.psn;
    return packet.qp == other.qp && packet.direction == other.direction && packet.packet == other.packet &&
           (later || packet.psn == other.psn);
  }

  ScriptWork work_;
  FaultScript script_;
  std::unique_ptr<RcNode> nodes_[2];
  PlainPeer plain_;
  uint64_t naks_swallowed_[2] = {};  // counted by the endpoint, and not sent by the peer that it plays
  std::vector<Connection> connections_;
  std::vector<ScriptedConnection> known_;
  Flight flight_;
  std::unique_ptr<ScriptedFaults> links_[2];  // by the node that sends
  std::vector<ScriptedFaults::Firing> fired_;
  ScriptOutcome outcome_;
  Instant now_ = Instant::from_ns(1'000'000'000);
  Instant begin_ = now_;
};

}  // namespace

uint64_t ScriptOutcome::packets_repeated() const {
  return wire[0].requests_repeated + wire[0].responses_repeated + wire[1].requests_repeated + wire[1].responses_repeated;
}

ScriptOutcome run_script(const ScriptWork& work, const FaultScript& script) {
  return ScriptRun(work, script).run();
}

std::vector<CounterRow> compare_counters(const ScriptOutcome& outcome) {
  std::vector<CounterRow> rows;
  constexpr size_t kSequenceError = static_cast<size_t>(wire::NakCode::kPsnSequenceError);
  for (uint32_t i = 0; i < 2; ++i) {
    const rc::RcStats& stats = outcome.stats[i];
    const WireCounts& wire = outcome.wire[i];
    rows.push_back({"packets_out", i, stats.packets_out, wire.packets_sent});
    rows.push_back({"payload_bytes_out", i, stats.payload_bytes_out, wire.payload_bytes_sent});
    rows.push_back({"packets_retransmitted", i, stats.packets_retransmitted + stats.tail_probes, wire.requests_repeated});
    rows.push_back({"acks_sent", i, stats.acks_sent, wire.acks_sent});
    rows.push_back({"naks_sent", i, stats.naks_sent[kSequenceError], wire.sequence_naks_sent});
    rows.push_back({"gap_reports_sent", i, stats.gap_reports_sent, wire.gap_reports_sent});
    rows.push_back({"rnr_naks_sent", i, stats.rnr_naks_sent, wire.rnr_naks_sent});
    rows.push_back({"cnps_sent", i, stats.cnps_sent, wire.cnps_sent});
    rows.push_back({"packets_in", i, stats.packets_in, wire.packets_arrived});
    rows.push_back({"duplicate_requests", i, stats.duplicate_requests, wire.requests_arrived_again});
    rows.push_back({"reads_replayed", i, stats.reads_replayed, wire.reads_arrived_again});
    rows.push_back({"cnps_received", i, stats.cnps_received, wire.cnps_arrived});
    rows.push_back({"ecn_marked", i, stats.ecn_marked, wire.marked_arrived});
    rows.push_back({"discarded_by_icrc", i, outcome.damaged[i], wire.damaged_arrived});
  }
  return rows;
}

bool passed(const ScriptOutcome& outcome) {
  const std::vector<CounterRow> rows = compare_counters(outcome);
  return outcome.finished && outcome.violations.empty() && outcome.buffers_left == 0 &&
         std::all_of(rows.begin(), rows.end(), [](const CounterRow& row) { return row.counted == row.on_wire; });
}

std::string describe(const ScriptWork& work, const FaultScript& script, const ScriptOutcome& outcome) {
  char line[200];
  const auto print = [&](const char* format, auto... values) {
    const int used = std::snprintf(line, sizeof(line), format, values...);
    return std::string(line, static_cast<size_t>(std::clamp<int>(used, 0, sizeof(line) - 1)));
  };
  const auto us = [&](Duration duration) { return print("%.1f", static_cast<double>(duration.to_ns()) / 1000); };
  std::string out = print("%s, %s peer, %u messages of %u bytes in packets of %u on each of %u queue pairs; 100 Gb/s, %" PRId64
                          " us each way\n",
                          to_string(work.work), to_string(work.peer), work.messages, work.message_bytes, work.mtu_bytes, work.qps,
                          ScriptWork::kOneWay.to_us());
  out += print("%-44s %9s %18s %16s %14s\n", "event", "fired_us", "recovered_after_us", "packets_repeated", "bytes_repeated");
  for (size_t i = 0; i < script.size(); ++i) {
    const EventOutcome& event = outcome.events[i];
    const std::string at = event.fired ? us(event.at) : "never";
    const std::string after = event.recovered_after ? us(*event.recovered_after) : "-";
    out += print("%-44s %9s %18s %16u %14" PRIu64 "\n", to_string(script[i]).c_str(), at.c_str(), after.c_str(),
                 event.packets_repeated, event.bytes_repeated);
  }
  out += print("%-10s %12s %18s\n", "queue pair", "completed_us", "transmissions_max");
  for (size_t i = 0; i < outcome.qps.size(); ++i) {
    out += print("%-10zu %12s %18u\n", i, us(outcome.qps[i].time).c_str(), outcome.qps[i].transmissions_max);
  }
  out += print("%-22s %10s %12s %12s\n", "counter", "node", "it says", "on the wire");
  for (const CounterRow& row : compare_counters(outcome)) {
    if (row.counted != 0 || row.on_wire != 0) {
      out += print("%-22s %10u %12" PRIu64 " %12" PRIu64 "%s\n", row.name, row.node, row.counted, row.on_wire,
                   row.counted == row.on_wire ? "" : "  DIFFERS");
    }
  }
  for (const std::string& violation : outcome.violations) {
    out += "VIOLATION: " + violation + "\n";
  }
  if (!outcome.finished) {
    out += "NOT FINISHED\n";
  }
  return out;
}

}  // namespace cw::sim
