// Who asks on the admin socket, and what they may do. The kernel says who it is (SO_PEERCRED): user and groups of the process
// that connected, as they were then.
//
// Whoever may open the socket may look: the file's mode is 0660, its group that of [admin] group. Changing anything is for root,
// the gateway's own user, and those that [admin] admins and admin_groups name.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "control/config/config.h"

namespace cw::control {

struct AdminPeer {
  uint32_t uid = 0;
  std::vector<uint32_t> gids;  // primary and supplementary
};

struct AdminPolicy {
  uint32_t own_uid = 0;
  std::vector<uint32_t> admin_uids;
  std::vector<uint32_t> admin_gids;
  std::optional<uint32_t> socket_gid;  // group of the socket's file; absent: that of the process
};

[[nodiscard]] bool may_change(const AdminPolicy& policy, const AdminPeer& peer);

// Looks the names up in the system's databases of users and groups; a number is itself. Nothing, and one sentence in `problem`,
// when one is unknown. Blocks.
[[nodiscard]] std::optional<AdminPolicy> resolve_policy(const AdminConfig& config, std::string& problem);
// Of a connected UNIX socket; nothing when the kernel does not say.
[[nodiscard]] std::optional<AdminPeer> peer_of(int fd);
// "alice (uid 1000)", for log lines and refusals. Blocks.
[[nodiscard]] std::string name_of(const AdminPeer& peer);

}  // namespace cw::control
