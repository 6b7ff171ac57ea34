#include "dataplane/dpdk/port.h"

#include <fmt/format.h>
#include <rte_dev.h>
#include <rte_errno.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>
#include <string_view>
#include <thread>

#include "control/admin/unique_fd.h"
#include "dataplane/dpdk/memif_device.h"

namespace cw::dataplane {
namespace {

constexpr uint32_t kLinkBytes = 14 + 4;  // Ethernet and one VLAN tag
constexpr auto kHandshakeMax = std::chrono::seconds(1);

std::string device_name(const std::string& device) {
  return device.substr(0, device.find(','));
}

bool is_virtual(std::string_view device) {
  return device.starts_with("net_") || device.starts_with("eth_");
}

// A frame size that the device demands of every mbuf (net_af_packet copies whole ring slots).
uint32_t slot_bytes(const std::string& device) {
  const std::string key = "framesz=";
  const size_t at = device.find(key);
  if (!device.starts_with("net_af_packet") || at == std::string::npos) {
    return 0;
  }
  return static_cast<uint32_t>(std::strtoul(device.c_str() + at + key.size(), nullptr, 10));
}

// The path of the socket file that a vhost device in the server role is going to make.
std::string vhost_socket(const std::string& device) {
  const std::string key = "iface=";
  const size_t at = device.find(key);
  if (!device.starts_with("net_vhost") || device.find("client=1") != std::string::npos || at == std::string::npos) {
    return {};
  }
  const size_t begin = at + key.size();
  return device.substr(begin, device.find(',', begin) - begin);
}

// A process that was killed leaves its socket file behind, and the driver does not bind over it. One that nobody answers on is
// removed; a living one stays and the driver will say so.
void remove_dead_socket(const std::string& path) {
  struct stat status {};
  sockaddr_un address{};
  if (path.empty() || path.size() >= sizeof(address.sun_path) || stat(path.c_str(), &status) != 0 || !S_ISSOCK(status.st_mode)) {
    return;
  }
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.c_str(), path.size());
  const control::UniqueFd probe(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (probe.valid() && connect(probe.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0 &&
      errno == ECONNREFUSED) {
    (void)unlink(path.c_str());
  }
}

// The driver's end of a memif link is for this process alone.
class PrivateFiles {
 public:
  PrivateFiles() : before_(umask(0077)) {}
  ~PrivateFiles() { umask(before_); }
  PrivateFiles(const PrivateFiles&) = delete;
  PrivateFiles& operator=(const PrivateFiles&) = delete;

 private:
  mode_t before_;
};

}  // namespace

uint32_t Port::packet_data_bytes(const PortSettings& settings) {
  const uint32_t frame = std::max(settings.mtu + kLinkBytes, slot_bytes(settings.device));
  return RTE_PKTMBUF_HEADROOM + RTE_ALIGN_CEIL(std::max(frame, 2048u), 64u);
}

std::unique_ptr<Port> Port::open(const PortSettings& settings, MbufPools& pools, std::string& error) {
  std::unique_ptr<Port> port(new Port(settings, pools));
  const std::string name = device_name(settings.device);
  auto explain = [&](const char* step, int result) {
    error = fmt::format("port '{}': {}: {}", settings.device, step, rte_strerror(result < 0 ? -result : result));
    return nullptr;
  };
  if (rte_eth_dev_get_port_by_name(name.c_str(), &port->id_) != 0) {
    std::string device = settings.device;
    std::optional<PrivateFiles> private_files;
    if (const std::optional<MemifDevice> memif = MemifDevice::parse(settings.device)) {
      // Until the relay gives it to the core.
      port->lease_.take_unused();
      port->relay_ = MemifRelay::open(
          *memif, port->lease_, [own = port.get()] { return own->restart(); }, error);
      if (port->relay_ == nullptr) {
        error = fmt::format("port '{}': {}", settings.device, error);
        return nullptr;
      }
      device = port->relay_->for_driver().text();
      private_files.emplace();
    }
    remove_dead_socket(vhost_socket(settings.device));
    const int probed = rte_dev_probe(device.c_str());
    private_files.reset();
    if (probed != 0) {
      return explain(is_virtual(settings.device)
                         ? "cannot create the virtual device (is its driver plugin installed, is the path writable and free?)"
                         : "cannot probe the device (is it bound to vfio-pci? see dpdk-devbind.py --status)",
                     probed);
    }
    if (rte_eth_dev_get_port_by_name(name.c_str(), &port->id_) != 0) {
      return explain("the driver made no port of this name", ENODEV);
    }
  }
  rte_eth_dev_info info{};
  int result = rte_eth_dev_info_get(port->id_, &info);
  if (result != 0) {
    return explain("cannot read device information", result);
  }
  port->driver_ = info.driver_name == nullptr ? "" : info.driver_name;
  rte_eth_conf conf{};
  conf.rxmode.mtu = settings.mtu;
  // Multi-segment transmission carries attached payload. Drivers that do not name the offload but follow segment chains all
  // the same (af_packet, memif, ring) need no flag.
  conf.txmode.offloads = info.tx_offload_capa & RTE_ETH_TX_OFFLOAD_MULTI_SEGS;
  if ((info.max_mtu != 0 && settings.mtu > info.max_mtu) ||
      settings.mtu + RTE_ETHER_HDR_LEN + RTE_ETHER_CRC_LEN > info.max_rx_pktlen) {
    // Drivers without a notion of MTU report the Ethernet default but pass any frame; only a real set_mtu refusal counts.
    conf.rxmode.mtu = 0;
  }
  result = rte_eth_dev_configure(port->id_, settings.queues, settings.queues, &conf);
  if (result != 0 && conf.rxmode.mtu != 0) {
    conf.rxmode.mtu = 0;
    result = rte_eth_dev_configure(port->id_, settings.queues, settings.queues, &conf);
  }
  if (result != 0) {
    return explain("cannot configure", result);
  }
  uint16_t rx_descriptors = settings.descriptors;
  uint16_t tx_descriptors = settings.descriptors;
  (void)rte_eth_dev_adjust_nb_rx_tx_desc(port->id_, &rx_descriptors, &tx_descriptors);
  const int socket = rte_eth_dev_socket_id(port->id_);
  const unsigned socket_id = socket < 0 ? 0u : static_cast<unsigned>(socket);
  for (uint16_t queue = 0; queue < settings.queues; ++queue) {
    result = rte_eth_rx_queue_setup(port->id_, queue, rx_descriptors, socket_id, nullptr, pools.packet_mempool());
    if (result != 0) {
      return explain("cannot set up the receive queue", result);
    }
    result = rte_eth_tx_queue_setup(port->id_, queue, tx_descriptors, socket_id, nullptr);
    if (result != 0) {
      return explain("cannot set up the transmit queue", result);
    }
  }
  result = rte_eth_dev_set_mtu(port->id_, static_cast<uint16_t>(settings.mtu));
  if (result != 0 && result != -ENOTSUP && !is_virtual(settings.device)) {
    return explain("cannot set the MTU", result);
  }
  result = rte_eth_dev_start(port->id_);
  if (result != 0) {
    return explain(result == -EPERM
                       ? "cannot start (does this process have the capabilities that the driver takes? See the table "
                         "of rights in deploy/README.md)"
                       : "cannot start",
                   result);
  }
  port->started_ = true;
  rte_ether_addr address{};
  result = rte_eth_macaddr_get(port->id_, &address);
  if (result != 0) {
    return explain("cannot read the MAC address", result);
  }
  std::memcpy(port->mac_.octets.data(), address.addr_bytes, port->mac_.octets.size());
  (void)rte_eth_promiscuous_enable(port->id_);  // neighbour solicitations come by multicast
  if (port->relay_ != nullptr) {
    port->relay_->start();
    port->wait_for_link();
  }
  return port;
}

// A memif device in the client role has found the other end; what is sent before the handshake is over would be lost.
void Port::wait_for_link() {
  const auto give_up = std::chrono::steady_clock::now() + kHandshakeMax;
  while (relay_->is_client() && lease_.is_keepers() && std::chrono::steady_clock::now() < give_up) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  was_here_ = lease_.is_cores();
}

Port::~Port() {
  if (relay_ != nullptr) {
    relay_->stop();  // it may restart the device; its sockets stay until the driver has closed its own
  }
  rte_pktmbuf_free_bulk(pending_.data(), pending_count_);
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

bool Port::link_up() const {
  rte_eth_link link{};
  return rte_eth_link_get_nowait(id_, &link) == 0 && link.link_status == RTE_ETH_LINK_UP;
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

bool Port::restart() {
  (void)rte_eth_dev_stop(id_);
  return rte_eth_dev_start(id_) == 0;
}

uint16_t Port::rx(std::array<rte_mbuf*, kBurst>& mbufs) {
  if (!lease_.use()) [[unlikely]] {
    return 0;
  }
  const uint16_t received = rte_eth_rx_burst(id_, 0, mbufs.data(), kBurst);
  uint16_t kept = 0;
  for (uint16_t i = 0; i < received; ++i) {
    rte_mbuf* mbuf = mbufs[i];
    stats_.rx_bytes += rte_pktmbuf_pkt_len(mbuf);
    if (mbuf->nb_segs != 1) [[unlikely]] {
      ++stats_.rx_oversize;
      rte_pktmbuf_free(mbuf);
      continue;
    }
    mbufs[kept++] = mbuf;
  }
  stats_.rx_packets += received;
  return kept;
}

rte_mbuf* Port::assemble(wire::TxPacket& packet) {
  rte_mbuf* head = mbuf_of(packet.head);
  head->data_off = static_cast<uint16_t>(packet.head->data - static_cast<uint8_t*>(head->buf_addr));
  head->data_len = static_cast<uint16_t>(packet.head->size);
  head->pkt_len = packet.head->size;
  head->nb_segs = 1;
  head->next = nullptr;
  head->ol_flags = 0;
  if (packet.piece_count == 0) {
    return head;
  }
  rte_mbuf* last = head;
  auto link = [&](rte_mbuf* segment) {
    last->next = segment;
    last = segment;
    ++head->nb_segs;
    head->pkt_len += segment->data_len;
  };
  for (uint32_t i = 0; i < packet.piece_count; ++i) {
    const wire::TxPiece& piece = packet.pieces[i];
    rte_mbuf* segment = pools_.attach(*piece.owner, piece.data, piece.size);
    if (segment == nullptr) [[unlikely]] {
      ++stats_.tx_no_view;
      rte_pktmbuf_free(head);
      return nullptr;
    }
    link(segment);
  }
  rte_mbuf* trailer = pools_.allocate_small();
  if (trailer == nullptr) [[unlikely]] {
    ++stats_.tx_no_view;
    rte_pktmbuf_free(head);
    return nullptr;
  }
  std::memcpy(rte_pktmbuf_mtod(trailer, uint8_t*), packet.trailer.data(), packet.trailer_bytes);
  trailer->data_len = static_cast<uint16_t>(packet.trailer_bytes);
  trailer->pkt_len = packet.trailer_bytes;
  link(trailer);
  return head;
}

void Port::tx(Instant now, std::span<wire::TxPacket> packets) {
  for (wire::TxPacket& packet : packets) {
    rte_mbuf* mbuf = assemble(packet);
    if (mbuf == nullptr) {
      continue;
    }
    if (pending_count_ == kPendingMax) {
      flush(now);
    }
    if (pending_count_ == kPendingMax) {
      ++stats_.tx_dropped;
      rte_pktmbuf_free(mbuf);
      continue;
    }
    pending_[pending_count_++] = mbuf;
  }
  flush(now);
}

void Port::flush(Instant now) {
  if (pending_count_ == 0) {
    return;
  }
  if (!lease_.use()) [[unlikely]] {
    drop_pending();
    return;
  }
  uint32_t bytes = 0;
  std::array<uint32_t, kPendingMax> sizes;
  for (uint32_t i = 0; i < pending_count_; ++i) {
    sizes[i] = rte_pktmbuf_pkt_len(pending_[i]);
  }
  const uint16_t sent = rte_eth_tx_burst(id_, 0, pending_.data(), static_cast<uint16_t>(pending_count_));
  for (uint16_t i = 0; i < sent; ++i) {
    bytes += sizes[i];
  }
  stats_.tx_packets += sent;
  stats_.tx_bytes += bytes;
  std::copy(pending_.begin() + sent, pending_.begin() + pending_count_, pending_.begin());
  pending_count_ -= sent;
  if (sent > 0) {
    stuck_since_ = Instant::never();
  } else if (stuck_since_.is_never()) {
    stuck_since_ = now;
  } else if (now - stuck_since_ > kStuckMax) {
    drop_pending();
  }
}

void Port::drop_pending() {
  stats_.tx_dropped += pending_count_;
  rte_pktmbuf_free_bulk(pending_.data(), pending_count_);
  pending_count_ = 0;
}

}  // namespace cw::dataplane
