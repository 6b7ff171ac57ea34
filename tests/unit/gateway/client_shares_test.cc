#include "gateway/client_shares.h"

#include <gtest/gtest.h>

namespace cw::gateway {
namespace {

struct Orphan : ListNode<OfClientTag> {};

IpAddress address(uint32_t last) {
  return IpAddress::v4(0x0a00'0000 + last);
}

class Clients : public ::testing::Test {
 protected:
  void be_slow(uint32_t last) {
    shares.join(address(last)).is_slow = true;
    shares.leave(address(last));
  }
  bool is_slow(uint32_t last) {
    const bool slow = shares.join(address(last)).is_slow;
    shares.leave(address(last));
    return slow;
  }

  ClientShares<Orphan> shares;
};

TEST_F(Clients, ASlowOneIsStillSlowWhenItComesBack) {
  shares.join(address(1)).slots = 0;
  shares.leave(address(1));
  be_slow(2);
  EXPECT_EQ(shares.client_count(), 0u) << "who is only remembered takes no part";
  EXPECT_FALSE(is_slow(1));
  EXPECT_TRUE(is_slow(2));
  shares.join(address(2)).is_slow = false;
  EXPECT_EQ(shares.client_count(), 1u);
  shares.leave(address(2));
  EXPECT_FALSE(is_slow(2));
}

TEST_F(Clients, SoManyAreRememberedAndTheLongestGoneIsForgottenFirst) {
  for (uint32_t i = 0; i < ClientShares<Orphan>::kRememberedMax; ++i) {
    be_slow(i);
  }
  EXPECT_TRUE(is_slow(0)) << "which makes it the latest";
  be_slow(1000);
  EXPECT_FALSE(is_slow(1));
  EXPECT_TRUE(is_slow(0));
  EXPECT_TRUE(is_slow(2));
  EXPECT_EQ(shares.client_count(), 0u);
}

}  // namespace
}  // namespace cw::gateway
