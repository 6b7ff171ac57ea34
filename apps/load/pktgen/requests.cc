#include "apps/load/pktgen/requests.h"

#include "apps/load/pktgen/packets.h"
#include "base/random.h"
#include "control/cm/ip_cm.h"

namespace cw::pktgen {
namespace {

constexpr uint16_t kFirstSourcePort = 49152;
constexpr uint32_t kSourcePorts = 16384;
constexpr uint32_t kFirstQpn = 0x10;  // above those with a meaning
constexpr uint16_t kFirstServicePort = 1024;

// The address `step` behind this one, within its last 32 bits.
IpAddress address_after(const IpAddress& base, uint32_t step) {
  IpAddress address = base;
  store_be32(address.raw.data() + 12, load_be32(base.raw.data() + 12) + step);
  return address;
}

}  // namespace

cm::Req request_from(const Target& target, uint32_t comm_id, verbs::Qpn qpn, wire::Psn psn) {
  cm::Req req;
  req.local_comm_id = comm_id;
  req.service = cm::ip_service_id(target.service_port);
  req.local_ca_guid = 0x0200'00ff'fe00'0000ULL | comm_id;
  req.local_qpn = qpn;
  req.responder_resources = 16;
  req.initiator_depth = 16;
  req.remote_response_code = 20;  // 4.3 s, what Linux says
  req.local_response_code = 20;
  req.starting_psn = psn;
  req.retry_count = 7;
  req.rnr_retry_count = 7;
  req.max_cm_retries = 15;
  req.path_mtu = cm::path_mtu_for(target.path_mtu_bytes);
  req.primary.local_lid = cm::RequestPath::kPermissiveLid;
  req.primary.remote_lid = cm::RequestPath::kPermissiveLid;
  req.primary.local_gid = target.path.local;
  req.primary.remote_gid = target.path.remote;
  req.primary.hop_limit = target.path.hop_limit;
  req.primary.ack_timeout_code = 14;
  const cm::IpCmHeader header{
      .source_port = static_cast<uint16_t>(kFirstServicePort + comm_id % (65536 - kFirstServicePort)),
      .source = target.path.local,
      .destination = target.path.remote,
  };
  header.write(std::span<uint8_t>(req.private_data).first<cm::IpCmHeader::kSize>());
  return req;
}

Profile make_requests(const Target& target, const RequestOptions& options) {
  Profile profile{.name = "requests", .kinds = {}, .frames = {}, .further_pass = {}, .remarks = {}};
  const std::vector<Count> counts = {{"causeway_cm_messages_total", {{"direction", "rx"}, {"type", "req"}}}};
  SeededRandom random(target.seed);
  const uint32_t first_comm_id = random.next_u32();
  PacketMaker maker;
  for (uint32_t i = 0; i < options.count; ++i) {
    Target from = target;
    from.path.local = address_after(target.path.local, i % options.sources);
    from.path.udp_source_port = static_cast<uint16_t>(kFirstSourcePort + i % kSourcePorts);
    const uint32_t comm_id = first_comm_id + i;
    const cm::Req req = request_from(from, comm_id, verbs::Qpn(kFirstQpn + i), wire::Psn(random.next_below(1u << 24)));
    add_frame(profile, "req", maker.datagram(from.path, mad_of(random.next_u64(), req)), counts);
  }
  profile.further_pass = {
      {"causeway_port_packets_total", {{"direction", "rx"}}, options.count},
      {"causeway_roce_packets_total", {{"direction", "rx"}}, options.count},
      {"causeway_cm_messages_total", {{"direction", "rx"}, {"type", "req"}}, options.count},
  };
  profile.remarks = {
      "What becomes of a REQ depends on [limits]: it is answered (causeway_cm_messages_total{direction=\"tx\"} rep or rej), "
      "or stands under one reason of causeway_cm_discards_total: request_rate, prefix_request_rate. "
      "In the first pass answers and discards add up to the REQs.",
      "Nobody sends the RTU: each REP is repeated three times (causeway_cm_retransmissions_total), "
      "and its connection counts under causeway_connections_total{result=\"no_answer\"} after 10 s, "
      "or under \"evicted\" as soon as more than half_open_max are half open. "
      "Meanwhile the same REQ of a later pass is a duplicate (causeway_cm_duplicates_total), answered by the same REP.",
  };
  return profile;
}

}  // namespace cw::pktgen
