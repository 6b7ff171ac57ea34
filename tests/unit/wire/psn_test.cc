#include "rocev2/wire/psn.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <concepts>

namespace cw::wire {
namespace {

constexpr uint32_t kHalf = 1u << 23;

static_assert(Psn(0xff'ffff).next() == Psn(0));
static_assert(Psn(0).minus(1) == Psn(0xff'ffff));
static_assert(Psn(0x1ff'ffff) == Psn(0xff'ffff));
static_assert(Psn(5).distance_to(Psn(5)) == 0);
static_assert(Psn(0xff'fffe).distance_to(Psn(3)) == 5);
static_assert(Psn(3).distance_to(Psn(0xff'fffe)) == -5);
// Half the space away: the one distance that has no opposite counts as behind.
static_assert(Psn(0).distance_to(Psn(kHalf)) == -static_cast<int32_t>(kHalf));
static_assert(Psn(kHalf).distance_to(Psn(0)) == -static_cast<int32_t>(kHalf));
static_assert(Psn(0).distance_to(Psn(kHalf - 1)) == static_cast<int32_t>(kHalf) - 1);
static_assert(!std::totally_ordered<Psn>);

static_assert(PsnWindow{Psn(0xff'fffe), 4}.contains(Psn(0xff'fffe)));
static_assert(PsnWindow{Psn(0xff'fffe), 4}.contains(Psn(1)));
static_assert(!PsnWindow{Psn(0xff'fffe), 4}.contains(Psn(2)));
static_assert(!PsnWindow{Psn(0xff'fffe), 4}.contains(Psn(0xff'fffd)));
static_assert(!PsnWindow{Psn(7), 0}.contains(Psn(7)));

TEST(Psn, DistanceUndoesPlusAcrossTheWrap) {
  EXPECT_TRUE(rc::check([](uint32_t start) {
    const uint32_t steps = *rc::gen::inRange<uint32_t>(0, kHalf);
    const Psn from(start);
    RC_ASSERT(from.distance_to(from.plus(steps)) == static_cast<int32_t>(steps));
    RC_ASSERT(from.plus(steps).distance_to(from) == -static_cast<int32_t>(steps));
    RC_ASSERT(from.plus(steps).minus(steps) == from);
  }));
}

TEST(Psn, DistanceLeadsBackToTheOther) {
  EXPECT_TRUE(rc::check(
      [](uint32_t a, uint32_t b) { RC_ASSERT(Psn(a).plus(static_cast<uint32_t>(Psn(a).distance_to(Psn(b)))) == Psn(b)); }));
}

TEST(PsnWindow, ContainsExactlyItsMembersAcrossTheWrap) {
  for (uint32_t start = 0xff'fff0; start != 0x100'0010; ++start) {
    const PsnWindow window{Psn(start), 8};
    for (int32_t offset = -20; offset <= 20; ++offset) {
      EXPECT_EQ(window.contains(Psn(start + static_cast<uint32_t>(offset))), offset >= 0 && offset < 8) << start << " " << offset;
    }
  }
}

}  // namespace
}  // namespace cw::wire
