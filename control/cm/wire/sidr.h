// SIDR_REQ and SIDR_REP, Service ID Resolution (IBA 12.11): for datagram services, of which we offer none; every request is
// refused.
//
//   SIDR_REQ   0  request id (4)   |  4  P_Key (2), reserved (2)   |  8  service id (8)   | 16  private data (216)
//
//   SIDR_REP   0  request id (4)   |  4  status   |  5  length of the additional information   |  6  reserved (2)
//              8  QPN (3), reserved                | 12  service id (8)   | 20  Q_Key (4)
//             24  additional information (72)      | 96  private data (136)
#pragma once

#include <array>
#include <cstdint>

#include "control/cm/service_id.h"
#include "control/cm/wire/byte_array.h"
#include "control/cm/wire/mad_header.h"
#include "verbs/ids.h"

namespace cw::cm {

// The codes we use; a peer's may lie outside.
enum class SidrStatus : uint8_t { kValid = 0, kUnsupportedService = 1, kRejected = 2, kNoQp = 3 };

struct SidrReq {
  static constexpr size_t kSize = kMessageSize;
  static constexpr MessageType kType = MessageType::kSidrReq;
  static constexpr size_t kPrivateDataSize = 216;

  uint32_t request_id = 0;
  uint16_t pkey = 0;
  ServiceId service;
  std::array<uint8_t, kPrivateDataSize> private_data{};

  [[nodiscard]] static constexpr Result<SidrReq> parse(Bytes bytes) {
    const auto reader = FixedReader<kSize>::from(bytes);
    if (!reader) {
      return fail(Error::kTruncated);
    }
    SidrReq request;
    request.request_id = reader->be32<0>();
    request.pkey = reader->be16<4>();
    request.service = ServiceId(reader->be64<8>());
    request.private_data = array_at<16, kPrivateDataSize>(*reader);
    return request;
  }

  constexpr void write(std::span<uint8_t, kSize> out) const {
    FixedWriter<kSize> writer(out);
    writer.be32<0>(request_id);
    writer.be16<4>(pkey);
    writer.be64<8>(service.value());
    put_array<16>(writer, private_data);
  }

  friend constexpr bool operator==(const SidrReq&, const SidrReq&) = default;
};

struct SidrRep {
  static constexpr size_t kSize = kMessageSize;
  static constexpr MessageType kType = MessageType::kSidrRep;
  static constexpr size_t kInformationSize = 72;
  static constexpr size_t kPrivateDataSize = 136;

  uint32_t request_id = 0;
  SidrStatus status = SidrStatus::kUnsupportedService;
  uint8_t information_bytes = 0;
  verbs::Qpn qpn;
  ServiceId service;
  uint32_t qkey = 0;
  std::array<uint8_t, kInformationSize> information{};
  std::array<uint8_t, kPrivateDataSize> private_data{};

  [[nodiscard]] static constexpr Result<SidrRep> parse(Bytes bytes) {
    const auto reader = FixedReader<kSize>::from(bytes);
    if (!reader) {
      return fail(Error::kTruncated);
    }
    SidrRep reply;
    reply.request_id = reader->be32<0>();
    reply.status = static_cast<SidrStatus>(reader->u8<4>());
    reply.information_bytes = reader->u8<5>();
    reply.qpn = verbs::Qpn(reader->be24<8>());
    reply.service = ServiceId(reader->be64<12>());
    reply.qkey = reader->be32<20>();
    reply.information = array_at<24, kInformationSize>(*reader);
    reply.private_data = array_at<96, kPrivateDataSize>(*reader);
    return reply;
  }

  constexpr void write(std::span<uint8_t, kSize> out) const {
    FixedWriter<kSize> writer(out);
    writer.be32<0>(request_id);
    writer.u8<4>(static_cast<uint8_t>(status));
    writer.u8<5>(information_bytes);
    writer.be24<8>(qpn.value());
    writer.be64<12>(service.value());
    writer.be32<20>(qkey);
    put_array<24>(writer, information);
    put_array<96>(writer, private_data);
  }

  friend constexpr bool operator==(const SidrRep&, const SidrRep&) = default;
};

}  // namespace cw::cm
