#include "control/admin/admin_peer.h"

#include <fmt/core.h>
#include <grp.h>
#include <pwd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>

namespace cw::control {
namespace {

constexpr size_t kEntryBytesMax = 16384;  // of a line of passwd or group

std::optional<uint32_t> number_of(const std::string& text) {
  uint32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(number) : std::nullopt;
}

// A name first, even one of digits alone, as chown(1) takes it.
std::optional<uint32_t> uid_of(const std::string& name) {
  std::vector<char> buffer(kEntryBytesMax);
  passwd entry{};
  passwd* found = nullptr;
  if (getpwnam_r(name.c_str(), &entry, buffer.data(), buffer.size(), &found) == 0 && found != nullptr) {
    return entry.pw_uid;
  }
  return number_of(name);
}

std::optional<uint32_t> gid_of(const std::string& name) {
  std::vector<char> buffer(kEntryBytesMax);
  group entry{};
  group* found = nullptr;
  if (getgrnam_r(name.c_str(), &entry, buffer.data(), buffer.size(), &found) == 0 && found != nullptr) {
    return entry.gr_gid;
  }
  return number_of(name);
}

template <typename Lookup>
bool resolve(const std::vector<std::string>& names, const char* key, const char* what, Lookup&& lookup,
             std::vector<uint32_t>& out, std::string& problem) {
  for (const std::string& name : names) {
    const std::optional<uint32_t> id = lookup(name);
    if (!id) {
      problem = fmt::format("{}: there is no {} '{}' on this host; correct the name or make it", key, what, name);
      return false;
    }
    out.push_back(*id);
  }
  return true;
}

bool holds(const std::vector<uint32_t>& list, uint32_t id) {
  return std::ranges::find(list, id) != list.end();
}

}  // namespace

bool may_change(const AdminPolicy& policy, const AdminPeer& peer) {
  return peer.uid == 0 || peer.uid == policy.own_uid || holds(policy.admin_uids, peer.uid) ||
         std::ranges::any_of(peer.gids, [&](uint32_t gid) { return holds(policy.admin_gids, gid); });
}

std::optional<AdminPolicy> resolve_policy(const AdminConfig& config, std::string& problem) {
  AdminPolicy policy;
  policy.own_uid = geteuid();
  std::vector<uint32_t> group;
  const std::vector<std::string> group_names = config.group.empty() ? std::vector<std::string>() : std::vector{config.group};
  if (!resolve(config.admins, "admin.admins", "user", uid_of, policy.admin_uids, problem) ||
      !resolve(config.admin_groups, "admin.admin_groups", "group", gid_of, policy.admin_gids, problem) ||
      !resolve(group_names, "admin.group", "group", gid_of, group, problem)) {
    return std::nullopt;
  }
  if (!group.empty()) {
    policy.socket_gid = group.front();
  }
  return policy;
}

std::optional<AdminPeer> peer_of(int fd) {
  ucred credentials{};
  socklen_t length = sizeof(credentials);
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &length) != 0) {
    return std::nullopt;
  }
  AdminPeer peer;
  peer.uid = credentials.uid;
  peer.gids.push_back(credentials.gid);
  std::array<gid_t, 1024> groups;
  length = sizeof(groups);
  // One that is in more groups than these is known by its primary group alone: less may be done, never more.
  if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups.data(), &length) == 0) {
    peer.gids.insert(peer.gids.end(), groups.begin(), groups.begin() + length / sizeof(gid_t));
  }
  return peer;
}

std::string name_of(const AdminPeer& peer) {
  std::vector<char> buffer(kEntryBytesMax);
  passwd entry{};
  passwd* found = nullptr;
  if (getpwuid_r(peer.uid, &entry, buffer.data(), buffer.size(), &found) == 0 && found != nullptr) {
    return fmt::format("{} (uid {})", entry.pw_name, peer.uid);
  }
  return fmt::format("uid {}", peer.uid);
}

}  // namespace cw::control
