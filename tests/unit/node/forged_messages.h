// Messages of the connection manager in the name of strangers.
#pragma once

#include <cstdint>
#include <span>

#include "control/cm/ip_cm.h"
#include "control/cm/wire/req.h"
#include "tests/unit/node/attacked_world.h"

namespace cw::node::test {

inline cm::Req request_from(const IpAddress& from, uint32_t comm_id, verbs::Qpn qpn) {
  cm::Req req;
  req.local_comm_id = comm_id;
  req.service = cm::ip_service_id(20049);
  req.local_qpn = qpn;
  req.responder_resources = 16;
  req.remote_response_code = 20;
  req.local_response_code = 20;
  req.starting_psn = wire::Psn(comm_id);
  req.retry_count = 7;
  req.path_mtu = cm::PathMtu::k1024;
  req.max_cm_retries = 15;
  req.primary.local_gid = from;
  req.primary.remote_gid = sim::sim_ip(!from.is_v4(), 1);
  req.primary.ack_timeout_code = 14;
  const cm::IpCmHeader header{.source_port = 1000, .source = from, .destination = req.primary.remote_gid};
  header.write(std::span<uint8_t, cm::kReqPrivateDataSize>(req.private_data).first<cm::IpCmHeader::kSize>());
  return req;
}

template <typename Message>
ByteVector mad_of(const Message& message, uint64_t transaction = 77) {
  cm::Mad mad;
  cm::write_mad(mad, transaction, message);
  return ByteVector(mad.begin(), mad.end());
}

inline IpAddress stranger(uint32_t number) {
  return IpAddress::v4(0x0a09'0100 + number);
}

}  // namespace cw::node::test
