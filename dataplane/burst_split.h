// How a burst of received frames is served. After a turn without packets the peers wait for us, not we for them: what the first
// half asks for leaves before the second half is served, so that both sides work at once instead of by turns. Where there is
// always more, large bursts are cheaper.
#pragma once

#include <cstddef>

namespace cw::dataplane {

class BurstSplit {
 public:
  // Of a burst, so many frames are served before the others.
  [[nodiscard]] size_t first_part(size_t burst) const { return was_busy_ ? burst : (burst + 1) / 2; }
  // What the turn had to do.
  void end_turn(bool worked) { was_busy_ = worked; }

 private:
  bool was_busy_ = false;
};

}  // namespace cw::dataplane
