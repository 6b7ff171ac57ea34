// Connection private data of RPC-over-RDMA (RFC 8797, section 4): what each side says about itself while the connection is set
// up.
//
//    0                   1                   2                   3
//   +---------------------------------------------------------------+
//   |                 Format Identifier  0xf6ab0e18                 |
//   +---------------+-------------+-+---------------+---------------+
//   |   Version 1   |  reserved   |R|   Send Size   | Receive Size  |
//   +---------------+-------------+-+---------------+---------------+
//
// Sizes are bytes / 1024 - 1. The message may stand anywhere in the transport's private data, at any alignment (section 5.2);
// ours is sent at its beginning, because some peers look nowhere else. A peer that sends none, or one we cannot read, counts as
// one that said 1024, 1024 and R = 0: that is never a reason to refuse it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/bytes.h"
#include "base/result.h"

namespace cw::rpcrdma {

inline constexpr uint32_t kPrivateDataFormat = 0xf6ab'0e18;
inline constexpr uint8_t kPrivateDataVersion = 1;
inline constexpr uint32_t kInlineSizeMin = 1024;
inline constexpr uint32_t kInlineSizeMax = 262'144;

// Byte for a buffer of `bytes`: rounded down, so that never more is advertised than there is (CMPD-4.2-5), and capped
// at 262144 (CMPD-4.2-7). kBadValue: below 1024, which no version-1 peer may have.
[[nodiscard]] constexpr Result<uint8_t> encode_inline_size(uint32_t bytes) {
  if (bytes < kInlineSizeMin) {
    return fail(Error::kBadValue);
  }
  const uint32_t capped = bytes > kInlineSizeMax ? kInlineSizeMax : bytes;
  return static_cast<uint8_t>(capped / 1024 - 1);
}
[[nodiscard]] constexpr uint32_t decode_inline_size(uint8_t byte) {
  return (uint32_t{byte} + 1) * 1024;
}

struct PrivateData {
  static constexpr size_t kSize = 8;

  uint32_t send_bytes = kInlineSizeMin;     // the largest Send its sender will transmit
  uint32_t receive_bytes = kInlineSizeMin;  // the largest message its sender can take in one Receive
  bool remote_invalidation = false;         // R: its sender supports Send with Invalidate (both sides have to)

  // The message at the very beginning of `bytes`. Bytes behind it and reserved bits are ignored (CMPD-6-2). kTruncated: fewer
  // than 8 bytes. kBadValue: not the identifier. kUnsupported: another version.
  [[nodiscard]] static constexpr Result<PrivateData> parse(Bytes bytes) {
    const auto reader = FixedReader<kSize>::from(bytes);
    if (!reader) {
      return fail(Error::kTruncated);
    }
    if (reader->be32<0>() != kPrivateDataFormat) {
      return fail(Error::kBadValue);
    }
    if (reader->u8<4>() != kPrivateDataVersion) {
      return fail(Error::kUnsupported);
    }
    PrivateData data;
    data.remote_invalidation = (reader->u8<5>() & 1) != 0;
    data.send_bytes = decode_inline_size(reader->u8<6>());
    data.receive_bytes = decode_inline_size(reader->u8<7>());
    return data;
  }

  // Looks for a message through all of a transport's private data. A match that fails validation does not hide a later one
  // (CMPD-5.2-9). nullopt: there is none.
  [[nodiscard]] static constexpr std::optional<PrivateData> find(Bytes private_data) {
    for (size_t at = 0; at + kSize <= private_data.size(); ++at) {
      const auto parsed = parse(private_data.subspan(at));
      if (parsed.ok()) {
        return parsed.value();
      }
    }
    return std::nullopt;
  }

  // What the peer is to be treated as: its message, or the defaults of section 5.1 if it sent none.
  [[nodiscard]] static constexpr PrivateData of_peer(Bytes private_data) { return find(private_data).value_or(PrivateData{}); }

  // kBadValue: a size below 1024. Nothing is written then.
  [[nodiscard]] constexpr Status write(std::span<uint8_t, kSize> out) const {
    const auto send = encode_inline_size(send_bytes);
    const auto receive = encode_inline_size(receive_bytes);
    if (!send.ok() || !receive.ok()) {
      return fail(Error::kBadValue);
    }
    FixedWriter<kSize> writer(out);
    writer.be32<0>(kPrivateDataFormat);
    writer.u8<4>(kPrivateDataVersion);
    writer.u8<5>(remote_invalidation ? 1 : 0);
    writer.u8<6>(*send);
    writer.u8<7>(*receive);
    return {};
  }

  friend constexpr bool operator==(const PrivateData&, const PrivateData&) = default;
};

// As it is sent.
struct ConnectBytes {
  std::array<uint8_t, PrivateData::kSize> raw{};
  uint32_t size = 0;
  [[nodiscard]] constexpr Bytes bytes() const { return Bytes(raw).first(size); }
};
// The message; nothing at all when the sizes cannot be encoded.
[[nodiscard]] ConnectBytes connect_bytes(const PrivateData& message);

// What holds on a connection, from one side's view: the two inline thresholds and whether Send with Invalidate may be used for
// replies. Fixed for its lifetime (CMPD-4-2).
struct InlineThresholds {
  uint32_t send_bytes = kInlineSizeMin;     // of our Sends: the smaller of our send size and the peer's receive size
  uint32_t receive_bytes = kInlineSizeMin;  // of the peer's Sends: the smaller of its send size and our receive size
  bool remote_invalidation = false;         // both sides said R

  friend constexpr bool operator==(const InlineThresholds&, const InlineThresholds&) = default;
};

[[nodiscard]] InlineThresholds negotiate(const PrivateData& local, const PrivateData& peer);

}  // namespace cw::rpcrdma
