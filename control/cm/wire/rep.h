// REP, ConnectReply (IBA 12.6.8).
//
//    0  local communication id (4)   |  4  remote communication id (4)
//    8  local Q_Key (4)              | 12  local QPN (3), reserved
//   16  local EECN (3), reserved     | 20  starting PSN (3), reserved
//   24  responder resources          | 25  initiator depth
//   26  target ACK delay (5), failover accepted (2), end-to-end flow control (1)
//   27  RNR retry count (3), SRQ (1), reserved (4)
//   28  local CA GUID (8)            | 36  private data (196)
#pragma once

#include <array>
#include <cstdint>

#include "control/cm/private_data.h"
#include "control/cm/wire/byte_array.h"
#include "control/cm/wire/mad_header.h"
#include "rocev2/wire/psn.h"
#include "verbs/ids.h"

namespace cw::cm {

// What became of the alternate path that the REQ offered.
enum class Failover : uint8_t { kAccepted = 0, kUnsupported = 1, kRejected = 2 };

struct Rep {
  static constexpr size_t kSize = kMessageSize;
  static constexpr MessageType kType = MessageType::kRep;

  uint32_t local_comm_id = 0;
  uint32_t remote_comm_id = 0;
  uint32_t local_qkey = 0;
  verbs::Qpn local_qpn;
  uint32_t local_eecn = 0;
  wire::Psn starting_psn;  // what the sender expects to receive first: where the *recipient* starts to send (IBA 12.7)
  uint8_t responder_resources = 0;
  uint8_t initiator_depth = 0;
  uint8_t target_ack_delay_code = 0;  // 5 bits
  Failover failover = Failover::kAccepted;
  bool end_to_end_flow_control = false;
  uint8_t rnr_retry_count = 0;  // 3 bits
  bool shared_receive_queue = false;
  uint64_t local_ca_guid = 0;
  std::array<uint8_t, kRepPrivateDataSize> private_data{};

  [[nodiscard]] static constexpr Result<Rep> parse(Bytes bytes) {
    const auto reader = FixedReader<kSize>::from(bytes);
    if (!reader) {
      return fail(Error::kTruncated);
    }
    Rep rep;
    rep.local_comm_id = reader->be32<0>();
    rep.remote_comm_id = reader->be32<4>();
    rep.local_qkey = reader->be32<8>();
    rep.local_qpn = verbs::Qpn(reader->be24<12>());
    rep.local_eecn = reader->be24<16>();
    rep.starting_psn = wire::Psn(reader->be24<20>());
    rep.responder_resources = reader->u8<24>();
    rep.initiator_depth = reader->u8<25>();
    rep.target_ack_delay_code = reader->u8<26>() >> 3;
    rep.failover = static_cast<Failover>((reader->u8<26>() >> 1) & 0x3);
    rep.end_to_end_flow_control = (reader->u8<26>() & 1) != 0;
    rep.rnr_retry_count = reader->u8<27>() >> 5;
    rep.shared_receive_queue = (reader->u8<27>() & 0x10) != 0;
    rep.local_ca_guid = reader->be64<28>();
    rep.private_data = array_at<36, kRepPrivateDataSize>(*reader);
    return rep;
  }

  constexpr void write(std::span<uint8_t, kSize> out) const {
    FixedWriter<kSize> writer(out);
    writer.be32<0>(local_comm_id);
    writer.be32<4>(remote_comm_id);
    writer.be32<8>(local_qkey);
    writer.be24<12>(local_qpn.value());
    writer.be24<16>(local_eecn);
    writer.be24<20>(starting_psn.value());
    writer.u8<24>(responder_resources);
    writer.u8<25>(initiator_depth);
    writer.u8<26>(static_cast<uint8_t>((target_ack_delay_code << 3) | ((static_cast<uint8_t>(failover) & 0x3) << 1) |
                                       (end_to_end_flow_control ? 1 : 0)));
    writer.u8<27>(static_cast<uint8_t>((rnr_retry_count << 5) | (shared_receive_queue ? 0x10 : 0)));
    writer.be64<28>(local_ca_guid);
    put_array<36>(writer, private_data);
  }

  friend constexpr bool operator==(const Rep&, const Rep&) = default;
};

}  // namespace cw::cm
