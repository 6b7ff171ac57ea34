#include "telemetry/history_recorder.h"

#include <pthread.h>

#include <chrono>

namespace cw::telemetry {

using Clock = std::chrono::steady_clock;

HistoryRecorder::HistoryRecorder(const Collector& collector, History& history, bool on)
    : collector_(collector), history_(history), on_(on), thread_([this] { run(); }) {}

HistoryRecorder::~HistoryRecorder() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void HistoryRecorder::set_on(bool on) {
  {
    const std::lock_guard lock(mutex_);
    on_ = on;
  }
  wake_.notify_one();
}

void HistoryRecorder::run() {
  (void)pthread_setname_np(pthread_self(), "cw-history");
  const auto period = std::chrono::nanoseconds(History::kPeriod.to_ns());
  Clock::time_point next = Clock::now();
  std::unique_lock lock(mutex_);
  while (true) {
    if (!on_) {
      wake_.wait(lock, [this] { return on_ || stop_; });
      next = Clock::now();
    }
    if (wake_.wait_until(lock, next, [this] { return stop_ || !on_; })) {
      if (stop_) {
        return;
      }
      continue;
    }
    lock.unlock();
    collector_.read([this](const MetricSources& sources) {
      history_.record(sources, Instant::from_ns(Clock::now().time_since_epoch().count()));
    });
    lock.lock();
    // Late samples are not made up for: what they would have said is in the next one.
    next += period;
    if (next < Clock::now()) {
      next = Clock::now() + period;
    }
  }
}

}  // namespace cw::telemetry
