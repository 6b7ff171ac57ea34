// Who may come in, and how many: quotas of connections in all, by listener and by class of clients, the classes' budgets, and the
// rates of listeners and classes with the lines that calls wait in for them.
// Nothing is taken before a client is established.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "gateway/connection.h"
#include "gateway/connection_quota.h"
#include "gateway/gateway_options.h"
#include "gateway/gateway_stats.h"
#include "rpcrdma/endpoint/rpcrdma_options.h"

namespace cw::gateway {

class Admission {
 public:
  // Of options: clients, quota, client_quota, rates, connections_max, and the limits of listeners. `stats` must outlive it.
  Admission(const GatewayOptions& options, GatewayStats& stats);

  // nullopt: none.
  [[nodiscard]] std::optional<uint32_t> class_of(const IpAddress& address) const;
  [[nodiscard]] const ClientClassOptions& client_class(uint32_t index) const { return clients_[index]; }
  // Of a class, for the chunks of calls.
  [[nodiscard]] rpcrdma::SharedBudget& budget(uint32_t client_class) { return budgets_[client_class]; }
  [[nodiscard]] rpcrdma::RateLines& rate_lines() { return lines_; }
  [[nodiscard]] const rpcrdma::RateLines& rate_lines() const { return lines_; }

  // Why a request could not have a place now, or nothing. Nothing is taken, since the request may be forged. A client that
  // restarted has the place of its former self, `rival` (nullptr: there is none), which ends when this one is established.
  [[nodiscard]] std::optional<ConnectionResult> lack_of_place(uint32_t listener, std::optional<uint32_t> client_class,
                                                              const Connection* rival) const;
  // A place for a connection that is established, or why there is none: another connection, on another core too, may have taken
  // the last one since its request.
  [[nodiscard]] std::optional<ConnectionResult> take_place(Connection& connection);
  // Precondition: it has one.
  void give_place_back(const Connection& connection);
  // Of a class: a request was refused.
  void count_refusal(ConnectionResult result, std::optional<uint32_t> client_class);

  // Into stats().
  void fold_budgets();
  // Takes over in exchange for what was. Connections count in their class, in its budget too when it is removed. Precondition:
  // all that there have been.
  void reconfigure(std::vector<ClientClassOptions>& fresh, const std::vector<ListenerOptions>& listeners);

 private:
  void set_own_rates(const std::vector<ListenerOptions>& listeners);
  void set_weights();

  GatewayStats& stats_;
  std::vector<ClientClassOptions> clients_;  // by ClientIds, with room for all that there may be
  std::unique_ptr<OwnedRates<LocalRateLimiter, rpcrdma::LocalRateShares>> own_rates_;  // nullptr when they are shared
  const Rates& rates_;
  rpcrdma::RateLines lines_;
  uint32_t listener_count_ = 0;
  std::vector<rpcrdma::SharedBudget> budgets_;  // of all that there may be; never resized
  std::unique_ptr<ConnectionQuota> own_quota_;  // nullptr when they are shared
  ConnectionQuota& quota_;
  std::unique_ptr<ConnectionQuota> own_client_quota_;
  ConnectionQuota& client_quota_;
};

}  // namespace cw::gateway
