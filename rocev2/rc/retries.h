// How often something may be repeated without progress, and how often it has been.
#pragma once

#include <cstdint>

namespace cw::rc {

class Retries {
 public:
  explicit Retries(uint8_t most = 0) : max_(most) {}

  // As connected.
  [[nodiscard]] uint8_t max() const { return max_; }
  // Since the last progress.
  [[nodiscard]] uint8_t used() const { return used_; }
  [[nodiscard]] bool exhausted() const { return used_ >= max_; }
  void use() { ++used_; }
  void on_progress() { used_ = 0; }

 private:
  uint8_t max_;
  uint8_t used_ = 0;
};

}  // namespace cw::rc
