// The log of what went wrong, alone and as queue pairs write it.
#include "rocev2/rc/transport_log.h"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "rocev2/rc/qp_error.h"
#include "tests/unit/rc/lone_qp.h"

namespace cw::rc {
namespace {

using Kind = TransportEventKind;

std::vector<verbs::TransportEvent> all_of(const TransportLog& log) {
  std::vector<verbs::TransportEvent> events(log.size());
  EXPECT_EQ(log.copy(events), events.size());
  return events;
}

TEST(TransportLog, CountsWhatRepeatsAndStampsTheFirstAndTheLast) {
  TransportLog log(4);
  for (int i = 0; i < 3; ++i) {
    log.set_now(Instant::from_ns(100 + i));
    log.note(verbs::Qpn(7), Kind::kDiscarded, wire::Psn(static_cast<uint32_t>(i)), 1);
  }
  log.note(verbs::Qpn(8), Kind::kDiscarded, wire::Psn(9), 1);
  log.note(verbs::Qpn(8), Kind::kDiscarded, wire::Psn(9), 2);
  const auto events = all_of(log);
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[0].count, 3u);
  EXPECT_EQ(events[0].sequence, 2u);
  EXPECT_EQ(events[0].first, Instant::from_ns(100));
  EXPECT_EQ(events[0].at, Instant::from_ns(102));
  EXPECT_EQ(events[1].local_qpn, verbs::Qpn(8));
  EXPECT_NE(events[2].reason, events[1].reason);
}

TEST(TransportLog, KeepsTheYoungest) {
  TransportLog log(3);
  for (uint32_t i = 0; i < 10; ++i) {
    log.note(verbs::Qpn(i), Kind::kCreated, wire::Psn());
  }
  EXPECT_EQ(log.overwritten(), 7u);
  const auto events = all_of(log);
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[0].local_qpn, verbs::Qpn(7));
  EXPECT_EQ(events[2].local_qpn, verbs::Qpn(9));
  std::array<verbs::TransportEvent, 2> few;
  EXPECT_EQ(log.copy(few), 2u);
  EXPECT_EQ(few[0].local_qpn, verbs::Qpn(8));
}

TEST(TransportLog, EveryKindHasAName) {
  for (uint32_t kind = 0; kind < static_cast<uint32_t>(Kind::kCount); ++kind) {
    EXPECT_STRNE(to_string(static_cast<Kind>(kind)), "unknown") << kind;
  }
  TransportEvent failed;
  failed.kind = Kind::kFailed;
  failed.detail = static_cast<uint8_t>(QpErrorCause::kRetryExceeded);
  EXPECT_STREQ(reason_of(failed), to_string(QpErrorCause::kRetryExceeded));
}

// The story of a queue pair whose peer falls silent, refuses and repeats itself, as an operator reads it.
TEST(TransportLog, TellsWhatHappenedToAQueuePair) {
  test::LoneQp lone;
  lone.pass(Duration::ms(1));
  ASSERT_TRUE(lone.post_send(10).ok());
  (void)lone.sent();
  lone.receive_aeth(1000, 0x20 | 12);  // RNR NAK
  lone.receive(test::Opcode::kRcSendOnly, 5003, 4);
  lone.pass(ReorderWindow::kMost);
  (void)lone.sent();
  lone.receive(test::Inbound{.opcode = test::Opcode::kRcSendOnly, .psn = 5000, .payload = {1}, .pkey = 0x1234});
  lone.receive_aeth(1000, 0x60 | static_cast<uint8_t>(test::NakCode::kRemoteAccessError));
  std::vector<std::string> story;
  for (const verbs::TransportEvent& event : all_of(lone.endpoint->log())) {
    EXPECT_EQ(event.local_qpn, lone.qp->local_qpn());
    story.push_back(std::string(event.event) + (event.reason.empty() ? "" : ": " + std::string(event.reason)));
  }
  EXPECT_EQ(story,
            (std::vector<std::string>{"created", "connected", "rnr_nak_received", "sends_again", "out_of_sequence",
                                      "nak_sent: PSN sequence error", "discarded: pkey", "nak_received: remote access error",
                                      "failed: the peer refused access to its memory"}));
}

}  // namespace
}  // namespace cw::rc
