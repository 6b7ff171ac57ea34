#include "apps/sim/goodput.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <deque>
#include <sstream>

#include "apps/sim/rc_pair.h"

namespace cw::sim {
namespace {

constexpr uint32_t kMtu = 1024;
constexpr uint32_t kMessagePackets = 4;
constexpr uint32_t kReadsAtOnce = 4;
constexpr uint32_t kCallPackets = 16;
constexpr uint32_t kCallsAtOnce = 16;
constexpr uint64_t kSeed = 11;
constexpr verbs::ProtectionDomain kDomain{1};

uint64_t repeated(const rc::RcStats& stats) {
  return stats.packets_retransmitted + stats.tail_probes;
}

class StreamRun {
 public:
  explicit StreamRun(const GoodputCase& one)
      : case_(one), pair_(options(one)), memory_(size_t{64} * kMtu * kMessagePackets, 0x5a) {
    set_faults();
    key_ = *pair_.nodes[1]->memory.register_region(kDomain, memory_, verbs::RemoteAccess::kReadWrite);
    pair_.qps[1]->post_receives(one.packets);
  }

  GoodputRow run() {
    const Instant begin = pair_.now;
    const uint32_t messages = case_.packets / message_packets();
    // Enough posted that the window, not the owner, is what limits.
    const uint32_t queued_max = messages_at_once();
    uint32_t posted = 0;
    const bool finished = pair_.run([&] {
      for (; posted < messages && posted - completed_ < queued_max && !pair_.qps[0]->in_error(); ++posted) {
        post();
      }
      drain();
      return completed_ == messages || pair_.qps[0]->in_error();
    }) && completed_ == messages;
    const auto ns = static_cast<uint64_t>((pair_.now - begin).to_ns());
    const uint64_t bits = uint64_t{completed_} * message_packets() * kMtu * 8;
    const rc::RcStats& stats = pair_.stats(0);
    GoodputRow row{
        .key = case_,
        .mbit_per_second = finished ? bits * 1000 / ns : 0,
        .ack_timeouts = stats.ack_timeouts,
        .tail_probes = stats.tail_probes,
        .naks = stats.naks_received[0] + stats.implied_naks,
        .packets_repeated = repeated(stats) + repeated(pair_.stats(1)),
        .payload_bytes_sent = stats.payload_bytes_out + pair_.stats(1).payload_bytes_out,
    };
    pair_.destroy();
    row.buffers_left = pair_.buffers_in_use();
    return row;
  }

 private:
  static RcPairOptions options(const GoodputCase& one) {
    RcPairOptions options;
    options.seed = kSeed;
    options.connect.path_mtu_bytes = kMtu;
    options.connect.peer_hold_packets = one.peer == PeerKind::kCauseway ? rc::HeldPackets::kSpan : 0;
    options.connect.initiator_depth = one.stream == StreamKind::kCall ? kCallsAtOnce : kReadsAtOnce;
    options.plain_peer = one.peer == PeerKind::kStandard;
    options.qp.selective_recovery = !options.plain_peer;  // it drops what is behind a gap, and says so at once
    options.connect.responder_resources = 16;
    options.qp.domain = kDomain;
    options.qp.remote_access = verbs::RemoteAccess::kReadWrite;
    options.qp.responder_resources_max = 16;
    options.qp.send_window_packets = one.window_packets;
    options.qp.send_queue_depth = 1024;
    options.qp.receive_bytes_max = 1u << 20;
    return options;
  }
  void set_faults() {
    LinkFaults& faults = pair_.link.faults;
    faults.delay = Duration::us(25);
    faults.bytes_per_second = 1'250'000'000;
    faults.loss = case_.loss_permille;
    switch (case_.disorder) {
      case Disorder::kTenthBehind64:
        faults.behind = 100;
        faults.behind_frames = 64;
        return;
      case Disorder::kPercentBehind8:
        faults.behind = 10;
        faults.behind_frames = 8;
        return;
      case Disorder::kLongWay:
        faults.delay = Duration::us(300);
        return;
      case Disorder::kJitter:
        faults.delay = Duration::us(100);
        faults.scatter = Duration::us(400);
        return;
      case Disorder::kNone:
      case Disorder::kCount:
        return;
    }
  }
  [[nodiscard]] uint32_t message_packets() const {
    switch (case_.stream) {
      case StreamKind::kRead:
        return std::max(1u, case_.window_packets / kReadsAtOnce);
      case StreamKind::kCall:
        return kCallPackets;
      default:
        return kMessagePackets;
    }
  }
  // Enough that the window, not the owner, is what limits.
  [[nodiscard]] uint32_t messages_at_once() const {
    switch (case_.stream) {
      case StreamKind::kRead:
        return 4 * kReadsAtOnce;
      case StreamKind::kCall:
        return std::max(1u, case_.window_packets / kCallPackets);
      default:
        return 2 * case_.window_packets / kMessagePackets + 4;
    }
  }
  void post() {
    rc::RcQp& qp = *pair_.qps[0];
    verbs::MemoryTable& memory = pair_.nodes[1]->memory;
    const uint32_t bytes = message_packets() * kMtu;
    switch (case_.stream) {
      case StreamKind::kCall:
        key_ = *memory.register_region(kDomain, memory_, verbs::RemoteAccess::kRead);
        keys_.push_back(key_);
        [[fallthrough]];
      case StreamKind::kRead:
        CW_ASSERT(qp.post_read({.rkey = key_, .remote_address = memory.address_of(key_), .length = bytes}).ok());
        return;
      case StreamKind::kSend:
        CW_ASSERT(qp.post_send({.payload = payload(bytes)}).ok());
        return;
      case StreamKind::kWrite:
      case StreamKind::kCount:
        CW_ASSERT(qp.post_write({.payload = payload(bytes), .rkey = key_, .remote_address = memory.address_of(key_)}).ok());
        return;
    }
  }
  Chain payload(uint32_t bytes) { return pair_.payload(0, std::vector<uint8_t>(bytes, 0x5a)); }
  void drain() {
    verbs::Completion completion;
    for (rc::RcQp* qp : pair_.qps) {
      while (qp->poll_completion(completion)) {
        if (qp == pair_.qps[0] && completion.status == verbs::WcStatus::kSuccess) {
          on_done(completion);
        }
        completion.payload.clear();
      }
    }
  }
  void on_done(const verbs::Completion& completion) {
    const bool is_reply = case_.stream == StreamKind::kCall && completion.opcode == verbs::WcOpcode::kSend;
    completed_ += is_reply ? 0 : 1;
    if (case_.stream == StreamKind::kCall && !is_reply) {  // READs complete in their order
      CW_ASSERT(pair_.qps[0]->post_send({.payload = payload(100), .invalidate = keys_.front()}).ok());
      keys_.pop_front();
    }
  }

  GoodputCase case_;
  RcPair pair_;
  std::vector<uint8_t> memory_;
  verbs::Rkey key_;
  std::deque<verbs::Rkey> keys_;  // of the calls under way, oldest first
  uint32_t completed_ = 0;
};

bool same_case(const GoodputRow& a, const GoodputRow& b) {
  return a.key.stream == b.key.stream && a.key.peer == b.key.peer && a.key.window_packets == b.key.window_packets &&
         a.key.loss_permille == b.key.loss_permille && a.key.disorder == b.key.disorder;
}

// The fourth column.
std::string fault_of(const GoodputRow& row) {
  return row.key.disorder == Disorder::kNone ? std::to_string(row.key.loss_permille) : to_string(row.key.disorder);
}

std::string name_of(const GoodputRow& row) {
  return std::string(to_string(row.key.stream)) + ", " + to_string(row.key.peer) + ", window " +
         std::to_string(row.key.window_packets) + ", " + fault_of(row) + ": ";
}

template <typename Kind>
bool parse_kind(const std::string& text, Kind& out) {
  for (uint8_t i = 0; i < static_cast<uint8_t>(Kind::kCount); ++i) {
    if (text == to_string(static_cast<Kind>(i))) {
      out = static_cast<Kind>(i);
      return true;
    }
  }
  return false;
}

bool parse_fault(const std::string& text, GoodputCase& out) {
  if (!text.empty() && text.find_first_not_of("0123456789") == std::string::npos) {
    out.loss_permille = static_cast<uint32_t>(std::stoul(text));
    return true;
  }
  return parse_kind(text, out.disorder);
}

}  // namespace

const char* to_string(StreamKind kind) noexcept {
  constexpr const char* kNames[] = {"send", "write", "read", "call"};
  return kind < StreamKind::kCount ? kNames[static_cast<size_t>(kind)] : "unknown";
}

const char* to_string(PeerKind kind) noexcept {
  constexpr const char* kNames[] = {"standard", "causeway"};
  return kind < PeerKind::kCount ? kNames[static_cast<size_t>(kind)] : "unknown";
}

const char* to_string(Disorder disorder) noexcept {
  constexpr const char* kNames[] = {"none", "tenth_behind_64", "percent_behind_8", "long_way", "jitter"};
  return disorder < Disorder::kCount ? kNames[static_cast<size_t>(disorder)] : "unknown";
}

GoodputRow measure_goodput(const GoodputCase& one) {
  return StreamRun(one).run();
}

std::vector<GoodputRow> measure_goodput_table() {
  std::vector<GoodputRow> table;
  for (const PeerKind peer : {PeerKind::kStandard, PeerKind::kCauseway}) {
    for (const StreamKind stream : {StreamKind::kSend, StreamKind::kWrite, StreamKind::kRead}) {
      for (const uint32_t window : {16u, 64u, 256u}) {
        for (const uint32_t loss : {0u, 1u, 10u, 30u}) {
          table.push_back(measure_goodput({.stream = stream, .peer = peer, .window_packets = window, .loss_permille = loss}));
        }
      }
    }
  }
  return table;
}

std::vector<GoodputRow> measure_reorder_table() {
  std::vector<GoodputRow> table;
  for (const PeerKind peer : {PeerKind::kStandard, PeerKind::kCauseway}) {
    for (const StreamKind stream : {StreamKind::kSend, StreamKind::kWrite, StreamKind::kRead, StreamKind::kCall}) {
      for (const uint32_t window : {64u, 256u}) {
        for (uint8_t disorder = 0; disorder < static_cast<uint8_t>(Disorder::kCount); ++disorder) {
          table.push_back(measure_goodput({.stream = stream,
                                           .peer = peer,
                                           .window_packets = window,
                                           .disorder = static_cast<Disorder>(disorder),
                                           .packets = 8'000}));
        }
      }
    }
  }
  return table;
}

std::string to_string(const std::vector<GoodputRow>& table) {
  const bool by_loss =
      std::all_of(table.begin(), table.end(), [](const GoodputRow& row) { return row.key.disorder == Disorder::kNone; });
  std::string out = "# Goodput of one stream in Mb/s: 10 Gb/s, 25 us each way, 1024-byte packets (apps/sim/goodput.h).\n";
  out += by_loss ? "# peer    stream  window_packets  loss_permille  mbit_per_second\n"
                 : "# peer    stream  window_packets           disorder  mbit_per_second\n";
  for (const GoodputRow& row : table) {
    char line[100];
    const std::string fault = by_loss ? std::to_string(row.key.loss_permille) : to_string(row.key.disorder);
    const int used =
        std::snprintf(line, sizeof(line), "%-9s %-7s %14" PRIu32 " %*s %16" PRIu64 "\n", to_string(row.key.peer),
                      to_string(row.key.stream), row.key.window_packets, by_loss ? 14 : 18, fault.c_str(), row.mbit_per_second);
    out.append(line, static_cast<size_t>(used));
  }
  return out;
}

std::vector<GoodputRow> parse_goodput(const std::string& text) {
  std::vector<GoodputRow> table;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string peer;
    std::string stream;
    std::string fault;
    GoodputRow row;
    if (words >> peer >> stream >> row.key.window_packets >> fault >> row.mbit_per_second && parse_kind(peer, row.key.peer) &&
        parse_kind(stream, row.key.stream) && parse_fault(fault, row.key)) {
      table.push_back(row);
    }
  }
  return table;
}

std::vector<std::string> compare_goodput(const std::vector<GoodputRow>& golden, const std::vector<GoodputRow>& now) {
  std::vector<std::string> differences;
  const auto find = [](const std::vector<GoodputRow>& table, const GoodputRow& row) {
    return std::find_if(table.begin(), table.end(), [&](const GoodputRow& other) { return same_case(row, other); });
  };
  for (const GoodputRow& row : golden) {
    const auto other = find(now, row);
    if (other == now.end()) {
      differences.push_back(name_of(row) + "not measured any more");
      continue;
    }
    const uint64_t off =
        std::max(row.mbit_per_second, other->mbit_per_second) - std::min(row.mbit_per_second, other->mbit_per_second);
    if (off > std::max<uint64_t>(row.mbit_per_second / 10, 20)) {
      differences.push_back(name_of(row) + std::to_string(other->mbit_per_second) + " Mb/s instead of " +
                            std::to_string(row.mbit_per_second));
    }
  }
  for (const GoodputRow& row : now) {
    if (find(golden, row) == golden.end()) {
      differences.push_back(name_of(row) + "not in the golden table");
    }
  }
  return differences;
}

}  // namespace cw::sim
