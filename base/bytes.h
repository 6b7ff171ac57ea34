// Bytes on the wire: big-endian loads and stores, and fixed-size cursors whose offsets are template arguments.
//
// A codec checks the length once by making a FixedReader<N>; afterwards an access out of bounds does not compile. Structs are
// never cast onto bytes.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <type_traits>

namespace cw {

using Bytes = std::span<const uint8_t>;
using MutableBytes = std::span<uint8_t>;

// One word of memory in our own byte order. At run time the compiler is told outright that these are single loads and stores:
// left to find that out from single bytes, it often does not.
template <typename Word>
[[nodiscard]] constexpr Word load_native(const uint8_t* p) {
  Word word = 0;
  if (std::is_constant_evaluated()) {
    for (size_t i = 0; i < sizeof(Word); ++i) {
      const size_t shift = 8 * (std::endian::native == std::endian::little ? i : sizeof(Word) - 1 - i);
      word = static_cast<Word>(word | (Word{p[i]} << shift));
    }
  } else {
    std::memcpy(&word, p, sizeof(Word));
  }
  return word;
}
template <typename Word>
constexpr void store_native(uint8_t* p, Word word) {
  if (std::is_constant_evaluated()) {
    for (size_t i = 0; i < sizeof(Word); ++i) {
      p[i] = static_cast<uint8_t>(word >> (8 * (std::endian::native == std::endian::little ? i : sizeof(Word) - 1 - i)));
    }
  } else {
    std::memcpy(p, &word, sizeof(Word));
  }
}
// Between our own byte order and the wire's; the same in both directions.
[[nodiscard]] constexpr uint16_t swap_be(uint16_t v) {
  return std::endian::native == std::endian::little ? __builtin_bswap16(v) : v;
}
[[nodiscard]] constexpr uint32_t swap_be(uint32_t v) {
  return std::endian::native == std::endian::little ? __builtin_bswap32(v) : v;
}
[[nodiscard]] constexpr uint64_t swap_be(uint64_t v) {
  return std::endian::native == std::endian::little ? __builtin_bswap64(v) : v;
}

[[nodiscard]] constexpr uint16_t load_be16(const uint8_t* p) {
  return swap_be(load_native<uint16_t>(p));
}
[[nodiscard]] constexpr uint32_t load_be24(const uint8_t* p) {
  return (uint32_t{p[0]} << 16) | (uint32_t{p[1]} << 8) | p[2];
}
[[nodiscard]] constexpr uint32_t load_be32(const uint8_t* p) {
  return swap_be(load_native<uint32_t>(p));
}
[[nodiscard]] constexpr uint64_t load_be64(const uint8_t* p) {
  return swap_be(load_native<uint64_t>(p));
}
constexpr void store_be16(uint8_t* p, uint16_t v) {
  store_native(p, swap_be(v));
}
constexpr void store_be24(uint8_t* p, uint32_t v) {
  p[0] = static_cast<uint8_t>(v >> 16);
  p[1] = static_cast<uint8_t>(v >> 8);
  p[2] = static_cast<uint8_t>(v);
}
constexpr void store_be32(uint8_t* p, uint32_t v) {
  store_native(p, swap_be(v));
}
constexpr void store_be64(uint8_t* p, uint64_t v) {
  store_native(p, swap_be(v));
}
// The iCRC is the one little-endian field of a RoCEv2 packet.
[[nodiscard]] constexpr uint32_t load_le32(const uint8_t* p) {
  return __builtin_bswap32(load_be32(p));
}
constexpr void store_le32(uint8_t* p, uint32_t v) {
  store_be32(p, __builtin_bswap32(v));
}

// Reads the first N bytes of something whose length has been proved.
template <size_t N>
class FixedReader {
 public:
  // The only way in: nothing if there are fewer than N bytes.
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
  [[nodiscard]] constexpr std::span<const uint8_t, Count> raw() const {
    static_assert(At + Count <= N);
    return std::span<const uint8_t, Count>(p_ + At, Count);
  }

 private:
  constexpr explicit FixedReader(const uint8_t* p) : p_(p) {}
  const uint8_t* p_;
};

// Writes exactly N bytes. Every byte starts as zero, so that reserved fields never leak what lay in the buffer before.
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
  constexpr void raw(std::span<const uint8_t, Count> v) {
    static_assert(At + Count <= N);
    for (size_t i = 0; i < Count; ++i) {
      p_[At + i] = v[i];
    }
  }

 private:
  uint8_t* p_;
};

}  // namespace cw
