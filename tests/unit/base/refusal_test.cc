#include "verbs/refusal.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

namespace cw::verbs {
namespace {

Bytes bytes_of(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}
std::string text_of(Bytes bytes) {
  return {bytes.begin(), bytes.end()};
}

TEST(Refusal, CarriesTheReasonAndWhatTheUserSays) {
  for (const RejectReason reason : {RejectReason::kNoListener, RejectReason::kNoResources, RejectReason::kRefused}) {
    for (const std::string_view said : {"", "no budget", "0123456789abcdef0123456789abcdef"}) {
      const Refusal refusal(reason, bytes_of(said));
      ASSERT_TRUE(Refusal::of_peer(refusal.bytes()).has_value());
      EXPECT_EQ(Refusal::of_peer(refusal.bytes())->reason, reason);
      EXPECT_EQ(text_of(Refusal::user_data(refusal.bytes())), said);
    }
  }
  EXPECT_EQ(text_of(Refusal(RejectReason::kRefused, {}).bytes()), "refused") << "as peers before knew it";
}

TEST(Refusal, LeavesWhatAnotherKindOfPeerSaysAsItIs) {
  for (const std::string_view said : {std::string_view(), std::string_view("refuse"), std::string_view("refusedly"),
                                      std::string_view("\0refused", 8), std::string_view("full")}) {
    EXPECT_FALSE(Refusal::of_peer(bytes_of(said)).has_value()) << said;
    EXPECT_EQ(text_of(Refusal::user_data(bytes_of(said))), said);
  }
}

}  // namespace
}  // namespace cw::verbs
