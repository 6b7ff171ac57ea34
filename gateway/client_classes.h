// Which class of clients an address belongs to: that of the longest prefix that it is in.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "gateway/gateway_options.h"

namespace cw::gateway {

// nullopt: none. Looked up once per connection.
[[nodiscard]] inline std::optional<uint32_t> class_of(std::span<const ClientClassOptions> classes, const IpAddress& address) {
  std::optional<uint32_t> best;
  uint32_t best_bits = 0;
  for (uint32_t i = 0; i < classes.size(); ++i) {
    for (const control::IpPrefix& prefix : classes[i].prefixes) {
      if (prefix.contains(address) && (!best || prefix.length_bits > best_bits)) {
        best = i;
        best_bits = prefix.length_bits;
      }
    }
  }
  return best;
}

}  // namespace cw::gateway
