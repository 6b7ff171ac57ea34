// Integers that cannot be mixed up: a Qpn is not a Psn is not an Rkey.
//
//   struct QpnTag {}; using Qpn = StrongId<QpnTag, uint32_t>;
//
// Equality and hashing only. Types with arithmetic (Psn) are classes of their own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

namespace cw {

template <typename Tag, typename Rep>
class StrongId {
 public:
  using rep = Rep;
  constexpr StrongId() = default;
  constexpr explicit StrongId(Rep value) : value_(value) {}
  [[nodiscard]] constexpr Rep value() const { return value_; }
  friend constexpr bool operator==(StrongId, StrongId) = default;

 private:
  Rep value_ = 0;
};

}  // namespace cw

template <typename Tag, typename Rep>
struct std::hash<cw::StrongId<Tag, Rep>> {
  size_t operator()(cw::StrongId<Tag, Rep> id) const noexcept { return std::hash<Rep>{}(id.value()); }
};
