// A wire that goes through the kernel, or a device of its own, beside the ports: its part of a core's turn. Two virtual calls a
// turn.
#pragma once

#include "base/time.h"

namespace cw::dataplane {

class WireShell {
 public:
  virtual ~WireShell() = default;

  // Takes what has come, up to a budget. True when there was something.
  virtual bool receive(Instant now) = 0;
  // Gives away what the transport has for it. True when there was something.
  virtual bool transmit(Instant now) = 0;
  // Becomes readable when receive() has something to do; for poll().
  [[nodiscard]] virtual int fd() const = 0;
  // There is something that can be waited for.
  [[nodiscard]] virtual bool in_use() const = 0;
  // Before the core sleeps on fd(). False: there is work that it does not tell of.
  [[nodiscard]] virtual bool may_sleep(Instant now) = 0;
};

}  // namespace cw::dataplane
