// The admin socket: a UNIX stream socket with its own thread, a line of request against a line of JSON.
//
//   {"command":"status"}   or the bare words   status
//   {"command":"stats","prefix":"causeway_roce"}    stats causeway_roce
//
// An answer is one JSON object on one line; {"error": "..."} says what was wrong with the request. Requests of one client are
// answered in order. Who may connect is decided by the file: mode 0660, owner and group of the process, or the group configured.
// Who may change something is decided by the peer's credentials (admin_peer.h).
//
// A file that a command needs comes with its line, open (SCM_RIGHTS): the gateway opens none that a caller names. Those
// of callers that may only look are closed at once.
//
// Bounds: AdminQuota says how many clients, of all and of one user; kRequestBytesMax per line, one answer buffered per client
// (requests behind it wait in the socket), kIdleTimeout for a whole line to come, kStallTimeout for a client that does not read.
// Beyond each the client is told, where it reads, and closed. No client can stop another, or the gateway.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "base/time.h"
#include "control/admin/admin_commands.h"
#include "control/admin/admin_peer.h"

namespace cw::control {

class AdminServer {
 public:
  static constexpr size_t kRequestBytesMax = 4096;
  static constexpr Duration kStallTimeout = Duration::seconds(10);
  static constexpr Duration kIdleTimeout = Duration::seconds(30);

  // Binds `path` and starts the thread. Removes a socket file that nobody listens on and makes the last directory of the path
  // when it is missing. Returns null and one sentence in `problem` on failure. What `target` refers to outlives the server.
  // idle_timeout: for tests.
  [[nodiscard]] static std::unique_ptr<AdminServer> start(const std::string& path, const AdminPolicy& policy,
                                                          const AdminTarget& target, std::string& problem,
                                                          Duration idle_timeout = kIdleTimeout);

  // Stops the thread, closes all clients, removes the socket file.
  ~AdminServer();
  AdminServer(const AdminServer&) = delete;
  AdminServer& operator=(const AdminServer&) = delete;

 private:
  class Impl;
  explicit AdminServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace cw::control
