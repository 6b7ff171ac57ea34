// Checks the servers of backends at intervals, on a thread of its own, and tells the poll cores when one goes or comes back.
//
// A check is a connection of its own, and with CheckKind::kRpc a NULL call on it: what a client's connection would meet. It never
// touches the workers, so a check that hangs costs no client anything. Cores are told by message; one whose ring is full is told
// at a later turn. Changes of state are logged with the cause.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/heap_buffer_pool.h"
#include "control/admin/server_checks.h"
#include "control/config/config.h"
#include "dataplane/sockets/backend_stream.h"
#include "gateway/config_ids.h"
#include "gateway/core_message.h"

namespace cw::dataplane {

// How a server of a backend is checked.
struct CheckPlan {
  bool checked = false;
  bool calls = false;  // else a connection is enough
  Duration timeout;
  control::HealthOptions health;
};
[[nodiscard]] CheckPlan check_plan(const control::BackendConfig& backend);

class HealthChecks final : public control::ServerChecks {
 public:
  // Gives `message` to core `core`; false: it takes none now. Called by the checking thread.
  using Tell = std::function<bool(uint32_t core, const gateway::CoreMessage& message)>;
  // `numbers` has those of `backends` and their servers, here and below.
  HealthChecks(const std::vector<control::BackendConfig>& backends, const gateway::ConfigIds& numbers, uint32_t cores, Tell tell);
  ~HealthChecks() override;
  HealthChecks(const HealthChecks&) = delete;
  HealthChecks& operator=(const HealthChecks&) = delete;

  // Any thread. Without a server to check, nothing.
  void start();
  void stop();
  // Other servers, or other ways to check them. What is known of a server that stays is kept. Any thread; may be what starts the
  // checks.
  void reconfigure(const std::vector<control::BackendConfig>& backends, const gateway::ConfigIds& numbers);
  [[nodiscard]] std::vector<control::ServerCheck> server_checks() const override;

 private:
  // What a server is to be.
  struct Wanted {
    control::ServerCheck row;  // who it is
    control::SocketAddress address;
    bool calls = false;
    Duration timeout;
    control::HealthOptions health;
  };
  struct Server {
    control::ServerCheck row;  // under mutex_
    control::ServerHealth health;
    control::SocketAddress address;
    bool calls = false;
    Duration timeout;
    std::unique_ptr<BackendStream> stream;  // of the check under way
    Instant begun;
    std::vector<control::ServerState> told;  // by core
  };
  [[nodiscard]] static std::vector<Wanted> wanted(const std::vector<control::BackendConfig>& backends,
                                                  const gateway::ConfigIds& numbers);
  // The checking thread, or nobody else while it does not run.
  void become(Instant now, const std::vector<Wanted>& list);
  void become(Instant now, const Wanted& wanted, Server& server) const;
  void take_wanted(Instant now);
  void start_thread();
  void run();
  void begin(Instant now, Server& server);
  void advance(Instant now, Server& server);
  // This host lacks something: the check under way is no result.
  void put_off(Instant now, Server& server, int lack);
  void end(Instant now, Server& server, std::string error);
  void log_change(const Server& server) const;
  void tell_cores();
  // Until a socket has something, a check is due, or stop().
  void wait(Instant now);

  uint32_t cores_;
  Tell tell_;
  HeapBufferPool pool_;
  rpcrdma::RecordAdmission admission_{pool_};
  std::vector<Server> servers_;                  // changed by the checking thread, under mutex_
  std::optional<std::vector<Wanted>> reloaded_;  // under mutex_
  mutable std::mutex mutex_;                     // of Server::row, too
  std::mutex starting_;                          // of wakeup_ and thread_
  int wakeup_ = -1;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace cw::dataplane
