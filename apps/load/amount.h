// Numbers as people write them on a command line or in a scenario: 64k bytes, 20k calls per second, 1.5s, 250us.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/time.h"

namespace cw::load {

// A whole number of bytes, with k, m or g for powers of 1024. Nothing when it is something else, or above 2^40.
[[nodiscard]] std::optional<uint64_t> parse_bytes(std::string_view text);
// A number, fractions allowed, with k or m for powers of 1000. Nothing when it is negative, something else, or above 10^9.
[[nodiscard]] std::optional<double> parse_quantity(std::string_view text);
// A number with us, ms, s or m behind it; without a unit, seconds. Nothing when it is negative, something else, or above a week.
[[nodiscard]] std::optional<Duration> parse_duration(std::string_view text);

// "64 KiB", "1 MiB", or bytes ("1000 B") when they are no whole number of those.
[[nodiscard]] std::string bytes_text(uint64_t bytes);

}  // namespace cw::load
