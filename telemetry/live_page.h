// What MetricsServer answers beside metrics and probes: the live page with its assets, and the JSON that it is drawn from.
//
//   GET /                 the page; to who takes no gzip, and where no page was built in, a list of what there is
//   GET /page/NAME        its assets
//   GET /api/snapshot     how things are: ?limit=1..500 connections, &reversed,
//                         &sort=rpcs|bytes|retransmits|in_flight|credits|round_trip|age|peer|listener|lcore
//   GET /api/history      what was: ?since=NUMBER (history.h)
//
// All of it is only read. When the server listens on loopback, requests by any other name are refused (http_host_is_loopback).
// The poll cores are asked for their connections at most once in kLookTime, however many pages are open, and only while one is;
// and while one of them hangs, not at all: then the page shows what was last known.
#pragma once

#include <atomic>
#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "control/admin/gateway_view.h"
#include "telemetry/collector.h"
#include "telemetry/history.h"
#include "telemetry/http_request.h"
#include "telemetry/live_connections.h"

namespace cw::telemetry {

class LivePage {
 public:
  static constexpr uint32_t kLimitDefault = 50;
  static constexpr uint32_t kLimitMax = 500;
  static constexpr uint32_t kPeersShown = 20;                           // clients, with their connections summed
  static constexpr auto kLookTime = std::chrono::milliseconds(900);     // connections, health, servers, budgets
  static constexpr auto kStatusTime = std::chrono::milliseconds(4900);  // ports, listeners, backends

  // All are referred to. `view` is asked on the server's thread, besides the admin thread.
  LivePage(const Collector& collector, const History& history, control::GatewayView& view);

  // Any thread. While it is off the server answers as if there were none.
  void set_on(bool on) { on_.store(on); }
  [[nodiscard]] bool is_on() const { return on_.load(); }
  // The server's thread. Precondition: the page of `request` is kIndex, kAsset, kSnapshot or
  // kHistory.
  [[nodiscard]] HttpReply answer(const HttpRequest& request);

 private:
  using Clock = std::chrono::steady_clock;
  struct SnapshotQuery {
    uint32_t limit = kLimitDefault;
    ConnectionOrder order = ConnectionOrder::kRpcs;
    bool reversed = false;
  };

  [[nodiscard]] HttpReply answer_index(const HttpRequest& request) const;
  [[nodiscard]] HttpReply answer_asset(const HttpRequest& request) const;
  [[nodiscard]] HttpReply answer_snapshot(const HttpRequest& request);
  [[nodiscard]] HttpReply answer_history(const HttpRequest& request) const;
  [[nodiscard]] static std::optional<SnapshotQuery> snapshot_query(std::string_view query);
  void look();
  [[nodiscard]] std::string snapshot_json(const SnapshotQuery& query) const;

  const Collector& collector_;
  const History& history_;
  control::GatewayView& view_;
  std::atomic<bool> on_{true};
  LiveConnections connections_;
  Health health_;
  control::GatewayStatus status_;
  control::PolicyStatus policy_;
  std::optional<Clock::time_point> looked_at_;
  std::optional<Clock::time_point> status_at_;
};

// What "/" says as text, with `about` the live page.
[[nodiscard]] std::string index_text(std::string_view about_page);

}  // namespace cw::telemetry
