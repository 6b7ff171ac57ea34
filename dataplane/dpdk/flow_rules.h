// Rules in a NIC (rte_flow) about the gateway's packets. Two uses, which go together:
//
//   steering    on a port with several queues: packets of the queue pairs of core i go to queue i, so that no core has to hand
//               them over. What no rule takes (CM messages, ARP) is dealt by RSS and handed over in software
//               (gateway/node/steering.h), and so is everything where a driver refuses the rules
//   isolation   on a port that the kernel keeps: the rules take UDP 4791 to the gateway's addresses, and a packet that no rule
//               takes is the kernel's
//
// DPDK 22.11 has no item for a BTH: RAW compares its first 8 bytes, from where the UDP header ends.
//
//   byte 0      OpCode: bits 6 and 5 are 0 in those of reliable connections and in CNPs, and 3 in CM messages (UD)
//   bytes 5..7  destination QP: its lowest bits are the core (rocev2/rc/qpn_codec.h)
//
// Bytes that count for nothing have an empty mask: of the drivers that know RAW some take even offsets and lengths only, or none
// but offset 0.
#pragma once

#include <rte_flow.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/ip_address.h"

namespace cw::dataplane {

// How packets reach the core that they belong to.
enum class PortSteering : uint8_t {
  kNone,      // there is one core
  kFlow,      // rules by QPN; the rest as kRss
  kRss,       // the device deals to its queues by addresses and UDP ports, the cores hand over
  kSoftware,  // the device has one queue, its core hands over
};
[[nodiscard]] const char* to_string(PortSteering steering) noexcept;

// UDP 4791 that comes in.
struct FlowRule {
  struct Core {
    uint32_t index = 0;
    uint32_t mask = 0;  // the bits of a QPN that say it
  };
  bool ipv6 = false;
  uint16_t vlan = 0;                     // 802.1Q id, 0 = untagged
  std::optional<IpAddress> destination;  // nothing: any
  std::optional<Core> core;              // nothing: packets of all queue pairs and CM messages
  uint32_t priority = 0;                 // 0 is looked at first
  std::vector<uint16_t> queues;          // one, or those that RSS deals to
  uint64_t rss_types = 0;                // of several queues
};

struct FlowPlan {
  uint32_t cores = 1;
  uint16_t queues = 1;  // 1..cores
  uint16_t vlan = 0;
  std::vector<IpAddress> addresses;  // the gateway's on this port
  uint64_t rss_types = 0;            // RTE_ETH_RSS_* that the device has
};

// A rule for each core that has a queue: for the families that the plan has addresses of, or for each address.
[[nodiscard]] std::vector<FlowRule> rules_by_family(const FlowPlan& plan);
[[nodiscard]] std::vector<FlowRule> rules_by_address(const FlowPlan& plan);
// All RoCE packets to the addresses, dealt to all queues.
[[nodiscard]] std::vector<FlowRule> rules_that_take(const FlowPlan& plan, uint32_t priority);

// What a rule compares, in DPDK's words: "ETH / IPV4 / UDP dst 4791 / RAW".
[[nodiscard]] std::string to_string(const FlowRule& rule);

// From here on packets that no rule takes are the kernel's. Before the port is started; it ends when the port is closed.
// False with the driver's reason.
[[nodiscard]] bool isolate(uint16_t port, std::string& refusal);

class FlowRules {
 public:
  // All of them or none: nullptr with the rule that the driver refuses, and its reason. The port is started.
  [[nodiscard]] static std::unique_ptr<FlowRules> make(uint16_t port, std::span<const FlowRule> rules, std::string& refusal);
  // Takes them away, the last one first. Before the port is stopped.
  ~FlowRules();
  FlowRules(const FlowRules&) = delete;
  FlowRules& operator=(const FlowRules&) = delete;

  [[nodiscard]] size_t count() const { return flows_.size(); }

 private:
  explicit FlowRules(uint16_t port) : port_(port) {}

  uint16_t port_;
  std::vector<rte_flow*> flows_;
};

}  // namespace cw::dataplane
