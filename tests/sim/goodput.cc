#include "tests/sim/goodput.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <sstream>

#include "tests/sim/rc_pair.h"

namespace cw::sim {
namespace {

constexpr uint32_t kMtu = 1024;
constexpr uint32_t kMessagePackets = 4;
constexpr uint32_t kReadsAtOnce = 4;
constexpr uint64_t kSeed = 11;
constexpr verbs::ProtectionDomain kDomain{1};

// A standard responder says each gap once: swallows the NAKs that ours would send beyond that.
class StandardPeer {
 public:
  static bool pass(void* context, Instant, uint32_t to, const std::vector<uint8_t>& octets) {
    return to != 0 || static_cast<StandardPeer*>(context)->is_news(octets);
  }

 private:
  bool is_news(const std::vector<uint8_t>& octets) {
    const auto view = wire::PacketView::parse(octets);
    if (view->bth.opcode != wire::Opcode::kRcAcknowledge || view->aeth().kind() != wire::AethKind::kNak) {
      return true;
    }
    const bool again = naked_ && last_ == view->bth.psn;
    naked_ = true;
    last_ = view->bth.psn;
    return !again;
  }
  bool naked_ = false;
  wire::Psn last_;
};

class StreamRun {
 public:
  explicit StreamRun(const GoodputCase& one) : case_(one), pair_(options(one)), memory_(64 * kMtu * kMessagePackets, 0x5a) {
    pair_.link.faults.delay = Duration::us(25);
    pair_.link.faults.bytes_per_second = 1'250'000'000;
    pair_.link.faults.loss = one.loss_permille;
    if (one.peer == PeerKind::kStandard) {
      pair_.link.tap = StandardPeer::pass;
      pair_.link.tap_context = &standard_;
    }
    key_ = *pair_.nodes[1]->memory.register_region(kDomain, memory_, verbs::RemoteAccess::kReadWrite);
    pair_.qps[1]->post_receives(one.packets);
  }

  GoodputRow run() {
    const Instant begin = pair_.now;
    const uint32_t messages = case_.packets / message_packets();
    // Enough posted that the window, not the owner, is what limits.
    const uint32_t queued_max =
        case_.stream == StreamKind::kRead ? 4 * kReadsAtOnce : 2 * case_.window_packets / kMessagePackets + 4;
    uint32_t posted = 0;
    const bool finished = pair_.run([&] {
      for (; posted < messages && posted - completed_ < queued_max; ++posted) {
        post();
      }
      drain();
      return completed_ == messages;
    });
    const auto ns = static_cast<uint64_t>((pair_.now - begin).to_ns());
    const uint64_t bits = uint64_t{completed_} * message_packets() * kMtu * 8;
    const rc::RcStats& stats = pair_.stats(0);
    GoodputRow row{
        .key = case_,
        .mbit_per_second = finished ? bits * 1000 / ns : 0,
        .ack_timeouts = stats.ack_timeouts,
        .tail_probes = stats.tail_probes,
        .naks = stats.naks_received[0] + stats.implied_naks,
        .packets_repeated = stats.packets_retransmitted + pair_.stats(1).packets_retransmitted,
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
    options.connect.initiator_depth = kReadsAtOnce;
    options.connect.responder_resources = 16;
    options.qp.domain = kDomain;
    options.qp.remote_access = verbs::RemoteAccess::kReadWrite;
    options.qp.responder_resources_max = 16;
    options.qp.send_window_packets = one.window_packets;
    options.qp.send_queue_depth = 1024;
    options.qp.receive_bytes_max = 1u << 20;
    return options;
  }
  [[nodiscard]] uint32_t message_packets() const {
    return case_.stream == StreamKind::kRead ? std::max(1u, case_.window_packets / kReadsAtOnce) : kMessagePackets;
  }
  void post() {
    rc::RcQp& qp = *pair_.qps[0];
    const uint64_t address = pair_.nodes[1]->memory.address_of(key_);
    const uint32_t bytes = message_packets() * kMtu;
    if (case_.stream == StreamKind::kRead) {
      CW_ASSERT(qp.post_read({.rkey = key_, .remote_address = address, .length = bytes}).ok());
      return;
    }
    Chain payload = pair_.payload(0, std::vector<uint8_t>(bytes, 0x5a));
    if (case_.stream == StreamKind::kSend) {
      CW_ASSERT(qp.post_send({.payload = std::move(payload)}).ok());
    } else {
      CW_ASSERT(qp.post_write({.payload = std::move(payload), .rkey = key_, .remote_address = address}).ok());
    }
  }
  void drain() {
    verbs::Completion completion;
    for (rc::RcQp* qp : pair_.qps) {
      while (qp->poll_completion(completion)) {
        completed_ += qp == pair_.qps[0] && completion.status == verbs::WcStatus::kSuccess ? 1 : 0;
        completion.payload.clear();
      }
    }
  }

  GoodputCase case_;
  RcPair pair_;
  StandardPeer standard_;
  std::vector<uint8_t> memory_;
  verbs::Rkey key_;
  uint32_t completed_ = 0;
};

bool same_case(const GoodputRow& a, const GoodputRow& b) {
  return a.key.stream == b.key.stream && a.key.peer == b.key.peer && a.key.window_packets == b.key.window_packets &&
         a.key.loss_permille == b.key.loss_permille;
}

std::string name_of(const GoodputRow& row) {
  return std::string(to_string(row.key.stream)) + ", " + to_string(row.key.peer) + ", window " +
         std::to_string(row.key.window_packets) + ", loss " + std::to_string(row.key.loss_permille) + "/1000: ";
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

}  // namespace

const char* to_string(StreamKind kind) noexcept {
  constexpr const char* kNames[] = {"send", "write", "read"};
  return kind < StreamKind::kCount ? kNames[static_cast<size_t>(kind)] : "unknown";
}

const char* to_string(PeerKind kind) noexcept {
  constexpr const char* kNames[] = {"standard", "causeway"};
  return kind < PeerKind::kCount ? kNames[static_cast<size_t>(kind)] : "unknown";
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

std::string to_string(const std::vector<GoodputRow>& table) {
  std::string out =
      "# Goodput of one stream in Mb/s: 10 Gb/s, 25 us each way, 1024-octet packets (tests/sim/goodput.h).\n"
      "# peer    stream  window_packets  loss_permille  mbit_per_second\n";
  for (const GoodputRow& row : table) {
    char line[100];
    const int used =
        std::snprintf(line, sizeof(line), "%-9s %-7s %14" PRIu32 " %14" PRIu32 " %16" PRIu64 "\n", to_string(row.key.peer),
                      to_string(row.key.stream), row.key.window_packets, row.key.loss_permille, row.mbit_per_second);
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
    GoodputRow row;
    if (words >> peer >> stream >> row.key.window_packets >> row.key.loss_permille >> row.mbit_per_second &&
        parse_kind(peer, row.key.peer) && parse_kind(stream, row.key.stream)) {
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
