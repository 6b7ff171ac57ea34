// What a load is to be, as people write it: on the command line or in a scenario file. Plain values with their defaults; what
// they mean, or why they mean nothing, is plan_load()'s to say.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "apps/load/link_faults.h"
#include "apps/load/load_driver.h"

namespace cw::load {

// [nfs]
struct NfsSettings {
  uint32_t files = 16;            // made, filled and removed by us
  std::string file_size = "16m";  // of each
  bool sequential = false;        // offsets one after the other, else anywhere
  bool stable = false;            // WRITEs FILE_SYNC, else UNSTABLE
};

struct LoadSettings {
  // [scenario]
  std::string title;
  // [load]
  std::string mix = "echo";       // call_mix.h
  std::string connections = "1";  // profile.h
  uint32_t window = 16;
  std::string rate;  // profile.h; empty: closed loop
  Arrivals arrivals = Arrivals::kPoisson;
  uint32_t burst = 1;
  uint32_t queue = 1 << 20;
  std::string churn = "0";  // connections per second
  uint32_t seconds = 10;
  uint32_t warmup_seconds = 1;
  uint32_t inline_bytes = 4096;
  uint32_t path_mtu_max = 4096;  // RoCE path MTU: the largest that fits the port's MTU and this
  uint32_t ack_timeout = 14;     // RoCE, exponent: 4.096 us x 2^n
  uint32_t verify_every = 1;
  bool reconnect = false;
  bool spin = false;
  // [faults]
  LinkFaultOptions faults;
  NfsSettings nfs;
};

struct LoadPlan {
  CallMix mix;
  uint32_t connections_max = 1;
  std::optional<Profile> connections;  // when they change
  std::optional<OpenLoopOptions> open_loop;
  double churn_per_second = 0;
  uint32_t file_bytes = 0;  // NFS
};

// What is wrong with a setting; `key` as in a scenario file.
struct SettingProblem {
  std::string key;  // "load.mix"
  std::string message;
};

inline constexpr uint32_t kConnectionsMax = 16384;
inline constexpr uint64_t kSlotBytesMax = 4ULL << 30;

// The plan, or all that is wrong in `problems`.
[[nodiscard]] LoadPlan plan_load(const LoadSettings& settings, std::vector<SettingProblem>& problems);
// What one of `count` cores does of it: connections, rates and churn are shared out, the rest is everyone's. Precondition:
// connections_max is at least `count`.
[[nodiscard]] LoadPlan share_of(const LoadPlan& plan, uint32_t index, uint32_t count);
// What "{}" in a device or an address stands for: the number of the thread.
[[nodiscard]] std::string text_for_thread(const std::string& text, uint32_t index);
// Every setting as in effect, by its command-line name: for reports.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> describe(const LoadSettings& settings, const LoadPlan& plan);

}  // namespace cw::load
