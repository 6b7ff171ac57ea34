// A TCP socket on the loopback interface whose other ends a test plays by hand.
#pragma once

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "base/random.h"
#include "dataplane/sockets/backend_stream.h"

namespace cw::dataplane::test {

using ByteVector = std::vector<uint8_t>;

inline ByteVector random_bytes(size_t bytes, uint64_t seed) {
  SeededRandom random(seed);
  ByteVector out(bytes);
  for (uint8_t& byte : out) {
    byte = static_cast<uint8_t>(random.next_u32());
  }
  return out;
}

// True when one of `events` came within five seconds.
inline bool wait_for(int fd, short events) {
  pollfd polled{fd, events, 0};
  return poll(&polled, 1, 5'000) == 1;
}

// The backend's end of a connection; non-blocking.
class Peer {
 public:
  explicit Peer(int fd) : fd_(fd) {}
  ~Peer() { close_now(); }
  Peer(Peer&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;
  [[nodiscard]] int fd() const { return fd_; }

  // As many as the socket takes.
  size_t send(Bytes raw) const {
    const ssize_t sent = ::send(fd_, raw.data(), raw.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    return sent > 0 ? static_cast<size_t>(sent) : 0;
  }
  // Appends what is there.
  void receive(ByteVector& out) const {
    uint8_t raw[65536];
    for (ssize_t got = 0; (got = recv(fd_, raw, sizeof(raw), MSG_DONTWAIT)) > 0;) {
      out.insert(out.end(), raw, raw + got);
    }
  }
  // Orderly, with a FIN; or at once, with a reset.
  void close_now(bool reset = false) {
    if (fd_ >= 0) {
      const linger hard{.l_onoff = reset ? 1 : 0, .l_linger = 0};
      (void)setsockopt(fd_, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
      close(std::exchange(fd_, -1));
    }
  }

 private:
  int fd_;
};

class LoopbackListener {
 public:
  explicit LoopbackListener(bool ipv6 = false) : fd_(socket(ipv6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    CW_ASSERT(fd_ >= 0);
    sockaddr_in v4{};
    v4.sin_family = AF_INET;
    v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    sockaddr_in6 v6{};
    v6.sin6_family = AF_INET6;
    v6.sin6_addr = in6addr_loopback;
    auto* address = ipv6 ? reinterpret_cast<sockaddr*>(&v6) : reinterpret_cast<sockaddr*>(&v4);
    socklen_t length = ipv6 ? sizeof(v6) : sizeof(v4);
    CW_ASSERT(bind(fd_, address, length) == 0);
    CW_ASSERT(getsockname(fd_, address, &length) == 0);
    address_.port = ntohs(ipv6 ? v6.sin6_port : v4.sin_port);
    address_.address = ipv6 ? IpAddress::v6(std::span<const uint8_t, 16>(v6.sin6_addr.s6_addr)) : IpAddress::v4(0x7f000001);
  }
  ~LoopbackListener() { close(fd_); }
  LoopbackListener(const LoopbackListener&) = delete;
  LoopbackListener& operator=(const LoopbackListener&) = delete;

  // Without it, whoever connects is refused.
  void listen() { CW_ASSERT(::listen(fd_, 16) == 0); }
  [[nodiscard]] const control::SocketAddress& address() const { return address_; }
  [[nodiscard]] Peer accept() {
    CW_ASSERT(wait_for(fd_, POLLIN));
    const int fd = ::accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC);
    CW_ASSERT(fd >= 0);
    return Peer(fd);
  }

 private:
  int fd_;
  control::SocketAddress address_;
};

}  // namespace cw::dataplane::test
