// Common MAD header (IBA 13.4.2), and the messages of the communication management class (IBA 16.7, 12.6).
//
//    0                   1                   2                   3
//   +---------------+---------------+---------------+---------------+
//   | BaseVersion 1 |   MgmtClass   | ClassVersion  |    Method     |
//   +---------------+---------------+---------------+---------------+
//   |            Status             |         ClassSpecific         |
//   +-------------------------------+-------------------------------+
//   |                    TransactionID (8 bytes)                   |
//   +-------------------------------+-------------------------------+
//   |          AttributeID          |           reserved            |
//   +-------------------------------+-------------------------------+
//   |                       AttributeModifier                       |
//   +---------------------------------------------------------------+
//   |                232 bytes of the message                      |
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/bytes.h"
#include "base/result.h"

namespace cw::cm {

inline constexpr uint8_t kMadBaseVersion = 1;
inline constexpr uint8_t kCmClass = 7;
inline constexpr uint8_t kCmClassVersion = 2;
inline constexpr uint8_t kMethodSend = 3;
inline constexpr size_t kMadHeaderSize = 24;
inline constexpr size_t kMessageSize = 232;  // behind the header

// The AttributeID in order, so that a MessageType is an index of a table.
enum class MessageType : uint8_t {
  kReq,      // 0x10
  kMra,      // 0x11
  kRej,      // 0x12
  kRep,      // 0x13
  kRtu,      // 0x14
  kDreq,     // 0x15
  kDrep,     // 0x16
  kSidrReq,  // 0x17
  kSidrRep,  // 0x18
  kLap,      // 0x19
  kApr,      // 0x1a
  kCount,
};

inline constexpr uint16_t kFirstAttributeId = 0x10;

[[nodiscard]] constexpr uint16_t attribute_id_of(MessageType type) {
  return static_cast<uint16_t>(kFirstAttributeId + static_cast<uint16_t>(type));
}
[[nodiscard]] constexpr std::optional<MessageType> message_type_of(uint16_t attribute_id) {
  if (attribute_id < kFirstAttributeId || attribute_id >= attribute_id_of(MessageType::kCount)) {
    return std::nullopt;
  }
  return static_cast<MessageType>(attribute_id - kFirstAttributeId);
}

// Lower case: the value of a metric label.
[[nodiscard]] const char* to_string(MessageType type) noexcept;

// Which message an MRA delays or a REJ refuses: the two top bits of the byte at 8 of both.
enum class AboutMessage : uint8_t { kReq = 0, kRep = 1, kOther = 2 };

struct MadHeader {
  static constexpr size_t kSize = kMadHeaderSize;

  uint8_t base_version = kMadBaseVersion;
  uint8_t management_class = kCmClass;
  uint8_t class_version = kCmClassVersion;
  uint8_t method = kMethodSend;
  uint16_t status = 0;
  uint16_t class_specific = 0;
  uint64_t transaction_id = 0;  // an answer carries that of the message it answers
  uint16_t attribute_id = 0;
  uint32_t attribute_modifier = 0;

  [[nodiscard]] static constexpr Result<MadHeader> parse(Bytes bytes) {
    const auto reader = FixedReader<kSize>::from(bytes);
    if (!reader) {
      return fail(Error::kTruncated);
    }
    MadHeader header;
    header.base_version = reader->u8<0>();
    header.management_class = reader->u8<1>();
    header.class_version = reader->u8<2>();
    header.method = reader->u8<3>();
    header.status = reader->be16<4>();
    header.class_specific = reader->be16<6>();
    header.transaction_id = reader->be64<8>();
    header.attribute_id = reader->be16<16>();
    header.attribute_modifier = reader->be32<20>();
    return header;
  }

  constexpr void write(std::span<uint8_t, kSize> out) const {
    FixedWriter<kSize> writer(out);
    writer.u8<0>(base_version);
    writer.u8<1>(management_class);
    writer.u8<2>(class_version);
    writer.u8<3>(method);
    writer.be16<4>(status);
    writer.be16<6>(class_specific);
    writer.be64<8>(transaction_id);
    writer.be16<16>(attribute_id);
    writer.be32<20>(attribute_modifier);
  }

  friend constexpr bool operator==(const MadHeader&, const MadHeader&) = default;
};

}  // namespace cw::cm
