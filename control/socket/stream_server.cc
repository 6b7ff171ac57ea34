#include "control/socket/stream_server.h"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <utility>
#include <vector>

#include "base/assert.h"

namespace cw::control {
namespace {

// How late a deadline may be seen when nothing happens.
constexpr auto kTurnMax = std::chrono::milliseconds(200);

}  // namespace

void StreamSession::set_answer(std::string answer) {
  CW_ASSERT(answer_.empty());
  answer_ = std::move(answer);
  sent_bytes_ = 0;
}

ssize_t StreamSession::transmit(std::string_view bytes) {
  return send(fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
}

StreamSession::Sent StreamSession::send_answer() {
  const size_t sent_before = sent_bytes_;
  while (sent_bytes_ < answer_.size()) {
    const ssize_t sent = transmit(std::string_view(answer_).substr(sent_bytes_));
    if (sent < 0) {
      if (errno != EAGAIN && errno != EINTR) {
        return Sent::kBroken;
      }
      return sent_bytes_ > sent_before ? Sent::kSome : Sent::kNothing;
    }
    sent_bytes_ += static_cast<size_t>(sent);
  }
  answer_.clear();
  return Sent::kAll;
}

StreamServer::StreamServer(UniqueFd listener, UniqueFd wake, Admit admit)
    : listener_(std::move(listener)), wake_(std::move(wake)), admit_(std::move(admit)), thread_([this] { run(); }) {}

StreamServer::~StreamServer() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(wake_.get(), &one, sizeof(one));
  thread_.join();
}

std::unique_ptr<StreamServer> StreamServer::start(UniqueFd listener, Admit admit) {
  UniqueFd wake(eventfd(0, EFD_CLOEXEC));
  if (!wake.valid()) {
    return nullptr;
  }
  return std::unique_ptr<StreamServer>(new StreamServer(std::move(listener), std::move(wake), std::move(admit)));
}

void StreamServer::run() {
  (void)pthread_setname_np(pthread_self(), "cw-server");
  bool accepting = true;
  std::vector<pollfd> polled;
  while (true) {
    polled = {{wake_.get(), POLLIN, 0}, {listener_.get(), static_cast<short>(accepting ? POLLIN : 0), 0}};
    for (const auto& session : sessions_) {
      polled.push_back({session->fd(), static_cast<short>(session->waits_to_write() ? POLLOUT : POLLIN), 0});
    }
    poll(polled.data(), polled.size(), static_cast<int>(kTurnMax.count()));
    if (polled[0].revents != 0) {
      return;
    }
    // Up to erase_if() and accept_client() the sessions are those of `polled`, in the same order.
    size_t index = 2;
    for (const auto& session : sessions_) {
      if (polled[index++].revents != 0) {
        session->on_ready();
      }
    }
    const auto now = StreamSession::Clock::now();
    std::erase_if(sessions_, [now](const auto& session) {
      const bool is_late = !session->has_ended() && now >= session->deadline();
      if (is_late) {
        session->on_deadline();
      }
      return is_late || session->has_ended();
    });
    // After a failed accept (no descriptors left) the listener rests for one turn, instead of spinning.
    accepting = polled[1].revents == 0 || accept_client();
  }
}

bool StreamServer::accept_client() {
  UniqueFd client(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!client.valid()) {
    return errno == EAGAIN || errno == ECONNABORTED || errno == EINTR;
  }
  if (auto session = admit_(std::move(client), sessions_)) {
    sessions_.push_back(std::move(session));
  }
  return true;
}

}  // namespace cw::control
