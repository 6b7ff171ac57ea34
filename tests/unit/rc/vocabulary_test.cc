// The words that the layers above see have the numbers of rdma-core's (infiniband/verbs.h), so that a transport which is
// rdma-core converts by a cast and an operator finds what the verbs pages say.
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "rocev2/rc/qp_state.h"
#include "verbs/completion.h"
#include "verbs/memory_region.h"

namespace cw::verbs {
namespace {

constexpr uint32_t number(auto value) {
  return static_cast<uint32_t>(value);
}

// ibv_wc_status
static_assert(number(WcStatus::kSuccess) == 0 && number(WcStatus::kLocalLengthError) == 1);
static_assert(number(WcStatus::kLocalProtectionError) == 4 && number(WcStatus::kWorkRequestFlushed) == 5);
static_assert(number(WcStatus::kBadResponse) == 7 && number(WcStatus::kRemoteInvalidRequest) == 9);
static_assert(number(WcStatus::kRemoteAccessError) == 10 && number(WcStatus::kRemoteOperationError) == 11);
static_assert(number(WcStatus::kRetryExceeded) == 12 && number(WcStatus::kRnrRetryExceeded) == 13);
static_assert(number(WcStatus::kFatalError) == 19 && number(WcStatus::kTagRendezvousIncomplete) == 23);
// ibv_wc_opcode
static_assert(number(WcOpcode::kSend) == 0 && number(WcOpcode::kRdmaWrite) == 1 && number(WcOpcode::kRdmaRead) == 2);
static_assert(number(WcOpcode::kCompareSwap) == 3 && number(WcOpcode::kFetchAdd) == 4);
static_assert(number(WcOpcode::kReceive) == 128 && number(WcOpcode::kReceiveRdmaWithImmediate) == 129);
static_assert(is_receive(WcOpcode::kReceive) && is_receive(WcOpcode::kReceiveRdmaWithImmediate) &&
              !is_receive(WcOpcode::kFetchAdd));
// ibv_access_flags
static_assert(number(RemoteAccess::kWrite) == 2 && number(RemoteAccess::kRead) == 4 && number(RemoteAccess::kAtomic) == 8);
static_assert(grants(RemoteAccess::kAll, RemoteAccess::kAtomic) && !grants(RemoteAccess::kReadWrite, RemoteAccess::kAtomic));
// ibv_qp_state
static_assert(number(rc::QpState::kReset) == 0 && number(rc::QpState::kInit) == 1 && number(rc::QpState::kRtr) == 2);
static_assert(number(rc::QpState::kRts) == 3 && number(rc::QpState::kSqd) == 4 && number(rc::QpState::kError) == 6);

TEST(Vocabulary, EveryStatusHasANameOfItsOwn) {
  std::set<std::string> names;
  for (uint32_t status = 0; status < kWcStatusCount; ++status) {
    names.insert(to_string(static_cast<WcStatus>(status)));
  }
  EXPECT_EQ(names.size(), kWcStatusCount);
  EXPECT_FALSE(names.contains("unknown status"));
  EXPECT_STREQ(to_string(static_cast<WcStatus>(kWcStatusCount)), "unknown status");
}

}  // namespace
}  // namespace cw::verbs
