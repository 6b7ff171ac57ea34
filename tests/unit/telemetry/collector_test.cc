#include "telemetry/collector.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <thread>

#include "telemetry/exposition.h"
#include "telemetry/metric_table.h"
#include "tests/unit/telemetry/synthetic.h"

namespace cw::telemetry {
namespace {

// The text of a scrape without the families that differ between runs and machines.
std::string stable_text(const Collector& collector) {
  std::istringstream lines(to_prometheus(collector.Collect()));
  std::string text;
  for (std::string line; std::getline(lines, line);) {
    const bool of_process =
        line.starts_with("process_") || line.starts_with("# HELP process_") || line.starts_with("# TYPE process_");
    text += of_process ? "" : line + '\n';
  }
  return text;
}

std::map<std::string, double> values_of(const Collector& collector) {
  std::map<std::string, double> values;
  for (const control::NamedValue& value : collector.named_values()) {
    EXPECT_TRUE(values.emplace(value.name, value.value).second) << "series twice: " << value.name;
  }
  return values;
}

// Changing what is exported changes this file in the same commit: run with CAUSEWAY_WRITE_GOLDEN=1.
TEST(Collector, TextIsTheGoldenOne) {
  SyntheticCores cores(1);  // all zero, so that a new counter in some layer does not change the file, only a new metric does
  cores.publish([](CoreSnapshot&) {});
  const std::string text = stable_text(Collector(cores.sources()));
  const char* path = CAUSEWAY_SOURCE_ROOT "/tests/unit/telemetry/metrics.golden";
  if (std::getenv("CAUSEWAY_WRITE_GOLDEN") != nullptr) {
    std::ofstream(path) << text;
  }
  std::stringstream golden;
  golden << std::ifstream(path).rdbuf();
  const std::string before = golden.str();
  const auto differs = std::ranges::mismatch(text, before).in1 - text.begin();
  EXPECT_TRUE(text == before) << "from here on: " << text.substr(static_cast<size_t>(differs), 200);
}

TEST(Collector, NoTwoSeriesReadTheSameCounter) {
  SyntheticCores cores(1);
  cores.publish(fill_synthetic);
  std::map<double, std::string> seen;
  for (const auto& [series, value] : values_of(Collector(cores.sources()))) {
    // What causeway_connections sums up.
    const bool is_part = series.starts_with("causeway_lcore_connections{");
    const bool from_table = series.starts_with("causeway_") && !series.starts_with("causeway_rpc_") && !is_part && value > 1;
    if (from_table) {
      const auto [before, is_new] = seen.emplace(value, series);
      EXPECT_TRUE(is_new) << series << " and " << before->second;
    }
  }
  EXPECT_GT(seen.size(), 200u);
}

TEST(Collector, PromtoolFindsNothing) {
  if (std::system("command -v promtool >/dev/null 2>&1") != 0) {
    GTEST_SKIP() << "promtool is not installed";
  }
  SyntheticCores cores(2);
  cores.publish(fill_synthetic);
  const std::string text = to_prometheus(Collector(cores.sources()).Collect());
  char name[] = "/tmp/cw_metrics_XXXXXX";
  const int fd = mkstemp(name);
  ASSERT_GE(fd, 0);
  ASSERT_EQ(write(fd, text.data(), text.size()), static_cast<ssize_t>(text.size()));
  close(fd);
  FILE* pipe = popen((std::string("promtool check metrics <") + name + " 2>&1").c_str(), "r");
  std::string said;
  for (int c = 0; (c = std::fgetc(pipe)) != EOF;) {
    said += static_cast<char>(c);
  }
  EXPECT_EQ(pclose(pipe), 0);
  EXPECT_EQ(said, "");
  std::remove(name);
}

TEST(Collector, EverySeriesIsThereFromTheStartAsZero) {
  SyntheticCores cores(2);
  const Collector collector(cores.sources());
  SyntheticCores busy(2);
  busy.publish(fill_synthetic);
  const Collector busy_collector(busy.sources());
  const auto idle_values = values_of(collector);
  auto busy_values = values_of(busy_collector);
  std::erase_if(busy_values, [](const auto& item) { return item.first.starts_with("causeway_backend_up"); });
  ASSERT_EQ(idle_values.size(), busy_values.size());
  for (const auto& [series, value] : idle_values) {
    EXPECT_TRUE(busy_values.contains(series)) << series;
    const bool constant = series.starts_with("causeway_build_info") || series.starts_with("process_") ||
                          series.starts_with("causeway_snapshot_timeouts") || series.starts_with("causeway_config") ||
                          series.starts_with("causeway_port_info") || series.starts_with("causeway_listener") ||
                          series.starts_with("causeway_backend_server_") || series.find("_max") != std::string::npos;
    EXPECT_TRUE(value == 0 || constant) << series;
  }
}

TEST(Collector, StaysWithinTheBudgetOfSeries) {
  SyntheticCores cores(2);
  size_t lines = 0;
  std::istringstream text(to_prometheus(Collector(cores.sources()).Collect()));
  for (std::string line; std::getline(text, line);) {
    lines += line.starts_with('#') ? 0 : 1;
  }
  EXPECT_LT(lines, 2100u);
}

TEST(Collector, AddsUpCoresAndKeepsPortsAndLcoresApart) {
  SyntheticCores cores(2);
  cores.publish([](CoreSnapshot& out) {
    out.rc.ack_timeouts = 3;
    out.ports[0].roce_rx_packets = 10;
    out.ports[1].roce_rx_packets = 20;
    out.gateway.backends[1].up = 1;
    out.loop.busy_ns = 1'500'000'000;
    out.rc.discards[static_cast<size_t>(wire::DropReason::kPsnStale)] = 2;
    out.gsi.discards[static_cast<size_t>(wire::DropReason::kQkey)] = 1;
    out.cm.rejects_received[0] = 1;
    out.cm.rejects_received[34] = 4;
  });
  const auto values = values_of(Collector(cores.sources()));
  EXPECT_EQ(values.at("causeway_roce_ack_timeouts_total"), 6);
  EXPECT_EQ(values.at("causeway_roce_packets_total{port=\"0\",direction=\"rx\"}"), 20);
  EXPECT_EQ(values.at("causeway_roce_packets_total{port=\"1\",direction=\"rx\"}"), 40);
  EXPECT_EQ(values.at("causeway_backend_up{backend=\"bench\"}"), 1);
  EXPECT_EQ(values.at("causeway_lcore_busy_seconds_total{lcore=\"0\",role=\"poll\"}"), 1.5);
  EXPECT_EQ(values.at("causeway_roce_discards_total{port=\"any\",reason=\"psn_stale\"}"), 4);
  EXPECT_EQ(values.at("causeway_roce_discards_total{port=\"any\",reason=\"qkey\"}"), 2);
  EXPECT_EQ(values.at("causeway_cm_rejects_total{direction=\"rx\",reason=\"unknown\"}"), 10);
}

// "Down" would be wrong: nobody has asked for it.
TEST(Collector, ABackendIsNeitherUpNorDownBeforeTheFirstAttempt) {
  SyntheticCores cores(2);
  const Collector collector(cores.sources());
  const std::string series = "causeway_backend_up{backend=\"nfs\"}";
  EXPECT_FALSE(values_of(collector).contains(series));
  EXPECT_EQ(to_prometheus(collector.Collect()).find("causeway_backend_up{"), std::string::npos);
  cores.publish([](CoreSnapshot& out) { out.gateway.backends[0].open_failures = 1; });
  EXPECT_EQ(values_of(collector).at(series), 0);
  cores.publish([](CoreSnapshot& out) { out.gateway.backends[0].up = 1; });
  EXPECT_EQ(values_of(collector).at(series), 1);
}

TEST(Collector, OneCoreThatKnowsABackendIsEnough) {
  SyntheticCores cores(2);
  int core = 0;
  cores.publish([&core](CoreSnapshot& out) { out.gateway.backends[0].open_failures = core++ == 0 ? 0 : 3; });
  EXPECT_EQ(values_of(Collector(cores.sources())).at("causeway_backend_up{backend=\"nfs\"}"), 0);
}

TEST(Collector, ConnectionsThatEndedStandUnderTheirReason) {
  SyntheticCores cores(1);
  cores.publish([](CoreSnapshot& out) {
    out.gateway.connections[static_cast<size_t>(gateway::ConnectionResult::kFailedProtocol)] = 2;
    out.gateway.connections[static_cast<size_t>(gateway::ConnectionResult::kFailedBackendTimeout)] = 3;
    out.gateway.connections[static_cast<size_t>(gateway::ConnectionResult::kFailedHandshake)] = 4;
    out.gateway.backends[1].replies = 5;
  });
  const auto values = values_of(Collector(cores.sources()));
  EXPECT_EQ(values.at("causeway_connections_closed_total{reason=\"failed_protocol\"}"), 2);
  EXPECT_EQ(values.at("causeway_connections_closed_total{reason=\"failed_backend_timeout\"}"), 3);
  EXPECT_EQ(values.at("causeway_connections_handshake_failures_total"), 4);
  EXPECT_EQ(values.at("causeway_backend_replies_total{backend=\"bench\"}"), 5);
}

TEST(Collector, WhomTheMetricsServerRefusesStandsUnderItsReason) {
  const SyntheticCores cores(1);
  WebRefusals refusals;
  MetricSources sources = cores.sources();
  sources.web_refusals = &refusals;
  const Collector collector(std::move(sources));
  const std::string series = "causeway_web_refused_total";
  for (size_t i = 0; i < kWebRefusalCount; ++i) {
    const auto reason = static_cast<WebRefusal>(i);
    EXPECT_EQ(values_of(collector).at(series + "{reason=\"" + to_string(reason) + "\"}"), 0);
    for (size_t times = 0; times <= i; ++times) {
      refusals.count(reason);
    }
  }
  const auto values = values_of(collector);
  for (size_t i = 0; i < kWebRefusalCount; ++i) {
    EXPECT_EQ(values.at(series + "{reason=\"" + to_string(static_cast<WebRefusal>(i)) + "\"}"), i + 1);
  }
  EXPECT_EQ(values.count(series + "{reason=\"unknown\"}"), 0u);
}

TEST(Collector, PortsAndLimitsAreThoseOfTheConfiguration) {
  const SyntheticCores cores(1);
  const auto values = values_of(Collector(cores.sources()));
  EXPECT_EQ(values.at("causeway_port_info{port=\"1\",device=\"0000:3b:02.1\",driver=\"mlx5_pci\",mac=\"02:00:00:00:00:02\","
                      "steering=\"rss\"}"),
            1);
  EXPECT_EQ(values.at("causeway_connections_max"), 64);
  EXPECT_EQ(values.at("causeway_connections_half_open_max"), 512);
  EXPECT_EQ(values.at("causeway_rpcrdma_calls_in_flight_max"), 4096);
  EXPECT_EQ(values.at("causeway_listener_connections_max{listener=\"nfs\"}"), 48);
  EXPECT_EQ(values.at("causeway_listener_credits{listener=\"bench\"}"), 32);
}

// A counter that moved to another label, or vanished while connections still add to it, would be wrong.
TEST(Collector, AReloadOfRoutesLeavesEachCounterItsLabels) {
  SyntheticCores cores(1);
  cores.publish([](CoreSnapshot& out) { out.gateway.route_calls[5] = 40; });
  Collector collector(cores.sources());
  const std::string before = "causeway_route_calls_total{listener=\"nfs\",program=\"100005\",backend=\"bench\"}";
  const std::string after = "causeway_route_calls_total{listener=\"nfs\",program=\"100005\",backend=\"nfs\"}";
  EXPECT_EQ(values_of(collector).at(before), 40);
  collector.set_routes({{"nfs", 100005, "nfs", 6}, {"nfs", std::nullopt, std::nullopt, 0}, {"nfs", 100005, "bench", 5, true}});
  EXPECT_EQ(values_of(collector).at(before), 40);
  EXPECT_EQ(values_of(collector).at(after), 0);
}

// A gauge of what is gone would be taken for one of what is there; a counter does not vanish.
TEST(Collector, ASectionThatWasRemovedKeepsItsCountersAndGaugesThatAreNotZero) {
  SyntheticCores cores(1);
  cores.publish([](CoreSnapshot& out) {
    out.gateway.clients[0] = {.connections = 2, .refused_limit = 7};
    out.gateway.clients[1] = {.refused_denied = 1};
  });
  Collector collector(cores.sources());
  EXPECT_EQ(values_of(collector).at("causeway_client_bytes_in_flight{client=\"cluster\"}"), 0);
  collector.set_clients({{"cluster", true}, {"guests"}});
  const auto values = values_of(collector);
  EXPECT_EQ(values.at("causeway_client_connections{client=\"cluster\"}"), 2);
  EXPECT_EQ(values.at("causeway_client_connections_refused_total{client=\"cluster\",reason=\"limit\"}"), 7);
  EXPECT_EQ(values.at("causeway_client_connections_refused_total{client=\"cluster\",reason=\"denied\"}"), 0);
  EXPECT_EQ(values.count("causeway_client_bytes_in_flight{client=\"cluster\"}"), 0u);
  EXPECT_EQ(values.at("causeway_client_connections{client=\"guests\"}"), 0);
  EXPECT_EQ(values.at("causeway_client_connections_refused_total{client=\"guests\",reason=\"denied\"}"), 1);
}

TEST(Collector, ABackendThatWasRemovedIsNotDown) {
  SyntheticCores cores(1);
  cores.publish([](CoreSnapshot& out) {
    out.gateway.backends[0] = {.open_failures = 3, .calls = 40};
    out.gateway.backends[1].up = 1;
  });
  GatewayFlags flags;
  flags.listening = true;
  MetricSources sources = cores.sources();
  sources.flags = &flags;
  Collector collector(std::move(sources));
  EXPECT_NE(collector.health().reason.find("backend nfs is down"), std::string::npos);
  EXPECT_EQ(values_of(collector).at("causeway_backend_up{backend=\"nfs\"}"), 0);
  collector.set_backends({{"nfs", true}, {"bench"}});
  EXPECT_EQ(collector.health().reason.find("backend"), std::string::npos) << collector.health().reason;
  const auto values = values_of(collector);
  EXPECT_EQ(values.count("causeway_backend_up{backend=\"nfs\"}"), 0u);
  EXPECT_EQ(values.at("causeway_backend_calls_total{backend=\"nfs\"}"), 40);
}

// The metric and /readyz never disagree: a gateway without a link, or whose backend is down, is not ready.
TEST(Collector, ReadyIsWhatHealthSays) {
  Published<CoreSnapshot> published;
  GatewayFlags flags;
  flags.listening = true;
  MetricSources sources;
  sources.cores = {{0, "poll", &published}};
  sources.flags = &flags;
  sources.ports = {{"net_memif0", "net_memif", "", "none"}};
  sources.backends = {{"nfs"}};
  Collector collector(std::move(sources));
  std::atomic<uint64_t> link_up{0};
  std::atomic<uint64_t> open_failures{0};
  const std::jthread turning([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      if (published.is_wanted()) {
        published.publish([&](CoreSnapshot& out) {
          out.ports[0].link_up = link_up;
          out.gateway.backends[0].open_failures = open_failures;
        });
      }
      std::this_thread::yield();
    }
  });
  const auto ready = [&] { return values_of(collector).at("causeway_ready"); };
  const auto publish = [&](uint64_t link, uint64_t failures) {
    link_up = link;
    open_failures = failures;
  };
  publish(0, 0);
  EXPECT_EQ(ready(), 0);
  EXPECT_EQ(collector.health().reason, "the link of net_memif0 is down");
  publish(1, 0);
  EXPECT_EQ(ready(), 1);
  publish(1, 3);
  EXPECT_EQ(ready(), 0);
  publish(1, 0);
  flags.config_last_reload_successful = false;
  EXPECT_EQ(ready(), 1);
  EXPECT_EQ(collector.health().warnings.size(), 1u);
  publish(0, 0);
  collector.set_limits({.listeners = {{.name = "iwarp", .needs_link = false}}});
  EXPECT_EQ(ready(), 1) << "clients of iWARP come through the kernel";
}

TEST(Collector, AGatewayWhoseRdmaDeviceIsNotThereIsNotReady) {
  SyntheticRdma rdma;
  SyntheticCores cores(1);
  cores.publish([](CoreSnapshot&) {});
  GatewayFlags flags;
  flags.listening = true;
  MetricSources sources = cores.sources();
  sources.flags = &flags;
  sources.ports.clear();
  sources.backends.clear();
  sources.cores.clear();  // none that has to answer
  sources.limits.listeners = {{.name = "nfs", .needs_link = false, .rdma_device = "rxe0", .port = 20049}};
  sources.rdma_folder = rdma.folder();
  const Collector collector(std::move(sources));
  const auto ready = [&] { return values_of(collector).at("causeway_ready"); };
  EXPECT_EQ(ready(), 0);
  EXPECT_EQ(collector.health().reason, "no client reaches listener nfs: there is no RDMA device rxe0");
  rdma.add_port("rxe0", "1", "4: ACTIVE", 0);
  EXPECT_EQ(ready(), 1);
  EXPECT_EQ(collector.health().reason, "");
  rdma.add_port("rxe0", "1", "1: DOWN", 0);
  EXPECT_EQ(ready(), 0);
  EXPECT_EQ(values_of(collector).at("causeway_rdma_port_active{device=\"rxe0\",port=\"1\"}"), 0);
  EXPECT_EQ(collector.health().reason, "no client reaches listener nfs: port 1 of RDMA device rxe0 is DOWN");
  rdma.remove("rxe0");
  EXPECT_EQ(ready(), 0);
}

TEST(Collector, FlagsShowTheStateOfTheGateway) {
  SyntheticCores cores(1);
  GatewayFlags flags;
  flags.draining = true;
  flags.config_last_reload_unix_s = 1'700'000'000;
  MetricSources sources = cores.sources();
  sources.flags = &flags;
  const auto values = values_of(Collector(std::move(sources)));
  EXPECT_EQ(values.at("causeway_draining"), 1);
  EXPECT_EQ(values.at("causeway_ready"), 0);
  EXPECT_EQ(values.at("causeway_config_last_reload_successful"), 1);
  EXPECT_EQ(values.at("causeway_config_last_reload_timestamp_seconds"), 1'700'000'000);
}

TEST(Collector, SilentCoreCostsATimeoutAndKeepsItsNumbers) {
  SyntheticCores cores(1);
  cores.publish([](CoreSnapshot& out) { out.rc.ack_timeouts = 3; });
  const Collector collector(cores.sources());
  const auto before = std::chrono::steady_clock::now();
  const auto values = values_of(collector);
  EXPECT_LT(std::chrono::steady_clock::now() - before, std::chrono::seconds(2));
  EXPECT_EQ(values.at("causeway_roce_ack_timeouts_total"), 3);
  EXPECT_EQ(values.at("causeway_snapshot_timeouts_total{lcore=\"0\",role=\"poll\"}"), 1);
}

TEST(Collector, LivingCoresAnswerSeveralReaders) {
  Published<CoreSnapshot> published;
  MetricSources sources;
  sources.cores = {{0, "poll", &published}};
  const Collector collector(std::move(sources));
  std::atomic<bool> stop{false};
  std::thread core([&] {
    uint64_t turns = 0;
    while (!stop.load()) {
      ++turns;
      if (published.is_wanted()) {
        published.publish([turns](CoreSnapshot& out) {
          out.loop.polls_busy = turns;
          out.loop.polls_idle = turns;
        });
      }
    }
  });
  const auto read = [&] {
    for (int i = 0; i < 10; ++i) {
      const auto values = collector.named_values();
      double busy = -1;
      double idle = -2;
      for (const control::NamedValue& value : values) {
        busy = value.name.find("polls_total") != std::string::npos && value.name.find("busy") != std::string::npos ? value.value
                                                                                                                   : busy;
        idle = value.name.find("polls_total") != std::string::npos && value.name.find("idle") != std::string::npos ? value.value
                                                                                                                   : idle;
      }
      EXPECT_EQ(busy, idle);
      EXPECT_GT(busy, 0);
    }
  };
  std::thread other(read);
  read();
  other.join();
  stop = true;
  core.join();
}

// The rules that promtool does not know.
TEST(MetricTable, NamesFollowTheRules) {
  std::set<std::string> finished;
  std::string current;
  for (const MetricRow& row : metric_rows()) {
    const std::string name = row.name;
    EXPECT_TRUE(name.starts_with("causeway_")) << name;
    EXPECT_EQ(name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_"), std::string::npos) << name;
    const bool is_counter = row.type == prometheus::MetricType::Counter;
    EXPECT_EQ(name.ends_with("_total"), is_counter) << name;
    if (name != current) {
      EXPECT_TRUE(finished.insert(name).second) << name << ": rows of one family stand together";
      EXPECT_NE(std::string(row.help), "") << name;
      EXPECT_TRUE(std::string(row.help).ends_with('.')) << name;
      current = name;
    }
  }
}

TEST(RpcDurations, CallsFromMemoryAreToldApart) {
  Histogram histogram;
  for (const int us : {4, 8, 15, 40}) {
    histogram.record(Duration::us(us));
  }
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(histogram.count_up_to(kExportedBounds[i]), i + 1) << kExportedBounds[i].to_seconds();
  }
}

}  // namespace
}  // namespace cw::telemetry
