#include "apps/load/call_mix.h"

#include <gtest/gtest.h>

namespace cw::load {
namespace {

CallMix parsed(std::string_view text) {
  CallMix mix;
  std::string problem;
  EXPECT_TRUE(mix.parse(text, problem)) << problem;
  return mix;
}

TEST(CallMix, HasKindsSizesAndWeights) {
  const CallMix mix = parsed("null:50, echo/512:30, source/64k:15, sink/1m:5");
  ASSERT_EQ(mix.entries().size(), 4u);
  EXPECT_EQ(mix.entries()[0], (MixEntry{CallKind::kNull, 0, 50}));
  EXPECT_EQ(mix.entries()[1], (MixEntry{CallKind::kEcho, 512, 30}));
  EXPECT_EQ(mix.entries()[2], (MixEntry{CallKind::kSource, 65536, 15}));
  EXPECT_EQ(mix.entries()[3], (MixEntry{CallKind::kSink, 1 << 20, 5}));
  EXPECT_EQ(mix.sent_bytes_max(), 1u << 20);
  EXPECT_EQ(mix.received_bytes_max(), 65536u);
  EXPECT_EQ(to_string(mix.entries()[1]), "echo 512 B");
  EXPECT_EQ(parsed("getattr,read/4k").entries()[1].weight, 1u);
  EXPECT_TRUE(parsed("getattr,read/4k").has_nfs());
}

TEST(CallMix, DrawsInProportion) {
  const CallMix mix = parsed("null:50, echo/512:30, source/64k:15, sink/1m:5");
  SeededRandom random(9);
  std::array<int, 4> drawn{};
  for (int i = 0; i < 100'000; ++i) {
    ++drawn[mix.draw(random)];
  }
  EXPECT_NEAR(drawn[0], 50'000, 700);
  EXPECT_NEAR(drawn[1], 30'000, 700);
  EXPECT_NEAR(drawn[2], 15'000, 500);
  EXPECT_NEAR(drawn[3], 5'000, 300);
}

TEST(CallMix, SaysWhatIsWrong) {
  CallMix mix(MixEntry{CallKind::kEcho, 64, 1});
  const std::pair<const char*, const char*> cases[] = {
      {"", "no kind of call"},
      {"nul:5", "no kind of call"},
      {"echo/x", "not a size"},
      {"echo/8m", "not a size"},
      {"null/64", "has no data"},
      {"null:0", "not a weight"},
      {"null:1.5", "not a weight"},
      {"null,", "no kind of call"},
      {"echo/64,read/64", "different backends"},
      {"null,null,null,null,null,null,null,null,null", "more than 8"},
  };
  for (const auto& [text, wanted] : cases) {
    std::string problem;
    EXPECT_FALSE(mix.parse(text, problem)) << text;
    EXPECT_NE(problem.find(wanted), std::string::npos) << problem;
    EXPECT_EQ(mix.entries()[0].kind, CallKind::kEcho);
  }
}

}  // namespace
}  // namespace cw::load
