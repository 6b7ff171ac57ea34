// Starts devices again that do not come back by themselves when the other end of their link has gone and returned: memif in the
// client role, whose driver connects to the server's socket once, when the device is started.
//
// A thread of its own, since connecting to a socket may block, and only where a port wants it. It looks at the links a few times
// a second; for one that is down it asks the poll core for the device, stops it, tries to start it until the server is there, and
// gives it back. Meanwhile the core receives nothing from the port, and what it sends there is dropped and counted.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "dataplane/dpdk/port.h"

namespace cw::dataplane {

class LinkKeeper {
 public:
  // The ports must outlive the keeper.
  explicit LinkKeeper(std::span<const std::unique_ptr<Port>> ports);
  ~LinkKeeper();
  LinkKeeper(const LinkKeeper&) = delete;
  LinkKeeper& operator=(const LinkKeeper&) = delete;

 private:
  struct Kept {
    Port* port = nullptr;
    int looks_down = 0;  // in a row
  };
  void run();
  static void look(Kept& kept);

  std::vector<Kept> kept_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;  // under mutex_
  std::thread thread_;     // not started when no port wants it
};

}  // namespace cw::dataplane
