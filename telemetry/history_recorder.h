// Takes a sample for the History once a second while it is on, on a thread of its own: what a scrape costs the cores, no more.
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>

#include "telemetry/collector.h"
#include "telemetry/history.h"

namespace cw::telemetry {

class HistoryRecorder {
 public:
  // Both outlive it.
  HistoryRecorder(const Collector& collector, History& history, bool on);
  // Ends the thread.
  ~HistoryRecorder();
  HistoryRecorder(const HistoryRecorder&) = delete;
  HistoryRecorder& operator=(const HistoryRecorder&) = delete;
  // Any thread. What was while it is off is one sample of the time after.
  void set_on(bool on);

 private:
  void run();

  const Collector& collector_;
  History& history_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool on_;  // these two under mutex_
  bool stop_ = false;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace cw::telemetry
