// Numbers for things that a reload may bring and take away, for as long as the process lives.
//
// Connections, checks and counters name a thing by its number, and outlast the configuration that it stood in: a number therefore
// never comes to mean another thing, and a thing that returns has its old one. That bounds how many there can be; a process that
// has seen `max` of them takes further ones with a restart only.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace cw::gateway {

template <typename T, uint32_t max>
class StableIds {
 public:
  // One that has no number gets one. Precondition: has_room_for() it.
  uint32_t number(const T& value) {
    const auto found = std::find(values_.begin(), values_.end(), value);
    const uint32_t number = static_cast<uint32_t>(found - values_.begin());
    if (found == values_.end()) {
      values_.push_back(value);
    }
    return number;
  }
  // The same of each, in order.
  std::vector<uint32_t> number(std::span<const T> values) {
    std::vector<uint32_t> numbers;
    for (const T& value : values) {
      numbers.push_back(number(value));
    }
    return numbers;
  }
  // Nothing: it has none.
  [[nodiscard]] std::optional<uint32_t> find(const T& value) const {
    const auto found = std::find(values_.begin(), values_.end(), value);
    return found == values_.end() ? std::nullopt : std::optional(static_cast<uint32_t>(found - values_.begin()));
  }
  [[nodiscard]] bool has_room_for(std::span<const T> values) const {
    const auto is_new = [this](const T& value) { return std::find(values_.begin(), values_.end(), value) == values_.end(); };
    return values_.size() + static_cast<size_t>(std::count_if(values.begin(), values.end(), is_new)) <= max;
  }
  // By number.
  [[nodiscard]] std::span<const T> values() const { return values_; }

 private:
  std::vector<T> values_;
};

}  // namespace cw::gateway
