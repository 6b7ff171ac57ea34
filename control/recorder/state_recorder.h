// Refreshes what the recorder has of the gateway's state, on a thread of its own: once a second the metrics that are not zero,
// the last events of queue pairs and the settings, and once in ten seconds what causewayctl status says, for which the poll cores
// list their connections. A second costs the poll cores what a scrape and a short `causewayctl trace` do. A core that hangs is
// waited for as they wait, and nobody waits for this thread.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>

#include "base/time.h"
#include "control/admin/admin_commands.h"
#include "control/recorder/recorder.h"

namespace cw::control::recorder {

class StateRecorder {
 public:
  static constexpr Duration kPeriod = Duration::seconds(1);
  static constexpr uint32_t kPeriodsOfStatus = 10;
  // Of each wire of each core; a gateway of many cores has more than the recorder keeps of all of them.
  static constexpr uint32_t kEventsMax = 128;

  // Both outlive it.
  StateRecorder(Recorder& recorder, const AdminTarget& gateway);
  // Ends the thread, when it has looked.
  ~StateRecorder();
  StateRecorder(const StateRecorder&) = delete;
  StateRecorder& operator=(const StateRecorder&) = delete;

 private:
  void run();
  void look();

  Recorder& recorder_;
  AdminTarget gateway_;
  uint64_t settings_ = 0;  // the version that was recorded last
  uint32_t looks_ = 0;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stop_ = false;   // under mutex_
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace cw::control::recorder
