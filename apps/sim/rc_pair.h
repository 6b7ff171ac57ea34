// Two endpoints, a link and a clock: the smallest world in which reliable connections live. Nothing sleeps and nothing is random
// that the seed does not decide.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "apps/sim/faulty_link.h"
#include "apps/sim/plain_peer.h"
#include "base/heap_buffer_pool.h"
#include "base/random.h"
#include "rocev2/endpoint.h"
#include "rocev2/wire/packet_view.h"

namespace cw::sim {

struct RcNode {
  static constexpr uint32_t kBufferBytes = 4096 + 160;

  RcNode(uint64_t seed, const EndpointOptions& options, bool exposes_memory)
      : random(seed),
        memory(64, random),
        payload_pool(4096, kBufferBytes, 4096),
        head_pool(256, kBufferBytes, 0),
        endpoint(std::make_unique<Endpoint>(options, random, exposes_memory ? &memory : nullptr)) {}

  SeededRandom random;
  verbs::MemoryTable memory;
  HeapBufferPool payload_pool;  // received frames and what the test posts
  HeapBufferPool head_pool;
  std::unique_ptr<Endpoint> endpoint;
  uint64_t bad_frames = 0;  // refused by parse or iCRC
};

struct RcPairOptions {
  uint64_t seed = 1;
  rc::RcOptions qp{};
  rc::RcConnect connect{};  // path, PSNs and QPNs are filled in
  uint32_t first_psn[2] = {100, 200};
  EndpointOptions endpoint{.qp_max = 16, .send_work_max = 1024, .receive_work_max = 1024, .read_replay_max = 16};
  bool exposes_memory = true;
  bool connected = true;
  bool plain_peer = false;  // node 1 behaves as Linux does (plain_peer.h)
};

class RcPair {
 public:
  explicit RcPair(const RcPairOptions& options) : link(options.seed * 7 + 1), options_(options) {
    for (uint32_t i = 0; i < 2; ++i) {
      nodes[i] = std::make_unique<RcNode>(options.seed * 2 + i, options.endpoint, options.exposes_memory);
      qps[i] = *nodes[i]->endpoint->create_qp(options.qp);
    }
    if (options.connected) {
      for (uint32_t i = 0; i < 2; ++i) {
        CW_ASSERT(nodes[i]->endpoint->connect_qp(*qps[i], connect_options(i)).ok());
      }
    }
  }

  static wire::Path path(uint32_t node) {
    wire::Path path;
    path.local_mac = wire::MacAddress{{2, 0, 0, 0, 0, static_cast<uint8_t>(node + 1)}};
    path.remote_mac = wire::MacAddress{{2, 0, 0, 0, 0, static_cast<uint8_t>(2 - node)}};
    path.local = IpAddress::v4(0x0a000001 + node);
    path.remote = IpAddress::v4(0x0a000001 + (1 - node));
    path.udp_source_port = static_cast<uint16_t>(50000 + node);
    return path;
  }
  [[nodiscard]] rc::RcConnect connect_options(uint32_t node) const {
    rc::RcConnect connect = options_.connect;
    connect.path = path(node);
    connect.remote_qpn = qps[1 - node]->local_qpn();
    connect.local_first_psn = wire::Psn(options_.first_psn[node]);
    connect.remote_first_psn = wire::Psn(options_.first_psn[1 - node]);
    return connect;
  }

  // A frame arrives at `to`. True when the endpoint kept its buffer.
  bool deliver(uint32_t to, const std::vector<uint8_t>& raw, uint16_t port = 0) {
    RcNode& node = *nodes[to];
    Buffer* frame = node.payload_pool.allocate_one();
    if (frame == nullptr) {
      return false;
    }
    CW_ASSERT(frame->append(raw) == raw.size());
    if (rc::RcQp* qp = is_plain(to) ? nullptr : node.endpoint->predicting(frame->bytes(), port)) {
      CW_ASSERT(node.endpoint->take_predicted(now, *qp, std::span(&frame, 1)) == 1);
      return true;
    }
    const auto view = wire::PacketView::parse(frame->bytes());
    if (!view.ok() || !wire::verify_icrc(*view)) {
      ++node.bad_frames;
      release_buffers(frame);
      return false;
    }
    if (is_plain(to)) {
      const auto refusal = plain.refusal_of(*view, *node.endpoint, node.memory, node.head_pool);
      if (!refusal.empty()) {
        link.send(now, 1 - to, refusal);
        release_buffers(frame);
        return false;
      }
    }
    const bool took = node.endpoint->on_packet(now, *view, frame, port);
    if (!took) {
      release_buffers(frame);
    }
    return took;
  }
  [[nodiscard]] bool is_plain(uint32_t node) const { return node == 1 && options_.plain_peer; }

  // Everything that both endpoints want to send goes onto the link.
  void transmit() {
    for (uint32_t i = 0; i < 2; ++i) {
      wire::TxBatch batch(nodes[i]->head_pool);
      do {
        batch.clear();
        nodes[i]->endpoint->poll_transmit(now, batch);
        for (const wire::TxPacket& packet : batch.packets()) {
          const std::vector<uint8_t> frame = packet.raw();
          if (!is_plain(i) || plain.sends(frame)) {
            link.send(now, 1 - i, frame);
          }
        }
      } while (!batch.empty());
    }
  }

  // Sends what is due, then moves the clock to the next event and lets it happen. False when nothing will ever happen again.
  bool step() {
    transmit();
    const Instant next = next_event();
    if (next.is_never()) {
      return false;
    }
    now = next;
    while (!link.empty() && link.next_at() <= now) {
      const Frame frame = link.take();
      deliver(frame.to, frame.raw);
    }
    for (const auto& node : nodes) {
      node->endpoint->on_deadline(now);
    }
    return true;
  }
  // Steps until `done()`, the deadline or silence. True when done.
  template <typename Done>
  bool run(Done&& done, Duration at_most = Duration::seconds(30)) {
    const Instant end = now + at_most;
    while (!done()) {
      if (now > end || (!step() && !done() && !has_work())) {
        return false;
      }
    }
    return true;
  }
  void run_for(Duration duration) {
    const Instant end = now + duration;
    while (now < end) {
      transmit();
      if (next_event() > end) {
        now = end;
        return;
      }
      step();
    }
  }

  [[nodiscard]] bool has_work() const { return nodes[0]->endpoint->has_work() || nodes[1]->endpoint->has_work(); }

  Chain payload(uint32_t node, const std::vector<uint8_t>& raw) {
    Chain chain;
    CW_ASSERT(chain.append_copy(nodes[node]->payload_pool, raw));
    return chain;
  }
  Endpoint& endpoint(uint32_t node) { return *nodes[node]->endpoint; }
  const rc::RcStats& stats(uint32_t node) { return nodes[node]->endpoint->stats(); }

  // Ends both queue pairs; afterwards no buffer may be in use anywhere.
  void destroy() {
    for (uint32_t i = 0; i < 2; ++i) {
      if (qps[i] != nullptr) {
        nodes[i]->endpoint->destroy_qp(*qps[i]);
        qps[i] = nullptr;
      }
    }
  }
  [[nodiscard]] uint32_t buffers_in_use() const {
    uint32_t count = 0;
    for (const auto& node : nodes) {
      count += node->payload_pool.in_use() + node->head_pool.in_use();
    }
    return count;
  }

  // A deadline is a lower bound, so that asking again has to take a little time.
  [[nodiscard]] Instant next_event() const {
    Instant deadline = Instant::never();
    for (const auto& node : nodes) {
      deadline = earlier(deadline, node->endpoint->next_deadline());
    }
    if (!deadline.is_never()) {
      deadline = std::max(deadline, now + Duration::us(20));
    }
    return earlier(std::max(link.next_at(), now), deadline);
  }

  FaultyLink link;
  PlainPeer plain;
  std::array<std::unique_ptr<RcNode>, 2> nodes;
  std::array<rc::RcQp*, 2> qps{};
  Instant now = Instant::from_ns(1'000'000'000);

 private:
  RcPairOptions options_;
};

inline std::vector<uint8_t> random_bytes(uint64_t seed, size_t count) {
  SeededRandom random(seed);
  std::vector<uint8_t> raw(count);
  for (size_t i = 0; i < count; i += 8) {
    uint64_t word = random.next_u64();
    for (size_t k = i; k < std::min(count, i + 8); ++k) {
      raw[k] = static_cast<uint8_t>(word);
      word >>= 8;
    }
  }
  return raw;
}

inline std::vector<uint8_t> bytes_of(const Chain& chain) {
  std::vector<uint8_t> raw(chain.bytes());
  chain.copy_to(0, raw);
  return raw;
}

}  // namespace cw::sim
