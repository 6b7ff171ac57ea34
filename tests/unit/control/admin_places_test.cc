#include "control/admin/admin_quota.h"

#include <gtest/gtest.h>

namespace cw::control {
namespace {

using Holder = AdminQuota::Holder;

constexpr Holder kRoot{0, true};

uint32_t taken_by(AdminQuota& places, const Holder& holder) {
  uint32_t taken = 0;
  while (taken < 100 && places.take(holder)) {
    ++taken;
  }
  return taken;
}

TEST(AdminQuota, OneUserTakesNoMoreThanHisShare) {
  AdminQuota places;
  EXPECT_EQ(taken_by(places, {1000, false}), AdminQuota::kPerUserMax);
  EXPECT_EQ(taken_by(places, {1001, true}), AdminQuota::kPerUserMax);
}

TEST(AdminQuota, ReadersLeavePlacesToAdministrators) {
  AdminQuota places;
  uint32_t readers = 0;
  for (uint32_t uid = 1000; uid < 1100; ++uid) {
    readers += taken_by(places, {uid, false});
  }
  EXPECT_EQ(readers, AdminQuota::kReadersMax);
  EXPECT_EQ(taken_by(places, {2000, true}), AdminQuota::kOthersMax - AdminQuota::kReadersMax);
}

TEST(AdminQuota, RootFindsAPlaceWhateverOthersDo) {
  AdminQuota places;
  for (uint32_t uid = 1000; uid < 1100; ++uid) {
    (void)taken_by(places, {uid, (uid & 1) != 0});
  }
  EXPECT_EQ(taken_by(places, kRoot), AdminQuota::kMax - AdminQuota::kOthersMax);
}

TEST(AdminQuota, RootMayHaveAllThatAreFree) {
  AdminQuota places;
  EXPECT_EQ(taken_by(places, kRoot), AdminQuota::kMax);
  EXPECT_FALSE(places.take({1000, true}));
}

TEST(AdminQuota, APlaceThatIsGivenBackIsTheNextOnes) {
  AdminQuota places;
  EXPECT_EQ(taken_by(places, {1000, false}), AdminQuota::kPerUserMax);
  places.give_back({1000, false});
  EXPECT_TRUE(places.take({1000, false}));
  EXPECT_FALSE(places.take({1000, false}));
}

}  // namespace
}  // namespace cw::control
