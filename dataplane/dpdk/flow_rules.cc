#include "dataplane/dpdk/flow_rules.h"

#include <fmt/format.h>
#include <rte_byteorder.h>
#include <rte_errno.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/assert.h"
#include "base/core_share.h"
#include "rocev2/rc/qpn_codec.h"
#include "rocev2/wire/udp.h"

namespace cw::dataplane {
namespace {

constexpr uint8_t kNoDatagram = 0x60;  // of an OpCode
constexpr size_t kDestinationQp = 5;   // in a BTH
constexpr size_t kCompared = 8;
constexpr uint16_t kVlanIdMask = 0x0fff;

using BthStart = std::array<uint8_t, kCompared>;

void put_qpn(BthStart& out, uint32_t qpn) {
  for (size_t i = 0; i < 3; ++i) {
    out[kDestinationQp + i] = static_cast<uint8_t>(qpn >> (16 - 8 * i));
  }
}

// A rule as DPDK takes it: items and actions that point into this object.
class Encoded {
 public:
  explicit Encoded(const FlowRule& rule) : queues_(rule.queues) {
    CW_ASSERT(!queues_.empty());
    attributes_.ingress = 1;
    attributes_.priority = rule.priority;
    add_item(RTE_FLOW_ITEM_TYPE_ETH, nullptr, nullptr);
    if (rule.vlan != 0) {
      vlan_.hdr.vlan_tci = rte_cpu_to_be_16(rule.vlan);
      vlan_mask_.hdr.vlan_tci = rte_cpu_to_be_16(kVlanIdMask);
      add_item(RTE_FLOW_ITEM_TYPE_VLAN, &vlan_, &vlan_mask_);
    }
    add_ip(rule);
    udp_.hdr.dst_port = rte_cpu_to_be_16(wire::kRoceUdpPort);
    udp_mask_.hdr.dst_port = 0xffff;
    add_item(RTE_FLOW_ITEM_TYPE_UDP, &udp_, &udp_mask_);
    if (rule.core) {
      add_core(*rule.core);
    }
    add_item(RTE_FLOW_ITEM_TYPE_END, nullptr, nullptr);
    set_action(rule.rss_types);
  }
  Encoded(const Encoded&) = delete;
  Encoded& operator=(const Encoded&) = delete;

  [[nodiscard]] const rte_flow_attr* attributes() const { return &attributes_; }
  [[nodiscard]] const rte_flow_item* items() const { return items_.data(); }
  [[nodiscard]] const rte_flow_action* actions() const { return actions_.data(); }

 private:
  void add_item(rte_flow_item_type type, const void* spec, const void* mask) {
    items_[item_count_++] = {.type = type, .spec = spec, .last = nullptr, .mask = mask};
  }

  void add_ip(const FlowRule& rule) {
    const rte_flow_item_type type = rule.ipv6 ? RTE_FLOW_ITEM_TYPE_IPV6 : RTE_FLOW_ITEM_TYPE_IPV4;
    if (!rule.destination) {
      add_item(type, nullptr, nullptr);
    } else if (rule.ipv6) {
      std::memcpy(ipv6_.hdr.dst_addr, rule.destination->raw.data(), sizeof(ipv6_.hdr.dst_addr));
      std::memset(ipv6_mask_.hdr.dst_addr, 0xff, sizeof(ipv6_mask_.hdr.dst_addr));
      add_item(type, &ipv6_, &ipv6_mask_);
    } else {
      ipv4_.hdr.dst_addr = rte_cpu_to_be_32(rule.destination->to_v4());
      ipv4_mask_.hdr.dst_addr = 0xffff'ffff;
      add_item(type, &ipv4_, &ipv4_mask_);
    }
  }

  void add_core(const FlowRule::Core& core) {
    put_qpn(bth_, core.index);
    bth_mask_[0] = kNoDatagram;
    put_qpn(bth_mask_, core.mask);
    raw_.relative = 1;
    raw_.length = kCompared;
    raw_.pattern = bth_.data();
    // DPDK's rte_flow_item_raw_mask, which C++ does not see.
    raw_mask_ = {
        .relative = 1, .search = 1, .reserved = 0x3fff'ffff, .offset = -1, .limit = 0xffff, .length = 0xffff, .pattern = nullptr};
    raw_mask_.pattern = bth_mask_.data();
    add_item(RTE_FLOW_ITEM_TYPE_RAW, &raw_, &raw_mask_);
  }

  void set_action(uint64_t rss_types) {
    if (queues_.size() == 1) {
      queue_.index = queues_.front();
      actions_[0] = {.type = RTE_FLOW_ACTION_TYPE_QUEUE, .conf = &queue_};
    } else {
      rss_.types = rss_types;
      rss_.queue_num = static_cast<uint32_t>(queues_.size());
      rss_.queue = queues_.data();
      actions_[0] = {.type = RTE_FLOW_ACTION_TYPE_RSS, .conf = &rss_};
    }
    actions_[1] = {.type = RTE_FLOW_ACTION_TYPE_END, .conf = nullptr};
  }

  rte_flow_attr attributes_{};
  std::array<rte_flow_item, 6> items_{};
  size_t item_count_ = 0;
  std::array<rte_flow_action, 2> actions_{};
  rte_flow_item_vlan vlan_{};
  rte_flow_item_vlan vlan_mask_{};
  rte_flow_item_ipv4 ipv4_{};
  rte_flow_item_ipv4 ipv4_mask_{};
  rte_flow_item_ipv6 ipv6_{};
  rte_flow_item_ipv6 ipv6_mask_{};
  rte_flow_item_udp udp_{};
  rte_flow_item_udp udp_mask_{};
  rte_flow_item_raw raw_{};
  rte_flow_item_raw raw_mask_{};
  BthStart bth_{};
  BthStart bth_mask_{};
  rte_flow_action_queue queue_{};
  rte_flow_action_rss rss_{};
  std::vector<uint16_t> queues_;
};

std::string reason_of(const rte_flow_error& error, int result) {
  const char* text = rte_strerror(result < 0 ? -result : result);
  const bool says_more = error.message != nullptr && std::strcmp(error.message, text) != 0;
  return says_more ? fmt::format("{} ({})", error.message, text) : std::string(text);
}

std::vector<uint16_t> all_queues(const FlowPlan& plan) {
  std::vector<uint16_t> queues(plan.queues);
  for (uint16_t i = 0; i < plan.queues; ++i) {
    queues[i] = i;
  }
  return queues;
}

// A copy of `rule` for each core that has a queue.
void add_cores(FlowRule rule, const FlowPlan& plan, std::vector<FlowRule>& out) {
  const uint32_t mask = rc::QpnCodec::core_mask(CoreShare{0, plan.cores}.bits());
  for (uint16_t core = 0; core < plan.queues; ++core) {
    rule.core = {core, mask};
    rule.queues = {core};
    out.push_back(rule);
  }
}

}  // namespace

const char* to_string(PortSteering steering) noexcept {
  switch (steering) {
    case PortSteering::kNone:
      return "none";
    case PortSteering::kFlow:
      return "flow";
    case PortSteering::kRss:
      return "rss";
    case PortSteering::kSoftware:
      return "software";
  }
  return "none";
}

std::vector<FlowRule> rules_by_family(const FlowPlan& plan) {
  std::vector<FlowRule> rules;
  for (const bool ipv6 : {false, true}) {
    if (std::ranges::any_of(plan.addresses, [ipv6](const IpAddress& own) { return own.is_v4() != ipv6; })) {
      add_cores({.ipv6 = ipv6, .vlan = plan.vlan}, plan, rules);
    }
  }
  return rules;
}

std::vector<FlowRule> rules_by_address(const FlowPlan& plan) {
  std::vector<FlowRule> rules;
  for (const IpAddress& own : plan.addresses) {
    add_cores({.ipv6 = !own.is_v4(), .vlan = plan.vlan, .destination = own}, plan, rules);
  }
  return rules;
}

std::vector<FlowRule> rules_that_take(const FlowPlan& plan, uint32_t priority) {
  std::vector<FlowRule> rules;
  for (const IpAddress& own : plan.addresses) {
    rules.push_back({.ipv6 = !own.is_v4(),
                     .vlan = plan.vlan,
                     .destination = own,
                     .priority = priority,
                     .queues = all_queues(plan),
                     .rss_types = plan.rss_types});
  }
  return rules;
}

std::string to_string(const FlowRule& rule) {
  return fmt::format("ETH{} / {}{} / UDP dst {}{}", rule.vlan == 0 ? "" : fmt::format(" / VLAN {}", rule.vlan),
                     rule.ipv6 ? "IPV6" : "IPV4",
                     rule.destination ? fmt::format(" dst {}", to_text(*rule.destination).data()) : "", wire::kRoceUdpPort,
                     rule.core ? " / RAW" : "");
}

bool isolate(uint16_t port, std::string& refusal) {
  rte_flow_error error{};
  const int result = rte_flow_isolate(port, 1, &error);
  if (result != 0) {
    refusal = reason_of(error, result);
  }
  return result == 0;
}

std::unique_ptr<FlowRules> FlowRules::make(uint16_t port, std::span<const FlowRule> rules, std::string& refusal) {
  for (const FlowRule& rule : rules) {
    const Encoded encoded(rule);
    rte_flow_error error{};
    const int result = rte_flow_validate(port, encoded.attributes(), encoded.items(), encoded.actions(), &error);
    if (result != 0) {
      refusal = fmt::format("{}: {}", to_string(rule), reason_of(error, result));
      return nullptr;
    }
  }
  std::unique_ptr<FlowRules> made(new FlowRules(port));
  for (const FlowRule& rule : rules) {
    const Encoded encoded(rule);
    rte_flow_error error{};
    rte_flow* flow = rte_flow_create(port, encoded.attributes(), encoded.items(), encoded.actions(), &error);
    if (flow == nullptr) {
      refusal = fmt::format("{}: {}", to_string(rule), reason_of(error, rte_errno));
      return nullptr;
    }
    made->flows_.push_back(flow);
  }
  return made;
}

FlowRules::~FlowRules() {
  for (; !flows_.empty(); flows_.pop_back()) {
    rte_flow_error error{};
    (void)rte_flow_destroy(port_, flows_.back(), &error);
  }
}

}  // namespace cw::dataplane
