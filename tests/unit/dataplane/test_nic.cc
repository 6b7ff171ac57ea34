#include "tests/unit/dataplane/test_nic.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <rte_byteorder.h>
#include <rte_dev.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_flow.h>

#include <algorithm>
#include <limits>
#include <list>
#include <span>

#include "base/assert.h"

namespace cw::dataplane::test {
namespace {

struct State {
  std::vector<std::string> calls;
  std::string refused;
  size_t created_max = std::numeric_limits<size_t>::max();
  bool isolates = true;
  bool deals = true;
  uint32_t link_questions = 0;
  uint16_t port = RTE_MAX_ETHPORTS;
  std::list<std::string> rules;  // whose addresses stand for them
};

State& state() {
  static State state;
  return state;
}

std::string hex(const void* raw, size_t count) {
  const std::span view(static_cast<const uint8_t*>(raw), count);
  return fmt::format("{:02x}", fmt::join(view, ""));
}

template <typename Item>
std::string masked(const rte_flow_item& item, const char* name, std::string (*text)(const Item&)) {
  CW_ASSERT(item.last == nullptr && (item.spec == nullptr) == (item.mask == nullptr));
  if (item.spec == nullptr) {
    return name;
  }
  return fmt::format("{} {} mask {}", name, text(*static_cast<const Item*>(item.spec)),
                     text(*static_cast<const Item*>(item.mask)));
}

// The mask of RAW says with its own fields that those of the spec count.
std::string raw_text(const rte_flow_item& item) {
  const auto& spec = *static_cast<const rte_flow_item_raw*>(item.spec);
  const auto& mask = *static_cast<const rte_flow_item_raw*>(item.mask);
  CW_ASSERT(mask.relative == 1 && mask.search == 1 && mask.limit == 0xffff && mask.length == 0xffff);
  CW_ASSERT(spec.search == 0 && spec.limit == 0);
  return fmt::format("RAW {} {} {} mask {}", spec.relative != 0 ? "relative" : "absolute", spec.offset,
                     hex(spec.pattern, spec.length), hex(mask.pattern, spec.length));
}

std::string text_of(const rte_flow_item& item) {
  switch (item.type) {
    case RTE_FLOW_ITEM_TYPE_ETH:
      CW_ASSERT(item.spec == nullptr && item.mask == nullptr);
      return "ETH";
    case RTE_FLOW_ITEM_TYPE_VLAN:
      return masked<rte_flow_item_vlan>(
          item, "VLAN", [](const rte_flow_item_vlan& vlan) { return hex(&vlan.hdr.vlan_tci, sizeof(vlan.hdr.vlan_tci)); });
    case RTE_FLOW_ITEM_TYPE_IPV4:
      return masked<rte_flow_item_ipv4>(
          item, "IPV4", [](const rte_flow_item_ipv4& ip) { return hex(&ip.hdr.dst_addr, sizeof(ip.hdr.dst_addr)); });
    case RTE_FLOW_ITEM_TYPE_IPV6:
      return masked<rte_flow_item_ipv6>(
          item, "IPV6", [](const rte_flow_item_ipv6& ip) { return hex(&ip.hdr.dst_addr, sizeof(ip.hdr.dst_addr)); });
    case RTE_FLOW_ITEM_TYPE_UDP:
      return masked<rte_flow_item_udp>(
          item, "UDP", [](const rte_flow_item_udp& udp) { return fmt::format("{}", rte_be_to_cpu_16(udp.hdr.dst_port)); });
    case RTE_FLOW_ITEM_TYPE_RAW:
      return raw_text(item);
    default:
      return fmt::format("item {}", static_cast<int>(item.type));
  }
}

std::string text_of(const rte_flow_attr* attributes, const rte_flow_item* items, const rte_flow_action* actions) {
  CW_ASSERT(attributes->ingress == 1 && attributes->egress == 0 && attributes->transfer == 0 && attributes->group == 0);
  std::vector<std::string> pattern;
  for (const rte_flow_item* item = items; item->type != RTE_FLOW_ITEM_TYPE_END; ++item) {
    pattern.push_back(text_of(*item));
  }
  std::string action = "?";
  if (actions[0].type == RTE_FLOW_ACTION_TYPE_QUEUE) {
    action = fmt::format("QUEUE {}", static_cast<const rte_flow_action_queue*>(actions[0].conf)->index);
  } else if (actions[0].type == RTE_FLOW_ACTION_TYPE_RSS) {
    const auto& rss = *static_cast<const rte_flow_action_rss*>(actions[0].conf);
    action = fmt::format("RSS {}", fmt::join(std::span(rss.queue, rss.queue_num), ","));
  }
  CW_ASSERT(actions[1].type == RTE_FLOW_ACTION_TYPE_END);
  return fmt::format("{}: {} -> {}", attributes->priority, fmt::join(pattern, " / "), action);
}

void refuse(rte_flow_error* error, const char* message) {
  rte_flow_error_set(error, ENOTSUP, RTE_FLOW_ERROR_TYPE_ITEM, nullptr, message);
}

}  // namespace

void TestNic::make() {
  state() = State();
  static uint32_t number = 0;
  ++number;
  const std::string name = fmt::format("net_null_nic{}", number);
  CW_ASSERT(rte_dev_probe(name.c_str()) == 0);
  CW_ASSERT(rte_eth_dev_get_port_by_name(name.c_str(), &state().port) == 0);
}

std::vector<std::string>& TestNic::calls() {
  return state().calls;
}

std::vector<std::string> TestNic::calls_of(const std::string& word) {
  std::vector<std::string> out;
  for (const std::string& call : state().calls) {
    if (call.starts_with(word + " ")) {
      out.push_back(call.substr(word.size() + 1));
    }
  }
  return out;
}

std::string& TestNic::refused() {
  return state().refused;
}

size_t& TestNic::created_max() {
  return state().created_max;
}

bool& TestNic::isolates() {
  return state().isolates;
}

uint32_t& TestNic::link_questions() {
  return state().link_questions;
}

bool& TestNic::deals() {
  return state().deals;
}

// The linker's names of what stands between, and of what it stands before.
extern "C" {
int nic_validate(uint16_t port, const rte_flow_attr* attributes, const rte_flow_item* items, const rte_flow_action* actions,
                 rte_flow_error* error) asm("__wrap_rte_flow_validate");
rte_flow* nic_create(uint16_t port, const rte_flow_attr* attributes, const rte_flow_item* items, const rte_flow_action* actions,
                     rte_flow_error* error) asm("__wrap_rte_flow_create");
int nic_destroy(uint16_t port, rte_flow* flow, rte_flow_error* error) asm("__wrap_rte_flow_destroy");
int nic_isolate(uint16_t port, int set, rte_flow_error* error) asm("__wrap_rte_flow_isolate");
int nic_by_name(const char* name, uint16_t* port) asm("__wrap_rte_eth_dev_get_port_by_name");
int real_by_name(const char* name, uint16_t* port) asm("__real_rte_eth_dev_get_port_by_name");
int nic_info(uint16_t port, rte_eth_dev_info* info) asm("__wrap_rte_eth_dev_info_get");
int real_info(uint16_t port, rte_eth_dev_info* info) asm("__real_rte_eth_dev_info_get");
int nic_configure(uint16_t port, uint16_t rx, uint16_t tx, const rte_eth_conf* conf) asm("__wrap_rte_eth_dev_configure");
int real_configure(uint16_t port, uint16_t rx, uint16_t tx, const rte_eth_conf* conf) asm("__real_rte_eth_dev_configure");
int nic_start(uint16_t port) asm("__wrap_rte_eth_dev_start");
int real_start(uint16_t port) asm("__real_rte_eth_dev_start");
int nic_promiscuous(uint16_t port) asm("__wrap_rte_eth_promiscuous_enable");
int nic_link(uint16_t port, rte_eth_link* link) asm("__wrap_rte_eth_link_get_nowait");
int real_link(uint16_t port, rte_eth_link* link) asm("__real_rte_eth_link_get_nowait");
int nic_stop(uint16_t port) asm("__wrap_rte_eth_dev_stop");
int real_stop(uint16_t port) asm("__real_rte_eth_dev_stop");
int nic_close(uint16_t port) asm("__wrap_rte_eth_dev_close");
int real_close(uint16_t port) asm("__real_rte_eth_dev_close");
}

int nic_validate(uint16_t /*port*/, const rte_flow_attr* attributes, const rte_flow_item* items, const rte_flow_action* actions,
                 rte_flow_error* error) {
  const std::string rule = text_of(attributes, items, actions);
  state().calls.push_back("validate " + rule);
  if (state().refused.empty() || rule.find(state().refused) == std::string::npos) {
    return 0;
  }
  refuse(error, "no such item");
  return -ENOTSUP;
}

rte_flow* nic_create(uint16_t /*port*/, const rte_flow_attr* attributes, const rte_flow_item* items,
                     const rte_flow_action* actions, rte_flow_error* error) {
  if (state().rules.size() >= state().created_max) {
    refuse(error, "the table is full");
    return nullptr;
  }
  const std::string rule = text_of(attributes, items, actions);
  state().calls.push_back("create " + rule);
  state().rules.push_back(rule);
  return reinterpret_cast<rte_flow*>(&state().rules.back());  // nobody looks into it
}

int nic_destroy(uint16_t /*port*/, rte_flow* flow, rte_flow_error* /*error*/) {
  const auto at = std::ranges::find_if(
      state().rules, [flow](const std::string& rule) { return reinterpret_cast<const rte_flow*>(&rule) == flow; });
  CW_ASSERT(at != state().rules.end());
  state().calls.push_back("destroy " + *at);
  state().rules.erase(at);
  return 0;
}

int nic_isolate(uint16_t /*port*/, int set, rte_flow_error* error) {
  state().calls.push_back(fmt::format("isolate {}", set));
  if (state().isolates) {
    return 0;
  }
  refuse(error, nullptr);
  return -ENOTSUP;
}

int nic_by_name(const char* name, uint16_t* port) {
  if (std::string(name) != TestNic::kAddress || state().port == RTE_MAX_ETHPORTS) {
    return real_by_name(name, port);
  }
  *port = state().port;
  return 0;
}

int nic_info(uint16_t port, rte_eth_dev_info* info) {
  const int result = real_info(port, info);
  if (port == state().port) {
    info->max_rx_queues = TestNic::kQueues;
    info->max_tx_queues = TestNic::kQueues;
    info->flow_type_rss_offloads = state().deals ? info->flow_type_rss_offloads : 0;
  }
  return result;
}

int nic_configure(uint16_t port, uint16_t rx, uint16_t tx, const rte_eth_conf* conf) {
  state().calls.push_back(fmt::format("configure {} queues", rx));
  return real_configure(port, rx, tx, conf);
}

int nic_start(uint16_t port) {
  state().calls.emplace_back("start");
  return real_start(port);
}

int nic_promiscuous(uint16_t /*port*/) {
  state().calls.emplace_back("promiscuous");
  return 0;
}

int nic_link(uint16_t port, rte_eth_link* link) {
  ++state().link_questions;
  return real_link(port, link);
}

int nic_stop(uint16_t port) {
  state().calls.emplace_back("stop");
  return real_stop(port);
}

int nic_close(uint16_t port) {
  state().calls.emplace_back("close");
  state().port = RTE_MAX_ETHPORTS;
  return real_close(port);
}

}  // namespace cw::dataplane::test
