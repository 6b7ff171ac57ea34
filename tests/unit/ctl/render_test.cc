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

TEST(Render, EmptyAnswersSaySo) {
  const Json nothing = Json::object();
  EXPECT_EQ(render_connections(nothing), "no connections\n");
  EXPECT_EQ(render_queue_pairs(nothing), "no such queue pairs\n");
  EXPECT_EQ(render_ports(nothing), "no such ports\n");
  EXPECT_EQ(render_schema(nothing), "no such statistics\n");
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
