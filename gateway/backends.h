// The backends of one core's gateway: their options, which of their servers are up, and what connections hold of each.
#pragma once

#include <cstdint>
#include <vector>

#include "base/time.h"
#include "gateway/core_message.h"
#include "gateway/gateway_options.h"
#include "gateway/gateway_stats.h"
#include "gateway/server_choice.h"
#include "rpcrdma/endpoint/rpcrdma_options.h"

namespace cw::gateway {

class Backends {
 public:
  // By BackendIds. The references must outlive it.
  Backends(const std::vector<BackendOptions>& options, GatewayStats& stats, CoreMails& mails);

  [[nodiscard]] uint32_t count() const { return static_cast<uint32_t>(options_.size()); }
  [[nodiscard]] const BackendOptions& operator[](uint32_t backend) const { return options_[backend]; }
  // False for ListenerOptions::kNoBackend.
  [[nodiscard]] bool is_tcp(uint32_t backend) const {
    return backend != ListenerOptions::kNoBackend && options_[backend].kind == BackendKind::kTcp;
  }
  // What calls to it hold of what all share; kNoBackend: of those that no backend is known for.
  [[nodiscard]] rpcrdma::BackendShare& share(uint32_t backend) {
    return backend == ListenerOptions::kNoBackend ? shares_.back() : shares_[backend];
  }
  // The server that a new connection would go to, by number.
  [[nodiscard]] uint32_t preferred_server(uint32_t backend) const { return servers_[backend].pick(); }
  // Requests for it are refused. Not for long: the next one tries, so that a check which is wrong, or a backend that came back,
  // keeps nobody out.
  [[nodiscard]] bool is_known_down(Instant now, uint32_t backend) const { return is_tcp(backend) && now < down_until_[backend]; }

  // A client's connection to it could be made, or could not.
  void note(Instant now, uint32_t backend, bool up);
  // What a check has found.
  void on_server_state(Instant now, uint32_t backend, uint32_t server, control::ServerState state);
  // What note() found on another core.
  void on_told(Instant now, uint32_t backend, bool up);

  // Takes over in exchange for what was. Precondition: all that there have been.
  void reconfigure(std::vector<BackendOptions>& fresh);

 private:
  [[nodiscard]] bool speaks_for_all(uint32_t backend) const;
  void judge_by_checks(uint32_t backend);

  GatewayStats& stats_;
  CoreMails& mails_;
  std::vector<BackendOptions> options_;  // with room for all that there may be, as the following
  std::vector<ServerChoice> servers_;
  std::vector<Instant> down_until_;
  std::vector<rpcrdma::BackendShare> shares_;  // and one more, for kNoBackend; never resized
};

}  // namespace cw::gateway
