// XDR types as data: enough of a grammar to walk over a result without knowing what it means.
//
// A Shape is a run of Elements in constexpr tables; walk() interprets it against an XdrReader. Knowledge of a protocol is then a
// table (nfsv4_results.h) instead of code per operation. Walking recurses as deep as the table nests, never as deep as a message
// says; a counted loop ends with the input, since every body consumes at least a word per turn (static_asserted by is_bounded()).
#pragma once

#include <cstdint>

#include "rpcrdma/ulb/binding.h"
#include "rpcrdma/xdr/xdr_reader.h"

namespace cw::rpcrdma {

enum class ElementKind : uint8_t {
  kWords,      // `value` 32-bit words
  kOpaque,     // opaque<> or string<>
  kReducible,  // opaque<> or string<> that may go to a Write chunk
  kArray,      // count, then `body` that many times (a bitmap is an array of words)
  kList,       // presence word, `body`, and so on until a presence word 0
  kUnion,      // discriminant, then the arm whose `value` it is; void when no arm has it
};

struct Element;

// `count` Elements; as an arm of a union: those of discriminant `value`.
struct Shape {
  const Element* elements = nullptr;
  uint32_t count = 0;
};

struct Arm;

struct Element {
  ElementKind kind = ElementKind::kWords;
  uint32_t value = 0;
  Shape body;
  const Arm* arms = nullptr;
  uint32_t arm_count = 0;
};

struct Arm {
  uint32_t value = 0;
  Shape shape;
};

template <uint32_t N>
[[nodiscard]] constexpr Shape shape(const Element (&elements)[N]) {
  return {elements, N};
}
[[nodiscard]] constexpr Element words(uint32_t count) {
  return {.kind = ElementKind::kWords, .value = count};
}
[[nodiscard]] constexpr Element opaque() {
  return {.kind = ElementKind::kOpaque};
}
[[nodiscard]] constexpr Element reducible() {
  return {.kind = ElementKind::kReducible};
}
template <uint32_t N>
[[nodiscard]] constexpr Element array_of(const Element (&body)[N]) {
  return {.kind = ElementKind::kArray, .body = shape(body)};
}
template <uint32_t N>
[[nodiscard]] constexpr Element list_of(const Element (&body)[N]) {
  return {.kind = ElementKind::kList, .body = shape(body)};
}
template <uint32_t N>
[[nodiscard]] constexpr Element union_of(const Arm (&arms)[N]) {
  return {.kind = ElementKind::kUnion, .arms = arms, .arm_count = N};
}

// Every Element of `shape` consumes at least a word, so that no array or list can turn without using up input.
[[nodiscard]] constexpr bool is_bounded(Shape shape) {
  if (shape.count == 0) {
    return false;
  }
  for (uint32_t i = 0; i < shape.count; ++i) {
    const Element& element = shape.elements[i];
    if (element.kind == ElementKind::kWords && element.value == 0) {
      return false;
    }
    const bool repeats = element.kind == ElementKind::kArray || element.kind == ElementKind::kList;
    if (repeats && !is_bounded(element.body)) {
      return false;
    }
    for (uint32_t arm = 0; arm < element.arm_count; ++arm) {
      if (element.arms[arm].shape.count > 0 && !is_bounded(element.arms[arm].shape)) {
        return false;
      }
    }
  }
  return true;
}

// Walks over an opaque<> and lists it, when its content and padding lie within the input and `items` has room.
void take_reducible(XdrReader& reader, ReducibleItems& items);
// Walks over one value of `shape` and lists the reducible items in it. The caller checks reader.ok().
void walk(XdrReader& reader, Shape shape, ReducibleItems& items);

}  // namespace cw::rpcrdma
