// A server on a listening stream socket, with a thread of its own: what the admin socket and the metrics server share. It
// accepts, waits, and ends clients in time; what clients say and are told is their session's.
//
//   class Greeting final : public StreamSession { ... };
//   StreamServer::start(std::move(listener), [](UniqueFd client, StreamServer::Sessions&) {
//     return std::make_unique<Greeting>(std::move(client));
//   });
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include "base/time.h"
#include "control/socket/unique_fd.h"

namespace cw::control {

// One client. The server's thread alone uses it, and removes it when it has ended or its deadline has passed.
class StreamSession {
 public:
  using Clock = std::chrono::steady_clock;

  // `client`: connected, non-blocking.
  StreamSession(UniqueFd client, Duration time_limit) : client_(std::move(client)) { set_time_limit(time_limit); }
  virtual ~StreamSession() = default;
  StreamSession(const StreamSession&) = delete;
  StreamSession& operator=(const StreamSession&) = delete;

  // The socket can be written, when the session waits for that; else it can be read.
  virtual void on_ready() = 0;
  [[nodiscard]] virtual bool waits_to_write() const { return is_answering(); }
  [[nodiscard]] virtual bool has_ended() const = 0;
  // Its deadline has passed, and it is removed next.
  virtual void on_deadline() {}

  [[nodiscard]] int fd() const { return client_.get(); }
  [[nodiscard]] bool is_answering() const { return !answer_.empty(); }
  [[nodiscard]] Clock::time_point deadline() const { return deadline_; }

 protected:
  enum class Sent : uint8_t {
    kAll,
    kSome,  // the client takes no more at present
    kNothing,
    kBroken,  // the client is gone
  };

  // As send(2), errno included. A session that encrypts has its own way.
  [[nodiscard]] virtual ssize_t transmit(std::string_view bytes);

  // From now on.
  void set_time_limit(Duration time) { deadline_ = Clock::now() + std::chrono::nanoseconds(time.to_ns()); }
  // Only while no answer is on its way.
  void set_answer(std::string answer);
  // Sends what the client takes of the answer, which may be nothing.
  [[nodiscard]] Sent send_answer();

 private:
  UniqueFd client_;
  std::string answer_;
  size_t sent_bytes_ = 0;
  Clock::time_point deadline_;
};

class StreamServer {
 public:
  using Sessions = std::list<std::unique_ptr<StreamSession>>;  // in the order of their arrival
  // Makes the session of a client that has connected; null closes the connection. May remove sessions to make room. Called in
  // the server's thread.
  using Admit = std::function<std::unique_ptr<StreamSession>(UniqueFd client, Sessions& sessions)>;

  // `listener`: non-blocking, and listening. Null when there is no descriptor left for its own use (errno).
  [[nodiscard]] static std::unique_ptr<StreamServer> start(UniqueFd listener, Admit admit);
  // Ends the thread and closes all clients.
  ~StreamServer();
  StreamServer(const StreamServer&) = delete;
  StreamServer& operator=(const StreamServer&) = delete;

  [[nodiscard]] int listener() const { return listener_.get(); }

 private:
  StreamServer(UniqueFd listener, UniqueFd wake, Admit admit);
  void run();
  [[nodiscard]] bool accept_client();

  UniqueFd listener_;
  UniqueFd wake_;
  Admit admit_;
  Sessions sessions_;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace cw::control
