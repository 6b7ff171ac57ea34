#include "control/doctor/kernel_interface.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <vector>

#include "control/doctor/host_text.h"

namespace cw::control::doctor {

std::optional<std::string> kernel_interface_of(const std::string& device) {
  const std::string address = device.substr(0, device.find(','));
  if (!is_pci_address(address)) {
    return interface_of(device);
  }
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/sys/bus/pci/devices/" + address + "/net", error)) {
    names.push_back(entry.path().filename().string());
  }
  const auto first = std::ranges::min_element(names);
  return first == names.end() ? std::nullopt : std::optional(*first);
}

}  // namespace cw::control::doctor
