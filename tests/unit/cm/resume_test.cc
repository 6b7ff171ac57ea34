// An established connection goes on in the connection manager of the next process.
#include "tests/unit/cm/two_hosts.h"

namespace cw::cm::test {
namespace {

constexpr int kClient = 0;
constexpr int kGateway = 1;

class Resume : public testing::Test {
 protected:
  void SetUp() override {
    hosts.fickle = false;
    hosts.connect(kClient);
    hosts.run_for(Duration::ms(100));
    ASSERT_EQ(hosts.hosts[kGateway].open.size(), 1u);
    id = ConnectionId(hosts.hosts[kGateway].open.begin()->first);
    open = hosts.hosts[kGateway].open.begin()->second;
    const auto saved = gateway().saved(id);
    ASSERT_TRUE(saved.has_value());
    state = *saved;
  }
  [[nodiscard]] ConnectionManager& gateway() { return *hosts.hosts[kGateway].manager; }
  // The next process, in which the user has the connection again.
  void follow() {
    gateway().forget(id);
    EXPECT_EQ(gateway().live_count(), 0u);
    EXPECT_TRUE(gateway().is_consistent());
    hosts.crash(kGateway);
    const auto resumed = gateway().resume(state);
    ASSERT_TRUE(resumed.ok());
    id = *resumed;
    hosts.hosts[kGateway].open[id.value()] = open;
    EXPECT_EQ(gateway().state_of(id), ConnectionState::kEstablished);
    EXPECT_TRUE(gateway().is_consistent());
  }

  TwoHosts hosts{1};
  ConnectionId id;
  TwoHosts::Open open;
  EstablishedState state;
};

TEST_F(Resume, TheClientEndsItAsEver) {
  follow();
  for (const auto& [client_id, connection] : hosts.hosts[kClient].open) {
    hosts.hosts[kClient].manager->disconnect(hosts.now, ConnectionId(client_id));
  }
  hosts.run_for(Duration::seconds(60));
  EXPECT_EQ(hosts.hosts[kGateway].stats.ended, 1u);
  EXPECT_TRUE(hosts.is_quiet());
}

TEST_F(Resume, TheGatewayEndsItAsEver) {
  follow();
  gateway().disconnect(hosts.now, id);
  hosts.run_for(Duration::seconds(60));
  EXPECT_EQ(hosts.hosts[kClient].stats.ended, 1u);
  EXPECT_TRUE(hosts.is_quiet());
}

// The client has restarted meanwhile, and comes with the queue pair number that it had.
TEST_F(Resume, ANewConnectionOfTheClientSupersedesIt) {
  follow();
  hosts.crash(kClient);
  hosts.connect(kClient);
  hosts.run_for(Duration::ms(100));
  EXPECT_EQ(hosts.hosts[kGateway].stats.ended, 1u);
  EXPECT_EQ(hosts.hosts[kGateway].open.size(), 1u);
}

TEST_F(Resume, NothingIsTakenTwiceOrByAnotherCore) {
  follow();
  EXPECT_EQ(gateway().resume(state).error(), Error::kNoResources);
  state.local_comm_id ^= 0x100;
  EXPECT_EQ(gateway().resume(state).error(), Error::kNoResources) << "the peer's id is in use";
  state.remote_comm_id ^= 1;
  state.local_comm_id = 0;
  EXPECT_EQ(gateway().resume(state).error(), Error::kNoResources);
  CmOptions options = TwoHosts::small();
  options.core = CoreShare{0, 2};
  ConnectionManager of_one_of_two(options, hosts.random);
  state.local_comm_id = 3;
  EXPECT_EQ(of_one_of_two.resume(state).error(), Error::kNoResources);
  EXPECT_TRUE(gateway().is_consistent());
}

TEST_F(Resume, WhatIsNotEstablishedIsNotSaved) {
  gateway().disconnect(hosts.now, id);
  EXPECT_FALSE(gateway().saved(id).has_value());
  gateway().forget(id);
  hosts.run_for(Duration::seconds(60));
  EXPECT_FALSE(gateway().saved(id).has_value());
  EXPECT_TRUE(hosts.is_quiet());
}

}  // namespace
}  // namespace cw::cm::test
