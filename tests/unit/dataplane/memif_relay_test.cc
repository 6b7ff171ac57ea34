// The relay between a memif driver and the other end of its link, both played by hand.
#include "dataplane/dpdk/memif_relay.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/unit/dataplane/memif_messages.h"

namespace cw::dataplane {
namespace {

using control::UniqueFd;
using memif::Message;
using memif::message_of;

constexpr int kWaitMs = 5000;
constexpr uint16_t kHello = MemifHandshake::kHello;
constexpr uint16_t kInit = MemifHandshake::kInit;
constexpr uint16_t kAddRegion = MemifHandshake::kAddRegion;
constexpr uint16_t kAddRing = MemifHandshake::kAddRing;
constexpr uint16_t kConnect = MemifHandshake::kConnect;
constexpr uint16_t kConnected = MemifHandshake::kConnected;
constexpr uint16_t kDisconnect = MemifHandshake::kDisconnect;

bool is_readable(int fd, int wait_ms = kWaitMs) {
  pollfd polled{fd, POLLIN, 0};
  return poll(&polled, 1, wait_ms) == 1;
}

void send_message(int fd, Message message, int descriptor = -1) {
  iovec vector{message.data(), message.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr header{};
  header.msg_iov = &vector;
  header.msg_iovlen = 1;
  if (descriptor >= 0) {
    header.msg_control = control.data();
    header.msg_controllen = control.size();
    cmsghdr* item = CMSG_FIRSTHDR(&header);
    item->cmsg_level = SOL_SOCKET;
    item->cmsg_type = SCM_RIGHTS;
    item->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(item), &descriptor, sizeof(int));
  }
  ASSERT_EQ(sendmsg(fd, &header, MSG_NOSIGNAL), static_cast<ssize_t>(message.size()));
}
void send_message(int fd, uint16_t type) {
  send_message(fd, message_of(type));
}

// The type of the next message; 0 = closed.
uint16_t next_type(int fd, UniqueFd* descriptor = nullptr) {
  if (!is_readable(fd)) {
    ADD_FAILURE() << "no message";
    return 0;
  }
  Message message{};
  iovec vector{message.data(), message.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr header{};
  header.msg_iov = &vector;
  header.msg_iovlen = 1;
  header.msg_control = control.data();
  header.msg_controllen = control.size();
  if (recvmsg(fd, &header, 0) != static_cast<ssize_t>(message.size())) {
    return 0;
  }
  if (cmsghdr* item = CMSG_FIRSTHDR(&header); item != nullptr && descriptor != nullptr) {
    int fd_received = -1;
    std::memcpy(&fd_received, CMSG_DATA(item), sizeof(int));
    *descriptor = UniqueFd(fd_received);
  }
  uint16_t type = 0;
  std::memcpy(&type, message.data(), sizeof(type));
  return type;
}

UniqueFd knock_at(const UnixName& name) {
  sockaddr_un address{};
  socklen_t size = 0;
  EXPECT_TRUE(name.fill(address, size));
  UniqueFd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  EXPECT_EQ(connect(fd.get(), reinterpret_cast<sockaddr*>(&address), size), 0) << name.text();
  return fd;
}

UniqueFd listen_on(const UnixName& name) {
  sockaddr_un address{};
  socklen_t size = 0;
  EXPECT_TRUE(name.fill(address, size));
  UniqueFd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  EXPECT_EQ(bind(fd.get(), reinterpret_cast<sockaddr*>(&address), size), 0) << name.text();
  EXPECT_EQ(listen(fd.get(), 1), 0);
  return fd;
}

UniqueFd accept_one(const UniqueFd& listener) {
  EXPECT_TRUE(is_readable(listener.get()));
  return UniqueFd(accept(listener.get(), nullptr, nullptr));
}

bool relay_comes_to(const std::function<bool()>& condition) {
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::milliseconds(kWaitMs);
  while (!condition() && std::chrono::steady_clock::now() < give_up) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return condition();
}

class MemifRelayTest : public ::testing::Test {
 protected:
  MemifRelayTest() {
    std::string pattern = "/tmp/memif_relay_XXXXXX";
    directory_ = mkdtemp(pattern.data());
    leases_.take_unused();
  }
  ~MemifRelayTest() override {
    relay_.reset();
    (void)unlink((directory_ + "/link.sock").c_str());
    EXPECT_EQ(rmdir(directory_.c_str()), 0) << "something is left in it";
  }

  [[nodiscard]] MemifDevice device(bool server) const {
    return {server, {directory_ + "/link.sock", false}, {"net_memif0", "bsize=8192"}};
  }
  void open(bool server) {
    std::string error;
    relay_ = MemifRelay::open(
        device(server), leases_, [this] { return restarts_.fetch_add(1) >= 0; }, error);
    ASSERT_NE(relay_, nullptr) << error;
  }
  // A server whose driver listens.
  void start_server() {
    open(true);
    driver_listener_ = listen_on(relay_->for_driver().socket);
    std::string error;
    ASSERT_TRUE(relay_->hide_driver(error)) << error;
    relay_->start();
  }
  // The client's part, as far as CONNECT. Played by hand, the driver does not answer.
  static void ask_to_connect(const UniqueFd& peer, const UniqueFd& driver) {
    const UniqueFd region(memfd_create("region", MFD_CLOEXEC));
    ASSERT_EQ(ftruncate(region.get(), memif::kRegionBytes), 0);
    send_message(peer.get(), kInit);
    send_message(peer.get(), memif::add_region(0), region.get());
    send_message(peer.get(), memif::add_ring({}), region.get());
    send_message(peer.get(), memif::add_ring({.client_to_server = false, .offset = memif::kRingBytes}), region.get());
    send_message(peer.get(), kConnect);
    for (const uint16_t type : {kInit, kAddRegion, kAddRing, kAddRing, kConnect}) {
      EXPECT_EQ(next_type(driver.get()), type);
    }
  }
  void expect_link_up(const UniqueFd& peer) {
    driver_ = accept_one(driver_listener_);
    ask_to_connect(peer, driver_);
    send_message(driver_.get(), kConnected);
    EXPECT_EQ(next_type(peer.get()), kConnected);
    EXPECT_TRUE(relay_comes_to([this] { return leases_.of(0).is_cores() && leases_.of(1).is_cores(); }));
  }
  // A link in the server role that is up.
  void bring_up_server() {
    start_server();
    peer_ = knock_at(device(true).socket);
    expect_link_up(peer_);
  }
  // The server's part of a link in the client role.
  void answer_as_server() {
    send_message(peer_.get(), kHello);
    EXPECT_EQ(next_type(driver_.get()), kHello);
    send_message(driver_.get(), kConnect);
    EXPECT_EQ(next_type(peer_.get()), kConnect);
    send_message(peer_.get(), kConnected);
    EXPECT_EQ(next_type(driver_.get()), kConnected);
    EXPECT_TRUE(relay_comes_to([this] { return leases_.of(0).is_cores() && leases_.of(1).is_cores(); }));
  }
  // The driver hears of the end only when the core has let go.
  void expect_end_after_the_core_let_go() {
    EXPECT_TRUE(relay_comes_to([this] { return leases_.of(0).is_asked() && leases_.of(1).is_asked(); }));
    EXPECT_FALSE(leases_.of(0).use()) << "one core lets go here";
    EXPECT_FALSE(is_readable(driver_.get(), 50)) << "the driver was told while a core had the device";
    EXPECT_FALSE(leases_.of(1).use()) << "the other lets go here";
    EXPECT_EQ(next_type(driver_.get()), 0);
    EXPECT_TRUE(leases_.are_keepers());
  }

  std::string directory_;
  DeviceLeases leases_{2};
  std::atomic<int> restarts_{0};
  std::unique_ptr<MemifRelay> relay_;
  UniqueFd driver_listener_;
  UniqueFd driver_;
  UniqueFd peer_;
};

TEST_F(MemifRelayTest, PassesTheHandshakeOnWithItsDescriptors) {
  start_server();
  peer_ = knock_at(device(true).socket);
  driver_ = accept_one(driver_listener_);
  send_message(driver_.get(), kHello);
  EXPECT_EQ(next_type(peer_.get()), kHello);
  send_message(peer_.get(), kInit);
  EXPECT_EQ(next_type(driver_.get()), kInit);
  const UniqueFd region(memfd_create("region", MFD_CLOEXEC));
  ASSERT_EQ(ftruncate(region.get(), 12345), 0);
  send_message(peer_.get(), memif::add_region(0, 12345), region.get());
  UniqueFd received;
  EXPECT_EQ(next_type(driver_.get(), &received), kAddRegion);
  ASSERT_TRUE(received.valid());
  EXPECT_EQ(lseek(received.get(), 0, SEEK_END), 12345);
  EXPECT_TRUE(leases_.are_keepers()) << "the link is not up";
}

TEST_F(MemifRelayTest, GivesTheDeviceToTheCoreWhenTheLinkIsUp) {
  bring_up_server();
  EXPECT_TRUE(leases_.of(0).use());
  EXPECT_TRUE(leases_.of(1).use());
}

TEST_F(MemifRelayTest, TakesTheDeviceFromTheCoreBeforeTheDriverHearsThatThePeerIsGone) {
  bring_up_server();
  peer_ = UniqueFd();
  expect_end_after_the_core_let_go();
}

TEST_F(MemifRelayTest, TakesTheDeviceFromTheCoreBeforeTheDriverHearsADisconnectMessage) {
  bring_up_server();
  send_message(peer_.get(), kDisconnect);
  expect_end_after_the_core_let_go();
}

TEST_F(MemifRelayTest, ServesTheNextPeerWhenTheDriverHasTakenItsRingsAway) {
  bring_up_server();
  peer_ = UniqueFd();
  expect_end_after_the_core_let_go();
  const UniqueFd next = knock_at(device(true).socket);
  EXPECT_FALSE(is_readable(driver_listener_.get(), 50)) << "the driver has not left yet";
  driver_ = UniqueFd();
  expect_link_up(next);
}

TEST_F(MemifRelayTest, APeerThatLeavesDuringTheHandshakeEndsTheDriversConnection) {
  start_server();
  knock_at(device(true).socket);
  driver_ = accept_one(driver_listener_);
  EXPECT_EQ(next_type(driver_.get()), 0);
  EXPECT_TRUE(leases_.are_keepers());
}

// The driver has said CONNECTED when it hears of it, and takes its rings away: a core that had them would read freed memory.
TEST_F(MemifRelayTest, APeerThatLeavesWhileTheDriverConnectsBringsNoDeviceToTheCore) {
  start_server();
  peer_ = knock_at(device(true).socket);
  driver_ = accept_one(driver_listener_);
  ask_to_connect(peer_, driver_);
  send_message(peer_.get(), kDisconnect);
  EXPECT_EQ(next_type(driver_.get()), kDisconnect);
  send_message(driver_.get(), kConnected);
  EXPECT_EQ(next_type(driver_.get()), 0) << "the link has ended";
  EXPECT_TRUE(leases_.are_keepers());
  driver_ = UniqueFd();
  const UniqueFd next = knock_at(device(true).socket);
  expect_link_up(next);
}

// It is the server's to say that the link is up.
TEST_F(MemifRelayTest, APeerThatClaimsTheServersPartIsSentAway) {
  start_server();
  peer_ = knock_at(device(true).socket);
  driver_ = accept_one(driver_listener_);
  send_message(peer_.get(), kConnected);
  EXPECT_EQ(next_type(driver_.get()), 0);
  EXPECT_EQ(next_type(peer_.get()), kDisconnect) << "and is told why";
  EXPECT_EQ(next_type(peer_.get()), 0);
  EXPECT_TRUE(leases_.are_keepers());
  EXPECT_EQ(relay_->refused(), 1u);
}

// One that knocks and says nothing has the link for a second; whoever waits behind it gets it then.
TEST_F(MemifRelayTest, AnEndThatStallsInItsHandshakeKeepsNobodyWaiting) {
  start_server();
  const UniqueFd silent = knock_at(device(true).socket);
  driver_ = accept_one(driver_listener_);
  const UniqueFd honest = knock_at(device(true).socket);
  EXPECT_EQ(next_type(silent.get()), kDisconnect);
  EXPECT_EQ(next_type(driver_.get()), 0);
  EXPECT_EQ(relay_->refused(), 1u);
  driver_ = UniqueFd();
  expect_link_up(honest);
}

TEST_F(MemifRelayTest, NobodyButTheRelayReachesTheDriver) {
  start_server();
  struct stat status {};
  EXPECT_NE(stat(relay_->for_driver().socket.name.c_str(), &status), 0);
  for (int i = 0; i < 100; ++i) {
    knock_at(device(true).socket);
    // A driver that hears of the end of its connection closes, and so does this one.
    driver_ = accept_one(driver_listener_);
    EXPECT_EQ(next_type(driver_.get()), 0);
    driver_ = UniqueFd();
  }
  peer_ = knock_at(device(true).socket);
  expect_link_up(peer_);
}

TEST_F(MemifRelayTest, WhatTheDriverWouldBelieveDoesNotReachIt) {
  start_server();
  peer_ = knock_at(device(true).socket);
  driver_ = accept_one(driver_listener_);
  send_message(peer_.get(), kInit);
  EXPECT_EQ(next_type(driver_.get()), kInit);
  const UniqueFd shorter(memfd_create("region", MFD_CLOEXEC));
  send_message(peer_.get(), memif::add_region(0), shorter.get());
  EXPECT_EQ(next_type(driver_.get()), 0);
  EXPECT_EQ(next_type(peer_.get()), kDisconnect);
}

TEST_F(MemifRelayTest, TheClientRoleStartsTheDriverAgainAndWaitsForTheServer) {
  UniqueFd server = listen_on(device(false).socket);
  open(false);
  relay_->start();
  driver_ = knock_at(relay_->for_driver().socket);
  peer_ = accept_one(server);
  answer_as_server();

  peer_ = UniqueFd();
  server = UniqueFd();
  (void)unlink(device(false).socket.name.c_str());
  expect_end_after_the_core_let_go();
  driver_ = UniqueFd();
  EXPECT_TRUE(relay_comes_to([this] { return restarts_.load() > 0; }));
  driver_ = knock_at(relay_->for_driver().socket);
  EXPECT_FALSE(is_readable(driver_.get(), 50)) << "the driver was told that there is no server";

  server = listen_on(device(false).socket);
  peer_ = accept_one(server);
  answer_as_server();
}

// Such names have no permissions. One thread of root's may be another user for a moment.
TEST_F(MemifRelayTest, AnAbstractNameIsForTheGatewaysUserAndRoot) {
  if (geteuid() != 0) {
    GTEST_SKIP() << "takes root";
  }
  const MemifDevice abstract{true, {directory_ + "/abstract", true}, {"net_memif0"}};
  std::string error;
  relay_ = MemifRelay::open(
      abstract, leases_, [] { return true; }, error);
  ASSERT_NE(relay_, nullptr) << error;
  driver_listener_ = listen_on(relay_->for_driver().socket);
  ASSERT_TRUE(relay_->hide_driver(error)) << error;
  relay_->start();
  UniqueFd stranger;
  std::thread([&] {
    ASSERT_EQ(syscall(SYS_setresuid, -1, 60'001, 0), 0);
    stranger = knock_at(abstract.socket);
    ASSERT_EQ(syscall(SYS_setresuid, -1, 0, 0), 0);
  }).join();
  EXPECT_EQ(next_type(stranger.get()), 0);
  EXPECT_EQ(relay_->refused(), 1u);
  EXPECT_FALSE(is_readable(driver_listener_.get(), 50));
  peer_ = knock_at(abstract.socket);
  expect_link_up(peer_);
}

// A stranger who could connect there would stand in line before the driver, and the driver waits for as long as that takes.
TEST_F(MemifRelayTest, InTheClientRoleTheDriversSocketIsForThisUserAlone) {
  const UniqueFd server = listen_on(device(false).socket);
  open(false);
  const UnixName& name = relay_->for_driver().socket;
  ASSERT_FALSE(name.abstract);
  struct stat status {};
  const std::string directory = name.name.substr(0, name.name.rfind('/'));
  ASSERT_EQ(stat(directory.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0700u);
  EXPECT_EQ(status.st_uid, geteuid());
  const std::string path = name.name;
  relay_.reset();
  EXPECT_NE(stat(directory.c_str(), &status), 0) << "left behind: " << path;
}

TEST_F(MemifRelayTest, AClientWithoutServerIsToldSo) {
  std::string error;
  EXPECT_EQ(MemifRelay::open(
                device(false), leases_, [] { return true; }, error),
            nullptr);
  EXPECT_NE(error.find("link.sock"), std::string::npos) << error;
  EXPECT_NE(error.find("role=server first"), std::string::npos) << error;
}

TEST_F(MemifRelayTest, AServerTakesOverWhatAKilledOneLeftBehind) {
  listen_on(device(true).socket);  // and closed: the file stays
  start_server();
  peer_ = knock_at(device(true).socket);
  expect_link_up(peer_);
}

// Connecting to a driver and leaving ends its process (DPDK 22.11).
TEST_F(MemifRelayTest, ASecondServerOfTheSameNameIsRefusedAndTheFirstDoesNotNotice) {
  start_server();
  DeviceLeases other{1};
  std::string error;
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(MemifRelay::open(
                  device(true), other, [] { return true; }, error),
              nullptr);
    EXPECT_NE(error.find("another process listens on " + device(true).socket.name), std::string::npos) << error;
  }
  EXPECT_FALSE(is_readable(driver_listener_.get(), 50)) << "the driver was knocked at";
  peer_ = knock_at(device(true).socket);
  expect_link_up(peer_);
}

TEST_F(MemifRelayTest, ANameThatAnotherProgramListensOnIsLeftToItUntouched) {
  const UniqueFd stranger = listen_on(device(true).socket);
  std::string error;
  EXPECT_EQ(MemifRelay::open(
                device(true), leases_, [] { return true; }, error),
            nullptr);
  EXPECT_NE(error.find("another program listens on " + device(true).socket.name), std::string::npos) << error;
  EXPECT_FALSE(is_readable(stranger.get(), 50));
  knock_at(device(true).socket);
  EXPECT_TRUE(is_readable(stranger.get()));
}

TEST(MemifDevice, FindsTheSocketAmongTheArgumentsAndKeepsTheOthers) {
  const auto device = MemifDevice::parse("net_memif3,id=1,role=server,socket=/run/a.sock,socket-abstract=no,bsize=8192");
  ASSERT_TRUE(device);
  EXPECT_TRUE(device->server);
  EXPECT_EQ(device->socket.text(), "/run/a.sock");
  EXPECT_EQ(device->text(), "net_memif3,role=server,socket=/run/a.sock,socket-abstract=no,id=1,bsize=8192");
}

TEST(MemifDevice, HasTheDriversDefaults) {
  const auto device = MemifDevice::parse("net_memif0");
  ASSERT_TRUE(device);
  EXPECT_EQ(device->text(), "net_memif0,role=client,socket=/run/memif.sock,socket-abstract=yes");
}

TEST(MemifDevice, LeavesWhatItDoesNotKnowToTheDriver) {
  const auto device = MemifDevice::parse("net_memif0,role=boss,socket-abstract=perhaps");
  ASSERT_TRUE(device);
  EXPECT_EQ(device->rest, (std::vector<std::string>{"net_memif0", "role=boss", "socket-abstract=perhaps"}));
  EXPECT_FALSE(MemifDevice::parse("net_vhost0,iface=/run/a.sock"));
}

TEST(UnixName, RefusesWhatAnAddressDoesNotHold) {
  sockaddr_un address{};
  socklen_t size = 0;
  EXPECT_TRUE((UnixName{std::string(sizeof(address.sun_path) - 1, 'x'), false}.fill(address, size)));
  EXPECT_FALSE((UnixName{std::string(sizeof(address.sun_path), 'x'), false}.fill(address, size)));
  EXPECT_FALSE((UnixName{"", true}.fill(address, size)));
}

}  // namespace
}  // namespace cw::dataplane
