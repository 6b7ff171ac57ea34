#include "control/doctor/interface_queues.h"

#include <fmt/core.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "control/socket/unique_fd.h"

namespace cw::control::doctor {

uint32_t receive_queues_of(const std::string& interface) {
  const UniqueFd any(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ethtool_channels channels{};
  channels.cmd = ETHTOOL_GCHANNELS;
  ifreq request{};
  interface.copy(request.ifr_name, IFNAMSIZ - 1);
  request.ifr_data = reinterpret_cast<char*>(&channels);
  return ioctl(any.get(), SIOCETHTOOL, &request) == 0 ? channels.rx_count + channels.combined_count : 0;
}

std::string queue_fix(const std::string& interface, uint32_t queues) {
  return fmt::format(
      "ethtool -L {0} combined {1} (or rx {1} tx {1}); "
      "or, where the NIC can steer: ethtool -N {0} flow-type udp4 dst-port 4791 action 0, and udp6",
      interface, queues);
}

}  // namespace cw::control::doctor
