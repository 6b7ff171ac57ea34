#include "control/admin/admin_peer.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>

#include "control/socket/unique_fd.h"

namespace cw::control {
namespace {

const AdminPolicy kPolicy{.own_uid = 900, .admin_uids = {1000}, .admin_gids = {50, 51}, .socket_gid = std::nullopt};

TEST(AdminPeer, RootTheGatewayItselfAndThoseNamedMayChange) {
  EXPECT_TRUE(may_change(kPolicy, {.uid = 0, .gids = {0}}));
  EXPECT_TRUE(may_change(kPolicy, {.uid = 900, .gids = {900}}));
  EXPECT_TRUE(may_change(kPolicy, {.uid = 1000, .gids = {100}}));
  EXPECT_TRUE(may_change(kPolicy, {.uid = 1001, .gids = {51}}));
  EXPECT_TRUE(may_change(kPolicy, {.uid = 1001, .gids = {100, 7, 50}}));
}

TEST(AdminPeer, EverybodyElseMayLook) {
  EXPECT_FALSE(may_change(kPolicy, {.uid = 1001, .gids = {100, 1000, 900}}));
  EXPECT_FALSE(may_change(kPolicy, {.uid = 50, .gids = {}}));
  EXPECT_FALSE(may_change(kPolicy, {.uid = 65534, .gids = {65534}}));
}

TEST(AdminPeer, NamesAndNumbersAreResolved) {
  std::string problem;
  AdminConfig config;
  config.admins = {"root", "4711"};
  config.admin_groups = {"root"};
  config.group = "root";
  const std::optional<AdminPolicy> policy = resolve_policy(config, problem);
  ASSERT_TRUE(policy) << problem;
  EXPECT_EQ(policy->own_uid, geteuid());
  EXPECT_EQ(policy->admin_uids, (std::vector<uint32_t>{0, 4711}));
  EXPECT_EQ(policy->admin_gids, (std::vector<uint32_t>{0}));
  EXPECT_EQ(policy->socket_gid, 0u);
}

TEST(AdminPeer, UnknownNamesAreSaid) {
  std::string problem;
  AdminConfig config;
  config.admins = {"nobody-of-this-name"};
  EXPECT_FALSE(resolve_policy(config, problem));
  EXPECT_EQ(problem, "admin.admins: there is no user 'nobody-of-this-name' on this host; correct the name or make it");
  config.admins.clear();
  config.group = "no-such-group";
  EXPECT_FALSE(resolve_policy(config, problem));
  EXPECT_EQ(problem, "admin.group: there is no group 'no-such-group' on this host; correct the name or make it");
}

TEST(AdminPeer, TheKernelSaysWhoConnected) {
  std::array<int, 2> pair{};
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, pair.data()), 0);
  const UniqueFd one(pair[0]);
  const UniqueFd other(pair[1]);
  const std::optional<AdminPeer> peer = peer_of(one.get());
  ASSERT_TRUE(peer);
  EXPECT_EQ(peer->uid, geteuid());
  EXPECT_EQ(peer->gids.front(), getegid());
  EXPECT_NE(name_of(*peer).find("uid " + std::to_string(geteuid())), std::string::npos);
  EXPECT_FALSE(peer_of(-1));
}

}  // namespace
}  // namespace cw::control
