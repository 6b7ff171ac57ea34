// A LoadDriver on a poll core, and what the terminal's thread may ask of it.
#pragma once

#include <atomic>
#include <cstdint>

#include "apps/load/load_driver.h"
#include "apps/load/report/interval_recorder.h"
#include "dataplane/core_loop.h"
#include "telemetry/snapshot.h"

namespace cw::load {

// What the poll core tells the terminal.
struct Progress {
  LoadStats stats;
  Gauges gauges;
  uint32_t wanted = 0;  // connections
  uint32_t given_up = 0;
  uint32_t waiting_to_resend = 0;
  verbs::Rejection last_rejection;
  verbs::QueuePairError last_qp_error;
};

class LoadApp final : public dataplane::CoreApp {
 public:
  // `filter`: of the port, or nullptr; its frames wake the core too.
  LoadApp(LoadDriver& driver, client::Client& client, const dataplane::FrameFilter* filter)
      : driver_(driver), client_(client), filter_(filter) {}

  // Poll core.
  bool turn(Instant now) override;
  [[nodiscard]] bool has_input() const override {
    return progress_.is_wanted() || request_.load(std::memory_order_relaxed) != Request::kNone;
  }
  [[nodiscard]] Instant next_deadline() const override;

  // Terminal thread. The core has to turn for as long as it asks.
  [[nodiscard]] const Progress& progress();
  // Time 0 of profiles, arrivals and churn. Returns the counters of that instant, which are 0 but for connections made.
  [[nodiscard]] LoadStats begin();
  // No more calls.
  void stop() { ask(Request::kStop); }

 private:
  enum class Request : uint8_t { kNone, kBegin, kStop };
  void ask(Request request);
  void obey(Instant now);
  void report(Progress& out) const;

  LoadDriver& driver_;
  client::Client& client_;
  const dataplane::FrameFilter* filter_;
  telemetry::Published<Progress> progress_;
  std::atomic<Request> request_{Request::kNone};
  uint64_t connected_before_ = 0;  // written before request_ is answered
  bool started_ = false;
};

}  // namespace cw::load
