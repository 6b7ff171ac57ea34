// Takes a run of bytes out of a proved range into an array of its own.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "base/bytes.h"
#include "base/ip_address.h"

namespace cw::cm {

template <size_t At, size_t Count, size_t N>
[[nodiscard]] constexpr std::array<uint8_t, Count> array_at(const FixedReader<N>& reader) {
  std::array<uint8_t, Count> out{};
  const auto raw = reader.template raw<At, Count>();
  for (size_t i = 0; i < Count; ++i) {
    out[i] = raw[i];
  }
  return out;
}

template <size_t At, size_t Count, size_t N>
constexpr void put_array(FixedWriter<N>& writer, const std::array<uint8_t, Count>& raw) {
  writer.template raw<At>(std::span<const uint8_t, Count>(raw));
}

// A GID is an address: on RoCEv2 nothing else is one.
template <size_t At, size_t N>
[[nodiscard]] constexpr IpAddress gid_at(const FixedReader<N>& reader) {
  return IpAddress::v6(reader.template raw<At, 16>());
}

template <size_t At, size_t N>
constexpr void put_gid(FixedWriter<N>& writer, const IpAddress& gid) {
  put_array<At>(writer, gid.raw);
}

}  // namespace cw::cm
