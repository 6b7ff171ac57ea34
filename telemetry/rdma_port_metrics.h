// The ports of RDMA devices, as the kernel and the devices' drivers count them: sysfs, read when somebody asks. What the gateway
// itself counts of the verbs wire is in the table of metrics. Any thread, and none that polls: a driver may ask its device for a
// counter and wait for it.
#pragma once

#include <prometheus/metric_family.h>

#include <array>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cw::telemetry {

inline constexpr const char* kRdmaFolder = "/sys/class/infiniband";
// More are not looked at.
inline constexpr size_t kRdmaDevicesMax = 16;
inline constexpr size_t kRdmaPortsMax = 4;  // of a device

// One series of each port.
struct RdmaPortCounter {
  const char* name;
  const char* help;
  const char* label;  // besides device and port; null: none
  const char* value;
  // Files below ports/N; the first that has a number counts. Drivers have names of their own for the same thing.
  struct Source {
    const char* file = nullptr;
    double unit = 1;
  };
  std::array<Source, 3> sources;
};
// Those of one name stand together and form one family.
[[nodiscard]] std::span<const RdmaPortCounter> rdma_port_counters();

inline constexpr std::string_view kRdmaPortIsActive = "ACTIVE";
struct RdmaPortState {
  std::string device;
  std::string port;   // its number; empty: the device is not there, or has no port
  std::string state;  // "ACTIVE", "DOWN"; of a device that is not there "absent"
  [[nodiscard]] bool is_there() const { return !port.empty(); }
  [[nodiscard]] bool is_active() const { return state == kRdmaPortIsActive; }
};
// The ports of the devices in a folder like kRdmaFolder; a name that is empty stands for all of them. A device that is named and
// not there has one row.
[[nodiscard]] std::vector<RdmaPortState> rdma_port_states(const std::filesystem::path& folder,
                                                          std::span<const std::string> devices);

// Of rdma_port_states() of the same folder. A file that is not there, or has no number, has no series.
[[nodiscard]] std::vector<prometheus::MetricFamily> rdma_port_metrics(const std::filesystem::path& folder,
                                                                      std::span<const RdmaPortState> ports);

}  // namespace cw::telemetry
