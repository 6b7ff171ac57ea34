// The gateway on a poll core: joins the sans-I/O Gateway with the workers' rings, the telemetry snapshot and the admin thread.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "control/gateway/gateway.h"
#include "control/service/heartbeat.h"
#include "dataplane/core_loop.h"
#include "dataplane/value_ring.h"
#include "dataplane/worker_pool.h"
#include "telemetry/core_snapshot.h"
#include "telemetry/snapshot.h"

namespace cw::dataplane {

class GatewayApp final : public CoreApp {
 public:
  // `exchange` leads to the gateways of other cores; nullptr: there are none.
  GatewayApp(uint32_t core, gateway::Gateway& gateway, node::Node& node, WorkerPool& workers, CoreExchange* exchange,
             std::span<const std::unique_ptr<PortQueue>> queues, const MbufPools& pools);

  // Poll core.
  bool turn(Instant now) override;
  [[nodiscard]] bool has_input() const override;
  [[nodiscard]] Instant next_deadline() const override { return gateway_.next_deadline(); }
  void set_loop(const CoreLoop* loop) { loop_ = loop; }

  // Telemetry thread.
  [[nodiscard]] telemetry::Published<telemetry::CoreSnapshot>& snapshot() { return snapshot_; }
  // Control thread.
  [[nodiscard]] control::Heartbeat& heartbeat() { return heartbeat_; }
  [[nodiscard]] bool poll_notice(gateway::Notice& out) { return notices_.pop(std::span<gateway::Notice>(&out, 1)) == 1; }
  void request_shutdown() { shutdown_.store(true, std::memory_order_release); }
  [[nodiscard]] bool is_quiet() const { return quiet_.load(std::memory_order_acquire); }
  // Any thread but the core's; callers take turns. Fills `out` by the core itself; false when the core did not answer in time.
  [[nodiscard]] bool describe(std::vector<gateway::ConnectionInfo>& out, uint32_t connections_max);

 private:
  // A question to the core. It lives with who asks, who takes it back when the answer is late.
  struct Question {
    std::span<gateway::ConnectionInfo> out;
    uint32_t count = 0;
    uint32_t place = 0;  // that the core goes on from
    std::atomic<bool> answered{false};
  };
  bool exchange_messages(Instant now);
  bool serve_control(Instant now);
  void answer_some(Instant now);
  void fill(telemetry::CoreSnapshot& out) const;
  void fill_shared(telemetry::CoreSnapshot& out) const;

  uint32_t core_;
  gateway::Gateway& gateway_;
  node::Node& node_;
  WorkerPool& workers_;
  CoreExchange* exchange_;
  std::span<const std::unique_ptr<PortQueue>> queues_;
  const MbufPools& pools_;
  const CoreLoop* loop_ = nullptr;
  telemetry::Published<telemetry::CoreSnapshot> snapshot_;
  std::unique_ptr<telemetry::RpcDurations> durations_;
  ValueRing<gateway::Notice> notices_;
  gateway::BackendRequest held_;  // found its worker's ring full
  bool holds_ = false;
  std::mutex asking_;  // of those who describe()
  std::atomic<Question*> question_{nullptr};
  control::Heartbeat heartbeat_;
  std::atomic<bool> shutdown_{false};
  std::atomic<bool> quiet_{false};
  bool shutdown_begun_ = false;
};

}  // namespace cw::dataplane
