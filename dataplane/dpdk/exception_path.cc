#include "dataplane/dpdk/exception_path.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <poll.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "dataplane/dpdk/bind_thread.h"
#include "dataplane/dpdk/eal.h"

namespace cw::dataplane {
namespace {

constexpr uint32_t kBurst = 32;
constexpr uint32_t kFrontBytes = 14 + 4;  // Ethernet and one VLAN tag

ifreq request_for(const std::string& interface) {
  ifreq request{};
  interface.copy(request.ifr_name, IFNAMSIZ - 1);
  return request;
}

}  // namespace

ExceptionPath::ExceptionPath(const ExceptionSettings& settings, MbufPools& pools)
    : settings_(settings),
      pools_(pools),
      filter_(settings.addresses, settings.vlan),
      in_ring_("cw_to_kernel", kFrames, RingProducers::kMany),
      out_ring_("cw_from_kernel", kFrames, RingProducers::kOne) {}

std::unique_ptr<ExceptionPath> ExceptionPath::open(const ExceptionSettings& settings, MbufPools& pools, std::string& error) {
  std::unique_ptr<ExceptionPath> path(new ExceptionPath(settings, pools));
  if (!path->set_up(error)) {
    error = fmt::format("exception_tap '{}': {}", settings.tap, error);
    return nullptr;
  }
  path->thread_ = std::thread([raw = path.get()] { raw->run(); });
  return path;
}

ExceptionPath::~ExceptionPath() {
  stop_.store(true, std::memory_order_release);
  if (thread_.joinable()) {
    wakeup_.wake();
    thread_.join();
  }
  rte_mbuf* mbuf = nullptr;
  while (in_ring_.pop({&mbuf, 1}) == 1 || out_ring_.pop({&mbuf, 1}) == 1) {
    rte_pktmbuf_free(mbuf);
  }
}

bool ExceptionPath::set_up(std::string& error) {
  tap_ = control::UniqueFd(::open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC));
  if (!tap_.valid()) {
    error = fmt::format("/dev/net/tun: {}; modprobe tun, and let this process open it", std::strerror(errno));
    return false;
  }
  ifreq request = request_for(settings_.tap);
  request.ifr_flags = IFF_TAP | IFF_NO_PI;
  if (ioctl(tap_.get(), TUNSETIFF, &request) != 0) {
    const char* hint = errno == EBUSY    ? "another program has it: is this gateway running already?"
                       : errno == EINVAL ? "an interface of this name is there that is no tap: choose another name"
                                         : "it takes CAP_NET_ADMIN, or ip tuntap add dev NAME mode tap user causeway";
    error = fmt::format("cannot be opened: {}; {}", std::strerror(errno), hint);
    return false;
  }
  const control::UniqueFd any(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const auto failed = [&](const char* what, const char* fix) {
    error = fmt::format("cannot set its {}: {}; it takes CAP_NET_ADMIN, unless it is right already: {}", what,
                        std::strerror(errno), fix);
    return false;
  };
  // What is right stays: then a gateway without rights can use an interface that was made for it.
  request = request_for(settings_.tap);
  if (ioctl(any.get(), SIOCGIFHWADDR, &request) != 0 ||
      std::memcmp(request.ifr_hwaddr.sa_data, settings_.mac.raw.data(), settings_.mac.raw.size()) != 0) {
    request.ifr_hwaddr.sa_family = ARPHRD_ETHER;
    std::memcpy(request.ifr_hwaddr.sa_data, settings_.mac.raw.data(), settings_.mac.raw.size());
    if (ioctl(any.get(), SIOCSIFHWADDR, &request) != 0) {
      return failed("MAC address", "ip link set NAME address MAC");
    }
  }
  request = request_for(settings_.tap);
  if (ioctl(any.get(), SIOCGIFMTU, &request) != 0 || request.ifr_mtu != static_cast<int>(settings_.mtu)) {
    request.ifr_mtu = static_cast<int>(settings_.mtu);
    if (ioctl(any.get(), SIOCSIFMTU, &request) != 0) {
      return failed("MTU", "ip link set NAME mtu MTU");
    }
  }
  request = request_for(settings_.tap);
  if (ioctl(any.get(), SIOCGIFFLAGS, &request) != 0 || (request.ifr_flags & IFF_UP) == 0) {
    request.ifr_flags |= IFF_UP;
    if (ioctl(any.get(), SIOCSIFFLAGS, &request) != 0) {
      return failed("state", "ip link set NAME up");
    }
  }
  return true;
}

uint16_t ExceptionPath::divert(std::span<rte_mbuf*> mbufs, uint64_t& given, uint64_t& dropped) {
  uint16_t kept = 0;
  bool pushed = false;
  for (rte_mbuf* mbuf : mbufs) {
    if (filter_.takes({rte_pktmbuf_mtod(mbuf, const uint8_t*), rte_pktmbuf_data_len(mbuf)})) [[likely]] {
      mbufs[kept++] = mbuf;
    } else if (in_ring_.push(mbuf)) {
      ++given;
      pushed = true;
    } else {
      ++dropped;
      rte_pktmbuf_free(mbuf);
    }
  }
  if (pushed) {
    wakeup_.wake();
  }
  return kept;
}

void ExceptionPath::run() {
  (void)pthread_setname_np(pthread_self(), "cw-exception");
  if (!worker_cpus().empty()) {
    bind_this_thread(worker_cpus());
  }
  while (!stop_.load(std::memory_order_acquire)) {
    const bool wrote = write_frames();
    const bool read = read_frames();
    if (!wrote && !read) {
      wait(out_ring_.room() > 0);
    }
  }
}

bool ExceptionPath::write_frames() {
  std::array<rte_mbuf*, kBurst> mbufs;
  const uint32_t count = in_ring_.pop(mbufs);
  for (uint32_t i = 0; i < count; ++i) {
    if (write(tap_.get(), rte_pktmbuf_mtod(mbufs[i], const void*), rte_pktmbuf_data_len(mbufs[i])) < 0) {
      refused_.fetch_add(1, std::memory_order_relaxed);
    }
  }
  rte_pktmbuf_free_bulk(mbufs.data(), count);
  return count > 0;
}

// False: the kernel has nothing to send now, or there is no room for it.
bool ExceptionPath::read_frames() {
  for (uint32_t i = 0; i < kBurst; ++i) {
    if (out_ring_.room() == 0) {
      return false;
    }
    rte_mbuf* mbuf = rte_pktmbuf_alloc(pools_.packet_mempool());
    if (mbuf == nullptr) {
      std::array<uint8_t, kFrontBytes> nothing;
      const bool lost = read(tap_.get(), nothing.data(), nothing.size()) > 0;
      no_buffer_.fetch_add(lost ? 1 : 0, std::memory_order_relaxed);
      return lost;
    }
    const ssize_t bytes = read(tap_.get(), rte_pktmbuf_mtod(mbuf, void*),
                               std::min<uint32_t>(settings_.mtu + kFrontBytes, rte_pktmbuf_tailroom(mbuf)));
    if (bytes <= 0) {
      rte_pktmbuf_free(mbuf);
      return i > 0;
    }
    mbuf->data_len = static_cast<uint16_t>(bytes);
    mbuf->pkt_len = static_cast<uint32_t>(bytes);
    (void)out_ring_.push(mbuf);
  }
  return true;
}

void ExceptionPath::wait(bool may_read) {
  constexpr int kFullWaitMs = 1;  // for the core to take some
  constexpr auto kDownWait = std::chrono::milliseconds(100);
  wakeup_.prepare();
  if (in_ring_.empty() && !stop_.load(std::memory_order_acquire)) {
    std::array<pollfd, 2> waiters{{{wakeup_.fd(), POLLIN, 0}, {tap_.get(), POLLIN, 0}}};
    (void)poll(waiters.data(), may_read ? 2 : 1, may_read ? -1 : kFullWaitMs);
    if ((waiters[1].revents & (POLLERR | POLLHUP | POLLNVAL)) != 0) {
      std::this_thread::sleep_for(kDownWait);  // somebody has set the interface down, which poll() reports at once and for ever
    }
  }
  wakeup_.awake(true);
}

}  // namespace cw::dataplane
