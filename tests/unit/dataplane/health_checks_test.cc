// Checks of servers over real sockets: who passes, who does not and why, and what the cores are told.
#include "dataplane/health_checks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "tests/support/tcp_bench_server.h"
#include "tests/unit/dataplane/few_descriptors.h"
#include "tests/unit/dataplane/loopback_listener.h"

namespace cw::dataplane {
namespace {

using control::BackendConfig;
using control::CheckKind;
using control::ServerCheck;
using control::ServerState;
using control::SocketAddress;

SocketAddress loopback(uint16_t port) {
  return {IpAddress::v4(0x7f00'0001), port};
}

BackendConfig backend_of(const std::vector<SocketAddress>& servers, CheckKind check = CheckKind::kRpc) {
  BackendConfig config;
  config.name = "b";
  config.address = servers.front();
  config.backups.assign(servers.begin() + 1, servers.end());
  config.check = check;
  config.check_interval_ms = 100;
  config.check_timeout_ms = 300;
  return config;
}

// What a core has been told last, of the servers of backend 0, or another one.
class Cores {
 public:
  uint32_t backend = 0;
  explicit Cores(uint32_t count) : states_(count) {}
  bool tell(uint32_t core, const gateway::CoreMessage& message) {
    const std::lock_guard lock(mutex_);
    if (refusals_ > 0) {
      --refusals_;
      return false;
    }
    EXPECT_EQ(message.kind, gateway::CoreMessage::Kind::kServerState);
    if (message.index == backend) {
      states_[core][message.server] = static_cast<ServerState>(message.value);
    }
    return true;
  }
  void refuse(uint32_t times) {
    const std::lock_guard lock(mutex_);
    refusals_ = times;
  }
  bool have(uint32_t server, ServerState state) {
    const std::lock_guard lock(mutex_);
    return std::ranges::all_of(states_, [&](auto& core) { return core[server] == state; });
  }

 private:
  std::mutex mutex_;
  uint32_t refusals_ = 0;
  std::vector<std::map<uint32_t, ServerState>> states_;
};

template <typename Condition>
[[nodiscard]] bool comes_true(Condition&& condition) {
  for (int turn = 0; turn < 3000; ++turn) {
    if (condition()) {
      return true;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

struct Rig {
  explicit Rig(const std::vector<BackendConfig>& backends, uint32_t count = 1)
      : cores(count), checks(backends, number(backends), count, [this](uint32_t core, const auto& message) {
          return cores.tell(core, message);
        }) {}
  const gateway::ConfigIds& number(const std::vector<BackendConfig>& backends) {
    control::Config config;
    config.backends = backends;
    numbers.add(config);
    return numbers;
  }
  void reload(const std::vector<BackendConfig>& backends) { checks.reconfigure(backends, number(backends)); }
  gateway::ConfigIds numbers;
  Cores cores;
  HealthChecks checks;
};

TEST(HealthChecks, AServerThatAnswersIsUpAndOneThatRefusesIsDown) {
  cw::test::TcpBenchServer server;  // knows no NFS: its PROG_UNAVAIL is an answer
  test::LoopbackListener closed;
  Rig rig({backend_of({loopback(closed.address().port), loopback(server.port())})}, 2);
  rig.cores.refuse(5);  // rings are full for a while
  rig.checks.start();
  ASSERT_TRUE(comes_true([&] { return rig.cores.have(0, ServerState::kDown) && rig.cores.have(1, ServerState::kUp); }));
  const std::vector<ServerCheck> rows = rig.checks.server_checks();
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].last_error, "Connection refused");
  EXPECT_EQ(rows[0].checks, rows[0].failures);
  EXPECT_EQ(rows[1].last_error, "");
  EXPECT_EQ(rows[1].failures, 0u);
  EXPECT_EQ(rows[1].address, control::to_string(loopback(server.port())));
}

TEST(HealthChecks, ASilentServerFailsACallAndPassesAConnect) {
  cw::test::TcpBenchServer silent(cw::test::TcpBenchServerOptions{.answers = false});
  Rig calls({backend_of({loopback(silent.port())})});
  calls.checks.start();
  ASSERT_TRUE(comes_true([&] { return calls.cores.have(0, ServerState::kDown); }));
  EXPECT_EQ(calls.checks.server_checks()[0].last_error, "no reply to a NULL call within 0.3 s");
  Rig connects({backend_of({loopback(silent.port())}, CheckKind::kTcp)});
  connects.checks.start();
  ASSERT_TRUE(comes_true([&] { return connects.cores.have(0, ServerState::kUp); }));
}

TEST(HealthChecks, AServerThatComesIsUpAndOneThatGoesIsDown) {
  uint16_t port = 0;
  auto server = std::make_unique<cw::test::TcpBenchServer>();
  port = server->port();
  Rig rig({backend_of({loopback(port)})});
  rig.checks.start();
  ASSERT_TRUE(comes_true([&] { return rig.cores.have(0, ServerState::kUp); }));
  server.reset();
  ASSERT_TRUE(comes_true([&] { return rig.cores.have(0, ServerState::kDown); }));
  EXPECT_GE(rig.checks.server_checks()[0].failures, 3u);
  server = std::make_unique<cw::test::TcpBenchServer>(cw::test::TcpBenchServerOptions{.port = port});
  ASSERT_TRUE(comes_true([&] { return rig.cores.have(0, ServerState::kUp); }));
}

// The drill of descriptors that run out found every server down, and every client refused.
TEST(HealthChecks, WhatThisHostLacksIsNoFaultOfTheServer) {
  cw::test::TcpBenchServer server;
  Rig rig({backend_of({loopback(server.port())})});
  rig.checks.start();
  ASSERT_TRUE(comes_true([&] { return rig.cores.have(0, ServerState::kUp); }));
  const auto last_error = [&] { return rig.checks.server_checks()[0].last_error; };
  {
    const test::FewDescriptors none(-static_cast<int>(control::kReservedDescriptors));
    ASSERT_TRUE(comes_true([&] { return last_error() == "not checked, for a lack of this host: Too many open files"; }));
  }
  {
    const test::FewDescriptors reserved_only(0);
    EXPECT_TRUE(comes_true([&] { return last_error().empty(); }));
  }
  EXPECT_EQ(rig.checks.server_checks()[0].failures, 0u);
  EXPECT_TRUE(rig.cores.have(0, ServerState::kUp));
}

TEST(HealthChecks, WithoutChecksNobodyIsAskedOrTold) {
  cw::test::TcpBenchServer server;
  Rig rig({backend_of({loopback(server.port())}, CheckKind::kOff)});
  rig.checks.start();
  rig.checks.stop();
  EXPECT_EQ(server.connections(), 0u);
  const std::vector<ServerCheck> rows = rig.checks.server_checks();
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_FALSE(rows[0].checked);
  EXPECT_EQ(rows[0].state, ServerState::kUnknown);
}

TEST(HealthChecks, AReloadChecksNewServersKeepsWhatIsKnownAndForgetsWhoWent) {
  cw::test::TcpBenchServer first;
  cw::test::TcpBenchServer second;
  cw::test::TcpBenchServer third;
  const auto list = [](auto&... servers) { return std::vector{loopback(servers.port())...}; };
  Rig rig({backend_of(list(first, second))}, 2);
  rig.checks.start();
  ASSERT_TRUE(comes_true([&] { return rig.cores.have(0, ServerState::kUp) && rig.cores.have(1, ServerState::kUp); }));
  rig.reload({backend_of(list(third, second))});
  ASSERT_TRUE(comes_true([&] { return rig.cores.have(2, ServerState::kUp); })) << "the new one has a number of its own";
  const std::vector<ServerCheck> rows = rig.checks.server_checks();
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0].address, control::to_string(loopback(third.port())));
  EXPECT_EQ(rows[0].rank, 0u);
  EXPECT_EQ(rows[1].server, 1u);
  EXPECT_EQ(rows[1].rank, 1u);
  EXPECT_GT(rows[1].checks, 0u) << "it stayed";
  EXPECT_EQ(rows[2].server, 0u);
  EXPECT_TRUE(rows[2].removed);
  EXPECT_FALSE(rows[2].checked);
  // It comes back under its old number.
  rig.reload({backend_of(list(first))});
  ASSERT_TRUE(comes_true([&] {
    const std::vector<ServerCheck> now = rig.checks.server_checks();
    return now[0].server == 0 && !now[0].removed && now[0].state == ServerState::kUp;
  }));
}

TEST(HealthChecks, AReloadBringsABackendAndTakesAnotherAway) {
  cw::test::TcpBenchServer old_server;
  cw::test::TcpBenchServer new_server;
  const BackendConfig old_backend = backend_of({loopback(old_server.port())});
  BackendConfig new_backend = backend_of({loopback(new_server.port())});
  new_backend.name = "new";
  Rig rig({old_backend});
  rig.cores.backend = 1;
  rig.checks.start();
  rig.reload({new_backend, old_backend});
  ASSERT_TRUE(comes_true([&] { return rig.cores.have(0, ServerState::kUp); })) << "under the number that comes next";
  rig.reload({new_backend});
  ASSERT_TRUE(comes_true([&] { return rig.checks.server_checks().back().removed; }));
  const std::vector<ServerCheck> rows = rig.checks.server_checks();
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].backend_name, "new");
  EXPECT_EQ(rows[0].backend, 1u);
  EXPECT_TRUE(rows[0].checked);
  EXPECT_EQ(rows[1].backend, 0u);
  EXPECT_FALSE(rows[1].checked);
}

TEST(HealthChecks, AReloadBeginsChecksEndsThemAndChangesTheirKind) {
  cw::test::TcpBenchServer silent(cw::test::TcpBenchServerOptions{.answers = false});
  Rig rig({backend_of({loopback(silent.port())}, CheckKind::kOff)});
  rig.checks.start();  // nothing to check
  const auto reload = [&](CheckKind check, uint32_t timeout_ms) {
    BackendConfig config = backend_of({loopback(silent.port())}, check);
    config.check_timeout_ms = timeout_ms;
    rig.reload({config});
  };
  reload(CheckKind::kRpc, 300);
  ASSERT_TRUE(comes_true([&] { return rig.cores.have(0, ServerState::kDown); }));
  reload(CheckKind::kRpc, 60'000);  // the check under way would take a minute
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  reload(CheckKind::kTcp, 300);
  ASSERT_TRUE(comes_true([&] { return rig.cores.have(0, ServerState::kUp); }));
  reload(CheckKind::kOff, 300);
  ASSERT_TRUE(comes_true([&] { return rig.cores.have(0, ServerState::kUnknown); }));
  EXPECT_FALSE(rig.checks.server_checks()[0].checked);
}

}  // namespace
}  // namespace cw::dataplane
