// A gateway and a client back to back in one thread, with nothing between them that allocates: the real stacks, gateway and load
// driver, on a wire that is a ring of Buffers. What the no-allocation test watches and the RPC bench measures.
//
//   client core: receive burst, driver, deadlines, transmit   ->  wire  ->   gateway core: the same      (one turn)
//
// The turn is the poll core's (dataplane/core_loop.cc). A frame in its own head is handed over as the Buffer that it was built
// in, as net_ring does; one with pieces, or in place, is gathered into a Buffer of the receiver, as a NIC's DMA would. The
// backend answers in the next turn.
#pragma once

#include <algorithm>
#include <array>
#include <cstring>

#include "apps/sim/world.h"
#include "base/ring.h"

namespace cw::bench {

// Stands for the workers and the server behind them: runs the bench program, remembers the answers in a ring made beforehand.
class RingBackend {
 public:
  explicit RingBackend(BufferPool& pool) : pool_(pool), events_(4096) { (void)programs_.add(bench_); }

  // Sees every call, and the reply to it.
  void (*tap)(void* context, const gateway::BackendRequest& request, const Chain& reply) = nullptr;
  void* tap_context = nullptr;

  void on_request(gateway::BackendRequest&& request) {
    gateway::BackendEvent event;
    event.link = request.link;
    event.backend = request.backend;
    event.call = request.call;
    switch (request.kind) {
      case gateway::BackendRequest::Kind::kOpen:
        event.kind = gateway::BackendEvent::Kind::kOpened;
        break;
      case gateway::BackendRequest::Kind::kClose:
        return;
      case gateway::BackendRequest::Kind::kSend:
      case gateway::BackendRequest::Kind::kRun:
        event.kind = request.kind == gateway::BackendRequest::Kind::kRun ? gateway::BackendEvent::Kind::kRan
                                                                         : gateway::BackendEvent::Kind::kMessage;
        CW_ASSERT(programs_.dispatch(rpcrdma::inspect_call(request.message), request.message, pool_, event.message));
        if (tap != nullptr) {
          tap(tap_context, request, event.message);
        }
        break;
    }
    CW_ASSERT(events_.push(std::move(event)));
  }
  [[nodiscard]] bool poll(gateway::BackendEvent& out) {
    if (events_.empty()) {
      return false;
    }
    out = events_.pop();
    return true;
  }

 private:
  BufferPool& pool_;
  rpcrdma::BenchProgram bench_;
  rpcrdma::ProgramRegistry programs_;
  Ring<gateway::BackendEvent> events_;
};

// One direction: as many frames as a device's ring of descriptors holds. The sender writes descriptors, and carry() does what the
// device would. That is nobody's half: whoever measures one of them calls it between the two.
class Wire {
 public:
  explicit Wire(BufferPool& receiver) : receiver_(receiver), sent_(kFramesMax), frames_(kFramesMax) {}
  ~Wire() { drop_all(); }
  Wire(const Wire&) = delete;
  Wire& operator=(const Wire&) = delete;

  // Sees every packet, and the frame that the receiver gets for it.
  void (*tap)(void* context, const wire::TxPacket& packet, const Buffer& frame) = nullptr;
  void* tap_context = nullptr;

  // Takes the head. What the pieces refer to has to stay as it is up to carry().
  void send(const wire::TxPacket& packet) {
    sent_[sent_count_++] = packet;
    CW_DASSERT(sent_count_ <= kFramesMax);
  }
  // There is room for a whole batch: the sender looks before it fills one.
  [[nodiscard]] bool has_room() const { return kFramesMax - (end_ - begin_) - sent_count_ >= wire::TxBatch::kCapacity; }
  void carry() {
    for (uint32_t i = 0; i < sent_count_; ++i) {
      const wire::TxPacket& packet = sent_[i];
      Buffer* frame = packet.piece_count > 0 ? gather(packet) : packet.head;
      if (tap != nullptr) {
        tap(tap_context, packet, *frame);
      }
      if (frame != packet.head) {
        release_buffers(packet.head);
      }
      frame->capacity_bytes = frame->size;  // as a driver hands it over
      frames_[end_++ % kFramesMax] = frame;
    }
    packets_ += sent_count_;
    sent_count_ = 0;
  }
  [[nodiscard]] Buffer* receive() { return begin_ == end_ ? nullptr : frames_[begin_++ % kFramesMax]; }
  void drop_all() {
    carry();
    while (Buffer* frame = receive()) {
      release_buffers(frame);
    }
  }
  // That were carried.
  [[nodiscard]] uint64_t packets() const { return packets_; }

 private:
  static constexpr uint32_t kFramesMax = 1024;

  [[nodiscard]] Buffer* gather(const wire::TxPacket& packet) {
    Buffer* frame = receiver_.allocate_one();
    CW_ASSERT(frame != nullptr);
    packet.for_each_run([frame](Bytes run) { CW_ASSERT(frame->append(run) == run.size()); });
    return frame;
  }

  BufferPool& receiver_;
  std::vector<wire::TxPacket> sent_;
  uint32_t sent_count_ = 0;
  std::vector<Buffer*> frames_;
  uint32_t begin_ = 0;  // both grow without end
  uint32_t end_ = 0;
  uint64_t packets_ = 0;
};

class RpcPair {
 public:
  static constexpr uint32_t kBurst = 32;  // frames per turn, as a port receives them

  explicit RpcPair(const sim::WorldOptions& options)
      : server(options, options.seed * 3 + 1),
        peer(options, options.seed * 3 + 2),
        backend(server.large),
        to_server(server.packets),
        to_client(peer.packets),
        server_batch_(server.packets),
        client_batch_(peer.packets) {
    peer.driver.start(now);
  }
  // Each side holds Buffers of the other's pool, and a pool looks whether all came back: so the calls in flight end first.
  ~RpcPair() {
    peer.driver.stop();
    for (uint32_t quiet_turns = 0, turns = 0; quiet_turns < 4 && turns < 1'000'000; ++turns) {
      const uint64_t packets = to_server.packets() + to_client.packets();
      now = now + Duration::us(1);
      turn();
      const bool quiet = peer.driver.in_flight() == 0 && packets == to_server.packets() + to_client.packets();
      quiet_turns = quiet ? quiet_turns + 1 : 0;
    }
    to_server.drop_all();
    to_client.drop_all();
  }

  sim::GatewayHost server;
  sim::ClientHost peer;
  RingBackend backend;
  Wire to_server;
  Wire to_client;
  Instant now = Instant::from_ns(1'000'000'000);

  // Neither is inlined: instructions.py tells them apart by their names.
  [[gnu::noinline]] void serve_client() {
    receive(peer.node, to_client);
    (void)peer.driver.turn(now);
    peer.node.on_deadline(now);
    transmit(peer.node, client_batch_, to_server);
  }
  [[gnu::noinline]] void serve_gateway() {
    receive(server.node, to_server);
    gateway::BackendEvent event;
    while (backend.poll(event)) {
      server.gateway.on_backend_event(now, std::move(event));
    }
    server.gateway.run(now);
    gateway::BackendRequest request;
    while (server.gateway.poll_backend_request(request)) {
      backend.on_request(std::move(request));
    }
    rpcrdma::CallDone done;
    while (server.gateway.poll_done(done)) {
    }
    server.node.on_deadline(now);
    transmit(server.node, server_batch_, to_client);
  }
  void turn() {
    serve_client();
    to_server.carry();
    serve_gateway();
    to_client.carry();
  }

  // With a clock of its own, one microsecond per turn. True when `calls` more have been answered rightly.
  [[nodiscard]] bool run_calls(uint64_t calls) {
    const uint64_t goal = peer.driver.stats().calls + calls;
    const uint64_t turns_max = 100'000 + 1'000 * calls;
    for (uint64_t turns = 0; peer.driver.stats().calls < goal; ++turns) {
      if (turns == turns_max) {
        return false;
      }
      now = now + Duration::us(1);
      turn();
    }
    return true;
  }
  // Answers that were not what they had to be, and calls that ended without one.
  [[nodiscard]] uint64_t failures() const {
    const load::LoadStats& stats = peer.driver.stats();
    uint64_t sum = stats.wrong + stats.lost + stats.refused;
    for (const uint64_t count : stats.failed) {
      sum += count;
    }
    return sum;
  }

 private:
  void receive(node::Node& node, Wire& from) {
    std::array<Buffer*, kBurst> frames;
    uint32_t count = 0;
    while (count < kBurst && (frames[count] = from.receive()) != nullptr) {
      ++count;
    }
    if (count == 0) {
      node.endpoint().flush_acknowledgements();
    }
    const size_t left = node.on_frames(now, std::span(frames).first(count), 0);
    for (size_t i = 0; i < left; ++i) {
      release_buffers(frames[i]);
    }
  }
  void transmit(node::Node& node, wire::TxBatch& batch, Wire& to) {
    for (bool full = true; full && to.has_room();) {
      node.poll_transmit(now, batch);
      full = batch.full();
      for (const wire::TxPacket& packet : batch.packets()) {
        to.send(packet);
      }
      batch.reset();
    }
  }

  wire::TxBatch server_batch_;
  wire::TxBatch client_batch_;
};

}  // namespace cw::bench
