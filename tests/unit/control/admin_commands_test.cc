#include "control/admin/admin_commands.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>

#include "control/admin/answer_fields.h"
#include "tests/unit/control/fake_view.h"

namespace cw::control {
namespace {

using Json = nlohmann::json;

const AdminCaller kAdmin{"root (uid 0)", true};
const AdminCaller kReader{"alice (uid 1000)", false};

Json ask(std::string_view line) {
  FakeView view;
  FakeControl control;
  return Json::parse(admin_answer(line, kAdmin, {view, control}));
}

TEST(AdminCommands, StatusTellsPortsListenersAndBackends) {
  const Json status = ask("status");
  EXPECT_EQ(status["version"], "9.8.7");
  EXPECT_EQ(status["uptime_seconds"], 93784.0);
  EXPECT_EQ(status["ready"], true);
  EXPECT_EQ(status["ports"][0]["addresses"][1], "2001:db8::1/64");
  EXPECT_EQ(status["listeners"][0]["credits"], 64);
  EXPECT_EQ(status["listeners"][0]["removed"], false);
  EXPECT_EQ(status["backends"][0]["calls_in_flight"], 3);
  EXPECT_EQ(status["backends"][0]["up"], true);
  EXPECT_EQ(status["backends"][1]["up"], false);
  EXPECT_TRUE(status["backends"][2]["up"].is_null()) << "not known yet";
  EXPECT_EQ(status["servers"][1]["role"], "backup");
  EXPECT_EQ(status["servers"][1]["up"], false);
  EXPECT_EQ(status["servers"][1]["check_error"], "Connection refused");
  EXPECT_EQ(status["servers"][0]["check_age_seconds"], 1.5);
  EXPECT_EQ(status["servers"][2]["check_age_seconds"], nullptr);
  EXPECT_EQ(status["routes"][0]["program"], 100005);
  EXPECT_EQ(status["routes"][2]["program"], nullptr);
  EXPECT_EQ(status["clients"][0]["prefixes"][1], "2001:db8::/64");
  EXPECT_EQ(status["clients"][0]["refused_limit"], 7);
  EXPECT_EQ(status["clients"][0]["calls_per_second_max"], 5000);
  EXPECT_EQ(status["clients"][0]["bytes_per_second_max"], nullptr);
  EXPECT_EQ(status["clients"][0]["weight"], 4);
  EXPECT_EQ(status["clients"][1]["connections_max"], nullptr);
}

TEST(AdminCommands, JsonAndWordsAreTheSameRequest) {
  EXPECT_EQ(ask("status"), ask(R"({"command":"status"})"));
  EXPECT_EQ(ask("stats causeway_roce"), ask(R"({"command":"stats","prefix":"causeway_roce"})"));
  EXPECT_EQ(ask("  stats \t causeway_roce  "), ask("stats causeway_roce"));
}

TEST(AdminCommands, StatsAreExactAndFiltered) {
  const Json all = ask("stats")["stats"];
  EXPECT_EQ(all.size(), 3u);
  EXPECT_EQ(all["causeway_roce_packets_total{port=\"0\",direction=\"rx\"}"].dump(), "12345678901");
  EXPECT_EQ(all["causeway_lcore_busy_seconds_total"].dump(), "1.5");
  EXPECT_EQ(ask("stats causeway_con")["stats"], (Json{{"causeway_connections", 2}}));
}

TEST(AdminCommands, TransportEventsAreChosenByQueuePairKindAndNumber) {
  const auto events = [](const char* arguments) {
    std::string names;
    const Json answer = ask(std::string(R"({"command":"transport_events")") + arguments + "}");
    for (const Json& event : answer["events"]) {
      names += event["event"].get<std::string>() + " ";
    }
    return names + answer["left_out"].dump();
  };
  EXPECT_EQ(events(""), "connected ack_timeout nak_received 0");
  EXPECT_EQ(events(R"(,"lqpn":"2748")"), "connected nak_received 0");
  EXPECT_EQ(events(R"(,"event":"ack_timeout")"), "ack_timeout 0");
  EXPECT_EQ(events(R"(,"lqpn":"2748","last":"1")"), "nak_received 1");
  EXPECT_EQ(ask(R"({"command":"transport_events","last":"0"})")["kind"], "bad_request");
  EXPECT_EQ(ask("transport_events")["events"][1]["count"], 3);
}

TEST(AdminCommands, ConnectionsSurviveTextThatIsNotUtf8) {
  FakeView view;
  FakeControl control;
  view.error = {.cause = "peer said \xff\xfe\n"};
  const std::string answer = admin_answer("connections", kReader, {view, control});
  EXPECT_EQ(answer.find('\n'), std::string::npos);
  EXPECT_EQ(Json::parse(answer)["connections"].size(), 2u);
}

TEST(AdminCommands, QueuePairsTellTheirTransportState) {
  const Json rows = ask("queue_pairs")["queue_pairs"];
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0]["local_qpn"], 0xabc);
  EXPECT_EQ(rows[0]["una_psn"], 0xfffffe);
  EXPECT_EQ(rows[0]["round_trip_seconds"], 12e-6);
  EXPECT_TRUE(rows[0]["credits_left"].is_null()) << "this peer does not count its receives";
  EXPECT_EQ(rows[1]["credits_left"], -2);
}

TEST(AdminCommands, SchemaTellsKindUnitAndMeaning) {
  const Json rows = ask("stat_schema causeway_lcore")["schema"];
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0]["kind"], "counter");
  EXPECT_EQ(rows[0]["unit"], "seconds");
}

TEST(AdminCommands, EveryFieldHasOneNameAndAMeaning) {
  const auto check = [](auto fields) {
    std::set<std::string> names;
    for (const auto& field : fields) {
      EXPECT_TRUE(names.insert(field.name).second) << field.name;
      EXPECT_FALSE(std::string(field.help).empty()) << field.name;
    }
  };
  check(answer_fields_of<PortStatus>());
  check(answer_fields_of<RdmaPortStatus>());
  check(answer_fields_of<ListenerStatus>());
  check(answer_fields_of<BackendStatus>());
  check(answer_fields_of<ConnectionStatus>());
  check(answer_fields_of<QueuePairStatus>());
  check(answer_fields_of<CoreStatus>());
  check(answer_fields_of<StatInfo>());
}

// Admin and manual show both one behind the other: a transport's field has a name of its own, and is described once.
TEST(AdminCommands, AFieldOfAQueuePairIsDescribedOnce) {
  for (const auto& table : transport_fields()) {
    std::set<std::string> names;
    for (const auto& field : answer_fields_of<QueuePairStatus>()) {
      EXPECT_TRUE(names.insert(field.name).second) << field.name;
    }
    for (const verbs::QueuePairField& field : table) {
      EXPECT_TRUE(names.insert(field.name).second) << field.name;
      EXPECT_FALSE(std::string(field.help).empty()) << field.name;
    }
  }
}

// The text that people read picks fields by name: each is one that some transport has.
TEST(AdminCommands, TheTextOfAQueuePairNamesFieldsThatThereAre) {
  std::set<std::string> names;
  for (const auto& field : answer_fields_of<QueuePairStatus>()) {
    names.insert(field.name);
  }
  for (const auto& table : transport_fields()) {
    for (const verbs::QueuePairField& field : table) {
      names.insert(field.name);
    }
  }
  std::ifstream file(std::string(CAUSEWAY_SOURCE_ROOT) + "/control/ctl/render_qp.cc");
  const std::string source{std::istreambuf_iterator<char>(file), {}};
  const std::regex use(R"re(\bqp, "(\w+)"(?:, "(\w+)")?)re");
  size_t count = 0;
  for (std::sregex_iterator at(source.begin(), source.end(), use), end; at != end; ++at) {
    for (size_t group = 1; group <= 2; ++group) {
      if ((*at)[group].matched) {
        EXPECT_TRUE(names.contains((*at)[group].str())) << (*at)[group].str();
        ++count;
      }
    }
  }
  EXPECT_GT(count, 30u);
}

TEST(AdminCommands, HelpNamesEveryCommand) {
  EXPECT_EQ(ask("help")["commands"].size(), 23u);
}

TEST(AdminCommands, GarbageGetsAnErrorAndNothingElse) {
  FakeView view;
  FakeControl control;
  for (const std::string& line :
       {std::string("{"), std::string("{}"), std::string("[]"), std::string("{\"command\":1}"),
        std::string("{\"command\":\"status\",\"x\":\"\"}"), std::string("nonsense"), std::string(" "), std::string("\0\0", 2),
        std::string("\xff\xff"), std::string(4000, '{'), std::string(2000, '[') + "{", std::string("status a b"),
        std::string("{\"command\":\"status\"}{")}) {
    const Json answer = Json::parse(admin_answer(line, kAdmin, {view, control}));
    EXPECT_TRUE(answer.contains("error") && answer.contains("kind")) << line;
    EXPECT_EQ(answer.size(), 2u);
  }
  EXPECT_EQ(view.calls, 0);
  EXPECT_EQ(control.said, "");
}

TEST(AdminCommands, OnlyAdministratorsChangeAnything) {
  FakeView view;
  FakeControl control;
  for (const char* line : {"drain_start", "drain_stop", "{\"command\":\"log_level_set\",\"level\":\"debug\"}", "reload",
                           "restart", "capture_start", "capture_stop"}) {
    const Json refused = Json::parse(admin_answer(line, kReader, {view, control}));
    EXPECT_EQ(refused["kind"], "refused") << line;
    EXPECT_NE(refused["error"].get<std::string>().find("alice (uid 1000) may look and not change anything"), std::string::npos);
    EXPECT_EQ(control.said, "") << line;
    EXPECT_FALSE(Json::parse(admin_answer(line, kAdmin, {view, control})).contains("error")) << line;
    EXPECT_NE(control.said.find("root (uid 0)"), std::string::npos) << line;
    control.said.clear();
  }
  for (const char* line : {"drain_show", "log_level", "settings", "reload_preview", "status"}) {
    EXPECT_FALSE(Json::parse(admin_answer(line, kReader, {view, control})).contains("error")) << line;
  }
}

TEST(AdminCommands, ARestartIsRefusedWhenNobodyCouldFollow) {
  FakeView view;
  FakeControl control;
  control.follower_problem = "causeway.toml: line 3: nonsense";
  const Json answer = Json::parse(admin_answer("restart", kAdmin, {view, control}));
  EXPECT_EQ(answer["kind"], "failed");
  EXPECT_EQ(answer["error"], control.follower_problem);
}

TEST(AdminCommands, DrainTakesATimeLimit) {
  EXPECT_EQ(ask(R"({"command":"drain_start","timeout_s":"2.5"})")["timeout_seconds"], 2.5);
  EXPECT_TRUE(ask("drain_start")["timeout_seconds"].is_null());
  for (const char* wrong : {"0", "-1", "nan", "1e9", "5s"}) {
    EXPECT_EQ(ask(std::string(R"({"command":"drain_start","timeout_s":")") + wrong + "\"}")["kind"], "bad_request") << wrong;
  }
}

TEST(AdminCommands, ReloadTellsWhatTakesEffectWhen) {
  const Json report = ask("reload_preview");
  EXPECT_EQ(report["applied"], false);
  EXPECT_EQ(report["changes"][0]["takes_effect"], "at_once");
  EXPECT_EQ(report["changes"][0]["reason"], "");
  EXPECT_EQ(report["changes"][1]["takes_effect"], "restart");
  EXPECT_EQ(report["changes"][1]["reason"], "so it is");
  EXPECT_EQ(ask("reload")["applied"], true);
}

TEST(AdminCommands, CapturesWithinBounds) {
  FakeView view;
  FakeControl control;
  const Json started =
      Json::parse(admin_answer(R"({"command":"capture_start","file":"/tmp/x","client":"10.0.0.0/8","lqpn":"42","snaplen":"128",)"
                               R"("packets":"7","seconds":"9"})",
                               kAdmin, {view, control}));
  EXPECT_EQ(started["state"], "running");
  EXPECT_EQ(control.order.local_qpn, 42u);
  EXPECT_EQ(control.order.limits.snap_bytes, 128u);
  EXPECT_EQ(control.order.limits.packets, 7u);
  EXPECT_EQ(control.order.limits.seconds, 9.0);
  EXPECT_FALSE(control.order.limits.with_payload);
  (void)admin_answer(R"({"command":"capture_start","file":"/tmp/x","with_payload":"yes"})", kAdmin, {view, control});
  EXPECT_EQ(control.order.limits.snap_bytes, capture::kSnapBytesMax) << "tshark decodes whole frames only";
  for (const char* wrong :
       {R"("snaplen":"127")", R"("snaplen":"9217")", R"("lqpn":"16777216")", R"("client":"x")", R"("seconds":"0")"}) {
    EXPECT_EQ(ask(std::string(R"({"command":"capture_start","file":"/tmp/x",)") + wrong + "}")["kind"], "bad_request") << wrong;
  }
}

TEST(AdminCommands, PingsOneBackendAtATime) {
  EXPECT_EQ(ask(R"({"command":"ping_start","backend":"nfs","program":"100003","version":"4"})")["started"], true);
  EXPECT_EQ(ask(R"({"command":"ping_start","backend":"none"})")["error"], "there is no backend 'none'");
  const Json result = ask("ping_show");
  EXPECT_EQ(result["alive"], true);
  EXPECT_EQ(result["call_seconds"], 0.002);
}

TEST(AdminCommands, SettingsAreShownAsTheyWouldBeWritten) {
  const Json rows = ask("settings log")["settings"];
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0]["value"], "\"info\"");
}

}  // namespace
}  // namespace cw::control
