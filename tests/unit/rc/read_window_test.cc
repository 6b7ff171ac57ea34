// How many READ responses are asked for at once: against a way of a given length and speed, and in a queue pair.
#include "rocev2/rc/read_window.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>

#include "tests/unit/rc/lone_qp.h"

namespace cw::rc::test {
namespace {

constexpr uint32_t kRequest = 32;

// A way to a peer that takes `base` there and back and brings a response each `each`; `before` waits where responses come in.
struct Way {
  Duration base;
  Duration each;
  Duration before;
  // What a request waits for when so many responses are under way.
  [[nodiscard]] Duration delay(uint32_t packets) const { return std::max(base, each * (packets - kRequest)) + before; }
};

// So many requests, the first with nothing else under way.
void measure(ReadWindow& window, Instant& now, const Way& way, uint32_t times) {
  for (uint32_t i = 0; i < times; ++i) {
    const bool alone = i == 0;
    const Duration delay = way.delay(alone ? kRequest : window.packets());
    now = now + delay;
    window.on_response(now, delay, alone);
  }
}

TEST(ReadWindow, BeginsWithTwoBursts) {
  EXPECT_EQ(ReadWindow(256, kRequest).packets(), ReadWindow::kLeastPackets);
  EXPECT_EQ(ReadWindow(20, 16).packets(), 20u);
}

TEST(ReadWindow, OfAShortWayStaysShort) {
  ReadWindow window(256, kRequest);
  Instant now;
  const Way way{Duration::us(4), Duration::ns(500), Duration()};
  for (uint32_t reads = 0; reads < 20; ++reads) {
    measure(window, now, way, 20);
    EXPECT_LE(window.packets(), ReadWindow::kLeastPackets + kRequest);
  }
}

TEST(ReadWindow, OfALongWayGrowsAndComesBack) {
  ReadWindow window(256, kRequest);
  Instant now;
  const Way way{Duration::us(100), Duration::ns(500), Duration()};
  measure(window, now, way, 8);
  EXPECT_EQ(window.packets(), 256u);
  measure(window, now, {way.base, way.each, Duration::us(300)}, 8);  // the poll core has much to do
  EXPECT_EQ(window.packets(), ReadWindow::kLeastPackets);
  measure(window, now, way, 8);
  EXPECT_EQ(window.packets(), 256u);
}

// In balance it holds the way's worth at least, and not more than two and some turns.
TEST(ReadWindow, HoldsWhatTheWayHolds) {
  for (const int64_t base_us : {40, 50, 60, 100}) {
    ReadWindow window(1024, kRequest);
    Instant now;
    const Way way{Duration::us(base_us), Duration::ns(500), Duration()};
    measure(window, now, way, 200);
    const auto worth = static_cast<uint32_t>(base_us * 2);
    EXPECT_GE(window.packets(), worth) << base_us;
    EXPECT_LE(window.packets(), 2 * worth + 2 * kRequest) << base_us;
  }
}

// The first READs of a connection find cold caches: what they take is not the way.
TEST(ReadWindow, BeginsAgainWhenTheWayIsMuchShorter) {
  ReadWindow window(256, kRequest);
  Instant now;
  measure(window, now, {Duration::us(300), Duration::ns(500), Duration()}, 20);
  EXPECT_EQ(window.packets(), 256u);
  measure(window, now, {Duration::us(4), Duration::ns(500), Duration()}, 3);
  EXPECT_LE(window.packets(), ReadWindow::kLeastPackets + kRequest);
}

TEST(ReadWindow, IsNeverLessThanTwoRequestsNorMoreThanMayBe) {
  for (const uint32_t most : {1u, 31u, 64u, 65u, 100u, 256u, 65535u}) {
    for (const uint32_t request : {1u, 8u, 64u, 128u}) {
      if (request > most) {
        continue;
      }
      ReadWindow window(most, request);
      const Instant now = Instant::from_ns(1);
      for (uint32_t i = 0; i < 70'000; ++i) {
        window.on_response(now, Duration::us(2), false);
      }
      EXPECT_EQ(window.packets(), most);
      for (uint32_t i = 0; i < 70'000; ++i) {
        window.on_response(now, Duration::ms(1), false);
      }
      EXPECT_EQ(window.packets(), std::min(most, std::max(ReadWindow::kLeastPackets, 2 * request)));
    }
  }
}

TEST(ReadWindow, MeasuresALongerWayAfterASecondWithoutReads) {
  ReadWindow window(256, kRequest);
  Instant now = Instant::from_ns(1);
  measure(window, now, {Duration::us(4), Duration::ns(500), Duration()}, 20);
  const Way longer{Duration::us(100), Duration::ns(500), Duration()};
  measure(window, now, longer, 20);
  EXPECT_EQ(window.packets(), ReadWindow::kLeastPackets);
  now = now + ReadWindow::kForgetAfter;
  measure(window, now, longer, 20);
  EXPECT_EQ(window.packets(), 256u);
}

// A peer that answers a READ request `base` after it left, or `each` after the one before it: how many responses are asked for at
// once in the end. `loses_first`: the first response of every request in the second half is lost, and comes 3 ms later, when it
// has been asked for again.
uint32_t asked_at_once(Duration base, Duration each, bool loses_first = false) {
  LoneQpOptions options;
  options.qp.read_request_packets = 16;
  options.qp.read_window_packets = 128;
  options.connect.initiator_depth = 16;
  options.connect.ack_timeout = 16;
  LoneQp lone(options);
  constexpr uint32_t kPathMtu = 256;
  constexpr uint32_t kReads = 60;
  for (uint64_t id = 0; id < kReads; ++id) {
    EXPECT_TRUE(lone.post_read(kPathMtu * 16, id).ok());
  }
  std::deque<Instant> left;
  uint32_t next_psn = options.local_psn;
  const auto note_sent = [&] {
    for (const Sent& sent : lone.sent()) {
      EXPECT_EQ(sent.opcode, Opcode::kRcReadRequest);
      if (sent.psn == next_psn) {  // not again
        left.push_back(lone.now);
        next_psn += 16;
      }
    }
  };
  note_sent();
  Instant answered = lone.now;
  for (uint32_t request = 0; request < kReads - 8; ++request) {
    answered = std::max(left.front() + base, answered + each);
    left.pop_front();
    lone.pass(answered - lone.now);
    const uint32_t psn = options.local_psn + request * 16;
    const bool loses = loses_first && request >= kReads / 2;
    if (!loses) {
      lone.receive_response(Opcode::kRcReadResponseFirst, psn, kPathMtu);
    }
    for (uint32_t i = 1; i < 16; ++i) {
      lone.receive_response(i == 15 ? Opcode::kRcReadResponseLast : Opcode::kRcReadResponseMiddle, psn + i, kPathMtu);
    }
    if (loses) {
      note_sent();
      lone.pass(Duration::ms(3));
      answered = lone.now;
      lone.receive_response(Opcode::kRcReadResponseFirst, psn, kPathMtu);
    }
    EXPECT_EQ(lone.completions(), "RDMA read " + std::to_string(request) + " success");
    note_sent();
  }
  return static_cast<uint32_t>(left.size()) * 16;
}

// What came late because it was lost says nothing about the way.
TEST(ReadWindow, OfAQueuePairIsNotMeasuredByRepetitions) {
  EXPECT_EQ(asked_at_once(Duration::us(100), Duration::us(20), true), 128u);
}

TEST(ReadWindow, OfAQueuePairFollowsItsRequests) {
  EXPECT_EQ(asked_at_once(Duration::us(10), Duration::us(1)), 128u);    // 10 requests fill the way
  EXPECT_EQ(asked_at_once(Duration::us(10), Duration::us(20)), 64u);    // one does
  EXPECT_EQ(asked_at_once(Duration::us(100), Duration::us(20)), 128u);  // 5 do, and up to 10 are no line
}

}  // namespace
}  // namespace cw::rc::test
