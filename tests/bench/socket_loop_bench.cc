// What a turn over the kernel's TCP sockets costs by epoll, recv and send, as TcpStreams makes it, and by io_uring: whether the
// second would be worth its place in the shell.
//
//   socket_loop_bench [--repeats N] [--only CASE] [--json FILE]
//
// One thread serves 1, 8, 64 or 512 connections of the loopback interface, another one, on another CPU and the same whoever
// serves, keeps one request under way on each:
//
//   echo64   64 bytes and 64 bytes back       in1m   1 MiB and 64 bytes back       out1m   64 bytes and 1 MiB back
//
// by
//
//   epoll            edge-triggered; each socket that is readable is read until a short read says that it is empty, what is to be
//                    said to it leaves in sends of 256 KiB at most
//   uring_multishot  one recv that stays armed per connection, into buffers that the ring hands out; recvs and sends of a turn
//                    are submitted, and the next events waited for, in one system call
//   uring_single     the same with a recv for each read, into a buffer of the connection
//
// All sleep when there is nothing to do; in cases named `_polls` none does, and io_uring looks into its rings without a system
// call. They read into pieces of the same size. Servers take turns within a repeat. Told are the CPU time that the server takes
// for each message, system time and io_uring's own threads included, and messages per second.
#include <linux/io_uring.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <map>
#include <memory>
#include <optional>
#include <span>

#include "base/assert.h"
#include "base/bytes.h"
#include "tests/bench/measure.h"

namespace cw::bench {
namespace {

constexpr uint32_t kSmall = 64;
constexpr uint32_t kLarge = 1u << 20;
constexpr uint32_t kSendBytesMax = 256u << 10;
constexpr int kEventsAtOnce = 64;
constexpr int kLonger = 100;  // spans of time that a sample may wait for its first message

struct Case {
  std::string name;
  uint32_t request = kSmall;
  uint32_t answer = kSmall;
  uint32_t connections = 1;
  bool polls = false;
  [[nodiscard]] uint32_t read_bytes() const { return request > kSmall ? 64u << 10 : 2u << 10; }
};

// What answers and requests are made of.
const std::vector<uint8_t>& payload() {
  static const std::vector<uint8_t> bytes(kLarge, 0x5a);
  return bytes;
}

// One end of a connection: how far the message that comes has come, and what is still to be said.
struct Peer {
  int fd = -1;
  uint32_t message = 0;  // that comes
  uint32_t reply = 0;
  uint32_t received = 0;
  uint32_t to_send = 0;
  bool is_sending = false;  // io_uring has it; epoll: not before the socket says so

  // Bytes have come; each message that is whole with them is answered.
  void take(uint32_t bytes) {
    received += bytes;
    to_send += received / message * reply;
    received %= message;
  }
  [[nodiscard]] Bytes next() const { return Bytes(payload()).first(std::min(to_send, kLarge)); }
};

// The shell's way. Also the client's.
class EpollLoop {
 public:
  EpollLoop(std::vector<Peer>& peers, uint32_t read_bytes, bool polls)
      : peers_(peers), space_(read_bytes), polls_(polls), epoll_(epoll_create1(EPOLL_CLOEXEC)) {
    CW_ASSERT(epoll_ >= 0);
    for (size_t i = 0; i < peers.size(); ++i) {
      epoll_event event{.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, .data = {.u64 = i}};
      CW_ASSERT(epoll_ctl(epoll_, EPOLL_CTL_ADD, peers[i].fd, &event) == 0);
    }
  }
  ~EpollLoop() { close(epoll_); }
  EpollLoop(const EpollLoop&) = delete;
  EpollLoop& operator=(const EpollLoop&) = delete;

  // Until all peers have gone. Adds to `moved` what has come and left.
  void run(std::atomic<uint64_t>& moved) {
    size_t alive = peers_.size();
    while (alive > 0) {
      std::array<epoll_event, kEventsAtOnce> events;
      const int count = epoll_wait(epoll_, events.data(), kEventsAtOnce, polls_ ? 0 : -1);
      uint64_t bytes = 0;
      for (int i = 0; i < count; ++i) {
        Peer& peer = peers_[events[static_cast<size_t>(i)].data.u64];
        const uint32_t what = events[static_cast<size_t>(i)].events;
        if ((what & EPOLLOUT) != 0) {
          peer.is_sending = false;
        }
        const bool has_ended = (what & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0;
        if ((has_ended || (what & EPOLLIN) != 0) && !read(peer, has_ended, bytes)) {
          (void)epoll_ctl(epoll_, EPOLL_CTL_DEL, peer.fd, nullptr);
          --alive;
          continue;
        }
        bytes += write(peer);
      }
      if (bytes > 0) {
        moved.fetch_add(bytes, std::memory_order_relaxed);
      }
    }
  }
  // How many have left.
  static uint64_t write(Peer& peer) {
    uint64_t left = 0;
    while (peer.to_send > 0 && !peer.is_sending) {
      const Bytes next = peer.next().first(std::min(peer.to_send, kSendBytesMax));
      const ssize_t sent = send(peer.fd, next.data(), next.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent < 0) {
        peer.is_sending = errno == EAGAIN;
        peer.to_send = peer.is_sending ? peer.to_send : 0;  // else the peer has gone, which reading finds out
        return left;
      }
      peer.to_send -= static_cast<uint32_t>(sent);
      left += static_cast<uint64_t>(sent);
    }
    return left;
  }

 private:
  // False: it has gone.
  bool read(Peer& peer, bool has_ended, uint64_t& bytes) {
    while (true) {
      const ssize_t count = recv(peer.fd, space_.data(), space_.size(), MSG_DONTWAIT);
      if (count <= 0) {
        return count < 0 && errno == EAGAIN;
      }
      peer.take(static_cast<uint32_t>(count));
      bytes += static_cast<uint64_t>(count);
      if (static_cast<size_t>(count) < space_.size() && !has_ended) {
        return true;
      }
    }
  }

  std::vector<Peer>& peers_;
  std::vector<uint8_t> space_;
  bool polls_;
  int epoll_;
};

// Memory that the kernel shares with us, or that has to begin with a page.
class Mapping {
 public:
  Mapping(size_t bytes, int fd, off_t offset)
      : bytes_(bytes),
        at_(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED, fd, offset)) {
    CW_ASSERT(at_ != MAP_FAILED);
  }
  ~Mapping() { munmap(at_, bytes_); }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  template <typename T>
  [[nodiscard]] T* at(size_t offset) const {
    return reinterpret_cast<T*>(static_cast<uint8_t*>(at_) + offset);
  }

 private:
  size_t bytes_;
  void* at_;
};

// io_uring by its system calls, for one thread, which makes it.
class Ring {
 public:
  explicit Ring(uint32_t entries) : entries_(entries) {
    params_.flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_TASKRUN_FLAG | IORING_SETUP_CQSIZE;
    params_.cq_entries = 4 * entries;
    fd_ = static_cast<int>(syscall(SYS_io_uring_setup, entries, &params_));
    CW_ASSERT(fd_ >= 0 && (params_.features & IORING_FEAT_SINGLE_MMAP) != 0);
    const size_t submission_bytes = params_.sq_off.array + params_.sq_entries * sizeof(uint32_t);
    const size_t completion_bytes = params_.cq_off.cqes + params_.cq_entries * sizeof(io_uring_cqe);
    rings_.emplace(std::max(submission_bytes, completion_bytes), fd_, static_cast<off_t>(IORING_OFF_SQ_RING));
    sqes_.emplace(params_.sq_entries * sizeof(io_uring_sqe), fd_, static_cast<off_t>(IORING_OFF_SQES));
    for (uint32_t i = 0; i < params_.sq_entries; ++i) {
      rings_->at<uint32_t>(params_.sq_off.array)[i] = i;
    }
  }
  ~Ring() { close(fd_); }
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;

  [[nodiscard]] static bool is_there() {
    io_uring_params params{};
    params.flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN;
    const auto fd = static_cast<int>(syscall(SYS_io_uring_setup, 1, &params));
    if (fd >= 0) {
      close(fd);
    }
    return fd >= 0;
  }

  [[nodiscard]] int fd() const { return fd_; }
  // To be filled in; leaves with the next enter().
  [[nodiscard]] io_uring_sqe& next() {
    if (tail_ - submitted_ == entries_) {
      enter(0);
    }
    io_uring_sqe& sqe = sqes_->at<io_uring_sqe>(0)[tail_++ & (params_.sq_entries - 1)];
    sqe = {};
    return sqe;
  }
  void enter(uint32_t wait_for) {
    std::atomic_ref(*rings_->at<uint32_t>(params_.sq_off.tail)).store(tail_, std::memory_order_release);
    const auto done = syscall(SYS_io_uring_enter, fd_, tail_ - submitted_, wait_for, IORING_ENTER_GETEVENTS, nullptr, 0);
    submitted_ += done > 0 ? static_cast<uint32_t>(done) : 0;
  }
  // Whether enter() would have something to do.
  [[nodiscard]] bool has_work() const {
    const uint32_t flags = std::atomic_ref(*rings_->at<uint32_t>(params_.sq_off.flags)).load(std::memory_order_relaxed);
    return tail_ != submitted_ || (flags & IORING_SQ_TASKRUN) != 0;
  }
  template <typename Function>
  void take_completions(Function&& function) {
    const std::atomic_ref head(*rings_->at<uint32_t>(params_.cq_off.head));
    uint32_t at = head.load(std::memory_order_relaxed);
    const uint32_t end = std::atomic_ref(*rings_->at<uint32_t>(params_.cq_off.tail)).load(std::memory_order_acquire);
    for (; at != end; ++at) {
      function(rings_->at<io_uring_cqe>(params_.cq_off.cqes)[at & (params_.cq_entries - 1)]);
    }
    head.store(at, std::memory_order_release);
  }

 private:
  uint32_t entries_;
  io_uring_params params_{};
  int fd_ = -1;
  std::optional<Mapping> rings_;
  std::optional<Mapping> sqes_;
  uint32_t tail_ = 0;
  uint32_t submitted_ = 0;
};

// Buffers that the ring hands out to recvs as bytes come.
class ProvidedBuffers {
 public:
  ProvidedBuffers(const Ring& ring, uint32_t count, uint32_t bytes)
      : count_(count), bytes_(bytes), table_(count * sizeof(io_uring_buf), -1, 0), memory_(size_t{count} * bytes) {
    io_uring_buf_reg registration{};
    registration.ring_addr = reinterpret_cast<uint64_t>(table_.at<void>(0));
    registration.ring_entries = count;
    CW_ASSERT(syscall(SYS_io_uring_register, ring.fd(), IORING_REGISTER_PBUF_RING, &registration, 1) == 0);
    for (uint32_t i = 0; i < count; ++i) {
      give_back(i);
    }
    publish();
  }
  void give_back(uint32_t index) {
    io_uring_buf& entry = table_.at<io_uring_buf>(0)[tail_++ & (count_ - 1)];
    entry.addr = reinterpret_cast<uint64_t>(memory_.data() + size_t{index} * bytes_);
    entry.len = bytes_;
    entry.bid = static_cast<uint16_t>(index);
  }
  // The tail lies where the first entry has nothing.
  void publish() { std::atomic_ref(table_.at<io_uring_buf>(0)->resv).store(tail_, std::memory_order_release); }

 private:
  uint32_t count_;  // a power of two
  uint32_t bytes_;
  Mapping table_;
  std::vector<uint8_t> memory_;
  uint16_t tail_ = 0;
};

class UringLoop {
 public:
  UringLoop(std::vector<Peer>& peers, uint32_t read_bytes, bool polls, bool is_multishot)
      : peers_(peers), read_bytes_(read_bytes), polls_(polls), ring_(1024) {
    if (is_multishot) {
      provided_.emplace(ring_, kProvidedBytes / read_bytes, read_bytes);
    } else {
      own_.resize(peers.size() * read_bytes);
    }
  }

  void run(std::atomic<uint64_t>& moved) {
    for (size_t i = 0; i < peers_.size(); ++i) {
      arm(i);
    }
    size_t alive = peers_.size();
    while (alive > 0) {
      if (!polls_ || ring_.has_work()) {
        ring_.enter(polls_ ? 0 : 1);
      }
      uint64_t bytes = 0;
      ring_.take_completions([&](const io_uring_cqe& done) {
        Peer& peer = peers_[done.user_data >> 1];
        if ((done.user_data & 1) != 0) {
          on_sent(peer, done.res);
        } else {
          alive -= on_received(peer, done) ? 0 : 1;
        }
        bytes += done.res > 0 ? static_cast<uint64_t>(done.res) : 0;
        write(peer);
      });
      if (provided_) {
        provided_->publish();
      }
      if (bytes > 0) {
        moved.fetch_add(bytes, std::memory_order_relaxed);
      }
    }
  }

 private:
  static constexpr uint32_t kProvidedBytes = 2u << 20;

  [[nodiscard]] uint64_t place_of(const Peer& peer) const { return static_cast<uint64_t>(&peer - peers_.data()); }
  void arm(uint64_t place) {
    io_uring_sqe& sqe = ring_.next();
    sqe.opcode = IORING_OP_RECV;
    sqe.fd = peers_[place].fd;
    sqe.user_data = place << 1;
    if (provided_) {
      sqe.ioprio = IORING_RECV_MULTISHOT;
      sqe.flags = IOSQE_BUFFER_SELECT;
    } else {
      sqe.addr = reinterpret_cast<uint64_t>(own_.data() + place * read_bytes_);
      sqe.len = read_bytes_;
    }
  }
  // False: it has gone.
  bool on_received(Peer& peer, const io_uring_cqe& done) {
    if ((done.flags & IORING_CQE_F_BUFFER) != 0) {
      provided_->give_back(done.flags >> IORING_CQE_BUFFER_SHIFT);
    }
    if (done.res <= 0 && done.res != -ENOBUFS) {
      return false;
    }
    if (done.res > 0) {
      peer.take(static_cast<uint32_t>(done.res));
    }
    if ((done.flags & IORING_CQE_F_MORE) == 0) {
      arm(place_of(peer));
    }
    return true;
  }
  static void on_sent(Peer& peer, int32_t result) {
    peer.is_sending = false;
    peer.to_send -= result > 0 ? static_cast<uint32_t>(result) : peer.to_send;
  }
  void write(const Peer& peer) {
    if (peer.to_send == 0 || peer.is_sending) {
      return;
    }
    const Bytes bytes = peer.next();
    io_uring_sqe& sqe = ring_.next();
    sqe.opcode = IORING_OP_SEND;
    sqe.fd = peer.fd;
    sqe.addr = reinterpret_cast<uint64_t>(bytes.data());
    sqe.len = static_cast<uint32_t>(bytes.size());
    sqe.msg_flags = MSG_NOSIGNAL | MSG_WAITALL;
    sqe.user_data = place_of(peer) << 1 | 1;
    peers_[place_of(peer)].is_sending = true;
  }

  std::vector<Peer>& peers_;
  uint32_t read_bytes_;
  bool polls_;
  Ring ring_;
  std::optional<ProvidedBuffers> provided_;
  std::vector<uint8_t> own_;
};

enum class Server : uint8_t { kEpoll, kUringMultishot, kUringSingle };
constexpr std::array kServers{Server::kEpoll, Server::kUringMultishot, Server::kUringSingle};
constexpr std::array<const char*, kServers.size()> kNames{"epoll", "uring_multishot", "uring_single"};

// Both ends of so many connections.
void connect_all(uint32_t count, std::vector<Peer>& servers, std::vector<Peer>& clients) {
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  CW_ASSERT(bind(listener, reinterpret_cast<sockaddr*>(&address), size) == 0 && listen(listener, 64) == 0 &&
            getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size) == 0);
  const int one = 1;
  for (uint32_t i = 0; i < count; ++i) {
    const int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CW_ASSERT(client >= 0 && connect(client, reinterpret_cast<sockaddr*>(&address), size) == 0);
    const int server = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    CW_ASSERT(server >= 0);
    for (const int fd : {client, server}) {
      (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    }
    clients.push_back({.fd = client});
    servers.push_back({.fd = server});
  }
  close(listener);
}

double seconds_of(clockid_t clock) {
  timespec time{};
  CW_ASSERT(clock_gettime(clock, &time) == 0);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
}

struct Sample {
  double server_ns = 0;  // of CPU, for each message
  double client_ns = 0;
  double rate = 0;  // messages per second
};

Sample measure(const Case& test, Server how, std::chrono::milliseconds span) {
  std::vector<Peer> servers;
  std::vector<Peer> clients;
  connect_all(test.connections, servers, clients);
  for (uint32_t i = 0; i < test.connections; ++i) {
    servers[i].message = clients[i].reply = test.request;
    servers[i].reply = clients[i].message = test.answer;
  }
  const std::vector<int> cpus = own_cpus();
  std::atomic<uint64_t> served{0};
  std::atomic<uint64_t> used{0};
  std::thread server([&] {
    (void)pin_to(cpus.back());
    if (how == Server::kEpoll) {
      EpollLoop(servers, test.read_bytes(), test.polls).run(served);
    } else {
      UringLoop(servers, test.read_bytes(), test.polls, how == Server::kUringMultishot).run(served);
    }
  });
  std::thread client([&] {
    (void)pin_to(cpus.front());
    EpollLoop loop(clients, 64u << 10, test.polls);
    for (Peer& peer : clients) {
      peer.to_send = test.request;
      (void)EpollLoop::write(peer);
    }
    loop.run(used);
  });
  clockid_t client_clock{};
  CW_ASSERT(pthread_getcpuclockid(client.native_handle(), &client_clock) == 0);
  const auto look = [&] {
    // In bytes, since 512 connections that take turns are far from the end of a megabyte for long.
    return std::array{static_cast<double>(served.load(std::memory_order_relaxed)) / (test.request + test.answer),
                      seconds_of(CLOCK_MONOTONIC), seconds_of(CLOCK_PROCESS_CPUTIME_ID), seconds_of(client_clock)};
  };
  std::this_thread::sleep_for(span / 4);  // TCP's windows grow
  const auto before = look();
  std::this_thread::sleep_for(span);
  auto after = look();
  for (int more = 0; after[0] == before[0] && more < kLonger; ++more) {
    std::this_thread::sleep_for(span);  // the CPUs are somebody else's
    after = look();
  }
  for (const Peer& peer : clients) {
    (void)shutdown(peer.fd, SHUT_RDWR);
  }
  server.join();
  client.join();
  for (uint32_t i = 0; i < test.connections; ++i) {
    close(clients[i].fd);
    close(servers[i].fd);
  }
  const double messages = std::max(after[0] - before[0], 1e-3);
  const double of_client = after[3] - before[3];
  return {.server_ns = (after[2] - before[2] - of_client) * 1e9 / messages,
          .client_ns = of_client * 1e9 / messages,
          .rate = (after[0] - before[0]) / (after[1] - before[1])};
}

std::vector<Case> cases() {
  std::vector<Case> out;
  for (const uint32_t connections : {1u, 8u, 64u, 512u}) {
    const std::string count = "_c" + std::to_string(connections);
    out.push_back({"echo64" + count, kSmall, kSmall, connections, false});
    if (connections <= 8) {
      out.push_back({"echo64" + count + "_polls", kSmall, kSmall, connections, true});
    }
    out.push_back({"in1m" + count, kLarge, kSmall, connections, false});
    out.push_back({"out1m" + count, kSmall, kLarge, connections, false});
  }
  return out;
}

std::vector<double> values_of(const std::vector<Sample>& samples, double Sample::*value) {
  std::vector<double> out;
  out.reserve(samples.size());
  for (const Sample& sample : samples) {
    out.push_back(sample.*value);
  }
  return out;
}

int main_of(int count, char** words) {
  BenchOptions options{.repeats = 9, .json = {}, .only = {}};
  if (!options.parse(count, words)) {
    std::fputs("usage: socket_loop_bench [--repeats N] [--only CASE] [--json FILE]\n", stderr);
    return 2;
  }
  const bool has_uring = Ring::is_there();
  if (!has_uring) {
    std::puts("socket_loop_bench: the kernel gives no io_uring, or none as of Linux 6.1");
  }
  const std::chrono::milliseconds span(options.repeats < 5 ? 10 : 200);
  nlohmann::json rows = nlohmann::json::array();
  bool good = true;
  for (const Case& test : cases()) {
    if (!options.wants(test.name)) {
      continue;
    }
    std::map<Server, std::vector<Sample>> samples;
    for (uint32_t repeat = 0; repeat < options.repeats; ++repeat) {
      for (const Server server : kServers) {
        if (server == Server::kEpoll || has_uring) {
          samples[server].push_back(measure(test, server, span));
        }
      }
    }
    const std::vector<double> epoll_ns = values_of(samples[Server::kEpoll], &Sample::server_ns);
    const std::vector<double> epoll_rate = values_of(samples[Server::kEpoll], &Sample::rate);
    for (const auto& [server, taken] : samples) {
      const Spread cost = spread_of(values_of(taken, &Sample::server_ns));
      const Spread rate = spread_of(values_of(taken, &Sample::rate));
      const char* name = kNames[static_cast<size_t>(server)];
      good = good && rate.best > 0;
      std::printf("%-16s %-16s server %9.0f ns [%.0f %.0f]  client %9.0f ns  %9.0f/s [%.0f %.0f]", test.name.c_str(), name,
                  cost.median, cost.low, cost.high, spread_of(values_of(taken, &Sample::client_ns)).median, rate.median, rate.low,
                  rate.high);
      const std::string row_name = "sockets/" + test.name + "/" + name;
      if (server == Server::kEpoll) {
        rows.push_back(row(row_name, cost.median, "ns", cost));
        rows.push_back(row(row_name + "_rate", rate.median, "1/s", rate));
      } else {
        rows.push_back(row_beside(row_name, cost, "ns", spread_of(epoll_ns).median, "epoll", false));
        rows.push_back(row_beside(row_name + "_rate", rate, "1/s", spread_of(epoll_rate).median, "epoll", true));
        std::vector<double> ratios;
        for (size_t i = 0; i < taken.size(); ++i) {
          ratios.push_back(test.polls ? taken[i].rate / epoll_rate[i] : epoll_ns[i] / taken[i].server_ns);
        }
        const Spread ratio = spread_of(ratios);
        std::printf("  %s %.2f [%.2f %.2f]", test.polls ? "rate" : "cost", ratio.median, ratio.low, ratio.high);
      }
      std::puts("");
    }
  }
  return write_rows(options.json, rows) && good ? 0 : 1;
}

}  // namespace
}  // namespace cw::bench

int main(int count, char** words) {
  return cw::bench::main_of(count, words);
}
