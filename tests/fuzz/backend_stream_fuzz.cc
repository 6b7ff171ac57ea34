// Backend streams over sockets that the input moves: connections that are refused, take their time or find their port busy,
// writes that are taken in parts, records in fragments that come in parts, signals, resets and ends at any byte, memory that is
// short, stalls; and new connections from the same port behind them. What is sent is what was queued, what is polled is what the
// server sent, a failure has the cause that the socket gave, and in the end no socket is open and no Buffer in use.
//
// The socket functions, and the one that says how many descriptors there may be, are those at the end of this file (the linker's
// --wrap): nothing here asks the kernel.
//
// Input: pairs [what][how].
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <vector>

#include "base/heap_buffer_pool.h"
#include "dataplane/sockets/backend_stream.h"
#include "tests/fuzz/fuzz_target.h"

namespace cw::dataplane {
namespace {

using State = BackendStream::State;

constexpr int kFirstFd = 1 << 20;
constexpr uint32_t kLinks = 4;
constexpr uint32_t kSockets = kLinks + 1;
constexpr uint32_t kSources = 2;
constexpr uint32_t kBuffers = 24;
constexpr uint32_t kBytes = 256;
constexpr uint32_t kReserve = 2;
constexpr uint32_t kPorts = 3;
constexpr uint16_t kFirstPort = 1'000;
constexpr int kPortRange = 51;  // IP_LOCAL_PORT_RANGE
constexpr size_t kInputBytesMax = 512;
constexpr size_t kBytesOnTheWayMax = 4'000;
constexpr rpcrdma::RecordLimits kLimits{.message_bytes_max = 1'000, .fragments_max = 4};
constexpr uint32_t kRecordUnits = 7;  // 1,000 bytes and their marks, begun in a Buffer that others have too
constexpr uint32_t kOneRecord = kRecordUnits + kReserve + 1 + kSources;

// One connection as the kernel and the server have it.
struct Socket {
  bool is_open = false;
  uint32_t link = 0;
  uint16_t port = 0;  // asked for
  bool is_connecting = false;
  bool is_connected = false;
  bool lingers = false;
  int connect_error = 0;  // when connecting ends
  int reset = 0;          // errno of all that follows
  bool has_ended = false;
  size_t room = 0;  // the network takes so many bytes
};

// One backend stream and what it ought to do.
struct Link {
  std::unique_ptr<BackendStream> stream;
  uint16_t port = 0;
  std::vector<uint8_t> out;  // queued, marks included
  size_t sent = 0;
  std::vector<uint8_t> in;  // from the server, marks included
  size_t arrived = 0;       // of these, at the socket
  size_t read = 0;
  std::vector<uint32_t> records;  // lengths of those that have not been polled, in order
  uint32_t written = 0;           // bytes of records from the server
  uint32_t came = 0;              // of these, polled
  bool is_bad = false;            // the server has sent what no record may be
  int last_error = 0;             // that the socket gave for good
  std::optional<Instant> due;
  Instant since;  // when it last read something, or began
  std::vector<Chain> kept;
};

class Net {
 public:
  [[nodiscard]] Socket* find(int fd) {
    const int index = fd - kFirstFd;
    return index >= 0 && index < static_cast<int>(kSockets) ? &sockets_[static_cast<size_t>(index)] : nullptr;
  }
  [[nodiscard]] std::array<Socket, kSockets>& sockets() { return sockets_; }
  // The lowest number that is free, as the kernel gives it.
  int open(uint32_t link) {
    const auto free = std::ranges::find(sockets_, false, &Socket::is_open);
    FUZZ_CHECK(free != sockets_.end());  // a stream has one at most
    *free = Socket{.is_open = true, .link = link};
    return kFirstFd + static_cast<int>(free - sockets_.begin());
  }
  [[nodiscard]] bool is_taken(const Socket& by) const {
    const bool waits = by.port >= kFirstPort && by.port < kFirstPort + kPorts && time_wait_[by.port - kFirstPort];
    return by.port != 0 && (waits || std::ranges::any_of(sockets_, [&](const Socket& other) {
                              return &other != &by && other.is_open && other.port == by.port &&
                                     (other.is_connecting || other.is_connected);
                            }));
  }
  void close(Socket& socket) {
    FUZZ_CHECK(socket.is_open);
    // The client's next connection needs the port.
    FUZZ_CHECK(socket.port == 0 || !socket.is_connected || socket.lingers);
    socket.is_open = false;
  }
  void set_time_wait(uint32_t port, bool waits) { time_wait_[port % kPorts] = waits; }
  void forget() {
    sockets_ = {};
    time_wait_ = {};
  }

 private:
  std::array<Socket, kSockets> sockets_;
  std::array<bool, kPorts> time_wait_{};
};

enum class Connects : uint8_t { kAtOnce, kLater, kRefused, kFailsLater };

class Rig {
 public:
  Rig() {
    present = this;
    for (uint32_t i = 0; i < kLinks; ++i) {
      renew(i, 0);
    }
  }
  ~Rig() { present = nullptr; }

  void act(uint8_t what, uint8_t how) {
    const uint32_t index = what % kLinks;
    Link& link = links_[index];
    switch (what / kLinks % 14) {
      case 0:
      case 1:
        write_record(link, how);
        break;
      case 2:
        link.arrived = std::min(link.in.size(), link.arrived + size_t{how} * 6 + 1);
        break;
      case 3:
        queue(link, how);
        break;
      case 4:
        if (Socket* socket = socket_of(link); socket != nullptr) {
          socket->room += size_t{how} * 8;
        }
        break;
      case 5:
      case 6:
        serve(link);
        break;
      case 7:
        link.stream->flush();
        break;
      case 8:
        if (!link.kept.empty()) {
          link.kept.erase(link.kept.begin() + how % static_cast<ptrdiff_t>(link.kept.size()));
        }
        break;
      case 9:
        turn();
        break;
      case 10:
        now_ = now_ + Duration::ms(int64_t{100} << (how % 8));
        end_stalled();
        break;
      case 11:
        disturb(link, how);
        break;
      case 12:
        set(how);
        break;
      default:
        connect_again(index, how);
        break;
    }
    check(link);
  }

  // The network is well again: whatever has not failed goes through.
  void finish() {
    step_ = SIZE_MAX;
    signals_ = 0;
    connects_ = Connects::kAtOnce;
    for (uint32_t port = 0; port < kPorts; ++port) {
      net_.set_time_wait(port, false);
    }
    refuses_sockets_ = false;
    // A round reads little of what has come in many short fragments.
    for (uint32_t round = 0; round < 1024 && !is_done(); ++round) {
      for (Link& link : links_) {
        link.kept.clear();
        if (link.stream->state() == State::kFailed) {
          renew(static_cast<uint32_t>(&link - links_.data()), 0);
        }
        link.arrived = link.in.size();
        if (link.stream->state() == State::kPortBusy) {
          reconnect(link, 0);
        }
        if (Socket* socket = socket_of(link); socket != nullptr) {
          finish_connecting(*socket);
          socket->room = SIZE_MAX;
        }
        serve(link);
        check(link);
      }
      turn();
    }
    FUZZ_CHECK(is_done());
    for (Link& link : links_) {
      link.kept.clear();
      link.stream.reset();
    }
    FUZZ_CHECK(std::ranges::none_of(net_.sockets(), &Socket::is_open));
    turn();
    for (uint32_t source = 0; source < kSources; ++source) {
      FUZZ_CHECK(budget_.held(source).units == 0);
    }
    FUZZ_CHECK(!admission_.wants_poll());
  }

  // What follows the stream calls, by way of the functions at the end of this file.
  int open_socket() { return refuses_sockets_ ? fail_for_good(links_[opening_], EMFILE) : net_.open(opening_); }
  int set_option(Socket& socket, int level, int name, const void* value) {
    if (level == SOL_IP && name == kPortRange) {
      uint32_t range = 0;
      std::memcpy(&range, value, sizeof(range));
      FUZZ_CHECK((range & 0xffff) == range >> 16);
      if (!knows_port_range_) {
        return fail_with(ENOPROTOOPT);
      }
      socket.port = static_cast<uint16_t>(range);
    }
    if ((level == SOL_IP && name == IP_TRANSPARENT) || (level == SOL_IPV6 && name == IPV6_TRANSPARENT)) {
      return may_borrow_ ? 0 : fail_for_good(links_[socket.link], EPERM);
    }
    socket.lingers |= level == SOL_SOCKET && name == SO_LINGER;
    return 0;
  }
  int bind_socket(Socket& socket, const sockaddr* address) {
    const uint16_t port = ntohs(address->sa_family == AF_INET ? reinterpret_cast<const sockaddr_in*>(address)->sin_port
                                                              : reinterpret_cast<const sockaddr_in6*>(address)->sin6_port);
    socket.port = port != 0 ? port : socket.port;
    return !knows_port_range_ && net_.is_taken(socket) ? fail_with(EADDRINUSE) : 0;
  }
  int connect_socket(Socket& socket) {
    FUZZ_CHECK(!socket.is_connected && !socket.is_connecting && socket.port == links_[opening_].port);
    if (net_.is_taken(socket)) {
      return fail_with(EADDRNOTAVAIL);
    }
    if (connects_ == Connects::kRefused) {
      return fail_for_good(links_[socket.link], ECONNREFUSED);
    }
    if (connects_ == Connects::kAtOnce) {
      socket.is_connected = true;
      return 0;
    }
    socket.is_connecting = true;
    socket.connect_error = connects_ == Connects::kFailsLater ? EHOSTUNREACH : 0;
    return fail_with(EINPROGRESS);
  }
  int error_of(Socket& socket) {
    finish_connecting(socket);
    links_[socket.link].last_error = socket.connect_error;
    return socket.connect_error;
  }
  ssize_t send_to(Socket& socket, const msghdr& message, int flags) {
    Link& link = links_[socket.link];
    FUZZ_CHECK(socket.is_connected && (flags & MSG_NOSIGNAL) != 0 && (flags & MSG_DONTWAIT) != 0);
    if (is_interrupted()) {
      return fail_with(EINTR);
    }
    if (socket.reset != 0) {
      return fail_for_good(link, socket.reset);
    }
    size_t left = std::min(socket.room, step_);
    if (left == 0) {
      return fail_with(EAGAIN);
    }
    ssize_t taken = 0;
    for (size_t i = 0; i < message.msg_iovlen && left > 0; ++i) {
      const size_t bytes = std::min(left, message.msg_iov[i].iov_len);
      FUZZ_CHECK(bytes <= link.out.size() - link.sent);
      FUZZ_CHECK(std::memcmp(message.msg_iov[i].iov_base, link.out.data() + link.sent, bytes) == 0);
      link.sent += bytes;
      left -= bytes;
      taken += static_cast<ssize_t>(bytes);
    }
    FUZZ_CHECK(taken > 0);
    socket.room -= static_cast<size_t>(taken);
    return taken;
  }
  ssize_t receive_from(Socket& socket, uint8_t* into, size_t bytes) {
    Link& link = links_[socket.link];
    FUZZ_CHECK(socket.is_connected && bytes > 0);
    if (is_interrupted()) {
      return fail_with(EINTR);
    }
    if (socket.reset != 0) {
      return fail_for_good(link, socket.reset);
    }
    const size_t count = std::min({bytes, step_, link.arrived - link.read});
    if (count == 0) {
      return socket.has_ended ? (link.last_error = 0) : fail_with(EAGAIN);
    }
    std::memcpy(into, link.in.data() + link.read, count);
    link.read += count;
    link.since = now_;
    return static_cast<ssize_t>(count);
  }
  void close_socket(Socket& socket) { net_.close(socket); }

  static HeapBufferPool pool;
  static HeapBufferPool out_pool;
  static Rig* present;
  static Net net_;

 private:
  static int fail_with(int error) {
    errno = error;
    return -1;
  }
  static int fail_for_good(Link& link, int error) {
    link.last_error = error;
    return fail_with(error);
  }
  bool is_interrupted() { return signals_ > 0 && signals_-- > 0; }
  static void finish_connecting(Socket& socket) {
    if (std::exchange(socket.is_connecting, false)) {
      socket.is_connected = socket.connect_error == 0;
    }
  }
  [[nodiscard]] static Socket* socket_of(const Link& link) {
    return link.stream->fd() < 0 ? nullptr : net_.find(link.stream->fd());
  }

  [[nodiscard]] bool is_done() const {
    return std::ranges::all_of(links_, [](const Link& link) {
      return link.stream->state() == State::kOpen && !link.is_bad && link.records.empty() && link.sent == link.out.size();
    });
  }

  void renew(uint32_t index, uint8_t how) {
    Link& link = links_[index];
    link.stream.reset();
    link = Link();
    link.since = now_;
    link.port = how % (kPorts + 1) == 0 ? uint16_t{0} : static_cast<uint16_t>(kFirstPort + how % (kPorts + 1) - 1);
    opening_ = index;
    const IpAddress source = (how & 0x10) != 0 ? IpAddress::v4(0x0a090005) : IpAddress();
    link.stream = std::make_unique<BackendStream>(control::SocketAddress{IpAddress::v4(0x0a090001), 2049}, source, admission_,
                                                  kLimits, index % kSources, index, link.port);
    connected(link);
  }
  void reconnect(Link& link, uint16_t port) {
    opening_ = static_cast<uint32_t>(&link - links_.data());
    link.port = port;
    link.stream->reconnect(port);
    connected(link);
  }
  void connected(Link& link) {
    link.since = now_;
    FUZZ_CHECK((link.stream->state() == State::kPortBusy) <= (link.port != 0 && link.stream->fd() < 0));
  }
  void connect_again(uint32_t index, uint8_t how) {
    Link& link = links_[index];
    if (link.stream->state() == State::kPortBusy && (how & 0x80) == 0) {
      reconnect(link, how % 2 == 0 ? link.port : uint16_t{0});
    } else if (how < 0xc0) {
      renew(index, how);
    }
  }

  void write_record(Link& link, uint8_t how) {
    if (link.in.size() - link.read > kBytesOnTheWayMax || link.is_bad) {
      return;
    }
    link.is_bad = how >= 0xfc;
    const uint32_t bytes = how == 0xfe ? 0 : 1 + (how & 63) * 15;
    const uint32_t pieces = how == 0xff ? kLimits.fragments_max + 1 : 1 + (how >> 6) % 3;
    uint32_t left = bytes;
    for (uint32_t piece = pieces; piece > 0; --piece) {
      const uint32_t count = piece == 1 ? left : left / 2;
      std::array<uint8_t, rpcrdma::kRecordMarkBytes> mark;
      rpcrdma::write_record_mark(mark, how == 0xfd ? 1'001 : count, piece == 1 && how != 0xff && how != 0xfc);
      link.in.insert(link.in.end(), mark.begin(), mark.end());
      for (uint32_t i = 0; i < count; ++i) {
        link.in.push_back(static_cast<uint8_t>(link.written++ * 7 + 1));
      }
      left -= count;
    }
    if (!link.is_bad) {
      link.records.push_back(bytes);
      return;
    }
    // Whatever of these it was: no record has that many bytes, and so many fragments.
    link.in.insert(link.in.end(), 4 * kLimits.message_bytes_max, 0xff);
  }
  void queue(Link& link, uint8_t how) {
    if (link.out.size() - link.sent > kBytesOnTheWayMax || link.stream->state() == State::kFailed) {
      return;
    }
    std::array<uint8_t, 4 + 1 + 255 * 3> raw;
    const uint32_t bytes = 1 + how * 3u;
    rpcrdma::write_record_mark(std::span<uint8_t, 4>(raw.data(), 4), bytes);
    for (uint32_t i = 0; i < bytes; ++i) {
      raw[4 + i] = static_cast<uint8_t>(link.out.size() + size_t{i} * 5);
    }
    Chain message;
    Bytes rest = Bytes(raw).subspan(4, bytes);
    while (!rest.empty()) {
      Buffer* buffer = out_pool.allocate_one();
      if (buffer == nullptr) {
        return;
      }
      rest = rest.subspan(buffer->append(rest.first(std::min<size_t>(rest.size(), how % 2 == 0 ? 40 : kBytes))));
      message.push_back(buffer);
    }
    link.out.insert(link.out.end(), raw.begin(), raw.begin() + 4 + bytes);
    link.stream->queue(std::move(message));
  }

  // As a worker does with what epoll says (worker_pool.cc).
  void serve(Link& link) {
    BackendStream& stream = *link.stream;
    const Socket* socket = socket_of(link);
    if (stream.state() == State::kConnecting && socket != nullptr) {
      stream.finish_connect();
    }
    stream.flush();
    if (stream.state() == State::kOpen) {
      FUZZ_CHECK(link.sent == link.out.size() || stream.wants_write());
      (void)stream.read();
    }
    Chain message;
    while (stream.poll_message(message)) {
      take(link, std::move(message));
    }
    stream.end_turn();
    link.due = stream.is_unfinished() ? std::optional(stream.due(now_)) : std::nullopt;
  }
  void take(Link& link, Chain&& message) {
    FUZZ_CHECK(!link.records.empty() && message.bytes() == link.records.front());
    link.records.erase(link.records.begin());
    std::array<uint8_t, kLimits.message_bytes_max> raw;
    message.copy_to(0, MutableBytes(raw).first(message.bytes()));
    for (size_t i = 0; i < message.bytes(); ++i) {
      FUZZ_CHECK(raw[i] == static_cast<uint8_t>(link.came * 7 + 1));
      ++link.came;
    }
    link.kept.push_back(std::move(message));
  }
  void turn() {
    admission_.begin_turn();
    while (const rpcrdma::RecordDemand* admitted = admission_.poll()) {
      FUZZ_CHECK(admitted->owner < kLinks);
      serve(links_[admitted->owner]);
    }
  }
  void end_stalled() {
    for (Link& link : links_) {
      if (link.due && *link.due <= now_ && link.stream->is_unfinished()) {
        FUZZ_CHECK(link.since + kLimits.stall_max <= now_ || kLimits.record_time_max <= now_ - Instant::from_ns(0));
        link.stream->stall();
        link.last_error = ETIMEDOUT;
      }
    }
  }

  void disturb(Link& link, uint8_t how) {
    Socket* socket = socket_of(link);
    if (socket == nullptr) {
      return;
    }
    switch (how % 8) {
      case 0:
        socket->reset = how < 128 ? ECONNRESET : EPIPE;
        break;
      case 1:
        socket->has_ended = true;
        break;
      default:
        finish_connecting(*socket);
        break;
    }
  }
  void set(uint8_t how) {
    switch (how % 8) {
      case 0:
        signals_ = how / 8 % 4;
        break;
      case 1:
        step_ = how < 64 ? SIZE_MAX : 1 + how / 8;
        break;
      case 2:
        connects_ = static_cast<Connects>(how / 8 % 4);
        break;
      case 3:
        knows_port_range_ = how < 128;
        break;
      case 4:
        may_borrow_ = how < 128;
        break;
      case 5:
        refuses_sockets_ = how >= 0xf0;
        break;
      default:
        net_.set_time_wait(how / 16, (how & 8) != 0);
        break;
    }
  }

  void check(const Link& link) const {
    const BackendStream& stream = *link.stream;
    const State state = stream.state();
    FUZZ_CHECK(link.sent <= link.out.size() && link.read <= link.arrived);
    FUZZ_CHECK(stream.wants_write() == (state == State::kConnecting || (state == State::kOpen && link.sent < link.out.size())));
    FUZZ_CHECK(!stream.is_unfinished() || state == State::kOpen);
    if (state == State::kFailed) {
      FUZZ_CHECK(stream.failure() == link.last_error || (stream.failure() == EPROTO && link.is_bad));
    }
  }

  rpcrdma::LocalRecordBudget budget_{pool, kBuffers, kSources, kSources, kOneRecord};
  rpcrdma::RecordAdmission admission_{budget_, kReserve};
  std::array<Link, kLinks> links_;
  uint32_t opening_ = 0;
  Instant now_ = Instant::from_ns(1'000'000'000);
  size_t step_ = SIZE_MAX;  // of one call
  uint32_t signals_ = 0;
  Connects connects_ = Connects::kAtOnce;
  bool knows_port_range_ = true;
  bool may_borrow_ = true;
  bool refuses_sockets_ = false;
};

HeapBufferPool Rig::pool(kBuffers, kBytes, 256);
HeapBufferPool Rig::out_pool(64, kBytes, 16);
Rig* Rig::present = nullptr;
Net Rig::net_;

// The fuzzer's own descriptors are none of these.
Socket* socket_at(int fd) {
  return Rig::present == nullptr ? nullptr : Rig::net_.find(fd);
}

}  // namespace
}  // namespace cw::dataplane

using cw::dataplane::Rig;
using cw::dataplane::socket_at;

// NOLINTBEGIN(bugprone-reserved-identifier): the linker's --wrap has these names
extern "C" {
int __real_socket(int domain, int type, int protocol);
int __real_setsockopt(int fd, int level, int name, const void* value, socklen_t size);
int __real_getsockopt(int fd, int level, int name, void* value, socklen_t* size);
int __real_bind(int fd, const sockaddr* address, socklen_t size);
int __real_connect(int fd, const sockaddr* address, socklen_t size);
ssize_t __real_sendmsg(int fd, const msghdr* message, int flags);
ssize_t __real_recv(int fd, void* into, size_t bytes, int flags);
int __real_close(int fd);
int __real_getrlimit64(__rlimit_resource_t resource, rlimit* limit);

int __wrap_socket(int domain, int type, int protocol) {
  return Rig::present != nullptr ? Rig::present->open_socket() : __real_socket(domain, type, protocol);
}
int __wrap_setsockopt(int fd, int level, int name, const void* value, socklen_t size) {
  auto* socket = socket_at(fd);
  return socket != nullptr ? Rig::present->set_option(*socket, level, name, value)
                           : __real_setsockopt(fd, level, name, value, size);
}
int __wrap_getsockopt(int fd, int level, int name, void* value, socklen_t* size) {
  auto* socket = socket_at(fd);
  if (socket == nullptr) {
    return __real_getsockopt(fd, level, name, value, size);
  }
  FUZZ_CHECK(socket->is_open && level == SOL_SOCKET && name == SO_ERROR);
  *static_cast<int*>(value) = Rig::present->error_of(*socket);
  return 0;
}
int __wrap_bind(int fd, const sockaddr* address, socklen_t size) {
  auto* socket = socket_at(fd);
  return socket != nullptr ? Rig::present->bind_socket(*socket, address) : __real_bind(fd, address, size);
}
int __wrap_connect(int fd, const sockaddr* address, socklen_t size) {
  auto* socket = socket_at(fd);
  return socket != nullptr ? Rig::present->connect_socket(*socket) : __real_connect(fd, address, size);
}
ssize_t __wrap_sendmsg(int fd, const msghdr* message, int flags) {
  auto* socket = socket_at(fd);
  return socket != nullptr ? Rig::present->send_to(*socket, *message, flags) : __real_sendmsg(fd, message, flags);
}
ssize_t __wrap_recv(int fd, void* into, size_t bytes, int flags) {
  auto* socket = socket_at(fd);
  return socket != nullptr ? Rig::present->receive_from(*socket, static_cast<uint8_t*>(into), bytes)
                           : __real_recv(fd, into, bytes, flags);
}
int __wrap_getrlimit64(__rlimit_resource_t resource, rlimit* limit) {
  if (Rig::present == nullptr) {
    return __real_getrlimit64(resource, limit);
  }
  *limit = {.rlim_cur = RLIM_INFINITY, .rlim_max = RLIM_INFINITY};
  return 0;
}
int __wrap_close(int fd) {
  auto* socket = socket_at(fd);
  if (socket == nullptr) {
    return __real_close(fd);
  }
  Rig::present->close_socket(*socket);
  return 0;
}
// NOLINTEND(bugprone-reserved-identifier)

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Rig::net_.forget();
  {
    Rig rig;
    for (size_t i = 0; i + 1 < std::min(size, cw::dataplane::kInputBytesMax); i += 2) {
      rig.act(data[i], data[i + 1]);
    }
    rig.finish();
  }
  FUZZ_CHECK(Rig::pool.in_use() == 0 && Rig::out_pool.in_use() == 0);
  return 0;
}
}
