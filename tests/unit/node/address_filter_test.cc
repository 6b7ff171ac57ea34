// Whose a frame is where the gateway shares its addresses with the kernel.
#include "gateway/node/address_filter.h"

#include <gtest/gtest.h>

#include "tests/unit/node/shared_frames.h"

namespace cw::node {
namespace {

TEST(AddressFilter, TakesRoceToItsAddressesAndLeavesTheRest) {
  for (const uint16_t vlan : {uint16_t{0}, uint16_t{100}}) {
    const AddressFilter filter(test::shared_addresses(), vlan);
    for (const test::SharedFrame& frame : test::shared_frames(vlan)) {
      EXPECT_EQ(filter.takes(frame.frame), frame.is_ours) << frame.what << ", VLAN " << vlan;
    }
  }
}

TEST(AddressFilter, ReadsNothingBehindTheEndOfAFrame) {
  const AddressFilter filter(test::shared_addresses(), 0);
  for (const test::SharedFrame& frame : test::shared_frames(0)) {
    for (size_t bytes = 0; bytes <= frame.frame.size(); ++bytes) {
      const test::ByteVector exact(frame.frame.begin(), frame.frame.begin() + static_cast<ptrdiff_t>(bytes));
      (void)filter.takes(exact);  // the sanitizers say when it does
    }
  }
}

TEST(AddressFilter, TakesNothingWithoutAddresses) {
  const AddressFilter filter({}, 0);
  for (const test::SharedFrame& frame : test::shared_frames(0)) {
    EXPECT_FALSE(filter.takes(frame.frame)) << frame.what;
  }
}

}  // namespace
}  // namespace cw::node
