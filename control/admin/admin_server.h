// The admin socket: a UNIX stream socket with its own thread, a line of request against a line of JSON.
//
//   {"command":"status"}   or the bare words   status
//   {"command":"stats","prefix":"causeway_roce"}    stats causeway_roce
//
// An answer is one JSON object on one line; {"error": "..."} says what was wrong with the request. Requests of one client are
// answered in order. Who may connect is decided by the file: mode 0660, owner and group of the process, or the group configured.
// Who may change something is decided by the peer's credentials (admin_peer.h).
//
// Bounds: kClientsMax clients, kRequestBytesMax per line, one answer buffered per client (requests behind it wait in the
// socket), kStallTimeout for a client that does not read. Beyond each the client is told, where it reads, and closed. No client
// can stop another, or the gateway.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "control/admin/admin_commands.h"
#include "control/admin/admin_peer.h"
#include "rocev2/base/time.h"

namespace cw::control {

class AdminServer {
 public:
  static constexpr uint32_t kClientsMax = 16;
  static constexpr size_t kRequestBytesMax = 4096;
  static constexpr Duration kStallTimeout = Duration::seconds(10);

  // Binds `path` and starts the thread. Removes a socket file that nobody listens on and makes the last directory of the path
  // when it is missing. Returns null and one sentence in `problem` on failure. What `target` refers to outlives the server.
  [[nodiscard]] static std::unique_ptr<AdminServer> start(const std::string& path, const AdminPolicy& policy,
                                                          const AdminTarget& target, std::string& problem);

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
