// Two ends that live through the same, one with header prediction and one without: a queue pair each, and what of it shows.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "rocev2/rc/header_prediction.h"
#include "rocev2/wire/cnp.h"
#include "rocev2/wire/ethernet.h"
#include "rocev2/wire/ipv4.h"
#include "rocev2/wire/ipv6.h"
#include "tests/unit/rc/lone_qp.h"

namespace cw::rc::test {

inline constexpr uint32_t kFirstPsn = 5000;

using Frame = std::vector<uint8_t>;

// What the frames of a connection look like. Only the first kind is predicted, and gets prepared headers.
struct Look {
  bool ipv6 = false;
  uint16_t vlan = 0;
  bool is_common() const { return !ipv6 && vlan == 0; }
};
inline constexpr Look kCommon{};
inline constexpr Look kLooks[] = {kCommon, {.ipv6 = true}, {.vlan = 42}, {.ipv6 = true, .vlan = 42}};

inline wire::Path path_of(uint32_t node, const Look& look) {
  wire::Path path = sim::RcPair::path(node);
  path.vlan = look.vlan;
  if (look.ipv6) {
    for (IpAddress* address : {&path.local, &path.remote}) {
      std::array<uint8_t, 16> raw{0x20, 0x01, 0x0d, 0xb8};
      store_be32(raw.data() + 12, address->to_v4());
      *address = IpAddress{raw};
    }
  }
  return path;
}

// Where its IP header begins.
inline uint32_t ip_of(const Frame& frame) {
  const bool tagged = load_be16(frame.data() + 12) == wire::kEtherTypeVlan;
  return wire::Ethernet::kSize + (tagged ? uint32_t{wire::VlanTag::kSize} : 0);
}

// The checksum of an IPv4 header is right again.
inline void close_ip(uint8_t* ip) {
  store_be16(ip + 10, 0);
  const uint64_t sum = wire::ipv4_sum(std::span<const uint8_t, wire::Ipv4::kSize>(ip, wire::Ipv4::kSize));
  store_be16(ip + 10, static_cast<uint16_t>(~wire::fold_ones_complement(sum)));
}

// What a sender that means it does after a change: both sums are right again. Of what is IP still.
inline void close_frame(Frame& frame) {
  const uint32_t ip_at = frame.size() < HeaderPrediction::kFrameBytesMin ? 0 : ip_of(frame);
  const uint32_t version = frame.empty() ? 0 : frame[ip_at] >> 4;
  const size_t ip_bytes = version == 6 ? wire::Ipv6::kSize : wire::Ipv4::kSize;
  if (ip_at == 0 || (version != 4 && version != 6) || frame.size() < ip_at + ip_bytes + 8 + 12 + wire::kIcrcBytes) {
    return;
  }
  if (version == 4) {
    close_ip(frame.data() + ip_at);
  }
  const size_t end = frame.size() - wire::kIcrcBytes;
  store_le32(frame.data() + end, wire::Icrc(Bytes(frame).subspan(ip_at, end - ip_at)).value());
}

// The network has met congestion: Congestion Experienced, which the iCRC does not cover.
inline void mark(Frame& frame) {
  uint8_t* ip = frame.data() + ip_of(frame);
  if (ip[0] >> 4 == 6) {
    ip[1] |= 0x30;
  } else {
    ip[1] |= 3;
    close_ip(ip);
  }
}

inline LoneQpOptions options_of(bool predicts, bool recovers, const Look& look = kCommon) {
  LoneQpOptions options = client_options();
  options.qp.selective_recovery = recovers;
  options.qp.receive_bytes_max = 200;
  options.buffers = 512;
  options.endpoint.receive_work_max = 12;
  options.endpoint.ack_delay = kAckDelay;
  options.endpoint.express = predicts;
  options.path = path_of(0, look);
  return options;
}

// One of the two ends.
struct End : LoneQp {
  explicit End(bool predicts, bool recovers = true, const Look& look_of_frames = kCommon)
      : LoneQp(options_of(predicts, recovers, look_of_frames)), look(look_of_frames) {}
  explicit End(const LoneQpOptions& options) : LoneQp(options) {}

  // A burst, as node::Node::on_frames takes it. Says what became of each frame.
  std::vector<std::string> deliver(std::span<const Frame> raw, uint16_t port = 0) {
    std::vector<Buffer*> buffers(raw.size());
    EXPECT_TRUE(pool.allocate(buffers));
    for (size_t i = 0; i < raw.size(); ++i) {
      EXPECT_EQ(buffers[i]->append(raw[i]), raw[i].size());
    }
    std::vector<std::string> fates;
    while (fates.size() < buffers.size()) {
      const size_t at = fates.size();
      if (RcQp* who = endpoint->predicting(buffers[at]->bytes(), port)) {
        const uint32_t taken = endpoint->take_predicted(now, *who, std::span(buffers).subspan(at));
        predicted += taken;
        longest_row = std::max(longest_row, taken);
        fates.resize(at + taken, "taken");
      } else {
        fates.push_back(take(buffers[at], port));
      }
    }
    return fates;
  }
  std::string deliver(const Frame& raw, uint16_t port = 0) { return deliver(std::span(&raw, 1), port).front(); }
  std::string take(Buffer* frame, uint16_t port) {
    const auto view = wire::PacketView::parse(frame->bytes());
    const bool intact = view.ok() && wire::verify_icrc(*view);
    const bool took = intact && endpoint->on_packet(now, *view, frame, port);
    if (!took) {
      release_buffers(frame);
    }
    return took ? "taken" : !view.ok() ? std::string(wire::to_string(view.error())) : intact ? "not taken" : "iCRC";
  }
  Frame frame_of(const Inbound& inbound) {
    const wire::TxPacket packet = packet_of(inbound, static_cast<uint16_t>(inbound.psn));
    Frame frame = packet.raw();
    release_buffers(packet.head);
    return frame;
  }
  // A packet of the peer.
  Inbound of_peer(Opcode opcode, uint32_t psn, size_t bytes = 0) const {
    Inbound inbound = test::send(opcode, psn, bytes);
    inbound.path = path_of(1, look);
    return inbound;
  }
  void answer(uint32_t psn, uint8_t syndrome) {
    Inbound inbound = of_peer(Opcode::kRcAcknowledge, psn);
    inbound.extensions.aeth = wire::Aeth{syndrome, 0};
    receive(inbound);
  }
  void notify_of_congestion() {
    Inbound inbound = of_peer(Opcode::kCnp, 0);
    inbound.payload.assign(wire::kCnpReservedBytes, 0);
    receive(inbound);
  }
  Look look;
  uint32_t predicted = 0;
  uint32_t longest_row = 0;
};

// Everything that shows.
inline void expect_same(End& one, End& other) {
  EXPECT_EQ(one.completions(), other.completions());
  EXPECT_EQ(one.payloads, other.payloads);
  EXPECT_EQ(one.last_solicited, other.last_solicited);
  EXPECT_EQ(one.endpoint->next_deadline(), other.endpoint->next_deadline());
  EXPECT_EQ(one.endpoint->has_work(), other.endpoint->has_work());
  const RcStats& stats = one.endpoint->stats();
  EXPECT_EQ(std::memcmp(&stats, &other.endpoint->stats(), sizeof(stats)), 0);
  const QpCounters counters = one.qp->counters();
  const QpCounters others = other.qp->counters();
  EXPECT_EQ(std::memcmp(&counters, &others, sizeof(counters)), 0);
  const RcQpInfo info = one.qp->info();
  const RcQpInfo theirs = other.qp->info();
  EXPECT_EQ(info.state, theirs.state);
  EXPECT_EQ(info.expected_psn, theirs.expected_psn);
  EXPECT_EQ(info.msn, theirs.msn);
  EXPECT_EQ(info.gap, theirs.gap);
  EXPECT_EQ(info.rate_bytes_per_second, theirs.rate_bytes_per_second);
  EXPECT_EQ(info.receives_posted, theirs.receives_posted);
  EXPECT_EQ(one.endpoint->log().size(), other.endpoint->log().size());
}

inline void expect_same_sent(End& one, End& other) {
  EXPECT_EQ(one.sent(), other.sent());
  EXPECT_EQ(one.frames, other.frames);
}

}  // namespace cw::rc::test
