// The gateway on a poll core: joins the sans-I/O Gateway with the workers' rings, the telemetry snapshot and the admin thread.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "control/service/heartbeat.h"
#include "dataplane/core_loop.h"
#include "dataplane/rnic/rdma_host.h"
#include "dataplane/sockets/tcp_streams.h"
#include "dataplane/value_ring.h"
#include "dataplane/wakeup.h"
#include "dataplane/worker_pool.h"
#include "gateway/backend_ping.h"
#include "gateway/gateway.h"
#include "gateway/node/roce_transport.h"
#include "iwarp/transport.h"
#include "rnic/transport.h"
#include "telemetry/core_snapshot.h"
#include "telemetry/snapshot.h"

namespace cw::dataplane {

enum class DrainOrder : uint8_t {
  kServe,
  kDrain,
  kHandOver,  // as kDrain, and the next process has what can go on
  kForce,     // end what is left
};

// What a reload changes of a core's wires.
struct WireOptions {
  node::RoceOptions roce;
  iwarp::IwarpOptions iwarp;
  TcpStreamsOptions tcp;
  rnic::RnicOptions rnic;
  RdmaHostOptions rdma;
};

// A core's wires, and what carries them.
struct CoreWires {
  node::RoceTransport& roce;
  iwarp::IwarpTransport& iwarp;
  TcpStreams& tcp;
  rnic::RnicTransport& rnic;
  RdmaHost& rdma;
};

// What became of a reload on a core, the worst last.
enum class Reconfigured : uint8_t {
  kDone,
  kNotAllListen,  // done, but a listener could not take its address and port
  kNoAnswer,      // the core has not taken it in time
};

// Of one core, or several added up.
struct DrainProgress {
  uint32_t connections = 0;  // open
  uint64_t drained = 0;      // connections that ended in order, ever
  uint64_t forced = 0;       // connections that were ended otherwise by us, ever
  bool is_current = true;    // the core has acted on its last order
};

class GatewayApp final : public CoreApp {
 public:
  // `exchange` leads to the gateways of other cores; nullptr: there are none. `wakeup` is the core's: whoever asks or orders
  // something does not wait until it has slept.
  GatewayApp(uint32_t core, gateway::Gateway& gateway, const CoreWires& wires, node::Node& node, WorkerPool& workers,
             CoreExchange* exchange, std::span<const std::unique_ptr<PortQueue>> queues, BufferPools& pools, Wakeup& wakeup);

  // Poll core.
  bool turn(Instant now) override;
  [[nodiscard]] bool has_input() const override;
  [[nodiscard]] Instant next_deadline() const override { return gateway_.next_deadline(); }
  void set_loop(const CoreLoop* loop) { loop_ = loop; }

  // Telemetry thread.
  [[nodiscard]] telemetry::Published<telemetry::CoreSnapshot>& snapshot() { return snapshot_; }
  // The thread that checks servers. False: the core has not taken what it was told before.
  [[nodiscard]] bool tell(const gateway::CoreMessage& message);
  // Control thread.
  [[nodiscard]] control::Heartbeat& heartbeat() { return heartbeat_; }
  [[nodiscard]] bool poll_notice(gateway::Notice& out) { return notices_.pop(std::span<gateway::Notice>(&out, 1)) == 1; }
  // Admin thread. False while one is under way.
  [[nodiscard]] bool start_ping(const gateway::PingOrder& order);
  // The result of the last one started; false until it is there.
  [[nodiscard]] bool ping_result(gateway::PingResult& out) const;
  void order_drain(DrainOrder order);
  [[nodiscard]] DrainProgress drain_progress() const;
  // When the core does not turn any more.
  [[nodiscard]] std::vector<std::vector<uint8_t>> take_handed_over() { return gateway_.take_handed_over(); }
  // Before it turns: Gateway::take_over(). How many there are that go on.
  uint32_t take_over(Instant now, std::span<const std::vector<uint8_t>> saved);
  void request_shutdown();
  // Any thread: a core that sleeps turns now.
  void wake() { wakeup_.wake(); }
  [[nodiscard]] bool is_quiet() const { return quiet_.load(std::memory_order_acquire); }
  // Any thread but the core's; callers take turns. Fills `out` by the core itself; false when the core did not answer in time.
  [[nodiscard]] bool describe(std::vector<gateway::ConnectionInfo>& out, uint32_t connections_max);
  // The same for what clients do.
  [[nodiscard]] bool describe_clients(std::vector<gateway::ClientInfo>& out, uint32_t connections_max);
  // The same for new options: the core exchanges them (Gateway::reconfigure), and `options` holds what was. After kNoAnswer
  // `options` must not be given to it again.
  [[nodiscard]] Reconfigured reconfigure(gateway::GatewayOptions& options, const WireOptions& wires);
  // The same for the logs of the transports, of each the youngest `each_max`, one behind the other, and what time it is for the
  // core.
  [[nodiscard]] bool copy_log(uint32_t each_max, std::vector<verbs::TransportEvent>& out, Instant& now);

 private:
  // A question to the core, about its connections, its clients or its log, or an order with new options. It lives with who asks,
  // who takes it back when the answer is late.
  struct Question {
    std::span<gateway::ConnectionInfo> out;
    std::span<gateway::ClientInfo> clients;
    std::span<verbs::TransportEvent> log;
    uint32_t each_max = 0;  // of `log`
    gateway::GatewayOptions* options = nullptr;
    const WireOptions* wires = nullptr;  // beside `options`
    Instant now;                         // when it was answered
    uint32_t count = 0;
    uint32_t place = 0;      // that the core goes on from
    bool all_listen = true;  // with `options`
    std::atomic<bool> answered{false};
  };
  bool exchange_messages(Instant now);
  bool serve_control(Instant now);
  void drain(Instant now);
  void publish_progress();
  [[nodiscard]] bool serve_ping(Instant now);
  void answer_some(Instant now);
  [[nodiscard]] bool ask(Question& question);
  void fill(telemetry::CoreSnapshot& out) const;
  void fill_shared(telemetry::CoreSnapshot& out) const;

  uint32_t core_;
  gateway::Gateway& gateway_;
  CoreWires wires_;
  node::Node& node_;
  WorkerPool& workers_;
  CoreExchange* exchange_;
  std::span<const std::unique_ptr<PortQueue>> queues_;
  const BufferPools& pools_;
  Wakeup& wakeup_;
  const CoreLoop* loop_ = nullptr;
  telemetry::Published<telemetry::CoreSnapshot> snapshot_;
  std::unique_ptr<telemetry::RpcDurations> durations_;
  ValueRing<gateway::Notice> notices_;
  ValueRing<gateway::CoreMessage> told_;
  gateway::BackendRequest held_;  // found its worker's ring full
  bool holds_ = false;
  std::mutex asking_;  // of those who describe()
  std::atomic<Question*> question_{nullptr};
  control::Heartbeat heartbeat_;
  enum class PingState : uint8_t { kIdle, kWanted, kUnderWay, kDone };
  std::atomic<PingState> ping_state_{PingState::kIdle};
  gateway::PingOrder ping_order_;    // the admin thread's until kWanted
  gateway::PingResult ping_result_;  // the core's until kDone
  gateway::BackendPing ping_;
  std::atomic<DrainOrder> drain_order_{DrainOrder::kServe};
  std::atomic<DrainOrder> drain_acted_on_{DrainOrder::kServe};
  std::atomic<uint32_t> open_{0};  // these three: as of the last turn with an order, or the last answered heartbeat
  std::atomic<uint64_t> drained_{0};
  std::atomic<uint64_t> forced_{0};
  std::atomic<bool> shutdown_{false};
  std::atomic<bool> quiet_{false};
  bool shutdown_begun_ = false;
};

}  // namespace cw::dataplane
