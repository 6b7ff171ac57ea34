// What an operator can read of connections after the fact (causewayctl trace).
#include "iwarp/connection_log.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/unit/iwarp/scripted_peer.h"

namespace cw::iwarp::test {
namespace {

std::vector<verbs::TransportEvent> all_of(const IwarpTransport& transport) {
  std::vector<verbs::TransportEvent> events(transport.log_capacity());
  events.resize(transport.copy_log(events));
  return events;
}

std::vector<std::string> story_of(const IwarpTransport& transport) {
  std::vector<std::string> story;
  for (const verbs::TransportEvent& event : all_of(transport)) {
    EXPECT_EQ(event.local_qpn.value(), 0u);
    EXPECT_NE(event.peer_port, 0);
    const std::string count = event.count > 1 ? " x" + std::to_string(event.count) : "";
    story.push_back(std::string(event.event) + (event.reason.empty() ? "" : ": " + std::string(event.reason)) + count);
  }
  return story;
}

TEST(IwarpConnectionLog, TellsWhyConnectionsFailedAndEnded) {
  ScriptedPeer t;
  const std::string_view http = "GET / HTTP/1.1\r\n";
  for (int i = 0; i < 3; ++i) {
    (void)t.say(t.call(), ByteVector(http.begin(), http.end()));
  }
  t.server.refuse = verbs::RejectReason::kRefused;
  (void)t.say(t.call(), siw_request());
  t.server.refuse.reset();
  StreamNet::Connection& wrong = t.ready();
  (void)t.say(wrong, fpdu(send_segment(1, {1, 2, 3, 4})));
  (void)t.say(wrong, fpdu(send_segment(7, {1, 2, 3, 4})));
  const std::vector<std::string> wanted = {"bad_setup: key x3", "rejected: refused", "connected",
                                           "terminate_sent: untagged_message"};
  EXPECT_EQ(story_of(t.server.transport), wanted);
  EXPECT_EQ(all_of(t.server.transport).back().sequence, 7u);
}

TEST(IwarpConnectionLog, OneOfManyAttemptsIsOneEntryAndOthersAreKept) {
  IwarpOptions options;
  options.prefix.request_rate = {.per_second = 1, .burst = 1};
  ScriptedPeer t(options);
  (void)t.call(0x0c00'0001);
  for (uint32_t i = 0; i < 10'000; ++i) {
    (void)t.call(0x0c00'0002);
  }
  t.run();
  const auto events = all_of(t.server.transport);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].reason, "prefix_request_rate");
  EXPECT_EQ(events[0].count, 10'000u);
}

TEST(IwarpConnectionLog, EveryKindHasAName) {
  for (uint32_t kind = 0; kind < static_cast<uint32_t>(ConnectionEventKind::kCount); ++kind) {
    EXPECT_NE(to_event({.kind = static_cast<ConnectionEventKind>(kind)}).event, "unknown") << kind;
  }
}

}  // namespace
}  // namespace cw::iwarp::test
