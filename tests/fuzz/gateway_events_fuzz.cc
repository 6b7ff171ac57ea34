// A gateway with one busy client against what a backend can make its workers say, over the whole life of connections: replies to
// calls in flight that are bent, truncated, sent twice or unknown, calls in reverse direction, connections that close in any
// state, and what comes late for connections that are gone. The client comes back meanwhile. In the end nothing is left.
//
// Input: records of [what][how][length][length bytes].
#include <algorithm>
#include <array>
#include <vector>

#include "apps/sim/world.h"
#include "tests/fuzz/fuzz_target.h"

namespace cw::sim {
namespace {

constexpr size_t kInputBytesMax = 256;
constexpr uint32_t kTimeUs = 2'000;  // of all steps together: time costs more than anything else

WorldOptions small_world() {
  WorldOptions options;
  options.load.operation = load::BenchProcedure::kEcho;
  options.load.bytes = 200;
  options.load.window = 2;
  options.load.inline_bytes = 1024;
  options.load.reconnect = true;
  options.path_mtu = 1024;
  options.credits = 4;
  options.packet_buffers = 128;
  options.large_buffers = 16;
  options.connections_max = 8;
  options.small_tables = true;
  options.views = 256;
  options.backend = gateway::BackendKind::kTcp;
  return options;
}

class Attack {
 public:
  Attack() : world_(small_world()) {
    // Calls that take their time are still in flight when something is said about them, and there are fewer of them to simulate.
    world_.server->backend.call_delay = Duration::us(200);
    world_.start();
    // Before there is a connection nothing that a worker says matters; how connections begin is seen when the client comes back.
    FUZZ_CHECK(world_.run_until(Duration::seconds(1),
                                [](World& world) { return world.server->gateway.stats().backends[0].calls_in_flight > 0; }));
  }
  void act(uint8_t what, uint8_t how, Bytes bytes) {
    SimBackend& backend = world_.server->backend;
    for (const gateway::LinkId link : backend.links()) {
      if (links_.empty() || links_.back() != link) {
        links_.push_back(link);
      }
    }
    switch (what % 8) {
      case 0:
        say(how, 1, bytes);
        break;
      case 1:
        say(how, 0, bytes);
        break;
      case 2:
        put(gateway::BackendEvent::Kind::kMessage, how, bytes);
        break;
      case 3:
        backend.close_all(world_.now);
        break;
      case 4:
        // The link is gone already for the gateway, or was closed by it.
        if (!links_.empty() && links_[how % links_.size()] != links_.back()) {
          put(gateway::BackendEvent::Kind::kClosed, how, {});
        }
        break;
      case 5:
        backend.silent_backends = how % 2;
        break;
      case 6:
        backend.refuses = how % 4 == 0;
        break;
      case 7:
        run_for(how < 0x80 ? 1u + how : (how - 0x7fu) * 16);  // up to 2 ms
        break;
    }
  }
  void finish() {
    SimBackend& backend = world_.server->backend;
    backend.silent_backends = 0;
    backend.refuses = false;
    world_.server->gateway.shut_down(world_.now);
    (void)world_.run_until(Duration::seconds(5), [](World& world) { return world.server->gateway.is_quiet(); });
    const gateway::GatewayStats& stats = world_.server->gateway.stats();
    FUZZ_CHECK(stats.connections_open == 0);
    FUZZ_CHECK(stats.backends[0].calls_in_flight == 0 && stats.backends[0].links == 0);
    FUZZ_CHECK(world_.server->source_ports.used_count() == 0);
  }

 private:
  // A message of the type (0: call) under the XID of the last call, or one near it.
  void say(uint8_t how, uint32_t type, Bytes bytes) {
    std::vector<uint8_t> message(8 + bytes.size());
    store_be32(message.data(), world_.server->backend.last_xid() - how % 4);
    store_be32(message.data() + 4, type);
    std::ranges::copy(bytes, message.begin() + 8);
    put(gateway::BackendEvent::Kind::kMessage, static_cast<uint8_t>(how >> 2), message);
  }
  void run_for(uint32_t us) {
    const uint32_t bounded = std::min(us, time_left_us_);
    time_left_us_ -= bounded;
    world_.run_for(Duration::us(bounded));
  }
  // To a link that there is or was: 0 is the last one.
  void put(gateway::BackendEvent::Kind kind, uint8_t which, Bytes bytes) {
    if (links_.empty()) {
      return;
    }
    gateway::BackendEvent event;
    event.kind = kind;
    event.link = links_[links_.size() - 1 - which % links_.size()];
    if (event.message.append_copy(world_.server->large, bytes)) {
      world_.server->gateway.on_backend_event(world_.now, std::move(event));
    }
  }

  World world_;
  uint32_t time_left_us_ = kTimeUs;
  std::vector<gateway::LinkId> links_;
};

}  // namespace
}  // namespace cw::sim

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  cw::sim::Attack attack;
  cw::Bytes rest(data, std::min(size, cw::sim::kInputBytesMax));
  while (rest.size() >= 3) {
    const size_t count = std::min<size_t>(rest[2], rest.size() - 3);
    attack.act(rest[0], rest[1], rest.subspan(3, count));
    rest = rest.subspan(3 + count);
  }
  attack.finish();
  return 0;
}
