// REQ, ConnectRequest (IBA 12.6.5). Offsets within the 232 bytes behind the MAD header.
//
//    0  local communication id (4)        | 4  reserved (4)
//    8  service id (8)                    | 16 local CA GUID (8)
//   24  reserved (4)                      | 28 local Q_Key (4)
//   32  local QPN (3)                     | 35 responder resources
//   36  local EECN (3)                    | 39 initiator depth
//   40  remote EECN (3)                   | 43 remote CM response time-out (5 bits), transport service (2),
//                                         |    end-to-end flow control (1)
//   44  starting PSN (3)                  | 47 local CM response time-out (5), retry count (3)
//   48  P_Key (2)                         | 50 path MTU (4), RDC exists (1), RNR retry count (3)
//                                         | 51 max CM retries (4), SRQ (1), extended transport (3)
//   52  primary path (44)                 | 96 alternate path (44); bit 2 of its last byte: SAP supported
//  140  private data (92)
//
// "Local" is the sender. Responder resources: READs it takes; initiator depth: READs it will send. The starting PSN goes against
// the name's first reading: it is the PSN that the sender of this message expects to receive first.
#pragma once

#include <array>
#include <cstdint>

#include "control/cm/path_mtu.h"
#include "control/cm/private_data.h"
#include "control/cm/service_id.h"
#include "control/cm/wire/mad_header.h"
#include "control/cm/wire/request_path.h"
#include "rocev2/wire/psn.h"
#include "verbs/ids.h"

namespace cw::cm {

enum class TransportService : uint8_t { kReliableConnected = 0, kUnreliableConnected = 1, kReliableDatagram = 2, kExtended = 3 };

struct Req {
  static constexpr size_t kSize = kMessageSize;
  static constexpr MessageType kType = MessageType::kReq;

  uint32_t local_comm_id = 0;
  ServiceId service;
  uint64_t local_ca_guid = 0;
  uint32_t local_qkey = 0;
  verbs::Qpn local_qpn;
  uint8_t responder_resources = 0;
  uint32_t local_eecn = 0;  // 24 bits
  uint8_t initiator_depth = 0;
  uint32_t remote_eecn = 0;          // 24 bits
  uint8_t remote_response_code = 0;  // 5 bits: how fast the receiver's CM shall answer
  TransportService transport = TransportService::kReliableConnected;
  bool end_to_end_flow_control = false;
  wire::Psn starting_psn;           // what the sender expects to receive first: where the *recipient* starts to send (IBA 12.7)
  uint8_t local_response_code = 0;  // 5 bits: how fast the sender's CM will answer
  uint8_t retry_count = 0;          // 3 bits
  uint16_t pkey = 0xffff;
  PathMtu path_mtu = PathMtu::k256;  // 4 bits; may hold a value outside the enumeration
  bool rdc_exists = false;
  uint8_t rnr_retry_count = 0;  // 3 bits
  uint8_t max_cm_retries = 0;   // 4 bits
  bool shared_receive_queue = false;
  uint8_t extended_transport = 0;  // 3 bits
  RequestPath primary;
  RequestPath alternate;
  bool sap_supported = false;
  std::array<uint8_t, kReqPrivateDataSize> private_data{};

  [[nodiscard]] constexpr bool has_alternate() const { return alternate.local_lid != 0 || alternate.local_gid != IpAddress{}; }

  [[nodiscard]] static constexpr Result<Req> parse(Bytes bytes) {
    const auto reader = FixedReader<kSize>::from(bytes);
    if (!reader) {
      return fail(Error::kTruncated);
    }
    Req req;
    req.local_comm_id = reader->be32<0>();
    req.service = ServiceId(reader->be64<8>());
    req.local_ca_guid = reader->be64<16>();
    req.local_qkey = reader->be32<28>();
    req.local_qpn = verbs::Qpn(reader->be24<32>());
    req.responder_resources = reader->u8<35>();
    req.local_eecn = reader->be24<36>();
    req.initiator_depth = reader->u8<39>();
    req.remote_eecn = reader->be24<40>();
    req.remote_response_code = reader->u8<43>() >> 3;
    req.transport = static_cast<TransportService>((reader->u8<43>() >> 1) & 0x3);
    req.end_to_end_flow_control = (reader->u8<43>() & 1) != 0;
    req.starting_psn = wire::Psn(reader->be24<44>());
    req.local_response_code = reader->u8<47>() >> 3;
    req.retry_count = reader->u8<47>() & 0x7;
    req.pkey = reader->be16<48>();
    req.path_mtu = static_cast<PathMtu>(reader->u8<50>() >> 4);
    req.rdc_exists = (reader->u8<50>() & 0x08) != 0;
    req.rnr_retry_count = reader->u8<50>() & 0x7;
    req.max_cm_retries = reader->u8<51>() >> 4;
    req.shared_receive_queue = (reader->u8<51>() & 0x08) != 0;
    req.extended_transport = reader->u8<51>() & 0x7;
    req.primary = RequestPath::read(*FixedReader<RequestPath::kSize>::from(reader->raw<52, RequestPath::kSize>()));
    req.alternate = RequestPath::read(*FixedReader<RequestPath::kSize>::from(reader->raw<96, RequestPath::kSize>()));
    req.sap_supported = (reader->u8<139>() & 0x04) != 0;
    req.private_data = array_at<140, kReqPrivateDataSize>(*reader);
    return req;
  }

  constexpr void write(std::span<uint8_t, kSize> out) const {
    FixedWriter<kSize> writer(out);
    writer.be32<0>(local_comm_id);
    writer.be64<8>(service.value());
    writer.be64<16>(local_ca_guid);
    writer.be32<28>(local_qkey);
    writer.be24<32>(local_qpn.value());
    writer.u8<35>(responder_resources);
    writer.be24<36>(local_eecn);
    writer.u8<39>(initiator_depth);
    writer.be24<40>(remote_eecn);
    writer.u8<43>(static_cast<uint8_t>((remote_response_code << 3) | ((static_cast<uint8_t>(transport) & 0x3) << 1) |
                                       (end_to_end_flow_control ? 1 : 0)));
    writer.be24<44>(starting_psn.value());
    writer.u8<47>(static_cast<uint8_t>((local_response_code << 3) | (retry_count & 0x7)));
    writer.be16<48>(pkey);
    writer.u8<50>(
        static_cast<uint8_t>((static_cast<uint8_t>(path_mtu) << 4) | (rdc_exists ? 0x08 : 0) | (rnr_retry_count & 0x7)));
    writer.u8<51>(static_cast<uint8_t>((max_cm_retries << 4) | (shared_receive_queue ? 0x08 : 0) | (extended_transport & 0x7)));
    primary.write(out.subspan<52, RequestPath::kSize>());
    alternate.write(out.subspan<96, RequestPath::kSize>());
    out[139] = static_cast<uint8_t>(out[139] | (sap_supported ? 0x04 : 0));
    put_array<140>(writer, private_data);
  }

  friend constexpr bool operator==(const Req&, const Req&) = default;
};

}  // namespace cw::cm
