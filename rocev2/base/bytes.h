// Octets on the wire: big-endian loads and stores, and fixed-size cursors whose offsets are template arguments.
//
// A codec checks the length once by making a FixedReader<N>; afterwards an access out of bounds does not compile. Structs are
// never cast onto bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace cw {

using Bytes = std::span<const uint8_t>;
using MutableBytes = std::span<uint8_t>;

[[nodiscard]] constexpr uint16_t load_be16(const uint8_t* p) {
  return static_cast<uint16_t>((uint32_t{p[0]} << 8) | p[1]);
}
[[nodiscard]] constexpr uint32_t load_be24(const uint8_t* p) {
  return (uint32_t{p[0]} << 16) | (uint32_t{p[1]} << 8) | p[2];
}
[[nodiscard]] constexpr uint32_t load_be32(const uint8_t* p) {
  return (uint32_t{p[0]} << 24) | (uint32_t{p[1]} << 16) | (uint32_t{p[2]} << 8) | p[3];
}
[[nodiscard]] constexpr uint64_t load_be64(const uint8_t* p) {
  return (uint64_t{load_be32(p)} << 32) | load_be32(p + 4);
}
constexpr void store_be16(uint8_t* p, uint16_t v) {
  p[0] = static_cast<uint8_t>(v >> 8);
  p[1] = static_cast<uint8_t>(v);
}
constexpr void store_be24(uint8_t* p, uint32_t v) {
  p[0] = static_cast<uint8_t>(v >> 16);
  p[1] = static_cast<uint8_t>(v >> 8);
  p[2] = static_cast<uint8_t>(v);
}
constexpr void store_be32(uint8_t* p, uint32_t v) {
  store_be16(p, static_cast<uint16_t>(v >> 16));
  store_be16(p + 2, static_cast<uint16_t>(v));
}
constexpr void store_be64(uint8_t* p, uint64_t v) {
  store_be32(p, static_cast<uint32_t>(v >> 32));
  store_be32(p + 4, static_cast<uint32_t>(v));
}
// The iCRC is the one little-endian field of a RoCEv2 packet.
[[nodiscard]] constexpr uint32_t load_le32(const uint8_t* p) {
  return (uint32_t{p[3]} << 24) | (uint32_t{p[2]} << 16) | (uint32_t{p[1]} << 8) | p[0];
}
constexpr void store_le32(uint8_t* p, uint32_t v) {
  p[0] = static_cast<uint8_t>(v);
  p[1] = static_cast<uint8_t>(v >> 8);
  p[2] = static_cast<uint8_t>(v >> 16);
  p[3] = static_cast<uint8_t>(v >> 24);
}

// Reads the first N octets of something whose length has been proved.
template <size_t N>
class FixedReader {
 public:
  // The only way in: nothing if there are fewer than N octets.
  [[nodiscard]] static constexpr std::optional<FixedReader> from(Bytes bytes) {
    if (bytes.size() < N) {
      return std::nullopt;
    }
    return FixedReader(bytes.data());
  }

  template <size_t At>
  [[nodiscard]] constexpr uint8_t u8() const {
    static_assert(At + 1 <= N);
    return p_[At];
  }
  template <size_t At>
  [[nodiscard]] constexpr uint16_t be16() const {
    static_assert(At + 2 <= N);
    return load_be16(p_ + At);
  }
  template <size_t At>
  [[nodiscard]] constexpr uint32_t be24() const {
    static_assert(At + 3 <= N);
    return load_be24(p_ + At);
  }
  template <size_t At>
  [[nodiscard]] constexpr uint32_t be32() const {
    static_assert(At + 4 <= N);
    return load_be32(p_ + At);
  }
  template <size_t At>
  [[nodiscard]] constexpr uint64_t be64() const {
    static_assert(At + 8 <= N);
    return load_be64(p_ + At);
  }
  template <size_t At, size_t Count>
  [[nodiscard]] constexpr std::span<const uint8_t, Count> octets() const {
    static_assert(At + Count <= N);
    return std::span<const uint8_t, Count>(p_ + At, Count);
  }

 private:
  constexpr explicit FixedReader(const uint8_t* p) : p_(p) {}
  const uint8_t* p_;
};

// Writes exactly N octets. Every octet starts as zero, so that reserved fields never leak what lay in the buffer before.
template <size_t N>
class FixedWriter {
 public:
  constexpr explicit FixedWriter(std::span<uint8_t, N> bytes) : p_(bytes.data()) {
    for (size_t i = 0; i < N; ++i) {
      p_[i] = 0;
    }
  }

  template <size_t At>
  constexpr void u8(uint8_t v) {
    static_assert(At + 1 <= N);
    p_[At] = v;
  }
  template <size_t At>
  constexpr void be16(uint16_t v) {
    static_assert(At + 2 <= N);
    store_be16(p_ + At, v);
  }
  template <size_t At>
  constexpr void be24(uint32_t v) {
    static_assert(At + 3 <= N);
    store_be24(p_ + At, v);
  }
  template <size_t At>
  constexpr void be32(uint32_t v) {
    static_assert(At + 4 <= N);
    store_be32(p_ + At, v);
  }
  template <size_t At>
  constexpr void be64(uint64_t v) {
    static_assert(At + 8 <= N);
    store_be64(p_ + At, v);
  }
  template <size_t At, size_t Count>
  constexpr void octets(std::span<const uint8_t, Count> v) {
    static_assert(At + Count <= N);
    for (size_t i = 0; i < Count; ++i) {
      p_[At + i] = v[i];
    }
  }

 private:
  uint8_t* p_;
};

}  // namespace cw
