// Frames against a whole gateway with one established connection. The world is the same for every input; the input says what is
// put into the gateway's port and when: raw frames, bent copies of what the client sends, packets forged for the queue pair,
// management datagrams. Whatever comes, tables stay consistent, and when all have gone nobody owns a buffer.
//
// Input: records of [selector][length][length bytes].
#include <algorithm>
#include <array>
#include <vector>

#include "apps/sim/world.h"
#include "rocev2/wire/icrc.h"
#include "rocev2/wire/ipv4.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/unit/wire/frames.h"

namespace cw::sim {
namespace {

using ByteVector = std::vector<uint8_t>;
constexpr size_t kInputBytesMax = 8192;

WorldOptions small_world() {
  WorldOptions options;
  options.load.operation = load::BenchProcedure::kEcho;
  options.load.bytes = 3000;
  options.load.window = 2;
  options.load.inline_bytes = 1024;
  options.path_mtu = 1024;
  options.credits = 4;
  options.packet_buffers = 512;
  options.large_buffers = 16;
  options.connections_max = 8;
  options.small_tables = true;  // set-up is most of what an input costs
  return options;
}

class Attack {
 public:
  Attack() : world_(small_world()) {
    world_.link.tap = [](void* context, Instant, uint32_t to, const ByteVector& raw) {
      if (to == 0) {
        static_cast<Attack*>(context)->heard_ = raw;
      }
      return true;
    };
    world_.link.tap_context = this;
    world_.start();
    FUZZ_CHECK(world_.run_calls(3));
  }

  void act(uint8_t selector, Bytes raw) {
    switch (selector % 8) {
      case 0:
        put(ByteVector(raw.begin(), raw.end()));
        break;
      case 1:
        put(bent(raw));
        break;
      case 2:
        put(repaired(bent(raw)));
        break;
      case 3:
        put(ByteVector(heard_.begin(), heard_.begin() + static_cast<ptrdiff_t>(std::min(heard_.size(), raw.size()))));
        break;
      case 4:
        put(forged(raw));
        break;
      case 5:
        put(datagram(raw, {}));
        break;
      case 6:
        put(datagram(raw, ByteVector{1, 7, 2, 3}));  // a header of the CM class; the attribute is left to the input
        break;
      case 7:
        for (size_t i = 0; i < raw.size(); ++i) {
          world_.step();
        }
        break;
    }
  }

  void end() {
    check();
    world_.peer->driver.stop();
    for (uint32_t id = 0; id < 8; ++id) {
      world_.peer->client.disconnect(world_.now, client::ClientId(id));
    }
    GatewayHost& host = *world_.server;
    const bool quiet = world_.run_until(Duration::seconds(120), [](World& world) {
      return world.server->gateway.stats().connections_open == 0 && world.server->node.endpoint().qp_count() == 0 &&
             world.server->node.cm().live_count() == 0 && world.link.empty();
    });
    FUZZ_CHECK(quiet);
    check();
    FUZZ_CHECK(host.packets.in_use() == 0);
    FUZZ_CHECK(host.large.in_use() == 0);
    FUZZ_CHECK(host.gateway.rpcrdma_stats().credits_in_use == 0);
  }

 private:
  void put(const ByteVector& frame) { world_.deliver(world_.server->node, world_.server->packets, frame); }

  void check() {
    FUZZ_CHECK(world_.server->node.cm().is_consistent());
    FUZZ_CHECK(world_.peer->node.cm().is_consistent());
    world_.server->node.endpoint().for_each_qp([](rc::RcQp& qp) { FUZZ_CHECK(qp.is_consistent()); });
    world_.peer->node.endpoint().for_each_qp([](rc::RcQp& qp) { FUZZ_CHECK(qp.is_consistent()); });
  }
  // Triples of position (two bytes) and what to set there.
  [[nodiscard]] ByteVector bent(Bytes changes) const {
    ByteVector frame = heard_;
    for (; changes.size() >= 3; changes = changes.subspan(3)) {
      frame[load_be16(changes.data()) % frame.size()] = changes[2];
    }
    return frame;
  }
  [[nodiscard]] static ByteVector repaired(ByteVector frame) {
    constexpr size_t kIp = 14;
    if (frame.size() >= kIp + 20 + 8 + 12 + 4) {
      store_be16(&frame[kIp + 10], 0);
      const uint64_t sum = wire::ipv4_sum(std::span<const uint8_t, 20>(&frame[kIp], 20));
      store_be16(&frame[kIp + 10], static_cast<uint16_t>(~wire::fold_ones_complement(sum)));
      const size_t end = frame.size() - 4;
      store_le32(&frame[end], wire::Icrc(Bytes(frame).subspan(kIp, end - kIp)).value());
    }
    return frame;
  }
  // From the peer's address to the queue pair: opcode, signed distance of the PSN (two bytes), AETH syndrome, payload in words.
  [[nodiscard]] ByteVector forged(Bytes raw) const {
    std::array<uint8_t, 8> input{};
    std::copy_n(raw.begin(), std::min(raw.size(), input.size()), input.begin());
    rc::RcQpInfo qp;
    world_.server->node.endpoint().for_each_qp([&qp](rc::RcQp& live) { qp = live.info(); });
    wire::Path path = qp.path;
    std::swap(path.local_mac, path.remote_mac);
    std::swap(path.local, path.remote);
    const auto opcode = static_cast<wire::Opcode>(input[0]);
    const wire::OpcodeTraits& traits = wire::traits_of(opcode);
    if (qp.state == rc::QpState::kReset || traits.kind == wire::OpcodeKind::kReserved) {
      return {};
    }
    const auto distance = static_cast<uint32_t>(static_cast<int16_t>(load_be16(&input[1])));
    wire::Bth bth;
    bth.opcode = opcode;
    bth.destination = qp.local_qpn;
    bth.psn = (traits.is_request ? qp.expected_psn : qp.una).plus(distance);
    bth.ack_request = true;
    wire::Extensions extensions;
    extensions.aeth.syndrome = input[3];
    extensions.reth.length = load_be16(&input[6]);
    const size_t payload = traits.may_carry_payload ? load_be16(&input[4]) % 1025u : 0u;
    return wire::test::build_frame(path, bth, extensions, ByteVector(payload, 0x5a));
  }
  [[nodiscard]] static ByteVector datagram(Bytes raw, const ByteVector& header) {
    wire::Path path;
    path.local_mac = sim_mac(2);
    path.remote_mac = sim_mac(1);
    path.local = sim_ip(false, 2);
    path.remote = sim_ip(false, 1);
    ByteVector mad(raw.begin(), raw.end());
    mad.resize(256);
    std::copy(header.begin(), header.end(), mad.begin());
    wire::Bth bth;
    bth.opcode = wire::Opcode::kUdSendOnly;
    bth.destination = verbs::Qpn(1);
    wire::Extensions extensions;
    extensions.deth = {.qkey = wire::kGsiQkey, .source = verbs::Qpn(1)};
    return wire::test::build_frame(path, bth, extensions, mad);
  }

  World world_;
  ByteVector heard_;  // last frame of the client
};

}  // namespace
}  // namespace cw::sim

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > cw::sim::kInputBytesMax) {
    return 0;
  }
  cw::sim::Attack attack;
  for (cw::Bytes input(data, size); input.size() >= 2;) {
    const size_t length = std::min<size_t>(input[1], input.size() - 2);
    attack.act(input[0], input.subspan(2, length));
    input = input.subspan(2 + length);
  }
  attack.end();
  return 0;
}
