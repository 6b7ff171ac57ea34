#include "apps/sim/hostile_peer.h"

#include <algorithm>
#include <array>
#include <utility>

#include "apps/sim/link/lies.h"
#include "apps/sim/link/timing.h"
#include "apps/sim/production.h"
#include "base/crc32c.h"
#include "control/cm/ip_cm.h"
#include "control/cm/wire/mad.h"
#include "control/cm/wire/req.h"
#include "iwarp/mpa/mpa_frame.h"
#include "iwarp/wire/ddp_header.h"
#include "iwarp/wire/fpdu.h"
#include "iwarp/wire/terminate.h"
#include "rocev2/wire/cnp.h"
#include "rocev2/wire/packet_builder.h"

namespace cw::sim {
namespace {

// What one hostile host can send, and be sent: enough to fill any pool many times over within a run, and a run stays cheap.
constexpr uint64_t kCableBitsPerSecond = 400'000'000;
constexpr uint32_t kCableQueueBytes = 1u << 20;
constexpr uint32_t kCableMarkBytes = 1u << 17;
constexpr uint32_t kBulkBytes = 64 * 1024;  // of calls that are neither small nor the longest
constexpr uint32_t kClientBuffers = 4096;
constexpr uint32_t kConnectionsOver = 4096;  // of one that never lets connections end in order
constexpr uint8_t kPatientAckTimeout = 20;   // 4.3 s: asks the gateway to wait long
constexpr uint8_t kHastyAckTimeout = 8;      // 1 ms: has given up soon, to come again
constexpr uint32_t kStrangers = 250;         // addresses in a network that nobody is in
constexpr uint32_t kStrangersNetwork = 0x0a09'0100;
constexpr uint64_t kTransaction = 77;
constexpr uint8_t kPatientCmCode = 20;  // 4.3 s
constexpr uint16_t kSourcePort = 0xc001;
constexpr uint64_t kHalfRequestBytes = 10;
constexpr uint16_t kLongestUlpduBytes = 0xfffe;
constexpr uint32_t kBegunFpduBytes = 60'000;  // of it
constexpr uint64_t kReadForSetUp = 100;       // the MPA Reply fits
constexpr uint64_t kWrittenForCalls = 600;    // the MPA Request and some calls with Read chunks
constexpr uint32_t kGarbageSize = 300;        // bytes

load::CallMix mix_of(const Hostile& hostile) {
  using load::CallKind;
  switch (hostile.kind) {
    case HostileKind::kBackendDead:
    case HostileKind::kBackendHung:
    case HostileKind::kBackendSlow:
      return load::CallMix({.kind = CallKind::kSink, .bytes = kBulkBytes});
    case HostileKind::kHugeCalls:
    case HostileKind::kNoReadAnswers:
    case HostileKind::kSlowReads:
      return load::CallMix({.kind = CallKind::kSink, .bytes = production_call_bytes()});
    case HostileKind::kCallSlots:
      return load::CallMix({.kind = CallKind::kSink, .bytes = kProductionInlineBytes + 4});
    case HostileKind::kGapHolders:
    case HostileKind::kNoDreqAnswer:
      return load::CallMix({.kind = CallKind::kEcho, .bytes = kProductionInlineBytes / 2});
    case HostileKind::kHugeReplies:
      return load::CallMix({.kind = CallKind::kSource, .bytes = production_reply_bytes()});
    case HostileKind::kConnectLoop:
    case HostileKind::kRefusedByBackend:
      return load::CallMix({.kind = CallKind::kEcho, .bytes = kBulkBytes / 4});
    case HostileKind::kForgedRivals:
      return load::CallMix({.kind = CallKind::kNull});
    case HostileKind::kBackendStops:
      return load::CallMix({.kind = CallKind::kSource, .bytes = kBulkBytes});
    case HostileKind::kGarbage:
      return load::CallMix({.kind = CallKind::kSource, .bytes = kProductionInlineBytes * 2});
    case HostileKind::kSilentReads:
    case HostileKind::kHugeIwarpCalls:
      return load::CallMix({.kind = CallKind::kSink, .bytes = production_call_bytes()});
    case HostileKind::kHugeIwarpReplies:
      return load::CallMix({.kind = CallKind::kSource, .bytes = production_reply_bytes()});
    default:
      return load::CallMix({.kind = CallKind::kSource, .bytes = kBulkBytes});
  }
}

// On the wire as an honest one would be: of an FPDU with a right CRC.
std::vector<uint8_t> terminate_fpdu() {
  iwarp::TerminateMessage message;
  message.cause = iwarp::TerminateCause::kOperationUnspecified;
  iwarp::UntaggedHeader header;
  header.control.last = true;
  header.control.opcode = iwarp::Opcode::kTerminate;
  header.queue = iwarp::QueueNumber::kTerminate;
  header.message = 1;
  std::array<uint8_t, iwarp::kUntaggedHeaderBytes + iwarp::kTerminateBytesMax> ulpdu{};
  iwarp::write(header, MutableBytes(ulpdu).first(iwarp::kUntaggedHeaderBytes));
  const uint32_t bytes =
      iwarp::kUntaggedHeaderBytes + iwarp::write(message, MutableBytes(ulpdu).subspan(iwarp::kUntaggedHeaderBytes));
  std::vector<uint8_t> out(iwarp::fpdu_bytes(bytes));
  store_be16(out.data(), static_cast<uint16_t>(bytes));
  std::copy_n(ulpdu.begin(), bytes, out.begin() + iwarp::kFpduLengthBytes);
  Crc32c crc;
  crc.add(Bytes(out).first(out.size() - iwarp::kFpduCrcBytes));
  iwarp::store_fpdu_crc(out.data() + out.size() - iwarp::kFpduCrcBytes, crc.value());
  return out;
}

// As a client of irdma asks, which says that it is ready by an empty WRITE.
std::vector<uint8_t> request_with_ready() {
  std::vector<uint8_t> out(iwarp::kMpaHeaderBytes + iwarp::IrdOrd::kBytes);
  iwarp::write(iwarp::MpaHeader{.crc = true, .enhanced = true, .private_data_bytes = iwarp::IrdOrd::kBytes}, out);
  iwarp::write(iwarp::IrdOrd{.peer_to_peer = true, .write = true, .ird = 8, .ord = 8},
               MutableBytes(out).subspan(iwarp::kMpaHeaderBytes));
  return out;
}

TcpLie lie_of(const Hostile& hostile, RandomSource& random) {
  switch (hostile.kind) {
    case HostileKind::kHalfRequests:
      return {.write_bytes_max = kHalfRequestBytes};
    case HostileKind::kHalfFpdus: {
      std::vector<uint8_t> begun(kBegunFpduBytes);
      store_be16(begun.data(), kLongestUlpduBytes);
      return {.honest_writes = 1, .instead = std::move(begun)};
    }
    case HostileKind::kClosedWindow:
      return {.read_bytes_max = kReadForSetUp};
    case HostileKind::kSilentReads:
      return {.write_bytes_max = kWrittenForCalls};
    case HostileKind::kTerminates:
      return {.honest_writes = 1, .instead = terminate_fpdu()};
    case HostileKind::kGarbageBytes: {
      std::vector<uint8_t> garbage(kGarbageSize);
      for (uint8_t& byte : garbage) {
        byte = static_cast<uint8_t>(random.next_u32());
      }
      garbage[0] = 0;  // a short FPDU, so that it is looked at
      return {.honest_writes = 1, .instead = std::move(garbage)};
    }
    default:
      return {};
  }
}

bool knocks(HostileKind kind) {
  return kind == HostileKind::kConnectFlood || kind == HostileKind::kNeverReady;
}

bool forges(HostileKind kind) {
  return kind == HostileKind::kForgedRequests || kind == HostileKind::kForgedRivals || kind == HostileKind::kForgedCnps;
}

WorldOptions options_of(const Scenario& scenario, const Hostile& hostile, TcpNet& tcp) {
  WorldOptions out = scenario.hosts;
  out.load.mix = mix_of(hostile);
  out.load.connections = hostile.connections;
  out.load.window = hostile.window;
  out.load.service_port = GatewayHost::kPort + (is_about_backend(hostile.kind) ? 1 : 0);
  out.load.reconnect = true;
  out.load.verify_every = 0;
  const bool churns = hostile.kind == HostileKind::kConnectLoop || hostile.kind == HostileKind::kRefusedByBackend;
  out.load.churn_per_second = churns ? hostile.amount : 0;
  out.connections_over = hostile.kind == HostileKind::kNoDreqAnswer ? kConnectionsOver : 0;
  out.load.seed = hostile.seed;
  out.packet_buffers = kClientBuffers;
  out.ack_timeout = hostile.kind == HostileKind::kNoDreqAnswer ? kHastyAckTimeout : kPatientAckTimeout;
  out.client_call_timeout = Duration::seconds(1'000'000);
  out.tcp = is_on_iwarp(hostile.kind) ? &tcp : nullptr;
  out.iwarp.handshake_timeout = Duration::seconds(1'000'000);
  out.iwarp.fpdu_timeout = Duration::seconds(1'000'000);
  return out;
}

Bottleneck::Options cable_options() {
  return {.bits_per_second = kCableBitsPerSecond, .queue_bytes = kCableQueueBytes, .mark_bytes = kCableMarkBytes};
}

std::vector<uint8_t> frame_of(const wire::Path& path, const wire::Bth& bth, const wire::Extensions& extensions, Bytes payload) {
  HeapBufferPool pool(1, 1024, 0);
  wire::TxBatch batch(pool);
  wire::TxPacket& packet = *batch.add();
  build_packet(packet, wire::PathHeader(path), 1, bth, extensions, payload);
  return packet.raw();
}

}  // namespace

HostilePeer::HostilePeer(const Scenario& scenario, const Hostile& hostile, uint8_t last, TcpNet& tcp, Instant start, Instant now)
    : scenario_(scenario),
      hostile_(hostile),
      last_(last),
      host_(options_of(scenario, hostile, tcp), hostile.seed, last),
      random_(hostile.seed),
      turns_(start + hostile.turns) {
  if (is_on_iwarp(hostile.kind)) {
    tcp.limit(last - 1u, kCableBitsPerSecond);
  }
  if (hostile.connections > 0) {
    host_.driver.start(now);
    host_.driver.begin(now);
  }
  if (forges(hostile.kind) || knocks(hostile.kind)) {
    next_frame_ = turns_;
  }
}

// A flood comes from addresses that nobody has; who asks for a connection has to have one.
void HostilePeer::knock() {
  const bool is_ours = hostile_.kind == HostileKind::kNeverReady;
  const bool ipv6 = scenario_.hosts.ipv6;
  const IpAddress from = is_ours ? sim_ip(ipv6, last_) : IpAddress::v4(kStrangersNetwork + 1 + forged_++ % kStrangers);
  host_.tcp->knock(from, sim_ip(ipv6, 1), GatewayHost::kPort, is_ours ? request_with_ready() : std::vector<uint8_t>());
}

void HostilePeer::turn_iwarp(Instant now) {
  if (turns_ <= now && !std::exchange(lies_, true)) {
    host_.tcp->begin_lie(lie_of(hostile_, random_));
  }
  for (; knocks(hostile_.kind) && next_frame_ <= now; next_frame_ = next_frame_ + Duration::seconds(1) / hostile_.amount) {
    knock();
  }
  host_.tcp->receive(now);
  (void)host_.driver.turn(now);
  host_.tcp->transmit(now);
}

void HostilePeer::turn(Instant now) {
  host_.node.on_deadline(now);
  if (host_.tcp) {
    turn_iwarp(now);
    return;
  }
  (void)host_.driver.turn(now);
  if (hostile_.kind == HostileKind::kForgedRivals && host_.driver.connected() == hostile_.connections) {
    host_.driver.stop();  // the connections are what it wants
  }
  if (hostile_.kind == HostileKind::kNoReceives && turns_ <= now) {
    host_.node.endpoint().for_each_qp([](rc::RcQp& qp) { qp.post_receives(0u - qp.info().receives_posted); });
  }
  if (hostile_.kind == HostileKind::kNoDreqAnswer && turns_ <= now) {
    host_.node.endpoint().for_each_qp([this](rc::RcQp& qp) { break_protocol(qp); });
  }
}

// The gateway exposes no memory: a WRITE is an invalid request, and ends the connection.
void HostilePeer::break_protocol(rc::RcQp& qp) {
  if (qp.state() == rc::QpState::kRts && broken_.insert(qp.local_qpn().value()).second) {
    (void)qp.post_write({});
  }
}

Instant HostilePeer::next_deadline() const {
  return earlier(host_.next_deadline(), next_frame_);
}

std::vector<std::vector<uint8_t>> HostilePeer::forge(Instant now, const rc::RcQpInfo* victim) {
  std::vector<std::vector<uint8_t>> out;
  if (host_.tcp) {
    return out;
  }
  for (; next_frame_ <= now; next_frame_ = next_frame_ + Duration::seconds(1) / hostile_.amount) {
    switch (hostile_.kind) {
      case HostileKind::kForgedRequests:
        out.push_back(forged_request(IpAddress::v4(kStrangersNetwork + 1 + forged_ % kStrangers), verbs::Qpn(0x100 + forged_)));
        break;
      case HostileKind::kForgedRivals:
        if (victim != nullptr) {
          out.push_back(forged_request(victim->path.local, victim->local_qpn));
        }
        break;
      default:
        if (victim != nullptr) {
          out.push_back(forged_cnp(*victim));
        }
        break;
    }
    ++forged_;
  }
  return out;
}

wire::Path HostilePeer::path_from(const IpAddress& from) const {
  wire::Path path;
  path.local_mac = sim_mac(last_);
  path.remote_mac = sim_mac(1);
  path.local = from;
  path.remote = sim_ip(scenario_.hosts.ipv6, 1);
  path.vlan = scenario_.hosts.vlan;
  path.udp_source_port = kSourcePort;
  return path;
}

std::vector<uint8_t> HostilePeer::forged_request(const IpAddress& from, verbs::Qpn qpn) {
  cm::Req req;
  req.local_comm_id = static_cast<uint32_t>(random_.next_u64());
  req.service = cm::ip_service_id(GatewayHost::kPort);
  req.local_qpn = qpn;
  req.responder_resources = 16;
  req.remote_response_code = kPatientCmCode;
  req.local_response_code = kPatientCmCode;
  req.starting_psn = wire::Psn(forged_);
  req.retry_count = 7;
  req.path_mtu = cm::path_mtu_for(scenario_.hosts.path_mtu);
  req.max_cm_retries = 15;
  req.primary.local_gid = from;
  req.primary.remote_gid = sim_ip(scenario_.hosts.ipv6, 1);
  req.primary.ack_timeout_code = kPatientAckTimeout;
  const cm::IpCmHeader header{.source_port = 1000, .source = from, .destination = req.primary.remote_gid};
  header.write(std::span<uint8_t, cm::kReqPrivateDataSize>(req.private_data).first<cm::IpCmHeader::kSize>());
  cm::Mad mad;
  cm::write_mad(mad, kTransaction, req);
  wire::Bth bth;
  bth.opcode = wire::Opcode::kUdSendOnly;
  bth.destination = verbs::Qpn(1);
  wire::Extensions extensions;
  extensions.deth = {.qkey = wire::kGsiQkey, .source = verbs::Qpn(1)};
  return frame_of(path_from(from), bth, extensions, mad);
}

// Blind: a sender that does not see the packets of others has to guess 24 bits.
std::vector<uint8_t> HostilePeer::forged_cnp(const rc::RcQpInfo& victim) {
  const verbs::Qpn blind(2 + random_.next_below((1u << 24) - 3));
  return frame_of(path_from(victim.path.local), wire::cnp_bth(blind), {}, wire::kCnpReserved);
}

std::unique_ptr<Link> hostile_cable(std::unique_ptr<Link> wire, const Hostile& hostile, Instant start) {
  const Window hostile_time{start + hostile.turns};
  std::unique_ptr<Link> cable = std::make_unique<Bottleneck>(std::move(wire), Window{}, hostile.seed, cable_options());
  switch (hostile.kind) {
    case HostileKind::kNoReadAnswers:
      return std::make_unique<Withhold>(std::move(cable), hostile_time, wire::OpcodeKind::kReadResponse, std::nullopt);
    case HostileKind::kNoAcks:
      return std::make_unique<Withhold>(std::move(cable), hostile_time, wire::OpcodeKind::kAcknowledge, std::nullopt);
    case HostileKind::kSlowAcks:
      return std::make_unique<Withhold>(std::move(cable), hostile_time, wire::OpcodeKind::kAcknowledge, hostile.time);
    case HostileKind::kSlowReads:
    case HostileKind::kCallSlots:
      return std::make_unique<Drip>(std::move(cable), Window{hostile_time.from, start + hostile.until}, hostile.time);
    case HostileKind::kGapHolders:
      return std::make_unique<LeaveOut>(std::move(cable), hostile_time);
    case HostileKind::kNoDreqAnswer:
      return std::make_unique<NoGoodbye>(std::move(cable), hostile_time);
    case HostileKind::kGarbage:
      return std::make_unique<Garble>(std::move(cable), hostile_time, hostile.seed, hostile.amount);
    default:
      return cable;
  }
}

std::unique_ptr<Link> cable_to_hostile(std::unique_ptr<Link> wire, const Hostile& hostile) {
  return std::make_unique<Bottleneck>(std::move(wire), Window{}, ~hostile.seed, cable_options());
}

}  // namespace cw::sim
