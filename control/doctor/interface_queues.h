// How many receive queues an interface of the kernel has: RoCE packets that come on one without an AF_XDP socket are lost.
#pragma once

#include <cstdint>
#include <string>

namespace cw::control::doctor {

// 0: the driver does not say, or there is no such interface. In this process's network namespace, unlike /sys.
[[nodiscard]] uint32_t receive_queues_of(const std::string& interface);

// The commands that have all RoCE packets come on the first `queues` ones.
[[nodiscard]] std::string queue_fix(const std::string& interface, uint32_t queues);

}  // namespace cw::control::doctor
