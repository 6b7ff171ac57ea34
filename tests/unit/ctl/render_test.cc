#include "control/ctl/render.h"

#include <gtest/gtest.h>

#include <string>

#include "control/ctl/json_text.h"

namespace cw::control {
namespace {

using Json = nlohmann::ordered_json;

TEST(Render, QueuePairsSayWhatKeepsThemFromSending) {
  const Json answer = Json::parse(R"({"queue_pairs": [{"local_qpn": 2748, "remote_qpn": 17, "peer_address": "10.0.0.9",
    "state": "RTS", "listener": "nfs", "connection": 7, "lcore": 2, "path_mtu": 4096, "una_psn": 5, "next_psn": 7, "limit_psn": 9,
    "packets_in_flight": 2, "window_packets": 128, "round_trip_seconds": 0.000012, "ack_timeout_seconds": 0.067,
    "credits_left": null, "waiting_rnr": true, "recovering": true, "rate_bytes_per_second": 1048576}]})");
  const std::string text = render_queue_pairs(answer);
  for (const char* part : {"0x000abc -> 10.0.0.9 0x000011: RTS, recovering from a loss, waiting: the client had no receive",
                           "una 5, next 7, limit 9; 2 of 128 packets in flight", "round trip 12 us, ACK timeout 67 ms",
                           "credits left -", "limited to 1.0 MiB/s"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
}

TEST(Render, AConnectionOfIwarpShowsFpdusAndTcp) {
  const Json answer = Json::parse(R"({"queue_pairs": [{"wire": "iWARP", "local_qpn": null, "peer_address": "10.0.0.9",
    "state": "ERROR", "error": "violation (tagged_bounds) at MSN 5", "listener": "nfs", "connection": 7, "lcore": 2, "crc": true,
    "reads_outstanding": 3, "reads_max": 16, "fpdus_in": 12, "payload_bytes_in": 2048, "round_trip_seconds": 0.000012,
    "retransmits": 4, "tcp_unacknowledged_bytes": 3072, "tcp_mss_bytes": 1448}]})");
  const std::string text = render_queue_pairs(answer);
  for (const char* part :
       {"iWARP -> 10.0.0.9: ERROR (violation (tagged_bounds) at MSN 5), listener nfs", "with CRC", "3 of 16 READs",
        "in 12 FPDUs, 2.0 KiB", "round trip 12 us, 4 segments sent again", "3.0 KiB not acknowledged", "MSS 1448 B"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
}

TEST(Render, WithoutWideAConnectionFits120Columns) {
  const Json answer = Json::parse(R"({"connections": [{"id": 4711, "listener": "storage", "wire": "iWARP", "state": "established",
    "peer_address": "10.1.234.12", "peer_port": 54321, "local_qpn": 2748, "remote_qpn": 17, "path_mtu": 4096,
    "credits_granted": 128, "calls_in_flight": 128, "rpcs": 123456789, "bytes_in": 123456789012, "bytes_out": 123456789012,
    "retransmits": 12345, "cnps_received": 123, "age_seconds": 123456, "last_error": "-"}]})");
  const std::string narrow = render_connections(answer);
  EXPECT_LE(narrow.find('\n'), 120u) << narrow;
  EXPECT_EQ(narrow.find("QPN"), std::string::npos);
  EXPECT_NE(narrow.find("4711"), std::string::npos);
  EXPECT_NE(render_connections(answer, Detail::kWide).find("0x000abc"), std::string::npos);
}

TEST(Render, WithoutWideADeviceIsItsNameAlone) {
  const Json answer = Json::parse(R"({"ports": [{"device": "net_memif0,role=server,socket=/run/link.sock", "link_up": true}]})");
  EXPECT_EQ(render_ports(answer).find("role="), std::string::npos);
  EXPECT_NE(render_ports(answer).find("net_memif0  up"), std::string::npos);
  EXPECT_NE(render_ports(answer, Detail::kWide).find("socket=/run/link.sock"), std::string::npos);
}

TEST(Render, EmptyAnswersSaySo) {
  const Json nothing = Json::object();
  EXPECT_EQ(render_connections(nothing), "no connections\n");
  EXPECT_EQ(render_queue_pairs(nothing), "no such queue pairs\n");
  EXPECT_EQ(render_ports(nothing), "no such ports\n");
  EXPECT_EQ(render_routes(nothing), "no such routes\n");
  EXPECT_EQ(render_clients(nothing), "no such [[client]] sections\n");
  EXPECT_EQ(render_schema(nothing), "no such statistics\n");
}

TEST(Render, ServersSayWhereNewConnectionsGoAndWhatIsNotKnownYet) {
  const Json answer = Json::parse(R"({"servers": [
    {"backend": "nfs", "address": "10.0.0.1:2049", "role": "primary", "up": false, "checked": true, "preferred": false,
     "connections": 1, "calls_in_flight": 2, "checks": 9, "check_failures": 4, "check_age_seconds": 1.5,
     "check_seconds": 0.0003, "check_error": "Connection refused"},
    {"backend": "nfs", "address": "10.0.0.2:2049", "role": "backup", "up": null, "checked": true, "preferred": true,
     "connections": 0, "calls_in_flight": 0, "checks": 0, "check_failures": 0, "check_age_seconds": null,
     "check_seconds": 0, "check_error": ""},
    {"backend": "raw", "address": "10.0.0.3:2049", "role": "primary", "up": null, "checked": false, "preferred": true}]})");
  const std::string text = render_servers(answer);
  EXPECT_NE(text.find("down       -               1      2       9       4  300 us  1.5 s  Connection refused"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("checking   yes"), std::string::npos) << text;
  EXPECT_NE(text.find("unchecked  yes"), std::string::npos) << text;
}

TEST(Render, RoutesNameProgramsAndThoseThatNobodyTakes) {
  const Json answer = Json::parse(R"({"routes": [
    {"listener": "nfs", "program": 100005, "backend": "mounts", "calls": 12},
    {"listener": "nfs", "program": 200001, "backend": "own", "calls": 1},
    {"listener": "nfs", "program": null, "backend": "", "calls": 3}]})");
  const std::string text = render_routes(answer);
  EXPECT_NE(text.find("100005  mountd  mounts"), std::string::npos) << text;
  EXPECT_NE(text.find("200001  -       own"), std::string::npos) << text;
  EXPECT_NE(text.find("other  -       none: PROG_UNAVAIL"), std::string::npos) << text;
}

TEST(Render, ClientsShowUseAgainstLimits) {
  const Json answer = Json::parse(R"({"clients": [
    {"name": "cluster", "prefixes": ["192.0.2.0/25", "2001:db8::/64"], "allow": true, "connections": 2, "connections_max": 4,
     "credits_max": 32, "credits_granted": 64, "credits_in_use": 17,
     "bytes_in_flight": 1048576, "bytes_in_flight_max": 67108864, "calls_per_second_max": 5000,
     "bytes_per_second_max": 104857600, "weight": 4, "calls_postponed": 5, "refused_denied": 0, "refused_limit": 7},
    {"name": "others", "prefixes": ["0.0.0.0/0"], "allow": false, "connections": 0, "connections_max": null,
     "credits_max": null, "credits_granted": 0, "credits_in_use": 0,
     "bytes_in_flight": 0, "bytes_in_flight_max": null, "calls_per_second_max": null, "bytes_per_second_max": null,
     "weight": 1, "calls_postponed": 0, "refused_denied": 9, "refused_limit": 0}]})");
  const std::string text = render_clients(answer, Detail::kWide);
  for (const char* part : {"32       64      17    1.0 MiB  64.0 MiB   5000  100.0 MiB       4       5",
                           "0 B         -      -          -       1", "192.0.2.0/25 2001:db8::/64"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
}

TEST(Render, ListenersShowUseAgainstLimits) {
  const Json answer = Json::parse(R"({"listeners": [
    {"name": "nfs", "port": 20049, "backend": "nfs", "credits": 64, "inline_bytes": 4096, "connections": 3,
     "connections_max": 64, "calls_per_second_max": 20000, "bytes_per_second_max": null, "calls_postponed": 12,
     "calls": 900, "replies": 890, "errors": 1, "call_bytes": 1048576, "reply_bytes": 2048, "removed": false}]})");
  const std::string text = render_listeners(answer, Detail::kNarrow);
  EXPECT_NE(text.find("64  20000        -      12\n"), std::string::npos) << text;
  const std::string wide = render_listeners(answer, Detail::kWide);
  EXPECT_NE(wide.find("12    900      890       1  1.0 MiB  2.0 KiB\n"), std::string::npos) << wide;
}

TEST(Render, AGatewayOnVerbsShowsItsRdmaPortsAndWhyItIsNotReady) {
  Json answer = Json::parse(R"({"version": "1", "instance": "a", "ready": false,
    "reason": "no client reaches listener nfs: there is no RDMA device rxe0",
    "ports": [], "rdma_ports": [{"device": "rxe0", "port": null, "state": "absent", "active": false}],
    "listeners": [{"name": "nfs", "port": 20049, "transport": "verbs", "device": "rxe0", "backend": "nfs"}]})");
  const std::string text = render_status(answer, Detail::kNarrow);
  EXPECT_NE(text.find("Not ready: no client reaches listener nfs: there is no RDMA device rxe0\n"), std::string::npos) << text;
  EXPECT_NE(text.find("\nRDMA ports\n  DEVICE  PORT  STATE\n  rxe0       -  absent\n"), std::string::npos) << text;
  EXPECT_NE(text.find("20049  verbs rxe0  nfs"), std::string::npos) << text;
  EXPECT_EQ(text.find("\nPorts\n"), std::string::npos) << "there are none\n" << text;
  answer["listeners"][0] = {{"name", "nfs"}, {"transport", "roce"}, {"device", ""}};
  EXPECT_NE(render_status(answer, Detail::kNarrow).find("RoCE "), std::string::npos);
}

TEST(Render, CoresShowTheirBusyShare) {
  const Json answer =
      Json::parse(R"({"cores": [{"lcore": 3, "role": "poll", "connections": 2, "busy_seconds": 25, "idle_seconds": 75,
    "polls_busy": 10, "polls_idle": 30, "sleeps": 4}]})");
  EXPECT_NE(render_cores(answer).find("25.0 %"), std::string::npos);
}

TEST(Render, TimesAndSizesChooseTheirUnit) {
  EXPECT_EQ(short_time_text(0), "-");
  EXPECT_EQ(short_time_text(0.0000125), "12.5 us");
  EXPECT_EQ(short_time_text(0.5), "500 ms");
  EXPECT_EQ(short_time_text(2), "2 s");
  EXPECT_EQ(bytes_text(1536), "1.5 KiB");
  EXPECT_EQ(duration_text(93784), "1d 02:03:04");
}

}  // namespace
}  // namespace cw::control
