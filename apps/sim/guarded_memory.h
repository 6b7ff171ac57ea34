// Memory of a client that peers may be given keys to: several areas with guards between them, which nobody may write. When its
// call is over the whole of it is filled with a pattern and kept, so that whatever is still written to it shows in the end.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <vector>

#include "base/bytes.h"

namespace cw::sim {

enum class Area : uint8_t { kSource, kWrite, kReply, kLongCall, kCount };

class GuardedMemory {
 public:
  static constexpr uint32_t kGuardBytes = 32;
  void resize(Area area, uint32_t bytes);
  // After the last resize.
  void lay_out();
  [[nodiscard]] MutableBytes of(Area area);
  [[nodiscard]] Bytes raw() const { return raw_; }
  [[nodiscard]] bool guards_hold() const;
  // No key is live any more.
  void retire();
  // Nothing was written since.
  [[nodiscard]] bool is_untouched() const;
  [[nodiscard]] size_t bytes() const { return raw_.size(); }

 private:
  static constexpr size_t kAreas = static_cast<size_t>(Area::kCount);
  std::array<uint32_t, kAreas> sizes_{};
  std::array<uint32_t, kAreas> offsets_{};
  std::vector<uint8_t> raw_;
};

// What retired, until so many bytes have gathered; then the oldest is looked at and goes.
class RetiredMemory {
 public:
  static constexpr size_t kBytesMax = 1u << 20;
  void retire(GuardedMemory&& memory);
  // Precondition for passing: nothing that lies here, or lay here, was touched.
  [[nodiscard]] bool is_untouched() const;

 private:
  std::deque<GuardedMemory> retired_;
  size_t bytes_ = 0;
  bool touched_ = false;
};

}  // namespace cw::sim
