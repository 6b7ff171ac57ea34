#include "dataplane/sockets/tcp_streams.h"

#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "base/assert.h"
#include "control/socket/descriptor_reserve.h"

namespace cw::dataplane {
namespace {

constexpr int kEventsAtOnce = 64;
constexpr uint32_t kAcceptedAtOnce = 16;
constexpr uint32_t kPiecesAtOnce = 64;
// Of one socket in a turn, so that others have theirs.
constexpr uint32_t kReadBytesAtOnce = 256 * 1024;
constexpr uint32_t kBatchesAtOnce = 4;
constexpr uint32_t kWritesInTurn = 256;
constexpr uint32_t kSampledAtOnce = 64;
constexpr Duration kAcceptPause = Duration::ms(100);
// How long the others, and who wants to connect, may wait for a favourite, besides its turn. One that sends in bulk is none: to
// look in vain for what comes next costs more there than to ask.
constexpr Duration kFavouriteAlone = Duration::us(10);
// A favourite that has been quiet for so long is one no more. Before the core sleeps epoll has to have been asked: it would tell
// of what was read without it, and wake the core up for nothing.
constexpr Duration kFavouriteQuiet = Duration::us(50);

// epoll's data: a listener's place, or a stream. Streams have a generation in their upper half, which is never 0.
constexpr bool is_listener(uint64_t tag) {
  return tag >> 32 == 0;
}

// Every own address: IPv6 with IPv4 mapped into it, or IPv4 alone where the kernel has nothing else.
constexpr IpAddress kAnyV6{};
const IpAddress kAnyV4 = IpAddress::v4(0);

void set_option(int fd, int level, int name, int value) {
  (void)setsockopt(fd, level, name, &value, sizeof(value));
}

void reset(int fd) {
  const linger now{.l_onoff = 1, .l_linger = 0};
  (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
}

bool read_tcp_info(int fd, tcp_info& out) {
  socklen_t size = sizeof(out);
  return getsockopt(fd, IPPROTO_TCP, TCP_INFO, &out, &size) == 0;
}

iwarp::StreamErrorCause cause_of(int error) {
  const bool is_silent = error == ETIMEDOUT || error == EHOSTUNREACH || error == ENETUNREACH;
  return is_silent ? iwarp::StreamErrorCause::kTcpTimeout : iwarp::StreamErrorCause::kTcpReset;
}

}  // namespace

TcpStreams::TcpStreams(const TcpStreamsOptions& options) : options_(options), epoll_fd_(epoll_create1(EPOLL_CLOEXEC)) {
  CW_ASSERT(epoll_fd_ >= 0);
}

TcpStreams::~TcpStreams() {
  for (const Listener& listener : listeners_) {
    if (listener.fd >= 0) {
      close(listener.fd);
    }
  }
  for (const auto& socket : sockets_) {
    if (socket != nullptr && socket->fd >= 0) {
      remove(*socket);
    }
  }
  close(epoll_fd_);
}

const TcpStreams::Socket* TcpStreams::find(iwarp::StreamId stream) const {
  const auto slot = static_cast<uint32_t>(stream.value());
  return slot < sockets_.size() && sockets_[slot] != nullptr && sockets_[slot]->fd >= 0 && sockets_[slot]->stream == stream
             ? sockets_[slot].get()
             : nullptr;
}

TcpStreams::Socket* TcpStreams::find(iwarp::StreamId stream) {
  return const_cast<Socket*>(static_cast<const TcpStreams*>(this)->find(stream));
}

std::optional<iwarp::TcpPath> TcpStreams::path(iwarp::StreamId stream) const {
  const Socket* socket = find(stream);
  tcp_info info{};
  if (socket == nullptr || !read_tcp_info(socket->fd, info)) {
    return std::nullopt;
  }
  int queued = 0;
  (void)ioctl(socket->fd, SIOCOUTQ, &queued);
  return iwarp::TcpPath{.mss_bytes = info.tcpi_snd_mss,
                        .round_trip = Duration::us(info.tcpi_rtt),
                        .retransmits = info.tcpi_total_retrans,
                        .unacknowledged_bytes = static_cast<uint64_t>(std::max(queued, 0)),
                        .congestion_window_bytes = uint64_t{info.tcpi_snd_cwnd} * info.tcpi_snd_mss};
}

void TcpStreams::count_retransmits(Socket& socket) {
  if (tcp_info info{}; read_tcp_info(socket.fd, info)) {
    stats_.retransmits += info.tcpi_total_retrans - std::exchange(socket.retransmits, info.tcpi_total_retrans);
  }
}

iwarp::TcpStats TcpStreams::look_at_tcp() {
  for (uint32_t i = 0; i < std::min<size_t>(kSampledAtOnce, sockets_.size()); ++i) {
    sampled_ = (sampled_ + 1) % static_cast<uint32_t>(sockets_.size());
    if (Socket* socket = sockets_[sampled_].get(); socket != nullptr && socket->fd >= 0) {
      count_retransmits(*socket);
    }
  }
  return stats_;
}

bool TcpStreams::add(int fd, iwarp::StreamId stream, bool connecting) {
  epoll_event event{.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, .data = {.u64 = stream.value()}};
  if (epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, fd, &event) != 0) {
    return false;
  }
  const auto slot = static_cast<uint32_t>(stream.value());
  if (slot >= sockets_.size()) {
    sockets_.resize(slot + 1);
  }
  if (sockets_[slot] == nullptr) {
    sockets_[slot] = std::make_unique<Socket>();
  }
  Socket& socket = *sockets_[slot];
  CW_ASSERT(socket.fd < 0);
  socket.fd = fd;
  ++in_use_;
  socket.stream = stream;
  socket.connecting = connecting;
  socket.blocked = connecting;
  socket.paused = false;
  socket.peer_finished = false;
  socket.pieces = kPiecesMin;
  socket.retransmits = 0;
  return true;
}

void TcpStreams::remove(Socket& socket) {
  socket.ListNode<ReadableTag>::unlink_if_linked();
  count_retransmits(socket);
  close(std::exchange(socket.fd, -1));
  --in_use_;
}

void TcpStreams::lose(Instant now, Socket& socket, int error) {
  const iwarp::StreamId stream = socket.stream;
  reset(socket.fd);
  remove(socket);
  transport_->on_lost(now, stream, cause_of(error));
}

void TcpStreams::set_options(int fd) const {
  set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, static_cast<int>(options_.user_timeout.to_us() / 1000));
  if (const auto idle = static_cast<int>(options_.keepalive.to_us() / 1'000'000); idle > 0) {
    set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, idle);
    set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, std::max(idle / 3, 1));
    set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, 3);
  }
}

uint32_t TcpStreams::mss_of(int fd) {
  int mss = 0;
  socklen_t size = sizeof(mss);
  return getsockopt(fd, IPPROTO_TCP, TCP_MAXSEG, &mss, &size) == 0 && mss > 0 ? static_cast<uint32_t>(mss) : 536;
}

Status TcpStreams::listen(uint16_t port) {
  if (!options_.listens || std::ranges::find(listeners_, port, &Listener::port) != listeners_.end()) {
    return {};
  }
  bool is_open = false;
  bool is_listed = false;
  for (const control::SocketAddress& address : options_.listen) {
    if (address.port == port) {
      is_listed = true;
      is_open |= open_listener(address);
    }
  }
  if (!is_listed) {
    is_open = open_listener({kAnyV6, port}) || open_listener({kAnyV4, port});
  }
  return is_open ? Status{} : fail(Error::kNoResources);
}

bool TcpStreams::open_listener(const control::SocketAddress& address) {
  const int fd = socket(control::family_of(address.address), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP);
  if (fd >= 0) {
    set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1);
    set_option(fd, SOL_SOCKET, SO_REUSEPORT, 1);  // each core has a socket of its own, and the kernel deals connections out
    if (!address.address.is_v4()) {
      set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, address.address == kAnyV6 ? 0 : 1);
    }
    sockaddr_storage raw{};
    const socklen_t size = control::write_address(address, raw);
    // A place in listeners_ is epoll's name for a listener, so it stays; those of closed ones are used again.
    const auto place = std::ranges::find(listeners_, -1, &Listener::fd);
    epoll_event event{.events = EPOLLIN, .data = {.u64 = static_cast<uint64_t>(place - listeners_.begin())}};
    if (bind(fd, reinterpret_cast<const sockaddr*>(&raw), size) == 0 && ::listen(fd, static_cast<int>(options_.backlog)) == 0 &&
        epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, fd, &event) == 0) {
      if (place == listeners_.end()) {
        listeners_.push_back({fd, address.port});
      } else {
        *place = {fd, address.port};
      }
      ++in_use_;
      return true;
    }
    close(fd);
  }
  ++stats_.listen_failures;
  return false;
}

void TcpStreams::unlisten(uint16_t port) {
  for (Listener& listener : listeners_) {
    if (listener.port == port && listener.fd >= 0) {
      close(std::exchange(listener.fd, -1));
      listener.port = 0;
      --in_use_;
    }
  }
}

Status TcpStreams::connect(iwarp::StreamId stream, const IpAddress& server, uint16_t port) {
  const int fd = socket(control::family_of(server), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP);
  if (fd < 0) {
    return fail(Error::kNoResources);
  }
  set_options(fd);
  sockaddr_storage raw{};
  const socklen_t size = control::write_address({server, port}, raw);
  if (::connect(fd, reinterpret_cast<const sockaddr*>(&raw), size) != 0 && errno != EINPROGRESS) {
    const bool no_way = errno == ENETUNREACH || errno == EHOSTUNREACH || errno == EADDRNOTAVAIL;
    close(fd);
    return fail(no_way ? Error::kBadValue : Error::kNoResources);
  }
  if (!add(fd, stream, true)) {
    close(fd);
    return fail(Error::kNoResources);
  }
  return {};
}

void TcpStreams::finish(iwarp::StreamId stream) {
  if (const Socket* socket = find(stream)) {
    (void)shutdown(socket->fd, SHUT_WR);
  }
}

void TcpStreams::release(iwarp::StreamId stream, iwarp::ReleaseKind kind) {
  Socket* socket = find(stream);
  if (socket == nullptr) {
    return;
  }
  if (kind == iwarp::ReleaseKind::kReset) {
    reset(socket->fd);
  }
  remove(*socket);
}

void TcpStreams::accept_some(Instant now, const Listener& listener) {
  if (now < accept_after_) {
    return;
  }
  for (uint32_t i = 0; i < kAcceptedAtOnce && listener.fd >= 0; ++i) {
    sockaddr_storage raw{};
    socklen_t size = sizeof(raw);
    const int fd = accept4(listener.fd, reinterpret_cast<sockaddr*>(&raw), &size, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) {
      if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
        ++stats_.accept_failures;
        accept_after_ = now + kAcceptPause;
      }
      return;
    }
    if (control::is_reserved_descriptor(fd)) {
      reset(fd);
      close(fd);
      ++stats_.accept_failures;
      accept_after_ = now + kAcceptPause;
      return;
    }
    set_options(fd);
    const control::SocketAddress peer = control::read_address(raw);
    const auto stream = transport_->on_accepted(now, peer.address, peer.port, listener.port, mss_of(fd));
    if (!stream) {
      reset(fd);
      close(fd);
    } else if (!add(fd, *stream, false)) {
      reset(fd);
      close(fd);
      transport_->on_lost(now, *stream, iwarp::StreamErrorCause::kTcpReset);
    }
  }
}

TcpStreams::Socket* TcpStreams::favourite(Instant now) {
  if (now >= favourite_until_ || now >= ask_after_) {
    return nullptr;
  }
  Socket* socket = find(favourite_);
  return socket == nullptr || socket->paused || socket->pieces > kPiecesMin ? nullptr : socket;
}

bool TcpStreams::ask_epoll(Instant now) {
  ask_after_ = now + kFavouriteAlone;
  std::array<epoll_event, kEventsAtOnce> events;
  const int count = epoll_wait(epoll_fd_, events.data(), kEventsAtOnce, 0);
  for (int i = 0; i < count; ++i) {
    const uint64_t tag = events[static_cast<size_t>(i)].data.u64;
    if (is_listener(tag)) {
      accept_some(now, listeners_[tag]);
    } else if (Socket* socket = find(iwarp::StreamId(tag))) {
      on_event(now, *socket, events[static_cast<size_t>(i)].events);
    }
  }
  return count > 0;
}

bool TcpStreams::receive(Instant now) {
  bool worked = false;
  if (Socket* socket = favourite(now); socket == nullptr) {
    worked = ask_epoll(now);
  } else if (!socket->ListNode<ReadableTag>::is_linked()) {
    readable_.push_back(*socket);
  }
  // Each that is readable has one turn.
  IntrusiveList<Socket, ReadableTag> turn;
  while (Socket* socket = readable_.pop_front()) {
    turn.push_back(*socket);
  }
  uint32_t speakers = 0;
  while (Socket* socket = turn.pop_front()) {
    const iwarp::StreamId stream = socket->stream;
    const Read read = read_some(now, stream);
    if (read == Read::kNothing) {
      continue;
    }
    worked = true;
    favourite_ = stream;
    favourite_until_ = ++speakers == 1 ? now + kFavouriteQuiet : now;
    if (Socket* still = find(stream); read == Read::kMore && still != nullptr && !still->ListNode<ReadableTag>::is_linked()) {
      readable_.push_back(*still);
    }
  }
  return worked;
}

void TcpStreams::on_event(Instant now, Socket& socket, uint32_t events) {
  if (socket.connecting) {
    int error = 0;
    socklen_t size = sizeof(error);
    if (getsockopt(socket.fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0 || error != 0) {
      lose(now, socket, error == ECONNREFUSED ? error : ETIMEDOUT);  // nobody has answered, whatever else it is called
      return;
    }
    if ((events & EPOLLOUT) == 0) {
      return;
    }
    socket.connecting = false;
    socket.blocked = false;
    transport_->on_connected(now, socket.stream, mss_of(socket.fd));
  }
  if ((events & EPOLLOUT) != 0) {
    const iwarp::StreamId stream = socket.stream;
    if (std::exchange(socket.blocked, false)) {
      write_out(now, stream);
      if (find(stream) == nullptr) {
        return;
      }
    }
  }
  if ((events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0) {
    socket.peer_finished = true;
  }
  if ((events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0 && !socket.paused &&
      !socket.ListNode<ReadableTag>::is_linked()) {
    readable_.push_back(socket);
  }
}

TcpStreams::Read TcpStreams::read_some(Instant now, iwarp::StreamId stream) {
  uint64_t budget = kReadBytesAtOnce;
  Read done = Read::kNothing;
  while (Socket* socket = find(stream)) {
    std::array<MutableBytes, kPiecesMax> space;
    const uint32_t pieces = transport_->receive_space(now, stream, std::span(space).first(socket->pieces));
    if (pieces == 0) {
      socket->paused = true;
      return done;
    }
    std::array<iovec, space.size()> vectors;
    size_t offered = 0;
    for (uint32_t i = 0; i < pieces; ++i) {
      vectors[i] = {space[i].data(), space[i].size()};
      offered += space[i].size();
    }
    const ssize_t count = readv(socket->fd, vectors.data(), static_cast<int>(pieces));
    if (count < 0) {
      if (errno != EAGAIN && errno != EINTR) {
        lose(now, *socket, errno);
      }
      return done;
    }
    if (count == 0) {
      transport_->on_end_of_stream(now, stream);
      return done;
    }
    const bool is_filled = static_cast<size_t>(count) == offered;
    const bool is_emptied = !is_filled && !socket->peer_finished;
    if (is_filled) {
      socket->pieces = kPiecesMax;
    } else if (static_cast<size_t>(count) < offered / 4) {
      socket->pieces = kPiecesMin;
    }
    transport_->on_received(now, stream, static_cast<uint32_t>(count));
    done = Read::kSome;
    if (is_emptied) {
      return done;  // more will be told of
    }
    if (static_cast<uint64_t>(count) >= budget) {
      return Read::kMore;
    }
    budget -= static_cast<uint64_t>(count);
  }
  return done;
}

bool TcpStreams::transmit(Instant now) {
  bool worked = false;
  iwarp::StreamId stream;
  for (uint32_t i = 0; i < kWritesInTurn && transport_->poll_sendable(now, stream); ++i) {
    worked = true;
    Socket* socket = find(stream);
    if (socket == nullptr) {
      continue;
    }
    if (std::exchange(socket->paused, false) && !socket->ListNode<ReadableTag>::is_linked()) {
      readable_.push_back(*socket);
    }
    if (!socket->blocked) {
      write_out(now, stream);
    }
  }
  return worked;
}

void TcpStreams::write_out(Instant now, iwarp::StreamId stream) {
  for (uint32_t batch = 0; batch < kBatchesAtOnce; ++batch) {
    Socket* socket = find(stream);
    if (socket == nullptr) {
      return;
    }
    std::array<Bytes, kPiecesAtOnce> pieces;
    const uint32_t count = transport_->send_pieces(stream, pieces);
    if (count == 0) {
      return;
    }
    std::array<iovec, kPiecesAtOnce> vectors;
    for (uint32_t i = 0; i < count; ++i) {
      vectors[i] = {const_cast<uint8_t*>(pieces[i].data()), pieces[i].size()};
    }
    msghdr message{};
    message.msg_iov = vectors.data();
    message.msg_iovlen = count;
    const ssize_t sent = sendmsg(socket->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) {
      if (errno == EAGAIN || errno == ENOBUFS) {
        ++stats_.blocked_writes;
        socket->blocked = true;
        return;
      }
      if (errno != EINTR) {
        lose(now, *socket, errno);
        return;
      }
      continue;
    }
    transport_->on_written(now, stream, static_cast<uint64_t>(sent));
  }
  transport_->request_send(stream);  // it has had its share of the turn
}

}  // namespace cw::dataplane
