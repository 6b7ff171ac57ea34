// Oracles that look into one host while it runs.
#pragma once

#include <cstdint>
#include <vector>

#include "apps/sim/hosts.h"
#include "apps/sim/oracle.h"

namespace cw::sim {

// The gateway's notices: each connection that was accepted ends once and says why.
class GatewayWatch {
 public:
  explicit GatewayWatch(Verdict& verdict) : verdict_(verdict) {}
  // The process died or starts: what it had is forgotten.
  void reset() { open_.clear(); }
  // After each turn.
  void look(GatewayHost& gateway);
  // Now and then, and in the end: what each object states about itself.
  void check_consistency(GatewayHost& gateway);
  // After the last connection has ended. Peers that are not honest are found fault with rightly.
  void check_end(GatewayHost& gateway, bool clients_timed_out, bool peers_are_honest);

 private:
  // What tells the connections of a wire apart.
  struct Name {
    verbs::Qpn local_qpn;  // 0: iWARP
    IpAddress peer;        // iWARP, as the port
    uint16_t peer_port = 0;
    [[nodiscard]] bool operator==(const Name&) const = default;
  };
  void on_notice(const gateway::Notice& notice);
  Verdict& verdict_;
  std::vector<Name> open_;
};

void check_consistency(ClientStack& client, Verdict& verdict);
void check_end(ClientStack& client, bool timed_out, Verdict& verdict);

}  // namespace cw::sim
