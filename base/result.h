// Result<T, E>: a value or the reason why there is none.
//
// std::expected is absent under -std=c++20 on g++ 12 and clang 14; this is the small part of it that the codecs need. T and E
// are trivially copyable, so that a Result works in constant expressions and costs no more than a struct. The error type is an
// enum class; the layer that decides an error gives it, callers pass it on.
#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>

#include "base/assert.h"

namespace cw {

// Reasons shared by every codec. Layers with a richer answer (DropReason, ChunkError ...) use their own enum as E.
enum class Error : uint8_t {
  kTruncated,    // fewer bytes than the format needs
  kBadValue,     // a field has a value that the format does not allow
  kUnsupported,  // well-formed, but a version or option that we do not speak
  kLimit,        // one of our own named limits is exceeded
  kNoSpace,      // the output does not fit
  kNoResources,  // a pool or table is empty or full
  kBadState,     // not possible in the present state
};

[[nodiscard]] const char* to_string(Error error) noexcept;

template <typename E>
struct Failure {
  E error;
};

template <typename E>
[[nodiscard]] constexpr Failure<E> fail(E error) {
  return Failure<E>{error};
}

template <typename T, typename E = Error>
class [[nodiscard]] Result {
  static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_copyable_v<E>);

 public:
  constexpr Result(const T& value) : value_(value), ok_(true) {}               // NOLINT: implicit by design
  constexpr Result(Failure<E> failure) : error_(failure.error), ok_(false) {}  // NOLINT: implicit by design
  // What make() returns, made where it will stay: a large aggregate is not copied.
  template <typename Make>
  constexpr explicit Result(std::in_place_t, Make&& make) : value_(std::forward<Make>(make)()), ok_(true) {}

  [[nodiscard]] constexpr bool ok() const { return ok_; }
  constexpr explicit operator bool() const { return ok_; }

  // Precondition: ok().
  [[nodiscard]] constexpr const T& value() const {
    CW_DASSERT(ok_);
    return value_;
  }
  constexpr const T& operator*() const { return value(); }
  constexpr const T* operator->() const { return &value(); }

  // Precondition: !ok().
  [[nodiscard]] constexpr E error() const {
    CW_DASSERT(!ok_);
    return error_;
  }

 private:
  union {
    T value_;
    E error_;
  };
  bool ok_;
};

template <typename E>
class [[nodiscard]] Result<void, E> {
 public:
  constexpr Result() : error_{}, ok_(true) {}
  constexpr Result(Failure<E> failure) : error_(failure.error), ok_(false) {}  // NOLINT: implicit by design

  [[nodiscard]] constexpr bool ok() const { return ok_; }
  constexpr explicit operator bool() const { return ok_; }
  [[nodiscard]] constexpr E error() const {
    CW_DASSERT(!ok_);
    return error_;
  }

 private:
  E error_;
  bool ok_;
};

using Status = Result<void, Error>;

}  // namespace cw
