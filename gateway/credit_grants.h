// RFC 8166 3.3.1: while the table of calls is nearly full, clients are granted a part of their credits.
#pragma once

#include <algorithm>

#include "gateway/connection_table.h"
#include "gateway/gateway_stats.h"
#include "rpcrdma/endpoint/server_endpoint.h"

namespace cw::gateway {

class CreditGrants {
 public:
  [[nodiscard]] uint32_t of(const Connection& connection) const {
    return is_short_ ? std::max(connection.credits / kLoweredDivisor, 1u) : connection.credits;
  }
  // Once a turn.
  void adapt(const rpcrdma::ServerShared& shared, ConnectionTable& connections, GatewayStats& stats) {
    const uint64_t in_use = uint64_t{8} * shared.calls->in_use();
    const uint64_t capacity = shared.calls->capacity();
    const bool changes = is_short_ ? in_use < (kEnoughAtEighths + 1) * capacity : in_use >= kShortAtEighths * capacity;
    if (!changes) {
      return;
    }
    is_short_ = !is_short_;
    stats.grants_lowered += is_short_ ? 1 : 0;
    connections.for_each([&](Connection& connection) {
      if (connection.server) {
        connection.server->set_grant(of(connection));
      }
    });
  }

 private:
  // Grants are lowered when so many eighths of the table are taken, and raised again at so many.
  static constexpr uint64_t kShortAtEighths = 7;
  static constexpr uint64_t kEnoughAtEighths = 4;
  static constexpr uint32_t kLoweredDivisor = 4;

  bool is_short_ = false;
};

}  // namespace cw::gateway
