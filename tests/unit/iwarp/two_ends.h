// Two iWARP transports on one simulated TCP, each with a user who takes what comes: the client calls, the server accepts.
#pragma once

#include <gtest/gtest.h>

#include <deque>
#include <numeric>
#include <string>
#include <vector>

#include "base/heap_buffer_pool.h"
#include "iwarp/transport.h"
#include "tests/support/stream_net.h"
#include "verbs/memory_region.h"

namespace cw::iwarp::test {

using Kind = verbs::ConnectionEvent::Kind;
using cw::test::StreamNet;
using cw::test::StreamNetHost;

inline constexpr uint16_t kPort = 20049;
inline constexpr uint32_t kClientAddress = 0x0a00'0001;
inline constexpr uint32_t kServerAddress = 0x0a00'0002;

inline std::vector<uint8_t> pattern(size_t size, uint32_t seed = 1) {
  std::vector<uint8_t> bytes(size);
  for (size_t i = 0; i < size; ++i) {
    bytes[i] = static_cast<uint8_t>((i * 131 + i / 251 + size_t{seed} * 17) >> (seed % 3));
  }
  return bytes;
}

inline std::vector<uint8_t> bytes_of(const Chain& chain) {
  std::vector<uint8_t> bytes(chain.bytes());
  chain.copy_to(0, bytes);
  return bytes;
}

// One end with a user.
struct EndHost {
  struct Event {
    Kind kind;
    verbs::ConnectionId connection;
    std::vector<uint8_t> private_data;
    verbs::Rejection rejection;
    verbs::DisconnectCause cause;
    verbs::ReadDepths depths;
  };

  EndHost(StreamNet& net, uint32_t address, const IwarpOptions& options, bool with_memory, uint32_t buffers = 2048,
          uint32_t buffer_bytes = 2048)
      : pool(buffers, buffer_bytes, 4 * buffers),
        random(address),
        memory(64, random),
        host(net.add_host(address)),
        transport(options, host, pool, random, with_memory ? &memory : nullptr) {
    host.attach(transport);
  }
  ~EndHost() { completions.clear(); }
  EndHost(const EndHost&) = delete;
  EndHost& operator=(const EndHost&) = delete;

  [[nodiscard]] Chain chain(Bytes bytes) {
    Chain made;
    EXPECT_TRUE(made.append_copy(pool, bytes));
    return made;
  }

  // Acts on everything that is there.
  void turn(Instant now) {
    verbs::ConnectionEvent event;
    while (transport.poll_event(now, event)) {
      events.push_back({event.kind,
                        event.connection,
                        {event.private_data.begin(), event.private_data.end()},
                        event.rejection,
                        event.cause,
                        event.depths});
      if (event.kind == Kind::kConnectRequest) {
        requests.push_back(event.connection);
        if (refuse) {
          transport.reject(now, event.connection, *refuse, refusal_data);
          continue;
        }
        const auto accepted = transport.accept(now, event.connection, accept_options);
        if (accepted.ok()) {
          connection = event.connection;
          qp = accepted->queue_pair;
          qp->post_receives(receives);
        } else {
          transport.reject(now, event.connection, verbs::RejectReason::kNoResources, {});
        }
      } else if (event.kind == Kind::kConnectResponse) {
        qp = event.queue_pair;
        qp->post_receives(receives);
        transport.establish(now, event.connection);
      }
    }
    verbs::ReadyQueuePair ready;
    while (transport.poll_ready(ready)) {
      verbs::Completion completion;
      while (ready.queue_pair->poll_completion(completion)) {
        completions.push_back(std::move(completion));
      }
    }
  }
  [[nodiscard]] bool has_event(Kind kind) const {
    return std::ranges::any_of(events, [&](const Event& each) { return each.kind == kind; });
  }
  [[nodiscard]] bool was_disconnected_by(verbs::DisconnectCause cause) const {
    return std::ranges::any_of(events,
                               [&](const Event& each) { return each.kind == Kind::kDisconnected && each.cause == cause; });
  }
  [[nodiscard]] const StreamOptions& stream() const { return dynamic_stream().options(); }
  [[nodiscard]] const RdmapStream& dynamic_stream() const { return static_cast<const RdmapStream&>(*qp); }

  HeapBufferPool pool;
  SeededRandom random;
  verbs::MemoryTable memory;
  StreamNetHost& host;
  IwarpTransport transport;
  std::vector<Event> events;
  std::deque<verbs::Completion> completions;
  std::vector<verbs::ConnectionId> requests;
  std::optional<verbs::RejectReason> refuse;
  std::vector<uint8_t> refusal_data;
  verbs::ConnectionOptions accept_options{.receive_bytes_max = 4096};
  uint32_t receives = 8;
  verbs::ConnectionId connection;
  verbs::QueuePair* qp = nullptr;
};

struct TwoEnds {
  explicit TwoEnds(const IwarpOptions& client_options = {}, const IwarpOptions& server_options = {})
      : client(net, kClientAddress, client_options, true), server(net, kServerAddress, server_options, false) {
    EXPECT_TRUE(server.transport.listen(kPort).ok());
  }

  void run() {
    for (uint32_t idle = 0; idle < 2;) {
      const bool moved = net.turn();
      client.turn(net.now);
      server.turn(net.now);
      idle = moved ? 0 : idle + 1;
    }
  }
  void advance(Duration time) {
    net.advance(time);
    run();
  }
  void connect(Bytes private_data = {}) {
    const auto connected =
        client.transport.connect(net.now, IpAddress::v4(kServerAddress), kPort,
                                 {.context = 1, .receive_bytes_max = 4096, .private_data = private_data, .domain = kDomain});
    ASSERT_TRUE(connected.ok());
    client.connection = *connected;
    run();
  }
  // Everything is given back at the end.
  void expect_nothing_left() {
    client.completions.clear();
    server.completions.clear();
    for (EndHost* end : {&client, &server}) {
      end->transport.disconnect(net.now, end->connection);
      end->transport.destroy(end->connection);
    }
    run();
    advance(Duration::seconds(10));
    EXPECT_EQ(client.transport.live_count(), 0u);
    EXPECT_EQ(server.transport.live_count(), 0u);
    // The spare buffers are the transport's own.
    EXPECT_LE(client.pool.in_use(), SpareBuffers::kCount);
    EXPECT_LE(server.pool.in_use(), SpareBuffers::kCount);
  }

  static constexpr verbs::ProtectionDomain kDomain{7};
  StreamNet net;
  EndHost client;
  EndHost server;
};

}  // namespace cw::iwarp::test
