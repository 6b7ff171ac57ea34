#include "apps/load/call_mix.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "apps/load/amount.h"

namespace cw::load {
namespace {

constexpr std::array<const char*, kCallKinds> kNames = {"null", "echo", "source", "sink", "callback", "getattr", "read", "write"};

std::optional<CallKind> parse_kind(std::string_view name) {
  const auto found = std::find(kNames.begin(), kNames.end(), name);
  return found == kNames.end() ? std::nullopt : std::optional(static_cast<CallKind>(found - kNames.begin()));
}

bool has_data(CallKind kind) {
  return kind != CallKind::kNull && kind != CallKind::kGetattr;
}

// Empty, or what is wrong with it.
std::string parse_entry(std::string_view text, MixEntry& out) {
  const size_t colon = std::min(text.find(':'), text.size());
  const std::string_view what = text.substr(0, colon);
  const size_t slash = std::min(what.find('/'), what.size());
  const auto kind = parse_kind(what.substr(0, slash));
  if (!kind) {
    return fmt::format("'{}' is no kind of call; use null, echo, source, sink, callback, or with NFS null, getattr, read, write",
                       what.substr(0, slash));
  }
  out = {.kind = *kind};
  if (slash < what.size()) {
    const auto bytes = parse_bytes(what.substr(slash + 1));
    if (!bytes || *bytes > CallMix::kBytesMax) {
      return fmt::format("'{}' is not a size of up to 4m", what.substr(slash + 1));
    }
    if (*bytes > 0 && !has_data(*kind)) {
      return fmt::format("{} has no data, so leave '/{}' out", to_string(*kind), what.substr(slash + 1));
    }
    out.bytes = static_cast<uint32_t>(*bytes);
  }
  if (colon < text.size()) {
    const std::string_view weight = text.substr(colon + 1);
    const auto [end, error] = std::from_chars(weight.data(), weight.data() + weight.size(), out.weight);
    if (error != std::errc() || end != weight.data() + weight.size() || out.weight == 0 || out.weight > CallMix::kWeightMax) {
      return fmt::format("'{}' is not a weight: a whole number from 1 to {}", weight, CallMix::kWeightMax);
    }
  }
  return {};
}

}  // namespace

const char* to_string(CallKind kind) noexcept {
  return kNames[static_cast<size_t>(kind)];
}

bool is_nfs(CallKind kind) noexcept {
  return kind == CallKind::kGetattr || kind == CallKind::kRead || kind == CallKind::kWrite;
}

bool sends_data(CallKind kind) noexcept {
  return kind == CallKind::kEcho || kind == CallKind::kSink || kind == CallKind::kWrite;
}

bool receives_data(CallKind kind) noexcept {
  return kind == CallKind::kEcho || kind == CallKind::kSource || kind == CallKind::kRead;
}

std::string to_string(const MixEntry& entry) {
  return has_data(entry.kind) ? fmt::format("{} {}", to_string(entry.kind), bytes_text(entry.bytes)) : to_string(entry.kind);
}

bool CallMix::parse(std::string_view text, std::string& problem) {
  CallMix mix;
  mix.count_ = 0;
  mix.weight_sum_ = 0;
  for (bool more = true; more;) {
    const size_t comma = std::min(text.find(','), text.size());
    std::string_view part = text.substr(0, comma);
    more = comma < text.size();
    text.remove_prefix(std::min(comma + 1, text.size()));
    part.remove_prefix(std::min(part.find_first_not_of(' '), part.size()));
    part = part.substr(0, part.find_last_not_of(' ') + 1);
    if (mix.count_ == kEntriesMax) {
      problem = fmt::format("more than {} kinds of call", kEntriesMax);
      return false;
    }
    MixEntry& entry = mix.entries_[mix.count_++];
    problem = parse_entry(part, entry);
    if (!problem.empty()) {
      return false;
    }
    mix.weight_sum_ += entry.weight;
  }
  const bool has_bench = std::ranges::any_of(
      mix.entries(), [](const MixEntry& entry) { return entry.kind != CallKind::kNull && !is_nfs(entry.kind); });
  if (has_bench && mix.has_nfs()) {
    problem = "calls of NFS and of the bench program go to different backends; use two causeway-load";
    return false;
  }
  *this = mix;
  return true;
}

uint32_t CallMix::draw(RandomSource& random) const {
  if (count_ == 1) {
    return 0;
  }
  uint32_t at = random.next_below(weight_sum_);
  uint32_t index = 0;
  while (at >= entries_[index].weight) {
    at -= entries_[index++].weight;
  }
  return index;
}

bool CallMix::has(CallKind kind) const {
  return std::ranges::any_of(entries(), [kind](const MixEntry& entry) { return entry.kind == kind; });
}

bool CallMix::has_nfs() const {
  return std::ranges::any_of(entries(), [](const MixEntry& entry) { return is_nfs(entry.kind); });
}

uint32_t CallMix::sent_bytes_max() const {
  uint32_t most = 0;
  for (const MixEntry& entry : entries()) {
    most = std::max(most, sends_data(entry.kind) ? entry.bytes : 0);
  }
  return most;
}

uint32_t CallMix::received_bytes_max() const {
  uint32_t most = 0;
  for (const MixEntry& entry : entries()) {
    most = std::max(most, receives_data(entry.kind) ? entry.bytes : 0);
  }
  return most;
}

}  // namespace cw::load
