// The XDP program, run by the kernel on frames made up here: BPF_PROG_TEST_RUN, no interface. Skipped where this user may not
// load programs (it takes CAP_BPF and CAP_NET_ADMIN).
#include "dataplane/xdp/xdp_program.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <gtest/gtest.h>
#include <linux/bpf.h>
#include <linux/capability.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <memory>

#include "gateway/node/address_filter.h"
#include "tests/unit/node/shared_frames.h"

namespace cw::dataplane {
namespace {

using node::test::ByteVector;
using node::test::SharedFrame;

// The verifier is stricter with who has no CAP_PERFMON, as a gateway has none: no test is to pass because root runs it.
void drop_rights() {
  constexpr uint32_t kNetAdmin = 12;
  constexpr uint32_t kBpf = 39;
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  std::array<__user_cap_data_struct, 2> data{};
  ASSERT_EQ(syscall(SYS_capget, &header, data.data()), 0);
  data[0].effective = data[0].permitted & (1u << kNetAdmin);
  data[1].effective = data[1].permitted & (1u << (kBpf - 32));
  ASSERT_EQ(syscall(SYS_capset, &header, data.data()), 0);
}

class XdpProgramTest : public ::testing::Test {
 protected:
  void SetUp() override {
    drop_rights();
    libbpf_set_print([](libbpf_print_level, const char*, va_list) { return 0; });
    const Bytes raw = xdp_program();
    ASSERT_FALSE(raw.empty());
    object_.reset(bpf_object__open_mem(raw.data(), raw.size(), nullptr));
    ASSERT_NE(object_, nullptr);
    if (const int result = bpf_object__load(object_.get()); result == -EPERM || result == -EACCES) {
      GTEST_SKIP() << "this user may not load BPF programs";
    } else {
      ASSERT_EQ(result, 0) << "the kernel refuses the program";
    }
    program_ = bpf_program__fd(bpf_object__find_program_by_name(object_.get(), "causeway_xdp"));
    ASSERT_GE(program_, 0);
  }

  void own(const IpAddress& address, uint32_t vlan) {
    struct {
      std::array<uint8_t, 16> raw;
      uint32_t vlan;
    } const key{address.raw, vlan};
    const uint32_t present = 1;
    const int map = bpf_map__fd(bpf_object__find_map_by_name(object_.get(), "own_addresses"));
    ASSERT_EQ(bpf_map_update_elem(map, &key, &present, BPF_ANY), 0);
  }

  // XDP_PASS: the kernel's. Frames of ours are dropped here, since there is no socket.
  uint32_t verdict(const ByteVector& frame) {
    bpf_test_run_opts options{};
    options.sz = sizeof(options);
    options.data_in = frame.data();
    options.data_size_in = static_cast<uint32_t>(frame.size());
    options.repeat = 1;
    EXPECT_EQ(bpf_prog_test_run_opts(program_, &options), 0) << frame.size() << " bytes";
    return options.retval;
  }

  struct Close {
    void operator()(bpf_object* object) const { bpf_object__close(object); }
  };
  std::unique_ptr<bpf_object, Close> object_;
  int program_ = -1;
};

TEST_F(XdpProgramTest, TakesRoceToItsAddressesAndPassesTheRest) {
  for (const IpAddress& address : node::test::shared_addresses()) {
    own(address, 0);
  }
  for (const SharedFrame& frame : node::test::shared_frames(0)) {
    EXPECT_EQ(verdict(frame.frame), frame.is_ours ? XDP_DROP : XDP_PASS) << frame.what;
  }
}

TEST_F(XdpProgramTest, TakesTaggedFramesOfItsVlanOnly) {
  for (const IpAddress& address : node::test::shared_addresses()) {
    own(address, 100);
  }
  for (const SharedFrame& frame : node::test::shared_frames(100)) {
    EXPECT_EQ(verdict(frame.frame), frame.is_ours ? XDP_DROP : XDP_PASS) << frame.what;
  }
}

TEST_F(XdpProgramTest, PassesEverythingBeforeItHasAddresses) {
  for (const SharedFrame& frame : node::test::shared_frames(0)) {
    EXPECT_EQ(verdict(frame.frame), XDP_PASS) << frame.what;
  }
}

// Frames that nobody thought of: random bytes over sound frames, until both deciders have seen 20,000 of them.
TEST_F(XdpProgramTest, AgreesWithTheAddressFilterOnBrokenFrames) {
  const node::AddressFilter filter(node::test::shared_addresses(), 0);
  for (const IpAddress& address : node::test::shared_addresses()) {
    own(address, 0);
  }
  uint64_t state = 0x9e37'79b9'7f4a'7c15;
  const auto dice = [&state](uint64_t below) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % below;
  };
  const std::vector<SharedFrame> frames = node::test::shared_frames(0);
  uint32_t taken = 0;
  for (int i = 0; i < 20'000; ++i) {
    ByteVector frame = frames[dice(frames.size())].frame;
    for (uint64_t changes = dice(3); changes > 0; --changes) {
      frame[12 + dice(std::min<size_t>(frame.size() - 12, 50))] = static_cast<uint8_t>(dice(256));
    }
    const bool is_ours = filter.takes(frame);
    taken += is_ours ? 1 : 0;
    ASSERT_EQ(verdict(frame), is_ours ? XDP_DROP : XDP_PASS) << "frame " << i;
  }
  EXPECT_GT(taken, 2'000u);
}

}  // namespace
}  // namespace cw::dataplane
