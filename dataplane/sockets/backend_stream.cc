#include "dataplane/sockets/backend_stream.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "control/socket/descriptor_reserve.h"

namespace cw::dataplane {
namespace {

constexpr size_t kIovecsMax = 256;
constexpr int kLocalPortRange = 51;  // IP_LOCAL_PORT_RANGE, which the C library's headers do not have yet
// Bytes read per turn, so that one backend connection does not starve the others of its worker.
constexpr size_t kReadBudget = 512u << 10;

}  // namespace

BackendStream::BackendStream(const control::SocketAddress& server, const IpAddress& source, rpcrdma::RecordAdmission& admission,
                             const rpcrdma::RecordLimits& limits, uint32_t backend, uint64_t owner, uint16_t source_port,
                             Descriptors descriptors)
    : server_(server), source_{source, source_port}, descriptors_(descriptors), reader_(admission, limits, backend, owner) {
  start_connecting();
}

void BackendStream::reconnect(uint16_t source_port) {
  CW_ASSERT(state_ == State::kPortBusy);
  source_.port = source_port;
  start_connecting();
}

void BackendStream::start_connecting() {
  state_ = State::kConnecting;
  fd_ = socket(control::family_of(server_.address), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd_ < 0) {
    fail(errno);
    return;
  }
  if (descriptors_ == Descriptors::kNotReserved && control::is_reserved_descriptor(fd_)) {
    close(std::exchange(fd_, -1));
    fail(EMFILE);
    return;
  }
  const int one = 1;
  (void)setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
  (void)setsockopt(fd_, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
  const bool borrows = source_.address != IpAddress{} && source_.address.is_v4() == server_.address.is_v4();
  int error = (borrows || source_.port != 0) && !bind_to(borrows ? source_.address : IpAddress{}, source_.port) ? errno : 0;
  if (error == 0) {
    sockaddr_storage storage{};
    const socklen_t length = control::write_address(server_, storage);
    if (connect(fd_, reinterpret_cast<sockaddr*>(&storage), length) == 0) {
      state_ = State::kOpen;
      return;
    }
    error = errno;
  }
  if (error == EINPROGRESS) {
    return;
  }
  if (source_.port != 0 && (error == EADDRINUSE || error == EADDRNOTAVAIL)) {
    close(std::exchange(fd_, -1));
    state_ = State::kPortBusy;
    return;
  }
  fail(error);
}

bool BackendStream::may_borrow() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int one = 1;
  const bool may = fd >= 0 && setsockopt(fd, SOL_IP, IP_TRANSPARENT, &one, sizeof(one)) == 0;
  if (fd >= 0) {
    close(fd);
  }
  return may;
}

// `source` unspecified: this host's, of the server's family.
bool BackendStream::bind_to(const IpAddress& source, uint16_t port) {
  const int one = 1;
  // A range of one port: connect() takes it unless this very server has a connection from it (Linux 6.3). A port that is bound to
  // is refused when anybody's connection to anywhere has it, for a minute after its end too.
  const uint32_t range = port | uint32_t{port} << 16;
  const bool ranged = port != 0 && setsockopt(fd_, SOL_IP, kLocalPortRange, &range, sizeof(range)) == 0;
  if (ranged && source == IpAddress{}) {
    return true;
  }
  if (ranged || port == 0) {
    // The port is chosen with the peer known, so that one source has 28,000 ports for each server, not for all of them.
    (void)setsockopt(fd_, SOL_IP, IP_BIND_ADDRESS_NO_PORT, &one, sizeof(one));
    port = 0;
  } else {
    // Connections to other servers may come from the same port.
    (void)setsockopt(fd_, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
  }
  sockaddr_storage storage{};
  if (source == IpAddress{}) {
    storage.ss_family = static_cast<sa_family_t>(control::family_of(server_.address));
    auto* v4 = reinterpret_cast<sockaddr_in*>(&storage);
    auto* v6 = reinterpret_cast<sockaddr_in6*>(&storage);
    (storage.ss_family == AF_INET ? v4->sin_port : v6->sin6_port) = htons(port);
    return bind(fd_, reinterpret_cast<sockaddr*>(&storage), storage.ss_family == AF_INET ? sizeof(*v4) : sizeof(*v6)) == 0;
  }
  const bool borrowed = source.is_v4() ? setsockopt(fd_, SOL_IP, IP_TRANSPARENT, &one, sizeof(one)) == 0
                                       : setsockopt(fd_, SOL_IPV6, IPV6_TRANSPARENT, &one, sizeof(one)) == 0;
  const socklen_t length = control::write_address({source, port}, storage);
  return borrowed && bind(fd_, reinterpret_cast<sockaddr*>(&storage), length) == 0;
}

BackendStream::~BackendStream() {
  if (fd_ < 0) {
    return;
  }
  if (source_.port != 0) {
    // A reset leaves no TIME_WAIT, in which the client's next connection could not have the port. Nobody waits for a call that is
    // still on its way: the gateway keeps connections with such calls (orphans).
    const linger at_once{.l_onoff = 1, .l_linger = 0};
    (void)setsockopt(fd_, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
  }
  close(fd_);
}

void BackendStream::fail(int error) {
  state_ = State::kFailed;
  failure_ = error;
}

void BackendStream::stall() {
  fail(ETIMEDOUT);
}

void BackendStream::finish_connect() {
  int error = 0;
  socklen_t length = sizeof(error);
  if (getsockopt(fd_, SOL_SOCKET, SO_ERROR, &error, &length) != 0) {
    error = errno;
  }
  if (error != 0) {
    fail(error);
  } else {
    state_ = State::kOpen;
  }
}

void BackendStream::queue(Chain&& message) {
  Outgoing& outgoing = out_.emplace_back();
  store_be32(outgoing.mark.data(), rpcrdma::kLastFragment | static_cast<uint32_t>(message.bytes()));
  outgoing.message = std::move(message);
}

void BackendStream::flush() {
  while (state_ == State::kOpen && !out_.empty()) {
    std::array<iovec, kIovecsMax> vectors;
    size_t count = 0;
    for (Outgoing& outgoing : out_) {
      if (count + 2 > kIovecsMax) {
        break;
      }
      if (outgoing.mark_sent < outgoing.mark.size()) {
        vectors[count++] = {outgoing.mark.data() + outgoing.mark_sent, outgoing.mark.size() - outgoing.mark_sent};
      }
      for (Buffer* at = outgoing.message.head(); at != nullptr && count < kIovecsMax; at = at->next) {
        vectors[count++] = {at->data, at->size};
      }
    }
    msghdr header{};
    header.msg_iov = vectors.data();
    header.msg_iovlen = count;
    const ssize_t sent = sendmsg(fd_, &header, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) {
      if (errno == EINTR) {
        continue;
      }
      if (errno != EAGAIN && errno != EWOULDBLOCK) {
        fail(errno);
      }
      return;
    }
    consume(static_cast<size_t>(sent));
  }
}

void BackendStream::consume(size_t bytes) {
  while (!out_.empty()) {
    Outgoing& outgoing = out_.front();
    const size_t mark = std::min<size_t>(bytes, outgoing.mark.size() - outgoing.mark_sent);
    outgoing.mark_sent += static_cast<uint32_t>(mark);
    bytes -= mark;
    const uint64_t body = std::min<uint64_t>(bytes, outgoing.message.bytes());
    if (body > 0) {
      outgoing.message.trim_front(body);
      bytes -= body;
    }
    if (outgoing.mark_sent < outgoing.mark.size() || outgoing.message.bytes() > 0) {
      return;
    }
    out_.pop_front();
  }
}

bool BackendStream::read() {
  size_t total = 0;
  while (state_ == State::kOpen && total < kReadBudget) {
    const MutableBytes space = reader_.space();
    if (space.empty()) {
      return true;  // no memory: the poll core gives some back as clients acknowledge
    }
    const ssize_t got = recv(fd_, space.data(), space.size(), MSG_DONTWAIT);
    if (got < 0) {
      if (errno == EINTR) {
        continue;
      }
      if (errno != EAGAIN && errno != EWOULDBLOCK) {
        fail(errno);
      }
      return false;
    }
    if (got == 0) {
      fail(0);
      return false;
    }
    total += static_cast<size_t>(got);
    if (!reader_.on_bytes(static_cast<uint32_t>(got)).ok()) {
      fail(EPROTO);
      return false;
    }
    if (static_cast<size_t>(got) < space.size()) {
      return false;  // drained
    }
  }
  return state_ == State::kOpen;
}

}  // namespace cw::dataplane
