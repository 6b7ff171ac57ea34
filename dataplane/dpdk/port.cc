#include "dataplane/dpdk/port.h"

#include <fmt/format.h>
#include <net/if.h>
#include <rte_dev.h>
#include <rte_errno.h>
#include <rte_log.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <optional>
#include <string_view>
#include <thread>

#include "control/config/config.h"
#include "control/config/memory_plan.h"
#include "control/doctor/kernel_interface.h"
#include "control/socket/unique_fd.h"
#include "dataplane/dpdk/memif_device.h"
#include "dataplane/dpdk/unix_name.h"

namespace cw::dataplane {
namespace {

constexpr auto kHandshakeMax = std::chrono::seconds(1);
// What a NIC deals flows to its queues by, as far as it can: the UDP source port differs from one queue pair to the next.
constexpr uint64_t kRssFields = RTE_ETH_RSS_IP | RTE_ETH_RSS_UDP;

// DPDK advises to isolate a port before it is configured, and some drivers refuse it later. This one (22.11) accepts it then, and
// leaves its own rules where they are unless its queues are set up.
constexpr std::string_view kIsolatesWithQueues = "net_tap";

std::string device_name(const std::string& device) {
  return device.substr(0, device.find(','));
}

unsigned long number_of(const std::optional<std::string>& argument, unsigned long otherwise) {
  return argument ? std::strtoul(argument->c_str(), nullptr, 10) : otherwise;
}

bool is_virtual(std::string_view device) {
  return device.starts_with("net_") || device.starts_with("eth_");
}

// The kernel's interface that a device sends through, of those whose driver says that its link is up whatever becomes of that;
// empty for others.
std::string kernel_interface(const std::string& device) {
  const bool sends_through = device.starts_with("net_af_packet") || device.starts_with("eth_af_packet");
  return sends_through ? control::device_argument(device, "iface").value_or("") : "";
}

// True also where nobody can say.
bool interface_is_up(const std::string& name) {
  if (name.empty() || name.size() >= IFNAMSIZ) {
    return true;
  }
  const control::UniqueFd any(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request{};
  name.copy(request.ifr_name, IFNAMSIZ - 1);
  return !any.valid() || ioctl(any.get(), SIOCGIFFLAGS, &request) != 0 || (request.ifr_flags & IFF_RUNNING) != 0;
}

// The socket file that a vhost device in the server role is going to make; empty for other devices.
std::string vhost_socket(const std::string& device) {
  const bool server = device.starts_with("net_vhost") && number_of(control::device_argument(device, "client"), 0) == 0;
  return server ? control::device_argument(device, "iface").value_or("") : "";
}

// Queues that carry frames. A NIC deals frames to all that are set up; a virtual device has those that its arguments make, and
// where the other end decides how many it serves (memif, vhost), the first is the one that is sure to be served.
uint16_t usable_queues(const PortSettings& settings, const rte_eth_dev_info& info) {
  const uint16_t wanted = static_cast<uint16_t>(
      std::min({settings.cores - settings.cores_without_queue, uint32_t{info.max_rx_queues}, uint32_t{info.max_tx_queues}}));
  if (!is_virtual(settings.device)) {
    return std::max<uint16_t>(wanted, 1);
  }
  unsigned long named = 1;
  if (settings.device.starts_with("net_af_packet") || settings.device.starts_with("eth_af_packet")) {
    named = number_of(control::device_argument(settings.device, "qpairs"), 1);
  } else if (settings.device.starts_with("net_af_xdp")) {
    named = number_of(control::device_argument(settings.device, "queue_count"), 1);
  }
  return static_cast<uint16_t>(std::max(std::min<unsigned long>(wanted, named), 1ul));
}

const char* probe_failure(const std::string& device) {
  if (!is_virtual(device)) {
    return "cannot probe the device (is it bound to vfio-pci, "
           "or does it keep its kernel driver mlx5_core? see dpdk-devbind.py --status)";
  }
  return control::may_isolate(device)
             ? "cannot create the virtual device (is the interface of remote= there, and does the kernel have tun, sch_multiq, "
               "sch_ingress, cls_flower, act_mirred, act_gact and act_skbedit?)"
             : "cannot create the virtual device (is its driver plugin installed, is the path writable and free?)";
}

}  // namespace

bool Port::failed(const char* step, int result, std::string& error) const {
  error = fmt::format("port '{}': {}: {}", settings_.device, step, rte_strerror(result < 0 ? -result : result));
  return false;
}

bool Port::find_or_make(std::string& error) {
  const std::string name = device_name(settings_.device);
  if (rte_eth_dev_get_port_by_name(name.c_str(), &id_) == 0) {
    return true;
  }
  std::string device = settings_.device;
  if (const std::optional<MemifDevice> memif = MemifDevice::parse(settings_.device)) {
    leases_.take_unused();  // until the relay gives it to the cores
    relay_ = MemifRelay::open(
        *memif, leases_, [this] { return restart(); }, error);
    if (relay_ == nullptr) {
      error = fmt::format("port '{}': {}", settings_.device, error);
      return false;
    }
    device = relay_->for_driver().text();
  }
  if (settings_.beside_kernel && control::is_af_xdp(settings_.device)) {
    xdp_ = XdpFilter::open(control::device_argument(settings_.device, "iface").value_or(""), error);
    if (xdp_ == nullptr) {
      error = fmt::format("port '{}': {}", settings_.device, error);
      return false;
    }
    device += ",xdp_prog=" + xdp_->path();
  }
  claim_ = NameClaim::take({vhost_socket(settings_.device), false}, error);
  if (claim_ == nullptr) {
    error = fmt::format("port '{}': {}", settings_.device, error);
    return false;
  }
  const int probed = rte_dev_probe(device.c_str());
  if (probed != 0) {
    return failed(probe_failure(settings_.device), probed, error);
  }
  if (relay_ != nullptr && !relay_->hide_driver(error)) {
    error = fmt::format("port '{}': {}", settings_.device, error);
    return false;
  }
  return rte_eth_dev_get_port_by_name(name.c_str(), &id_) == 0 || failed("the driver made no port of this name", ENODEV, error);
}

bool Port::configure(const rte_eth_dev_info& info, MbufPools& pools, std::string& error) {
  queues_ = usable_queues(settings_, info);
  const bool isolates_late = driver_ == kIsolatesWithQueues;
  if (is_isolated() && !isolates_late && !leave_the_rest(error)) {
    return false;
  }
  rte_eth_conf conf{};
  conf.rxmode.mtu = settings_.mtu;
  // Multi-segment transmission carries attached payload. Drivers that do not name the offload but follow segment chains all
  // the same (af_packet, memif, ring) need no flag.
  conf.txmode.offloads = info.tx_offload_capa & RTE_ETH_TX_OFFLOAD_MULTI_SEGS;
  if (queues_ > 1 && (info.flow_type_rss_offloads & kRssFields) != 0) {
    conf.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
    conf.rx_adv_conf.rss_conf.rss_hf = info.flow_type_rss_offloads & kRssFields;
  }
  if ((info.max_mtu != 0 && settings_.mtu > info.max_mtu) ||
      settings_.mtu + RTE_ETHER_HDR_LEN + RTE_ETHER_CRC_LEN > info.max_rx_pktlen) {
    // Drivers without a notion of MTU report the Ethernet default but pass any frame; only a real set_mtu refusal counts.
    conf.rxmode.mtu = 0;
  }
  int result = rte_eth_dev_configure(id_, queues_, queues_, &conf);
  if (result != 0 && conf.rxmode.mtu != 0) {
    conf.rxmode.mtu = 0;
    result = rte_eth_dev_configure(id_, queues_, queues_, &conf);
  }
  if (result != 0) {
    return failed("cannot configure", result, error);
  }
  uint16_t rx_descriptors = settings_.descriptors;
  uint16_t tx_descriptors = settings_.descriptors;
  (void)rte_eth_dev_adjust_nb_rx_tx_desc(id_, &rx_descriptors, &tx_descriptors);
  const int socket = rte_eth_dev_socket_id(id_);
  const unsigned socket_id = socket < 0 ? 0u : static_cast<unsigned>(socket);
  for (uint16_t queue = 0; queue < queues_; ++queue) {
    result = rte_eth_rx_queue_setup(id_, queue, rx_descriptors, socket_id, nullptr, pools.packet_mempool());
    if (result != 0) {
      return failed(control::is_af_xdp(settings_.device)
                        ? "cannot make the AF_XDP socket (may this process lock its packet memory, "
                          "a page for each of rx_buffers? CAP_IPC_LOCK or LimitMEMLOCK=infinity; and load and attach programs? "
                          "See the table of rights in deploy/README.md; are there 4096 rx_buffers?)"
                        : "cannot set up the receive queue",
                    result, error);
    }
    result = rte_eth_tx_queue_setup(id_, queue, tx_descriptors, socket_id, nullptr);
    if (result != 0) {
      return failed("cannot set up the transmit queue", result, error);
    }
  }
  if (is_isolated() && isolates_late && !leave_the_rest(error)) {
    return false;
  }
  // An interface that the kernel keeps has the MTU that the kernel gave it.
  uint16_t has = 0;
  (void)rte_eth_dev_get_mtu(id_, &has);
  const bool is_right = xdp_ != nullptr || (is_isolated() && has >= settings_.mtu);
  result = is_right ? 0 : rte_eth_dev_set_mtu(id_, static_cast<uint16_t>(settings_.mtu));
  const bool is_tap = settings_.device.starts_with("net_tap");  // it loses what is longer
  if (result != 0 && result != -ENOTSUP && (!is_virtual(settings_.device) || is_tap)) {
    return failed(is_tap ? "cannot set the MTU (net_tap takes 1500 at most)" : "cannot set the MTU", result, error);
  }
  return true;
}

// The kernel's packets stay with it.
bool Port::leave_the_rest(std::string& error) const {
  std::string refusal;
  if (isolate(id_, refusal)) {
    return true;
  }
  error = fmt::format(
      "port '{}': the driver {} cannot leave the kernel its packets: {}. "
      "beside_kernel takes a NIC of mlx5, net_tap with remote=, or net_af_xdp; without it, use exception_tap",
      settings_.device, driver_, refusal);
  return false;
}

std::unique_ptr<Port> Port::open(const PortSettings& settings, MbufPools& pools, std::string& error) {
  std::unique_ptr<Port> port(new Port(settings));
  if (!port->find_or_make(error)) {
    return nullptr;
  }
  rte_eth_dev_info info{};
  int result = rte_eth_dev_info_get(port->id_, &info);
  if (result != 0) {
    (void)port->failed("cannot read device information", result, error);
    return nullptr;
  }
  port->driver_ = info.driver_name == nullptr ? "" : info.driver_name;
  port->sends_one_segment_ = control::is_af_xdp(settings.device) && (info.tx_offload_capa & RTE_ETH_TX_OFFLOAD_MULTI_SEGS) == 0;
  if (!port->configure(info, pools, error)) {
    return nullptr;
  }
  result = rte_eth_dev_start(port->id_);
  if (result != 0) {
    (void)port->failed(
        result == -EPERM ? "cannot start (does this process have the capabilities that the driver takes? See the table of rights "
                           "in deploy/README.md)"
                         : "cannot start",
        result, error);
    return nullptr;
  }
  port->started_ = true;
  rte_ether_addr address{};
  result = rte_eth_macaddr_get(port->id_, &address);
  if (result != 0) {
    (void)port->failed("cannot read the MAC address", result, error);
    return nullptr;
  }
  std::memcpy(port->mac_.raw.data(), address.addr_bytes, port->mac_.raw.size());
  if (!settings.beside_kernel) {
    (void)rte_eth_promiscuous_enable(port->id_);  // neighbour solicitations come by multicast
  } else if (port->xdp_ != nullptr && !port->share_with_kernel(error)) {
    return nullptr;
  }
  if (!port->make_rules(info, error)) {
    return nullptr;
  }
  if (!settings.exception_tap.empty()) {
    const ExceptionSettings exception{settings.exception_tap, port->mac_, settings.mtu, settings.taken, settings.vlan};
    port->exception_ = ExceptionPath::open(exception, pools, error);
    if (port->exception_ == nullptr) {
      error = fmt::format("port '{}': {}", settings.device, error);
      return nullptr;
    }
  }
  if (port->relay_ != nullptr) {
    port->relay_->start();
    port->wait_for_link();
  }
  port->look_at_link();
  return port;
}

// A memif device in the client role has found the other end; what is sent before the handshake is over would be lost.
void Port::wait_for_link() {
  const auto give_up = std::chrono::steady_clock::now() + kHandshakeMax;
  while (relay_->is_client() && leases_.are_keepers() && std::chrono::steady_clock::now() < give_up) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

bool Port::share_with_kernel(std::string& error) {
  if (!xdp_->take_over(settings_.taken, settings_.vlan, error)) {
    error = fmt::format("port '{}': {}", settings_.device, error);
    return false;
  }
  return true;
}

// Steering by rules is worth trying where there are several queues; without them nothing is lost but time.
bool Port::make_rules(const rte_eth_dev_info& info, std::string& error) {
  const FlowPlan plan{.cores = settings_.cores,
                      .queues = queues_,
                      .vlan = settings_.vlan,
                      .addresses = settings_.taken,
                      .rss_types = info.flow_type_rss_offloads & kRssFields};
  if (settings_.cores - settings_.cores_without_queue > 1) {
    // A NIC that deals by nothing puts all frames into its first queue (e1000e). Virtual devices leave it to the kernel, and say
    // nothing.
    const bool deals = queues_ > 1 && (plan.rss_types != 0 || is_virtual(settings_.device));
    steering_ = deals ? PortSteering::kRss : PortSteering::kSoftware;
  }
  if (queues_ > 1) {
    std::vector<FlowRule> rules = is_isolated() ? rules_by_address(plan) : rules_by_family(plan);
    if (is_isolated()) {
      std::ranges::move(rules_that_take(plan, 1), std::back_inserter(rules));
    }
    flows_ = FlowRules::make(id_, rules, steering_refusal_);
    if (flows_ != nullptr) {
      steering_ = PortSteering::kFlow;
      return true;
    }
  }
  std::string refusal;
  if (is_isolated() && (flows_ = FlowRules::make(id_, rules_that_take(plan, 0), refusal)) == nullptr) {
    error = fmt::format(
        "port '{}': the driver {} refuses the rule that takes RoCE packets from the kernel: {}. "
        "Remove beside_kernel, and use exception_tap",
        settings_.device, driver_, refusal);
    return false;
  }
  return true;
}

Port::~Port() {
  xdp_.reset();  // from here on the kernel has all frames; DPDK finds no program to take off
  flows_.reset();
  if (relay_ != nullptr) {
    relay_->stop();  // it may restart the device; its sockets stay until the driver has closed its own
    // The driver wants to remove its socket's name, which has long been gone, and calls that an error.
    (void)rte_log_set_level_pattern("pmd.net.memif", RTE_LOG_CRIT);
  }
  if (started_) {
    rte_eth_dev_stop(id_);
  }
  if (id_ != RTE_MAX_ETHPORTS) {
    rte_eth_dev_close(id_);
  }
}

std::string Port::device() const {
  return device_name(settings_.device);
}

std::string Port::interface() const {
  return settings_.beside_kernel ? control::doctor::kernel_interface_of(settings_.device).value_or("") : "";
}

void Port::look_at_link() {
  rte_eth_link link{};
  const bool up = interface_is_up(kernel_interface(settings_.device)) && rte_eth_link_get_nowait(id_, &link) == 0 &&
                  link.link_status == RTE_ETH_LINK_UP;
  link_up_.store(up, std::memory_order_relaxed);
  link_mbps_.store(up && link.link_speed != RTE_ETH_SPEED_NUM_UNKNOWN ? link.link_speed : 0, std::memory_order_relaxed);
}

uint64_t Port::rx_missed() const {
  rte_eth_stats stats{};
  return rte_eth_stats_get(id_, &stats) == 0 ? stats.imissed : 0;
}

uint64_t Port::rx_no_mbuf() const {
  rte_eth_stats stats{};
  return rte_eth_stats_get(id_, &stats) == 0 ? stats.rx_nombuf : 0;
}

uint64_t Port::rx_errors() const {
  rte_eth_stats stats{};
  return rte_eth_stats_get(id_, &stats) == 0 ? stats.ierrors : 0;
}

uint64_t Port::links_refused() const {
  return relay_ == nullptr ? 0 : relay_->refused();
}

bool Port::restart() {
  (void)rte_eth_dev_stop(id_);
  return rte_eth_dev_start(id_) == 0;
}

}  // namespace cw::dataplane
