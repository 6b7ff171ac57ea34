#include "apps/load/link_faults.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/unit/wire/frames.h"

namespace cw::load {
namespace {

// Sends 10000 numbered frames, 1 us apart, and returns the numbers in the order of their arrival.
std::vector<uint32_t> through(const LinkFaultOptions& options) {
  FaultyWay way(options, FaultDirection::kOut, 1);
  std::vector<uint32_t> out;
  std::vector<uint8_t> frame;
  Instant now = Instant::from_ns(1'000'000);
  for (uint32_t i = 0; i < 20'000; ++i) {
    if (i < 10'000) {
      std::vector<uint8_t> sent(64);
      store_be32(sent.data(), i);
      way.push(now, std::move(sent));
    }
    while (way.poll(now, frame)) {
      out.push_back(load_be32(frame.data()));
    }
    now = now + Duration::us(1);
  }
  EXPECT_TRUE(way.next_at().is_never());
  return out;
}

TEST(LinkFaults, WithoutAnyFramesPassAtOnceAndInOrder) {
  const LinkFaultOptions options;
  EXPECT_FALSE(options.any());
  const std::vector<uint32_t> out = through(options);
  ASSERT_EQ(out.size(), 10'000u);
  EXPECT_TRUE(std::is_sorted(out.begin(), out.end()));
}

TEST(LinkFaults, LoseAndDoubleByThousandths) {
  EXPECT_NEAR(static_cast<double>(through({.loss_permille = 100}).size()), 9'000, 120);
  EXPECT_NEAR(static_cast<double>(through({.duplicate_permille = 100}).size()), 11'000, 120);
}

TEST(LinkFaults, ReorderSomeAndLoseNone) {
  const std::vector<uint32_t> out = through({.reorder_permille = 50, .reorder_us = 100});
  EXPECT_EQ(out.size(), 10'000u);
  size_t overtaken = 0;
  for (size_t i = 1; i < out.size(); ++i) {
    overtaken += out[i] < out[i - 1] ? 1 : 0;
  }
  EXPECT_GT(overtaken, 300u);
  EXPECT_LE(overtaken, 600u);
}

TEST(LinkFaults, DelayAllAlike) {
  FaultyWay way({.delay_us = 250}, FaultDirection::kOut, 1);
  way.push(Instant::from_ns(0), {1, 2, 3});
  EXPECT_EQ(way.next_at(), Instant::from_ns(250'000));
  std::vector<uint8_t> frame;
  EXPECT_FALSE(way.poll(Instant::from_ns(249'999), frame));
  EXPECT_TRUE(way.poll(Instant::from_ns(250'000), frame));
  EXPECT_EQ(frame, (std::vector<uint8_t>{1, 2, 3}));
}

// What makes hostile-peer hostile.
TEST(LinkFaults, WithholdWhatLeavesOfOneKindOfPacketAWhileAfterTheFirstFrame) {
  const auto acknowledgement = wire::test::build_frame(wire::test::v4_path(), wire::Opcode::kRcAcknowledge, 0);
  const auto message = wire::test::build_frame(wire::test::v4_path(), wire::Opcode::kRcSendOnly, 64);
  const LinkFaultOptions options{.withheld = wire::OpcodeKind::kAcknowledge, .withheld_after_ms = 2};
  EXPECT_TRUE(options.any());
  for (const FaultDirection direction : {FaultDirection::kOut, FaultDirection::kIn}) {
    FaultyWay way(options, direction, 1);
    const auto passes = [&](int64_t ms, const std::vector<uint8_t>& raw) {
      std::vector<uint8_t> frame;
      way.push(Instant::from_ns(ms * 1'000'000), std::vector<uint8_t>(raw));
      return way.poll(Instant::from_ns(ms * 1'000'000), frame) && frame == raw;
    };
    EXPECT_TRUE(passes(100, acknowledgement));
    EXPECT_TRUE(passes(101, acknowledgement));
    EXPECT_EQ(passes(102, acknowledgement), direction == FaultDirection::kIn);
    EXPECT_TRUE(passes(102, message));
  }
}

}  // namespace
}  // namespace cw::load
