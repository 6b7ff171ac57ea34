// Takes a sample for the History once a second, on a thread of its own: what a scrape costs the cores, and no more.
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
  HistoryRecorder(const Collector& collector, History& history);
  // Ends the thread.
  ~HistoryRecorder();
  HistoryRecorder(const HistoryRecorder&) = delete;
  HistoryRecorder& operator=(const HistoryRecorder&) = delete;

 private:
  void run();

  const Collector& collector_;
  History& history_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stop_ = false;   // under mutex_
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace cw::telemetry
