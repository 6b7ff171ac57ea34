#include "tests/support/tcp_bench_server.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <vector>

namespace cw::test {
namespace {

constexpr size_t kIovecs = 64;

}  // namespace

struct TcpBenchServer::Connection {
  Connection(int socket, rpcrdma::RecordAdmission& admission) : fd(socket), reader(admission, {}) {}
  ~Connection() { close(fd); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  int fd;
  rpcrdma::RecordReader reader;
  Chain out;  // replies with their record marks
  uint32_t calls = 0;
  bool stalled = false;  // calls wait until replies have left
};

TcpBenchServer::TcpBenchServer(const TcpBenchServerOptions& options)
    : options_(options), pool_(options.buffer_count, options.buffer_bytes, 4 * options.buffer_count) {
  CW_ASSERT(programs_.add(bench_));
  listener_ = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  wake_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  CW_ASSERT(listener_ >= 0 && wake_ >= 0);
  const int one = 1;
  (void)setsockopt(listener_, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(options.port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  CW_ASSERT(bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0);
  CW_ASSERT(listen(listener_, 128) == 0);
  socklen_t length = sizeof(address);
  CW_ASSERT(getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &length) == 0);
  port_ = ntohs(address.sin_port);
  thread_ = std::thread([this] { run(); });
}

TcpBenchServer::~TcpBenchServer() {
  stop_.store(true);
  const uint64_t one = 1;
  (void)!::write(wake_, &one, sizeof(one));
  thread_.join();
  clients_.clear();
  close(listener_);
  close(wake_);
}

void TcpBenchServer::drop_connections() {
  drop_.store(true);
  const uint64_t one = 1;
  (void)!::write(wake_, &one, sizeof(one));
}

// Whoever spins for one connection asks that one straight away, as the gateway does, and looks for others now and then.
bool TcpBenchServer::serve_alone() {
  constexpr uint32_t kTurnsAlone = 64;
  if (!options_.spin || clients_.size() != 1 || ++turns_alone_ % kTurnsAlone == 0) {
    return false;
  }
  Connection& connection = clients_.front();
  if (!write(connection) || !read(connection) || !write(connection)) {
    clients_.clear();
  }
  return true;
}

void TcpBenchServer::run() {
  std::vector<pollfd> polled;
  while (!stop_.load()) {
    while (admission_.poll() != nullptr) {
    }
    if (serve_alone()) {
      continue;
    }
    polled.assign({{listener_, POLLIN, 0}, {wake_, POLLIN, 0}});
    bool may_go_on = false;  // calls that were read already can be answered now
    for (const Connection& connection : clients_) {
      may_go_on = may_go_on || (connection.stalled && has_room(connection));
      const int in = connection.stalled ? 0 : POLLIN;
      polled.push_back({connection.fd, static_cast<short>(connection.out.empty() ? in : in | POLLOUT), 0});
    }
    (void)poll(polled.data(), polled.size(), may_go_on || options_.spin ? 0 : -1);
    uint64_t count = 0;
    (void)!::read(wake_, &count, sizeof(count));
    if (drop_.exchange(false)) {
      clients_.clear();
      continue;
    }
    size_t at = 2;
    for (auto connection = clients_.begin(); connection != clients_.end(); ++at) {
      const bool readable = connection->stalled || (polled[at].revents & (POLLIN | POLLHUP | POLLERR)) != 0;
      const bool keep = write(*connection) && (!readable || read(*connection)) && write(*connection);
      connection = keep ? std::next(connection) : clients_.erase(connection);
    }
    if ((polled[0].revents & POLLIN) != 0) {
      accept_all();
    }
  }
}

void TcpBenchServer::accept_all() {
  for (;;) {
    const int fd = accept4(listener_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) {
      return;
    }
    const int one = 1;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    clients_.emplace_back(fd, admission_);
    connections_made_.fetch_add(1);
  }
}

// A client that does not take its replies is not read from either, as a server would that has no memory to spare.
bool TcpBenchServer::has_room(const Connection& connection) const {
  return connection.out.empty() || 2 * pool_.in_use() < options_.buffer_count;
}

bool TcpBenchServer::read(Connection& connection) {
  bool drained = false;  // there was less than there was room for: asking again would tell nothing
  for (;;) {
    Chain call;
    while (has_room(connection) && connection.reader.poll_message(call)) {
      calls_.fetch_add(1);
      ++connection.calls;
      if (options_.close_after_calls > 0 && connection.calls >= options_.close_after_calls) {
        return false;
      }
      if (options_.answers && !answer(connection, call)) {
        return false;
      }
      call.clear();
    }
    connection.stalled = !has_room(connection);
    if (connection.stalled) {
      return true;
    }
    if (drained) {
      connection.reader.end_turn();
      return true;
    }
    const MutableBytes space = connection.reader.space();
    if (space.empty()) {
      return true;  // the socket says again that there is something to read
    }
    const ssize_t got = recv(connection.fd, space.data(), space.size(), 0);
    if (got < 0) {
      connection.reader.end_turn();
      return errno == EAGAIN || errno == EINTR;
    }
    if (got == 0 || !connection.reader.on_bytes(static_cast<uint32_t>(got)).ok()) {
      return false;
    }
    drained = static_cast<size_t>(got) < space.size();
  }
}

bool TcpBenchServer::answer(Connection& connection, const Chain& call) {
  Chain reply;
  if (!programs_.dispatch(rpcrdma::inspect_call(call), call, pool_, reply)) {
    return false;
  }
  std::array<uint8_t, rpcrdma::kRecordMarkBytes> mark;
  rpcrdma::write_record_mark(mark, static_cast<uint32_t>(reply.bytes()));
  if (!connection.out.append_copy(pool_, mark)) {
    return false;
  }
  connection.out.append(std::move(reply));
  return true;
}

bool TcpBenchServer::write(Connection& connection) {
  while (!connection.out.empty()) {
    std::array<iovec, kIovecs> vectors;
    size_t count = 0;
    size_t left = options_.write_bytes_max > 0 ? options_.write_bytes_max : SIZE_MAX;
    for (Buffer* at = connection.out.head(); at != nullptr && count < kIovecs && left > 0; at = at->next) {
      const size_t take = std::min<size_t>(at->size, left);
      vectors[count++] = {at->data, take};
      left -= take;
    }
    msghdr message{};
    message.msg_iov = vectors.data();
    message.msg_iovlen = count;
    const ssize_t sent = sendmsg(connection.fd, &message, MSG_NOSIGNAL);
    if (sent < 0) {
      return errno == EAGAIN || errno == EINTR;
    }
    connection.out.trim_front(static_cast<uint64_t>(sent));
  }
  return true;
}

}  // namespace cw::test
