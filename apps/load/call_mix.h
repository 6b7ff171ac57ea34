// Which calls a load consists of: kinds with sizes and weights, drawn at random in proportion.
//
//   "null:50, echo/512:30, source/64k:15, sink/1m:5"      kind[/bytes][:weight]; the weight is 1 when not said
//
// Pure. What a kind means is the Workload's (workload.h).
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/random.h"

namespace cw::load {

enum class CallKind : uint8_t { kNull, kEcho, kSource, kSink, kCallback, kGetattr, kRead, kWrite };
inline constexpr uint32_t kCallKinds = 8;
[[nodiscard]] const char* to_string(CallKind kind) noexcept;
// Calls of NFS, not of the bench program. NULL is both's.
[[nodiscard]] bool is_nfs(CallKind kind) noexcept;
// Whether data go to the server, and come from it.
[[nodiscard]] bool sends_data(CallKind kind) noexcept;
[[nodiscard]] bool receives_data(CallKind kind) noexcept;

struct MixEntry {
  CallKind kind = CallKind::kNull;
  uint32_t bytes = 0;  // data per call
  uint32_t weight = 1;
  friend bool operator==(const MixEntry&, const MixEntry&) = default;
};
// "echo 512 B"
[[nodiscard]] std::string to_string(const MixEntry& entry);

class CallMix {
 public:
  static constexpr uint32_t kEntriesMax = 8;
  static constexpr uint32_t kWeightMax = 1'000'000;
  static constexpr uint32_t kBytesMax = 4u << 20;

  // One kind of call.
  CallMix() : CallMix(MixEntry{}) {}
  explicit CallMix(const MixEntry& only) : count_(1), weight_sum_(only.weight) { entries_[0] = only; }
  // False, and `problem` says what is wrong, when `text` is no mix; nothing has changed then.
  [[nodiscard]] bool parse(std::string_view text, std::string& problem);

  [[nodiscard]] std::span<const MixEntry> entries() const { return std::span(entries_).first(count_); }
  // An index into entries(). Draws nothing when there is one only.
  [[nodiscard]] uint32_t draw(RandomSource& random) const;
  [[nodiscard]] bool has_nfs() const;
  [[nodiscard]] bool has(CallKind kind) const;
  // Bytes of the largest data sent, and received.
  [[nodiscard]] uint32_t sent_bytes_max() const;
  [[nodiscard]] uint32_t received_bytes_max() const;

 private:
  std::array<MixEntry, kEntriesMax> entries_{};
  uint32_t count_ = 0;
  uint32_t weight_sum_ = 0;
};

}  // namespace cw::load
