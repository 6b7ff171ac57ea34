#include "tests/sim/goodput.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <sstream>

#include "tests/sim/link/losses.h"
#include "tests/sim/link/timing.h"
#include "tests/sim/link/wire.h"
#include "tests/sim/rc_pair.h"

namespace cw::sim {
namespace {

constexpr uint32_t kMessageBytes = 65536;
constexpr uint32_t kMessagesPosted = 32;
constexpr uint64_t kBytesWanted = 48u << 20;
constexpr Duration kTimeMax = Duration::seconds(2);
constexpr Duration kCableDelay = Duration::us(20);
constexpr Duration kAskAgain = Duration::us(5);
constexpr Bottleneck::Options kCable{.bits_per_second = 25'000'000'000, .queue_bytes = 2u << 20};
constexpr uint64_t kMbit = 1'000'000;

class GoodputPair {
 public:
  GoodputPair(uint32_t window_packets, uint32_t loss_permille, uint64_t seed) : pair_(options(window_packets, seed)) {
    for (uint32_t i = 0; i < 2; ++i) {
      std::unique_ptr<Link> link = std::make_unique<Wire>(flight_, kCableDelay);
      link = std::make_unique<Loss>(std::move(link), Window{}, seed * 2 + i, loss_permille);
      links_[i] = std::make_unique<Bottleneck>(std::move(link), Window{}, 0, kCable);
    }
    memory_.resize(kMessageBytes);
    key_ = *pair_.nodes[1]->memory.register_region(kDomain, memory_, verbs::RemoteAccess::kWrite);
  }

  uint64_t run() {
    const Instant start = pair_.now;
    uint64_t bytes = 0;
    while (bytes < kBytesWanted && pair_.now - start < kTimeMax && !pair_.qps[0]->in_error()) {
      post();
      transmit();
      advance();
      bytes += completed();
    }
    const auto ns = static_cast<uint64_t>((pair_.now - start).to_ns());
    pair_.destroy();
    return bytes * 8 * 1'000'000'000 / std::max<uint64_t>(ns, 1) / kMbit;
  }

 private:
  static constexpr verbs::ProtectionDomain kDomain{1};

  static RcPairOptions options(uint32_t window_packets, uint64_t seed) {
    RcPairOptions options;
    options.seed = seed;
    options.qp.send_window_packets = window_packets;
    options.qp.remote_access = verbs::RemoteAccess::kWrite;
    options.qp.domain = kDomain;
    options.connect.path_mtu_bytes = 4096;
    return options;
  }
  void post() {
    for (; posted_ < kMessagesPosted; ++posted_) {
      const std::vector<uint8_t> octets(kMessageBytes, 0x5a);
      verbs::WriteRequest request{.id = verbs::WorkId(1), .payload = pair_.payload(0, octets), .rkey = key_};
      request.remote_address = pair_.nodes[1]->memory.address_of(key_);
      CW_ASSERT(pair_.qps[0]->post_write(std::move(request)).ok());
    }
  }
  uint64_t completed() {
    uint64_t bytes = 0;
    verbs::Completion completion;
    while (pair_.qps[0]->poll_completion(completion)) {
      --posted_;
      bytes += completion.status == verbs::WcStatus::kSuccess ? kMessageBytes : 0;
    }
    return bytes;
  }
  void transmit() {
    for (uint32_t i = 0; i < 2; ++i) {
      wire::TxBatch batch(pair_.nodes[i]->head_pool);
      do {
        batch.clear();
        pair_.nodes[i]->endpoint->poll_transmit(pair_.now, batch);
        for (const wire::TxPacket& packet : batch.packets()) {
          links_[i]->push(pair_.now, Transit{.from = i, .to = 1 - i, .octets = flatten(packet)});
        }
      } while (!batch.empty());
    }
  }
  void advance() {
    Instant next = Instant::never();
    for (const auto& node : pair_.nodes) {
      next = earlier(next, node->endpoint->next_deadline());
    }
    next = earlier(flight_.next_at(), next.is_never() ? next : std::max(next, pair_.now + kAskAgain));
    pair_.now = std::max(pair_.now, earlier(next, pair_.now + Duration::ms(10)));
    Arrival frame;
    while (flight_.take(pair_.now, frame)) {
      pair_.deliver(frame.to, frame.octets);
    }
    for (const auto& node : pair_.nodes) {
      node->endpoint->on_deadline(pair_.now);
    }
  }

  RcPair pair_;
  Flight flight_;
  std::array<std::unique_ptr<Link>, 2> links_;
  std::vector<uint8_t> memory_;
  verbs::Rkey key_;
  uint32_t posted_ = 0;
};

}  // namespace

const char* to_string(PeerKind kind) noexcept {
  switch (kind) {
    case PeerKind::kStandard:
      return "standard";
    case PeerKind::kCount:
      break;
  }
  return "unknown";
}

uint64_t measure_goodput(PeerKind, uint32_t window_packets, uint32_t loss_permille, uint64_t seed) {
  return GoodputPair(window_packets, loss_permille, seed).run();
}

std::vector<GoodputRow> measure_goodput_table() {
  std::vector<GoodputRow> table;
  for (uint8_t kind = 0; kind < static_cast<uint8_t>(PeerKind::kCount); ++kind) {
    for (const uint32_t window : {16u, 64u, 256u}) {
      for (const uint32_t loss : {0u, 1u, 10u, 30u}) {
        const auto peer = static_cast<PeerKind>(kind);
        table.push_back({peer, window, loss, measure_goodput(peer, window, loss, 1)});
      }
    }
  }
  return table;
}

std::string to_string(const std::vector<GoodputRow>& table) {
  std::string out =
      "# Goodput of one connection in Mb/s: 25 Gb/s, 20 us each way, 4096-octet packets (tests/sim/goodput.h).\n"
      "# peer      window_packets  loss_permille  mbit_per_second\n";
  for (const GoodputRow& row : table) {
    char line[100];
    const int used = std::snprintf(line, sizeof(line), "%-11s %14" PRIu32 " %14" PRIu32 " %16" PRIu64 "\n", to_string(row.peer),
                                   row.window_packets, row.loss_permille, row.mbit_per_second);
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
    GoodputRow row;
    if (!(words >> peer >> row.window_packets >> row.loss_permille >> row.mbit_per_second)) {
      continue;
    }
    for (uint8_t kind = 0; kind < static_cast<uint8_t>(PeerKind::kCount); ++kind) {
      if (peer == to_string(static_cast<PeerKind>(kind))) {
        row.peer = static_cast<PeerKind>(kind);
        table.push_back(row);
      }
    }
  }
  return table;
}

std::vector<std::string> compare_goodput(const std::vector<GoodputRow>& golden, const std::vector<GoodputRow>& now) {
  std::vector<std::string> differences;
  const auto name = [](const GoodputRow& row) {
    return std::string(to_string(row.peer)) + ", window " + std::to_string(row.window_packets) + ", loss " +
           std::to_string(row.loss_permille) + "/1000: ";
  };
  const auto find = [](const std::vector<GoodputRow>& table, const GoodputRow& row) {
    return std::find_if(table.begin(), table.end(), [&](const GoodputRow& other) {
      return other.peer == row.peer && other.window_packets == row.window_packets && other.loss_permille == row.loss_permille;
    });
  };
  for (const GoodputRow& row : golden) {
    const auto other = find(now, row);
    if (other == now.end()) {
      differences.push_back(name(row) + "not measured any more");
      continue;
    }
    const uint64_t off =
        std::max(row.mbit_per_second, other->mbit_per_second) - std::min(row.mbit_per_second, other->mbit_per_second);
    if (off > std::max<uint64_t>(row.mbit_per_second / 10, 20)) {
      differences.push_back(name(row) + std::to_string(other->mbit_per_second) + " Mb/s instead of " +
                            std::to_string(row.mbit_per_second));
    }
  }
  for (const GoodputRow& row : now) {
    if (find(golden, row) == golden.end()) {
      differences.push_back(name(row) + "not in the golden table");
    }
  }
  return differences;
}

}  // namespace cw::sim
