// The cores of a load as one: what the terminal asks goes to each of them, and the answers are added up.
#pragma once

#include <memory>
#include <vector>

#include "apps/load/load_app.h"

namespace cw::load {

class LoadGroup {
 public:
  // At least one; they outlive the group, and all their cores turn for as long as it asks.
  explicit LoadGroup(std::vector<LoadApp*> apps) : apps_(std::move(apps)), sum_(std::make_unique<Progress>()) {}

  [[nodiscard]] const Progress& progress();
  // Time 0 of all, one core after the other: within milliseconds. Returns the counters of that instant.
  [[nodiscard]] LoadStats begin();
  // No more calls.
  void stop();

 private:
  std::vector<LoadApp*> apps_;
  std::unique_ptr<Progress> sum_;
};

}  // namespace cw::load
