// Every key of the configuration has an effect: the key table is walked, each key is changed in a file, and what the gateway is
// made of (assemble.h and what else the configuration is turned into) differs in the place that the key is for. A new key without
// an entry fails.
#include <gtest/gtest.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "control/admin/admin_peer.h"
#include "control/config/buffer_plan.h"
#include "control/config/config_check.h"
#include "control/config/config_keys.h"
#include "control/config/config_parse.h"
#include "control/config/memory_plan.h"
#include "dataplane/assemble.h"
#include "dataplane/health_checks.h"

namespace cw::dataplane {
namespace {

// Sections of the file that is changed, in the order of the key table. A key that stands here with a value is replaced.
struct Given {
  const char* section;
  std::vector<std::pair<std::string, std::string>> keys;
};
const std::vector<Given> kFile = {
    {"[gateway]", {}},
    {"[dataplane]", {}},
    {"[[port]]", {{"device", "\"net_tap0,iface=cw0\""}, {"addresses", "[\"192.0.2.1/24\"]"}}},
    {"[[listener]]", {{"name", "\"nfs\""}, {"backend", "\"nfs\""}}},
    {"[[backend]]", {{"name", "\"nfs\""}, {"address", "\"127.0.0.1:2049\""}}},
    {"[[route]]", {{"listener", "\"nfs\""}, {"program", "100005"}, {"backend", "\"nfs\""}}},
    {"[[client]]", {{"name", "\"some\""}, {"prefixes", "[\"192.0.2.0/24\"]"}}},
    {"[limits]", {}},
    {"[roce]", {}},
    {"[iwarp]", {}},
    {"[metrics]", {}},
    {"[admin]", {}},
    {"[log]", {}},
};
// Behind it, for keys that name another listener or backend.
constexpr const char* kOthers =
    "[[listener]]\nname = \"other\"\nport = 20050\nbackend = \"other\"\n"
    "[[backend]]\nname = \"other\"\naddress = \"127.0.0.1:2050\"\n";

// The file with another value of one key. Who refers to a section by its name goes on doing so.
std::string file_with(const std::string& section, const std::string& key, const std::string& value) {
  std::string text;
  for (const Given& given : kFile) {
    const bool is_this = given.section == "[" + section + "]" || given.section == "[[" + section + "]]";
    text += std::string(given.section) + "\n";
    for (const auto& [name, usual] : given.keys) {
      const bool refers = key == "name" && name == section;
      if (!is_this || name != key) {
        text += fmt::format("{} = {}\n", name, refers ? value : usual);
      }
    }
    if (is_this && !value.empty()) {
      text += fmt::format("{} = {}\n", key, value);
    }
  }
  return text + kOthers;
}

// What the gateway is made of.
struct Made {
  explicit Made(const control::Config& from) : config(from), eal(eal_settings(from)), workers(worker_options(from)) {
    const std::vector<wire::MacAddress> macs(from.ports.size());
    numbers.add(from);
    node = node_options(from, macs, {}, 1);
    quota = connection_quota(from, numbers);
    quota_of_clients = client_quota(from, numbers);
    set_rates(from, numbers, rates.rates());
    gateway = gateway_options(from, {}, *quota, *quota_of_clients, rates.rates(), source_ports, numbers);
    roce = roce_options(from, {});
    tcp = tcp_options(from, {});
    tcp_of_second_core = tcp_options(from, {.index = 1, .count = 2});
    iwarp = iwarp_options(from, {});
    rdma = rdma_options(from, {});
    port = port_settings(from, from.ports.front());
    pools = control::pool_sizes(from);
    check = check_plan(from.backends.front());
    std::string problem;
    policy = control::resolve_policy(from.admin, problem);
  }
  [[nodiscard]] const link::StationOptions& station() const { return node.ports.front(); }
  [[nodiscard]] const gateway::ListenerOptions& listener() const { return gateway.listeners.front(); }
  [[nodiscard]] const gateway::BackendOptions& backend() const { return gateway.backends.front(); }
  [[nodiscard]] const gateway::ClientClassOptions& client() const { return gateway.clients.front(); }
  // Who answers this program at this listener: the backend's number.
  [[nodiscard]] uint32_t route(size_t at, uint32_t program) const {
    for (const gateway::RouteOptions& each : gateway.listeners[at].routes) {
      if (each.program == program) {
        return each.backend;
      }
    }
    return gateway::ListenerOptions::kNoBackend;
  }

  control::Config config;
  gateway::ConfigIds numbers;
  EalSettings eal;
  WorkerPoolOptions workers;
  node::NodeOptions node;
  std::unique_ptr<gateway::ConnectionQuota> quota;
  std::unique_ptr<gateway::ConnectionQuota> quota_of_clients;
  gateway::OwnedRates<LocalRateLimiter, rpcrdma::LocalRateShares> rates;
  gateway::PortBook source_ports{1, 1};
  gateway::GatewayOptions gateway;
  node::RoceOptions roce;
  TcpStreamsOptions tcp;
  TcpStreamsOptions tcp_of_second_core;
  iwarp::IwarpOptions iwarp;
  RdmaHostOptions rdma;
  PortSettings port;
  control::PoolSizes pools;
  CheckPlan check;
  std::optional<control::AdminPolicy> policy;
};

struct Effect {
  std::string value;                                // another one than the default or the usual, as TOML
  std::function<std::string(const Made&)> lands{};  // where the key is for
  const char* ops_case = nullptr;                   // instead: the ops case that sees it, of keys that only main() reads
  const char* refusal = nullptr;                    // instead: no other value is legal than the usual one, and this is said
};

template <typename Member>
Effect to(std::string value, Member&& member) {
  return {std::move(value), [member](const Made& made) { return fmt::format("{}", member(made)); }};
}

const std::map<std::string, Effect>& effects() {
  static const std::map<std::string, Effect> kEffects = {
      {"gateway.instance", to("\"second\"", [](const Made& m) { return m.eal.instance; })},
      {"gateway.drain_on_stop_s", {.value = "1", .ops_case = "drill: a gateway that is told to end drains first"}},
      {"dataplane.main_lcore", to("3", [](const Made& m) { return m.eal.cpus.main_lcore; })},
      {"dataplane.poll_lcores", to("[1, 2]", [](const Made& m) { return m.eal.cpus.poll_lcores; })},
      {"dataplane.worker_lcores", to("[2]", [](const Made& m) { return m.eal.cpus.worker_lcores; })},
      {"dataplane.hugepages", to("true", [](const Made& m) { return m.eal.hugepages; })},
      {"dataplane.memory_mb", to("700", [](const Made& m) { return m.eal.memory_mb; })},
      {"dataplane.idle", to("\"spin\"", [](const Made& m) { return m.workers.spin; })},
      {"dataplane.rx_buffers", to("65536", [](const Made& m) { return m.pools.packet_buffers; })},
      {"dataplane.workers", to("2", [](const Made& m) { return m.workers.workers; })},
      {"port.device", to("\"net_tap1,iface=cw1\"", [](const Made& m) { return m.port.device; })},
      {"port.mtu", to("4500", [](const Made& m) { return m.station().mtu; })},
      {"port.addresses", to("[\"192.0.2.9/25\"]", [](const Made& m) { return m.station().addresses.front().prefix_bits; })},
      {"port.beside_kernel", to("true", [](const Made& m) { return m.port.beside_kernel; })},
      {"port.exception_tap", to("\"cw0\"", [](const Made& m) { return m.port.exception_tap; })},
      {"port.vlan", to("42", [](const Made& m) { return m.station().vlan; })},
      {"port.gateway4", to("\"192.0.2.254\"", [](const Made& m) { return m.station().gateway4.has_value(); })},
      {"port.gateway6", to("\"2001:db8::fe\"", [](const Made& m) { return m.station().gateway6.has_value(); })},
      {"listener.name", to("\"else\"", [](const Made& m) { return m.listener().name; })},
      {"listener.transport", to("\"iwarp\"", [](const Made& m) { return m.listener().transport; })},
      {"listener.address", to("\"192.0.2.1\"", [](const Made& m) { return m.tcp.listen.size(); })},
      {"listener.device", to("\"rxe0\"", [](const Made& m) { return m.rdma.listen.size(); })},
      {"listener.port", to("20051", [](const Made& m) { return m.listener().port; })},
      {"listener.backend", to("\"other\"", [](const Made& m) { return m.listener().backend; })},
      {"listener.credits", to("32", [](const Made& m) { return m.listener().server.credits; })},
      {"listener.reverse_credits", to("8", [](const Made& m) { return m.listener().server.reverse_credits; })},
      {"listener.inline_bytes", to("8192", [](const Made& m) { return m.listener().inline_bytes; })},
      {"listener.remote_invalidate", to("false", [](const Made& m) { return m.listener().remote_invalidate; })},
      {"listener.allow", to("[\"192.0.2.0/24\"]", [](const Made& m) { return m.listener().allow.size(); })},
      {"listener.connections_max", to("7", [](const Made& m) { return m.listener().connections_max; })},
      {"listener.calls_per_second", to("1000", [](const Made& m) { return m.rates.rates().listeners.front().calls->is_on(); })},
      {"listener.bytes_per_second",
       to("1000000", [](const Made& m) { return m.rates.rates().listeners.front().bytes->is_on(); })},
      {"backend.name", to("\"else\"", [](const Made& m) { return m.backend().name; })},
      {"backend.type", to("\"builtin\"", [](const Made& m) { return static_cast<int>(m.backend().kind); })},
      {"backend.address", to("\"127.0.0.1:3049\"", [](const Made& m) { return m.workers.backends.front().front().port; })},
      {"backend.backups", to("[\"127.0.0.1:3050\"]", [](const Made& m) { return m.backend().servers.size(); })},
      {"backend.source",
       to("\"client\"", [](const Made& m) { return m.workers.from_client.front() && m.backend().from_client; })},
      {"backend.check", to("\"tcp\"", [](const Made& m) { return m.check.calls; })},
      {"backend.check_interval_ms", to("300", [](const Made& m) { return m.check.health.interval.to_ns(); })},
      {"backend.check_timeout_ms", to("300", [](const Made& m) { return m.check.timeout.to_ns(); })},
      {"backend.check_fall", to("9", [](const Made& m) { return m.check.health.fall; })},
      {"backend.check_rise", to("9", [](const Made& m) { return m.check.health.rise; })},
      {"backend.programs",
       {.value = "[]\ntype = \"builtin\"", .refusal = "backend.programs: names none"}},  // "bench" is the only one
      {"backend.connect_timeout_ms", to("1234", [](const Made& m) { return m.backend().open_timeout.to_ns(); })},
      {"backend.call_timeout_s", to("60", [](const Made& m) { return m.backend().call_timeout.to_ns(); })},
      {"route.listener", to("\"other\"", [](const Made& m) { return m.route(1, 100'005); })},
      {"route.program", to("100021", [](const Made& m) { return m.route(0, 100'021); })},
      {"route.backend", to("\"other\"", [](const Made& m) { return m.route(0, 100'005); })},
      {"client.name", to("\"else\"", [](const Made& m) { return m.client().name; })},
      {"client.prefixes", to("[\"192.0.2.0/25\"]", [](const Made& m) { return m.client().prefixes.front().length_bits; })},
      {"client.allow", to("false", [](const Made& m) { return m.client().allow; })},
      {"client.connections_max", to("5", [](const Made& m) { return m.client().connections_max; })},
      {"client.credits", to("5", [](const Made& m) { return m.client().credits_max; })},
      {"client.bytes_in_flight_max", to("2097152", [](const Made& m) { return m.client().bytes_in_flight_max; })},
      {"client.calls_per_second", to("1000", [](const Made& m) { return m.rates.rates().clients.front().calls->is_on(); })},
      {"client.bytes_per_second", to("1000000", [](const Made& m) { return m.rates.rates().clients.front().bytes->is_on(); })},
      {"client.weight", to("2", [](const Made& m) { return m.client().weight; })},
      {"limits.read_segments_max", to("32", [](const Made& m) { return m.listener().server.limits.read_segments_max; })},
      {"limits.write_chunks_max", to("5", [](const Made& m) { return m.listener().server.limits.write_chunks_max; })},
      {"limits.plain_segments_max", to("33", [](const Made& m) { return m.listener().server.limits.plain_segments_max; })},
      {"limits.call_bytes_max", to("2097152", [](const Made& m) { return m.listener().server.call_bytes_max; })},
      {"limits.reply_bytes_max", to("2097152", [](const Made& m) { return m.workers.limits.message_bytes_max; })},
      {"limits.read_timeout_s", to("7", [](const Made& m) { return m.listener().server.read_timeout.to_ns(); })},
      {"limits.reply_timeout_s", to("7", [](const Made& m) { return m.listener().server.reply_timeout.to_ns(); })},
      {"limits.calls_in_flight_max", to("100", [](const Made& m) { return m.gateway.calls_in_flight_max; })},
      {"limits.connections_max", to("33", [](const Made& m) { return m.gateway.connections_max; })},
      {"limits.half_open_max", to("100", [](const Made& m) { return m.node.cm.half_open_max; })},
      {"limits.cm_requests_per_second", to("100", [](const Made& m) { return m.node.cm.request_rate.per_second; })},
      {"limits.half_open_max_per_prefix", to("100", [](const Made& m) { return m.node.cm.prefix.half_open_max; })},
      {"limits.cm_requests_per_second_per_prefix",
       to("100", [](const Made& m) { return m.node.cm.prefix.request_rate.per_second; })},
      {"limits.prefix_bits_ipv4", to("16", [](const Made& m) { return m.node.cm.prefix.ipv4_bits; })},
      {"limits.prefix_bits_ipv6", to("48", [](const Made& m) { return m.node.cm.prefix.ipv6_bits; })},
      {"roce.path_mtu_max", to("512", [](const Made& m) { return static_cast<int>(m.node.cm.path_mtu_max); })},
      {"roce.ack_timeout", to("16", [](const Made& m) { return m.roce.ack_timeout_min_code; })},
      {"roce.retry_count", to("3", [](const Made& m) { return m.roce.retry_count; })},
      {"roce.rnr_retry_count", to("3", [](const Made& m) { return m.roce.rnr_retry_count; })},
      {"roce.rnr_timer", to("20", [](const Made& m) { return m.roce.rc.min_rnr_timer; })},
      {"roce.send_window_packets", to("64", [](const Made& m) { return m.roce.rc.send_window_packets; })},
      {"roce.reads_in_flight_max", to("4", [](const Made& m) { return m.roce.rc.initiator_depth_max; })},
      {"roce.keepalive_s", to("7", [](const Made& m) { return m.roce.rc.keepalive.to_ns(); })},
      {"roce.selective_recovery", to("false", [](const Made& m) { return m.roce.rc.selective_recovery; })},
      {"roce.congestion_control", to("false", [](const Made& m) { return m.roce.rc.congestion_control; })},
      {"iwarp.poll_lcores",
       to("[5]", [](const Made& m) { return std::tuple(m.eal.cpus.poll_lcores, m.tcp.listens, m.tcp_of_second_core.listens); })},
      {"iwarp.crc", to("false", [](const Made& m) { return m.iwarp.crc; })},
      {"iwarp.reads_in_flight_max", to("4", [](const Made& m) { return m.iwarp.ord; })},
      {"iwarp.fpdu_bytes_max", to("1500", [](const Made& m) { return m.iwarp.fpdu_bytes_max; })},
      {"iwarp.handshake_timeout_s", to("9", [](const Made& m) { return m.iwarp.handshake_timeout.to_ns(); })},
      {"iwarp.keepalive_s", to("7", [](const Made& m) { return m.tcp.keepalive.to_ns(); })},
      {"iwarp.user_timeout_s", to("7", [](const Made& m) { return m.tcp.user_timeout.to_ns(); })},
      {"metrics.listen",
       {.value = "\"off\"", .ops_case = "metrics switched off are served nowhere, and causewayctl still has them"}},
      {"metrics.web_config",
       {.value = "\"/etc/causeway/web-config.yml\"",
        .ops_case = "Prometheus scrapes metrics behind TLS and a password, and nobody else does"}},
      {"metrics.addresses_max",
       {.value = "2", .ops_case = "series of client addresses are as many as asked for, the busiest first"}},
      {"metrics.page", {.value = "false", .ops_case = "live page switched off says so, and a reload switches it on"}},
      {"metrics.dpdk_telemetry", to("true", [](const Made& m) { return m.eal.telemetry; })},
      {"admin.socket", to("\"/run/x.sock\"", [](const Made& m) { return control::admin_socket_path(m.config); })},
      {"admin.group", to("\"4711\"", [](const Made& m) { return m.policy->socket_gid.value_or(0); })},
      {"admin.admins", to("[\"4711\"]", [](const Made& m) { return m.policy->admin_uids.size(); })},
      {"admin.admin_groups", to("[\"4711\"]", [](const Made& m) { return m.policy->admin_gids.size(); })},
      {"log.format", {.value = "\"json\"", .ops_case = "log lines are JSON when the configuration says so"}},
      {"log.level", {.value = "\"debug\"", .ops_case = "SIGHUP takes a new log level"}},
  };
  return kEffects;
}

std::vector<std::pair<std::string, std::string>> all_keys() {
  std::vector<std::pair<std::string, std::string>> all;
  control::for_each_section([&](const auto& section, auto) {
    for (const auto& key : section.keys) {
      all.emplace_back(section.info.name, key.name);
    }
  });
  return all;
}

std::string problems_of(const std::vector<control::Problem>& problems) {
  std::string text;
  for (const control::Problem& problem : problems) {
    text += control::to_string(problem) + "\n";
  }
  return text;
}

// That a value lands in an options struct does not say that anybody reads it there. For each such key this names a test that
// gives the reader another value and sees the difference: `Suite.Name` of a unit test, or an ops case.
const std::map<std::string, const char*>& seen_by() {
  static const std::map<std::string, const char*> kSeenBy = {
      {"gateway.instance", "two instances serve side by side"},
      {"dataplane.main_lcore", "the main thread runs on the CPU that is named for it"},
      {"dataplane.poll_lcores", "two poll cores both serve, and hand over what is for the other"},
      {"dataplane.worker_lcores", "workers run on the CPUs that are named for them"},
      {"dataplane.hugepages", "the memory of packets is in hugepages when the configuration says so"},
      {"dataplane.memory_mb", "drill: buffers for replies run out"},
      {"dataplane.idle", "an idle gateway leaves the CPUs alone, unless it is to spin"},
      {"dataplane.rx_buffers", "drill: packet buffers run out"},
      {"dataplane.workers", "workers run on the CPUs that are named for them"},
      {"port.device", "a device that does not exist is said in one sentence"},
      {"port.mtu", "StationTest.EchoesEverySizeThatFitsTheMtu"},
      {"port.addresses", "StationTest.AsksTheGatewayForWhatIsNotOnItsNetwork"},
      {"port.beside_kernel", "an interface beside the kernel that is not there is said in one sentence"},
      {"port.exception_tap", "one-address-nfs3"},
      {"port.vlan", "TaggedStationTest.AnswersOnItsVlanOnly"},
      {"port.gateway4", "StationTest.AsksTheGatewayForWhatIsNotOnItsNetwork"},
      {"port.gateway6", "StationTest.AsksTheGatewayForWhatIsNotOnItsNetwork"},
      {"listener.name", "causewayctl reload under load moves a listener, and drops nobody"},
      {"listener.transport", "TwoTransports.ServeAtOnceAndAreDrainedTogether"},
      {"listener.address", "TcpStreams.AListenerWithAnAddressListensThereOnly"},
      {"listener.device", "RdmaCore.ADeviceThatIsNotThereIsSaidSo"},
      {"listener.port", "Gateway.RejectsAnUnknownPort"},
      {"listener.backend", "Routes.ProgramsOfAListenerWithoutBackendAreUnavailableUnlessRouted"},
      {"listener.credits", "Reload.CreditsAndInlineSizesAreForNewConnections"},
      {"listener.reverse_credits", "ReverseCalls.WithoutCreditsToAskForThereIsNoReverseDirection"},
      {"listener.inline_bytes", "Reload.CreditsAndInlineSizesAreForNewConnections"},
      {"listener.remote_invalidate", "Gateway.WorksWithPeersThatNegotiateNothing"},
      {"listener.allow", "Gateway.RejectsClientsOutsideTheAllowList"},
      {"listener.connections_max", "Gateway.RejectsMoreConnectionsThanTheListenerAllows"},
      {"listener.calls_per_second", "Rates.CallsOfAListenerKeepToItsRateWhoeverMakesThem"},
      {"listener.bytes_per_second", "Rates.BytesOfAListenerKeepToItsRate"},
      {"backend.name", "a reload under load brings a backend and takes another away, and nobody is dropped"},
      {"backend.type", "Gateway.ForwardsToABackendAndMatchesRepliesByXid"},
      {"backend.address", "WorkerPool.ConnectsToABackendThatItHasBeenToldOf"},
      {"backend.backups", "FailOver.ClientsOfADeadServerLandOnTheNextAndNothingIsLost"},
      {"backend.source", "a server sees the address of each client with source = \"client\""},
      {"backend.check", "HealthChecks.ASilentServerFailsACallAndPassesAConnect"},
      {"backend.check_interval_ms", "ServerHealth.OtherParametersCountFromTheNextCheckOn"},
      {"backend.check_timeout_ms", "HealthChecks.AReloadBeginsChecksEndsThemAndChangesTheirKind"},
      {"backend.check_fall", "ServerHealth.OtherParametersCountFromTheNextCheckOn"},
      {"backend.check_rise", "ServerHealth.OtherParametersCountFromTheNextCheckOn"},
      {"backend.connect_timeout_ms", "Routes.ABackendThatTakesNoConnectionInTimeIsGivenUp"},
      {"backend.call_timeout_s", "Routes.EachBackendHasItsOwnTimeLimitForCalls"},
      {"route.listener", "calls go to the backend of their program's route"},
      {"route.program", "Routes.OneConnectionTalksToTwoBackendsByProgram"},
      {"route.backend", "Routes.OneConnectionTalksToTwoBackendsByProgram"},
      {"client.name", "a reload under load adds, moves and removes [[client]] sections, and nobody is dropped"},
      {"client.prefixes", "ClientClasses.TheLongestPrefixDecides"},
      {"client.allow", "Budgets.WhoIsDeniedIsRefusedAndCounted"},
      {"client.connections_max", "Budgets.ConnectionsBeyondTheLimitOfTheClassAreRefusedUntilOneEnds"},
      {"client.credits", "Budgets.CreditsAreTheClassesWhenTheyAreFewer"},
      {"client.bytes_in_flight_max", "BudgetsOnAWire.CallsBeyondTheBytesOfTheClassWaitAndAllAreAnswered"},
      {"client.calls_per_second", "BudgetsOnAWire.CallsOfAClassKeepToItsRate"},
      {"client.bytes_per_second", "BudgetsOnAWire.BytesOfAClassKeepToItsRate"},
      {"client.weight", "Rates.SectionsShareTheRateOfAListenerByTheirWeights"},
      {"limits.read_segments_max", "ServerReceive.TheCapsAreThoseOfTheOptions"},
      {"limits.write_chunks_max", "ServerReceive.TheCapsAreThoseOfTheOptions"},
      {"limits.plain_segments_max", "ServerReceive.TheCapsAreThoseOfTheOptions"},
      {"limits.call_bytes_max", "ServerReceive.ReadsOverTheBudgetAreRefusedBeforeAnythingIsRead"},
      {"limits.reply_bytes_max", "RecordMarkTest.MessageAtTheLimitPassesAndOneByteMoreFails"},
      {"limits.read_timeout_s", "ServerWaits.AClientThatAnswersNoRdmaReadLosesItsConnectionAfterTheReadTimeout"},
      {"limits.reply_timeout_s", "RepliesNotTaken.AReplyThatIsNotAcknowledgedEndsTheConnection"},
      {"limits.calls_in_flight_max", "BackendShares.AloneItGetsMost"},
      {"limits.connections_max", "Cores.PlacesAreSharedExactly"},
      {"limits.half_open_max", "CmHostile.C2AReqFloodIsHeldToItsRateAndItsOldestMakeRoomForItsNewest"},
      {"limits.cm_requests_per_second", "CmHostile.C2AReqFloodIsHeldToItsRateAndItsOldestMakeRoomForItsNewest"},
      {"limits.half_open_max_per_prefix", "CmPrefix.ANetworkHoldsNoMoreHalfOpenConnectionsThanItsShare"},
      {"limits.cm_requests_per_second_per_prefix", "CmPrefix.ANetworkThatAsksTooOftenIsHeldToItsShareAndAnotherIsNot"},
      {"limits.prefix_bits_ipv4", "CmPrefix.NetworksAreAsWideAsConfigured"},
      {"limits.prefix_bits_ipv6", "CmPrefix.NetworksAreAsWideAsConfigured"},
      {"roce.path_mtu_max", "CmHostile.C3AnMtuBeyondThePortIsRejected"},
      {"roce.ack_timeout", "PeerChoices.TheAckTimeoutIsThePeersBetweenOursAndTheLongest"},
      {"roce.retry_count", "PeerChoices.RetriesAreTheFewerOfThePeersAndOurs"},
      {"roce.rnr_retry_count", "PeerChoices.RetriesAreTheFewerOfThePeersAndOurs"},
      {"roce.rnr_timer", "Responder.AnRnrNakAsksForTheWaitOfTheOptions"},
      {"roce.send_window_packets", "Requester.StopsAtTheWindowAndAsksForAnAcknowledgementBeforeItStops"},
      {"roce.reads_in_flight_max", "PeerChoices.ReadsInFlightAreTheFewerOfThePeersAndOurs"},
      {"roce.keepalive_s", "Keepalive.RepeatsAnOldPacketThatThePeerHasToAcknowledge"},
      {"roce.selective_recovery", "Gateway.RecoversSelectivelyWhenBothSidesOfferIt"},
      {"roce.congestion_control", "Congestion.SwitchedOffItSendsNoEctAnswersNoMarkAndObeysNoNotification"},
      {"iwarp.poll_lcores", "iWARP has a poll core of its own, and RoCE the other"},
      {"iwarp.crc", "IwarpTransport.CarriesMessagesOfEveryKind"},
      {"iwarp.reads_in_flight_max", "IwarpTransport.ReadsInFlightAreTheFewerOfThePeersAndOurs"},
      {"iwarp.fpdu_bytes_max", "IwarpTransport.FpdusAreNoLongerThanTheOptionSays"},
      {"iwarp.handshake_timeout_s", "IwarpHostile.I7_ASlowHandshakeHasATimeLimit"},
      {"iwarp.keepalive_s", "TcpStreamsTest.TheKernelAsksIdlePeersAndGivesSilentOnesUp"},
      {"iwarp.user_timeout_s", "TcpStreamsTest.TheKernelAsksIdlePeersAndGivesSilentOnesUp"},
      {"metrics.dpdk_telemetry", "DPDK's telemetry socket agrees with /metrics"},
      {"admin.socket", "an unwritable admin socket is said in one sentence"},
      {"admin.group", "causewayctl changes nothing for those who may only look"},
      {"admin.admins", "causewayctl changes nothing for those who may only look"},
      {"admin.admin_groups", "AdminPeer.RootTheGatewayItselfAndThoseNamedMayChange"},
  };
  return kSeenBy;
}

// The sources of the tests, in one.
const std::string& test_sources() {
  static const std::string kSources = [] {
    std::stringstream text;
    const std::filesystem::path tests = CAUSEWAY_SOURCE_ROOT "/tests";
    for (const auto& file : std::filesystem::recursive_directory_iterator(tests / "unit")) {
      if (file.path().filename().string().ends_with("_test.cc")) {
        text << std::ifstream(file.path()).rdbuf();
      }
    }
    for (const auto& folder : {tests / "ops", tests / "interop" / "lab"}) {
      for (const auto& file : std::filesystem::directory_iterator(folder)) {
        if (file.path().filename().string().ends_with("cases.py")) {
          text << std::ifstream(file.path()).rdbuf();
        }
      }
    }
    return text.str();
  }();
  return kSources;
}
bool there_is(const std::string& test) {
  const size_t dot = test.find('.');
  if (dot == std::string::npos || test.find(' ') != std::string::npos) {  // a case of ops, or of interop on several wires
    return std::ranges::any_of(std::vector<std::string>{"\"" + test + "\"", "'" + test + "'", "\"" + test + "-{wire.name}\""},
                               [](const std::string& named) { return test_sources().find(named) != std::string::npos; });
  }
  const std::string named = test.substr(0, dot) + ", " + test.substr(dot + 1) + ")";
  return std::ranges::any_of(std::vector<std::string>{"TEST(", "TEST_F(", "TEST_P("},
                             [&](const std::string& kind) { return test_sources().find(kind + named) != std::string::npos; });
}

// What RoCE clients may ask for is what clients of an RDMA device may, as both ask in the same request.
TEST(ConfigEffects, RdmaDevicesHaveThePatienceOfRoce) {
  control::Config config;
  config.roce.ack_timeout = 16;
  config.roce.retry_count = 3;
  config.roce.rnr_retry_count = 4;
  const rnic::RetryLimits limits = rdma_options(config, {}).retries;
  EXPECT_EQ(limits.timeout_min, 16);
  EXPECT_EQ(limits.retries_max, 3);
  EXPECT_EQ(limits.rnr_retries_max, 4);
  config.roce.rnr_timer = 20;
  EXPECT_EQ(rdma_options(config, {}).min_rnr_timer, 20);
  config.roce.keepalive_s = 7;
  EXPECT_EQ(rnic_options(config, {}).keepalive, Duration::seconds(7));
}

TEST(ConfigEffects, EveryKeyThatIsChangedChangesWhatItIsFor) {
  const control::ParsedConfig usual = control::config_parse(file_with("", "", ""), "usual");
  ASSERT_EQ(problems_of(usual.problems), "");
  const Made before(usual.config);
  for (const auto& [section, key] : all_keys()) {
    const std::string name = fmt::format("{}.{}", section, key);
    const auto effect = effects().find(name);
    if (effect == effects().end()) {
      ADD_FAILURE() << name << " has no entry: change it here, and name the place where it lands";
      continue;
    }
    const control::ParsedConfig changed = control::config_parse(file_with(section, key, effect->second.value), "changed");
    EXPECT_EQ(problems_of(changed.problems), "") << name;
    if (effect->second.refusal != nullptr) {
      EXPECT_NE(problems_of(control::config_check(changed)).find(effect->second.refusal), std::string::npos) << name;
    } else if (effect->second.ops_case != nullptr) {
      EXPECT_TRUE(there_is(effect->second.ops_case)) << name << " is seen by no ops case of this name";
    } else {
      EXPECT_NE(effect->second.lands(before), effect->second.lands(Made(changed.config))) << name << " has no effect";
    }
  }
}

TEST(ConfigEffects, EveryKeyThatLandsSomewhereIsReadThereAsATestSees) {
  for (const auto& [name, effect] : effects()) {
    const auto seen = seen_by().find(name);
    const bool lands = static_cast<bool>(effect.lands);
    EXPECT_EQ(lands, seen != seen_by().end()) << name;
    if (seen != seen_by().end()) {
      EXPECT_TRUE(there_is(seen->second)) << name << ": there is no test " << seen->second;
    }
  }
  for (const auto& [name, test] : seen_by()) {
    EXPECT_TRUE(effects().contains(name)) << name;
  }
}

// All connections of a core share its work requests, and a reply holds one until the client acknowledges. There is one for each
// place in each send queue, up to a million.
TEST(ConfigEffects, EverySendQueueOfACoreMayBeFull) {
  for (const uint32_t connections : {64u, 96u, 1000u, 4096u, 100'000u}) {
    control::Config config = control::config_parse(file_with("", "", ""), "usual").config;
    config.limits.connections_max = connections;
    const uint64_t queues = std::min<uint64_t>(uint64_t{connections} * rc::RcOptions().send_queue_depth, 1u << 20);
    const std::vector<wire::MacAddress> macs(config.ports.size());
    EXPECT_GE(node_options(config, macs, {}, 1).endpoint.send_work_max, queues) << connections;
    // Connections spread over cores, but not quite evenly.
    EXPECT_GE(node_options(config, macs, {.index = 0, .count = 4}, 1).endpoint.send_work_max, queues / 4) << connections;
    EXPECT_LE(node_options(config, macs, {.index = 0, .count = 4}, 1).endpoint.send_work_max, 1u << 20) << connections;
  }
}

TEST(ConfigEffects, NoEntryIsOfAKeyThatDoesNotExist) {
  std::set<std::string> known;
  for (const auto& [section, key] : all_keys()) {
    known.insert(fmt::format("{}.{}", section, key));
  }
  for (const auto& [name, effect] : effects()) {
    EXPECT_TRUE(known.contains(name)) << name;
  }
}

}  // namespace
}  // namespace cw::dataplane
