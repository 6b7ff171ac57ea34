// A whole MAD of 256 bytes: header and one message.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "control/cm/cm_address.h"
#include "control/cm/wire/mad_header.h"

namespace cw::cm {

using Mad = std::array<uint8_t, kMadSize>;

static_assert(kMadSize == kMadHeaderSize + kMessageSize);

template <typename Message>
constexpr void write_mad(std::span<uint8_t, kMadSize> out, uint64_t transaction_id, const Message& message) {
  MadHeader header;
  header.transaction_id = transaction_id;
  header.attribute_id = attribute_id_of(Message::kType);
  header.write(out.first<kMadHeaderSize>());
  message.write(out.subspan<kMadHeaderSize, kMessageSize>());
}

[[nodiscard]] constexpr Bytes message_of(std::span<const uint8_t, kMadSize> mad) {
  return mad.subspan<kMadHeaderSize, kMessageSize>();
}

// Precondition: a MAD that we wrote ourselves.
[[nodiscard]] constexpr MessageType type_of(const Mad& mad) {
  return *message_type_of(load_be16(mad.data() + 16));
}

}  // namespace cw::cm
