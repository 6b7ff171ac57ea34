#include "control/admin/admin_places.h"

#include <gtest/gtest.h>

namespace cw::control {
namespace {

using Holder = AdminPlaces::Holder;

constexpr Holder kRoot{0, true};

uint32_t taken_by(AdminPlaces& places, const Holder& holder) {
  uint32_t taken = 0;
  while (taken < 100 && places.take(holder)) {
    ++taken;
  }
  return taken;
}

TEST(AdminPlaces, OneUserTakesNoMoreThanHisShare) {
  AdminPlaces places;
  EXPECT_EQ(taken_by(places, {1000, false}), AdminPlaces::kPerUserMax);
  EXPECT_EQ(taken_by(places, {1001, true}), AdminPlaces::kPerUserMax);
}

TEST(AdminPlaces, ReadersLeavePlacesToAdministrators) {
  AdminPlaces places;
  uint32_t readers = 0;
  for (uint32_t uid = 1000; uid < 1100; ++uid) {
    readers += taken_by(places, {uid, false});
  }
  EXPECT_EQ(readers, AdminPlaces::kReadersMax);
  EXPECT_EQ(taken_by(places, {2000, true}), AdminPlaces::kOthersMax - AdminPlaces::kReadersMax);
}

TEST(AdminPlaces, RootFindsAPlaceWhateverOthersDo) {
  AdminPlaces places;
  for (uint32_t uid = 1000; uid < 1100; ++uid) {
    (void)taken_by(places, {uid, (uid & 1) != 0});
  }
  EXPECT_EQ(taken_by(places, kRoot), AdminPlaces::kMax - AdminPlaces::kOthersMax);
}

TEST(AdminPlaces, RootMayHaveAllThatAreFree) {
  AdminPlaces places;
  EXPECT_EQ(taken_by(places, kRoot), AdminPlaces::kMax);
  EXPECT_FALSE(places.take({1000, true}));
}

TEST(AdminPlaces, APlaceThatIsGivenBackIsTheNextOnes) {
  AdminPlaces places;
  EXPECT_EQ(taken_by(places, {1000, false}), AdminPlaces::kPerUserMax);
  places.give_back({1000, false});
  EXPECT_TRUE(places.take({1000, false}));
  EXPECT_FALSE(places.take({1000, false}));
}

}  // namespace
}  // namespace cw::control
