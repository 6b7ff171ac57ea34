// Received payload is handed on in the storage that the frame came in, and a large reply leaves from the storage that the backend
// filled: proved by addresses.
#include <gtest/gtest.h>

#include <vector>

#include "tests/bench/rpc_pair.h"

namespace cw::bench {
namespace {

using load::BenchProcedure;

// Storage seen so far. Buffers come back to their pools and are used again: the latest users of an address are enough.
class Storage {
 public:
  void add(Bytes raw) { runs_.push_back(raw); }
  void add(const Chain& chain) {
    for (const Buffer* at = chain.head(); at != nullptr; at = at->next) {
      add(at->bytes());
    }
  }
  [[nodiscard]] bool contains(Bytes raw) const {
    return std::any_of(runs_.rbegin(), runs_.rend(),
                       [&](Bytes run) { return raw.data() >= run.data() && raw.data() + raw.size() <= run.data() + run.size(); });
  }

 private:
  std::vector<Bytes> runs_;
};

// Bytes of payload that were found where they belong, and elsewhere.
struct Found {
  uint64_t in_place = 0;
  uint64_t elsewhere = 0;
  void count(const Storage& storage, Bytes raw) { (storage.contains(raw) ? in_place : elsewhere) += raw.size(); }
};

struct Watch {
  RpcPair& pair;
  Storage received;          // frames that reached the gateway
  Storage replies;           // what the backend wrote
  Found calls;               // of what the backend was given, in `received`
  Found sent;                // of what went out attached, in `replies`
  uint64_t sent_copied = 0;  // payload in frames without attached pieces

  explicit Watch(RpcPair& watched) : pair(watched) {
    pair.to_server.tap = [](void* context, const wire::TxPacket&, const Buffer& frame) {
      static_cast<Watch*>(context)->received.add(frame.bytes());
    };
    pair.to_server.tap_context = this;
    pair.to_client.tap = [](void* context, const wire::TxPacket& packet, const Buffer&) {
      static_cast<Watch*>(context)->on_packet(packet);
    };
    pair.to_client.tap_context = this;
    pair.backend.tap = [](void* context, const gateway::BackendRequest& request, const Chain& reply) {
      static_cast<Watch*>(context)->on_call(request, reply);
    };
    pair.backend.tap_context = this;
  }
  // The pair lives on for a while: its last calls end when it does.
  ~Watch() {
    pair.to_server.tap = nullptr;
    pair.to_client.tap = nullptr;
    pair.backend.tap = nullptr;
  }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

 private:
  void on_packet(const wire::TxPacket& packet) {
    if (packet.is_in_place()) {
      // A message of one packet: a short reply was copied into it.
      const auto view = wire::PacketView::parse({packet.pieces[0].data, packet.pieces[0].size});
      (replies.contains(view->payload) ? sent.in_place : sent_copied) += view->payload.size();
      return;
    }
    for (uint32_t i = 0; i < packet.piece_count; ++i) {
      sent.count(replies, {packet.pieces[i].data, packet.pieces[i].size});
    }
    if (packet.piece_count == 0) {
      const auto view = wire::PacketView::parse(packet.head->bytes());
      const bool connected = view.ok() && view->traits->kind != wire::OpcodeKind::kDatagram;  // else ARP, CM
      sent_copied += connected ? view->payload.size() : 0;
    }
  }
  void on_call(const gateway::BackendRequest& request, const Chain& reply) {
    for (const Buffer* at = request.message.head(); at != nullptr; at = at->next) {
      calls.count(received, at->bytes());
    }
    replies.add(reply);
  }
};

sim::WorldOptions options_of(BenchProcedure operation, uint32_t bytes) {
  sim::WorldOptions options;
  options.path_mtu = 1024;
  options.backend = gateway::BackendKind::kTcp;
  options.load.operation = operation;
  options.load.bytes = bytes;
  options.load.window = 2;
  return options;
}

constexpr uint32_t kCalls = 20;

// Watches `kCalls` calls and those that are in flight by then.
void run(RpcPair& pair) {
  ASSERT_TRUE(pair.run_calls(kCalls));
  ASSERT_EQ(pair.failures(), 0u);
}

TEST(NoCopy, InlineCallReachesTheBackendInTheFramesThatBroughtIt) {
  constexpr uint32_t kBytes = 3000;  // three packets of a SEND
  RpcPair pair(options_of(BenchProcedure::kEcho, kBytes));
  Watch watch(pair);
  run(pair);
  EXPECT_GE(watch.calls.in_place, uint64_t{kCalls} * kBytes);
  EXPECT_EQ(watch.calls.elsewhere, 0u);
}

// Proves RPCRDMA-2.3.1-1.
TEST(NoCopy, ReadChunkReachesTheBackendInTheFramesThatBroughtIt) {
  constexpr uint32_t kBytes = 65'536;
  RpcPair pair(options_of(BenchProcedure::kSink, kBytes));
  Watch watch(pair);
  run(pair);
  EXPECT_GE(watch.calls.in_place, uint64_t{kCalls} * kBytes);
  EXPECT_EQ(watch.calls.elsewhere, 0u);
}

TEST(NoCopy, OnlyTheRoundupOfAReadChunkIsNew) {
  constexpr uint32_t kBytes = 65'537;
  RpcPair pair(options_of(BenchProcedure::kSink, kBytes));
  Watch watch(pair);
  run(pair);
  EXPECT_GE(watch.calls.in_place, uint64_t{kCalls} * kBytes);
  EXPECT_LE(watch.calls.elsewhere, uint64_t{3} * (kCalls + 2));
}

// Proves RPCRDMA-2.3.1-1.
TEST(NoCopy, WriteChunkLeavesFromWhereTheBackendWroteIt) {
  constexpr uint32_t kBytes = 65'536;
  RpcPair pair(options_of(BenchProcedure::kSource, kBytes));
  Watch watch(pair);
  run(pair);
  EXPECT_GE(watch.sent.in_place, uint64_t{kCalls} * kBytes);
  EXPECT_EQ(watch.sent.elsewhere, 0u);
  // Headers and what is left of the reply without its data.
  EXPECT_LE(watch.sent_copied, uint64_t{kCalls + 2} * 256);
}

TEST(NoCopy, InlineReplyLeavesFromWhereTheBackendWroteIt) {
  constexpr uint32_t kBytes = 3000;
  RpcPair pair(options_of(BenchProcedure::kEcho, kBytes));
  Watch watch(pair);
  run(pair);
  // The transport header goes in front, into the reply's own Buffer or one of its own that is attached like what follows it.
  EXPECT_GE(watch.sent.in_place, uint64_t{kCalls} * (kBytes - 1024));
  EXPECT_LE(watch.sent.elsewhere, uint64_t{kCalls + 2} * 64);
}

TEST(NoCopy, EchoOfALargeArgumentSharesTheFramesThatBroughtIt) {
  constexpr uint32_t kBytes = 65'536;
  RpcPair pair(options_of(BenchProcedure::kEcho, kBytes));
  Watch watch(pair);
  run(pair);
  EXPECT_GE(watch.calls.in_place, uint64_t{kCalls} * kBytes);
  EXPECT_EQ(watch.calls.elsewhere, 0u);
  EXPECT_GE(watch.sent.in_place, uint64_t{kCalls} * kBytes);
  EXPECT_EQ(watch.sent.elsewhere, 0u);
}

}  // namespace
}  // namespace cw::bench
