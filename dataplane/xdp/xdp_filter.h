// The XDP program of one interface that the kernel keeps: takes UDP 4791 to our addresses for the AF_XDP sockets of DPDK's
// net_af_xdp and leaves the rest alone.
//
// DPDK loads and attaches the program, as a file that is named to it; from then on it is this object's:
//
//   open()       nobody else's program is in the way; what a killed gateway left is taken off
//   path()       for DPDK's xdp_prog=
//   take_over()  after DPDK has started the device: addresses go into the program's map, and its attachment becomes a link, which
//                the kernel undoes when this process ends, however it ends
//   destructor   detaches, before DPDK closes the device
//
// Until take_over() the program passes everything. It takes CAP_BPF and CAP_NET_ADMIN, and nothing that is root's alone: program
// and map are found among this process's own descriptors, not by their numbers.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/ip_address.h"
#include "control/socket/unique_fd.h"

namespace cw::dataplane {

class XdpFilter {
 public:
  // nullptr with one sentence that says what is in the way and what to do.
  [[nodiscard]] static std::unique_ptr<XdpFilter> open(const std::string& interface, std::string& error);
  ~XdpFilter();
  XdpFilter(const XdpFilter&) = delete;
  XdpFilter& operator=(const XdpFilter&) = delete;

  // A file that lives as long as this object.
  [[nodiscard]] std::string path() const;
  // At most 8 addresses; `vlan` is their 802.1Q id, 0 = untagged.
  [[nodiscard]] bool take_over(std::span<const IpAddress> addresses, uint16_t vlan, std::string& error);
  // True when the kernel detaches the program with this process; else (kernels before 5.9) the next open() does.
  [[nodiscard]] bool ends_with_process() const { return link_.get() >= 0; }

 private:
  XdpFilter(const std::string& interface, int index, control::UniqueFd file)
      : interface_(interface), index_(index), file_(std::move(file)) {}
  [[nodiscard]] bool failed(const char* step, int result, std::string& error) const;

  std::string interface_;
  int index_;               // the kernel's, of the interface
  control::UniqueFd file_;  // the program's object file, in memory
  control::UniqueFd link_;
};

}  // namespace cw::dataplane
