// A gateway that runs nowhere: fixed answers for the admin socket.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "control/admin/gateway_control.h"
#include "control/admin/gateway_view.h"
#include "rocev2/rc/qp.h"
#include "rocev2/rc/qp_fields.h"

namespace cw::control {

class FakeView final : public GatewayView {
 public:
  [[nodiscard]] GatewayStatus status() override {
    ++calls;
    GatewayStatus status;
    status.version = "9.8.7";
    status.instance = "test";
    status.uptime = Duration::seconds(93784);
    status.ready = true;
    status.connections = 2;
    status.ports = {
        {"net_tap0", "02:00:00:00:00:01", {"192.0.2.1/24", "2001:db8::1/64"}, 1500, 1024, true, 10000, "net_tap", 1, "none"}};
    status.rdma_ports = {{"rxe0", 1, "ACTIVE", true}};
    status.listeners = {{"nfs", 20049, "verbs", "rxe0", "", "nfs", 64, 4096, 2, 64}};
    status.backends = {{"nfs", "tcp", "127.0.0.1:2049", true, 3, 1, 0},
                       {"old", "tcp", "127.0.0.2:2049", false, 0, 0, 0},
                       {"new", "tcp", "127.0.0.3:2049", std::nullopt, 0, 0, 0}};
    status.policy = fixed_policy();
    return status;
  }
  [[nodiscard]] PolicyStatus policy() override {
    ++calls;
    return fixed_policy();
  }
  [[nodiscard]] static PolicyStatus fixed_policy() {
    PolicyStatus policy;
    policy.servers = {
        {"nfs", "127.0.0.1:2049", "primary", true, true, true, 2, 3, 40, 1, Duration::ms(1500), Duration::us(300), ""},
        {"nfs", "127.0.0.4:2049", "backup", false, true, false, 0, 0, 40, 40, Duration::ms(800), Duration::us(70),
         "Connection refused"},
        {"new", "127.0.0.3:2049", "primary", std::nullopt, false, true, 0, 0, 0, 0, std::nullopt, Duration(), ""}};
    policy.routes = {{"nfs", 100005, "old", 12}, {"nfs", 200001, "new", 0}, {"nfs", std::nullopt, "", 3}};
    policy.clients = {{"cluster",
                       {"192.0.2.0/25", "2001:db8::/64"},
                       true,
                       2,
                       4,
                       32,
                       64,
                       17,
                       1 << 20,
                       64 << 20,
                       {5000, std::nullopt},
                       4,
                       5,
                       0,
                       7,
                       {1000, 999, 2, 4096, 3 << 20}},
                      {"others", {"0.0.0.0/0"}, false, 0, std::nullopt, std::nullopt, 0, 0, 0, std::nullopt, {}, 1, 0, 9, 0}};
    return policy;
  }
  [[nodiscard]] static verbs::QueuePairInfo qp_info(uint32_t local_qpn, bool credit_limited = false) {
    rc::RcQpInfo rc;
    rc.state = rc::QpState::kRts;
    rc.path_mtu_bytes = 1024;
    rc.una = wire::Psn(0xfffffe);
    rc.next_psn = wire::Psn(3);
    rc.limit_psn = wire::Psn(9);
    rc.packets_in_flight = 5;
    rc.window_packets = 128;
    rc.credit_limited = credit_limited;
    rc.credits_left = -2;
    rc.ack_timeout = 14;  // 67 ms
    rc.retry_count = 7;
    verbs::QueuePairInfo info;
    info.wire = "RoCE";
    info.local_qpn = verbs::Qpn(local_qpn);
    info.remote_qpn = verbs::Qpn(0x11);
    info.traffic.retransmits = 4;
    info.traffic.round_trip = Duration::us(12);
    info.set_detail(rc, rc::qp_fields());
    return info;
  }
  [[nodiscard]] std::vector<ConnectionStatus> connections() override {
    ++calls;
    std::vector<ConnectionStatus> list(connection_count);
    for (size_t i = 0; i < list.size(); ++i) {
      ConnectionStatus& c = list[i];
      c.id = i + 1;
      c.listener = "nfs";
      c.peer_address = i % 2 == 0 ? "192.0.2.9" : "2001:db8::9";
      c.peer_port = 41000;
      c.qp = qp_info(0xabc);
      c.qp.error = error;
      c.state = "established";
      c.inline_send_bytes = 4096;
      c.inline_receive_bytes = 4096;
      c.remote_invalidate = true;
      c.credits_granted = 64;
      c.qp.traffic.payload_bytes_in = 1536;
      c.qp.traffic.payload_bytes_out = 5ULL << 30;
      c.rpcs = 77;
      c.age = Duration::seconds(61);
    }
    return list;
  }
  [[nodiscard]] std::vector<TransportEventStatus> transport_events(uint32_t) override {
    ++calls;
    return {{Duration::seconds(90), Duration::seconds(90), 1, 0xabc, "", "connected", "", 77, 1},
            {Duration::seconds(3), Duration::seconds(4), 1, 0xabd, "", "ack_timeout", "", 5, 3},
            {Duration::ms(2), Duration::ms(2), 1, 0xabc, "", "nak_received", "remote access error", 78, 1}};
  }
  [[nodiscard]] std::vector<QueuePairStatus> queue_pairs() override {
    ++calls;
    std::vector<QueuePairStatus> list(2);
    for (size_t i = 0; i < list.size(); ++i) {
      QueuePairStatus& qp = list[i];
      qp.connection = i + 1;
      qp.listener = "nfs";
      qp.peer_address = i % 2 == 0 ? "192.0.2.9" : "2001:db8::9";
      qp.info = qp_info(0xabc + static_cast<uint32_t>(i), i == 1);
    }
    return list;
  }
  [[nodiscard]] std::vector<ActivityStatus> activity() override {
    ++calls;
    return {{"192.0.2.9", "cluster", 2, {100, 99, 3, 4096, 1 << 20}, {{"nfs4", "read", 60, Duration::ms(30)}}},
            {"2001:db8::9", "", 0, {1, 1, 0, 100, 24}, {{"nfs3", "null", 1, Duration::us(9)}}}};
  }
  [[nodiscard]] std::vector<CoreStatus> cores() override {
    ++calls;
    return {{1, "poll", 2, 1.5, 4.5, 10, 20, 5}};
  }
  [[nodiscard]] bool start_ping(const std::string& backend, uint32_t, uint32_t, std::string& problem) override {
    problem = backend == "nfs" ? "" : "there is no backend '" + backend + "'";
    return problem.empty();
  }
  [[nodiscard]] PingStatus ping() override { return {true, true, "success", Duration::ms(1), Duration::ms(2)}; }
  [[nodiscard]] std::vector<StatInfo> stat_schema() override {
    ++calls;
    return {{"causeway_connections", "gauge", "", "Connections."},
            {"causeway_roce_packets_total", "counter", "", "RoCEv2 packets."},
            {"causeway_lcore_busy_seconds_total", "counter", "seconds", "Time in loop turns that found work."}};
  }
  [[nodiscard]] std::vector<NamedValue> stats() override {
    ++calls;
    return {{"causeway_connections", 2},
            {"causeway_roce_packets_total{port=\"0\",direction=\"rx\"}", 12345678901},
            {"causeway_lcore_busy_seconds_total", 1.5}};
  }

  size_t connection_count = 2;
  verbs::QueuePairError error;
  std::atomic<int> calls{0};
};

// Says what it was told to do.
class FakeControl final : public GatewayControl {
 public:
  [[nodiscard]] DrainStatus start_drain(const std::string& who, std::optional<Duration> timeout) override {
    said += who + " drain;";
    status.state = "draining";
    status.timeout = timeout;
    return status;
  }
  [[nodiscard]] DrainStatus stop_drain(const std::string& who) override {
    said += who + " serve;";
    status = {.state = "serving"};
    return status;
  }
  [[nodiscard]] DrainStatus drain() override { return status; }
  [[nodiscard]] LogLevel log_level() override { return level; }
  void set_log_level(const std::string& who, LogLevel wanted) override {
    said += who + " log;";
    level = wanted;
  }
  [[nodiscard]] ReloadReport reload(const std::string& who, bool dry_run) override {
    said += dry_run ? "" : who + " reload;";
    return {"/etc/c.toml",
            true,
            !dry_run,
            {},
            {{"log.level", "\"info\"", "\"debug\"", true}, {"port[0].mtu", "1500", "9000", false, "so it is"}}};
  }
  [[nodiscard]] bool restart(const std::string& who, std::string& problem) override {
    said += who + " restart;";
    problem = follower_problem;
    return problem.empty();
  }
  [[nodiscard]] bool start_capture(const std::string& who, const capture::CaptureOrder& wanted, std::string&) override {
    said += who + " capture;";
    captured_output = wanted.output >= 0;
    order = wanted;
    captured.state = "running";
    return true;
  }
  [[nodiscard]] capture::CaptureStatus stop_capture(const std::string& who) override {
    said += who + " no capture;";
    captured.state = "stopped";
    return captured;
  }
  [[nodiscard]] capture::CaptureStatus capture() override { return captured; }
  [[nodiscard]] std::vector<SettingText> settings() override { return fixed_settings; }

  std::string said;
  std::string follower_problem;  // of restart()
  DrainStatus status{.state = "serving"};
  LogLevel level = LogLevel::kInfo;
  capture::CaptureOrder order;
  capture::CaptureStatus captured;
  bool captured_output = false;  // an open file came along
  std::vector<SettingText> fixed_settings = {{"log.level", "\"info\""}, {"admin.socket", ""}};
};

}  // namespace cw::control
