// Which frames are the gateway's where it shares its addresses with the kernel: unicast, UDP 4791, to one of the addresses, in
// their VLAN. All others are the kernel's, fragments too: those behind the first have no port to tell them by.
//
// What is the gateway's is not proved to be sound: PacketView::parse does that, and counts why not. The XDP program
// (dataplane/xdp/causeway_xdp.c) decides the same; one table of frames tests both.
#pragma once

#include <cstdint>
#include <vector>

#include "base/bytes.h"
#include "base/ip_address.h"

namespace cw::node {

class AddressFilter {
 public:
  // `vlan`: 802.1Q id, 0 = untagged.
  AddressFilter(std::vector<IpAddress> addresses, uint16_t vlan) : addresses_(std::move(addresses)), vlan_(vlan) {}

  [[nodiscard]] bool takes(Bytes frame) const;

 private:
  [[nodiscard]] bool is_own(const IpAddress& address) const;

  std::vector<IpAddress> addresses_;
  uint16_t vlan_;
};

}  // namespace cw::node
