#include "apps/load/amount.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

namespace cw::load {
namespace {

constexpr double kBytesMax = 1ULL << 40;
constexpr double kQuantityMax = 1e9;
constexpr double kSecondsMax = 7 * 24 * 3600;

struct Split {
  double number = 0;
  std::string_view unit;
};

// A number in decimal notation and what stands behind it.
std::optional<Split> split(std::string_view text) {
  Split out;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out.number, std::chars_format::fixed);
  if (error != std::errc() || !std::isfinite(out.number) || std::signbit(out.number)) {
    return std::nullopt;
  }
  out.unit = text.substr(static_cast<size_t>(end - text.data()));
  return out;
}

std::optional<double> scaled(const Split& split, std::string_view units, double step) {
  if (split.unit.empty()) {
    return split.number;
  }
  const size_t at = split.unit.size() == 1 ? units.find(static_cast<char>(split.unit[0] | 0x20)) : std::string_view::npos;
  if (at == std::string_view::npos) {
    return std::nullopt;
  }
  return split.number * std::pow(step, static_cast<double>(at) + 1);
}

}  // namespace

std::optional<uint64_t> parse_bytes(std::string_view text) {
  const auto parts = split(text);
  const auto value = parts ? scaled(*parts, "kmg", 1024) : std::nullopt;
  if (!value || *value > kBytesMax || *value != std::floor(*value)) {
    return std::nullopt;
  }
  return static_cast<uint64_t>(*value);
}

std::optional<double> parse_quantity(std::string_view text) {
  const auto parts = split(text);
  const auto value = parts ? scaled(*parts, "km", 1000) : std::nullopt;
  return value && *value <= kQuantityMax ? value : std::nullopt;
}

std::optional<Duration> parse_duration(std::string_view text) {
  const auto parts = split(text);
  if (!parts) {
    return std::nullopt;
  }
  double seconds = parts->number;
  if (parts->unit == "us") {
    seconds *= 1e-6;
  } else if (parts->unit == "ms") {
    seconds *= 1e-3;
  } else if (parts->unit == "m") {
    seconds *= 60;
  } else if (!parts->unit.empty() && parts->unit != "s") {
    return std::nullopt;
  }
  return seconds <= kSecondsMax ? std::optional(Duration::ns(std::llround(seconds * 1e9))) : std::nullopt;
}

std::string bytes_text(uint64_t bytes) {
  if (bytes < 1024 || bytes % 1024 != 0) {
    return fmt::format("{} B", bytes);
  }
  return bytes % (1 << 20) != 0 ? fmt::format("{} KiB", bytes >> 10) : fmt::format("{} MiB", bytes >> 20);
}

}  // namespace cw::load
