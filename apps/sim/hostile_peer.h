// A host of a scenario's Hostile. Where it takes part in a connection it is an ordinary client under full load, with a real
// stack; what it does wrong happens on its cable (link/lies.h) or to its queue pairs. What needs no connection it makes by
// itself, frame by frame. It has no memory of having been refused or cut off: it comes again.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <vector>

#include "apps/sim/hosts.h"
#include "apps/sim/link/link.h"
#include "apps/sim/scenario.h"

namespace cw::sim {

class HostilePeer {
 public:
  // `last`: of its addresses. `now`: its own clock and the simulation's, which begins at `start`.
  // `tcp`: of the simulation, for hostiles of iWARP.
  HostilePeer(const Scenario& scenario, const Hostile& hostile, uint8_t last, TcpNet& tcp, Instant start, Instant now);

  // One turn of its process, frames of the stack aside.
  void turn(Instant now);
  // Frames that are due without a stack's doing. `victim`: a queue pair of an honest client, as that client sees it; nullptr
  // when there is none.
  [[nodiscard]] std::vector<std::vector<uint8_t>> forge(Instant now, const rc::RcQpInfo* victim);
  [[nodiscard]] Instant next_deadline() const;
  [[nodiscard]] ClientHost& host() { return host_; }

 private:
  void turn_iwarp(Instant now);
  void knock();
  void break_protocol(rc::RcQp& qp);
  [[nodiscard]] std::vector<uint8_t> forged_request(const IpAddress& from, verbs::Qpn qpn);
  [[nodiscard]] std::vector<uint8_t> forged_cnp(const rc::RcQpInfo& victim);
  [[nodiscard]] wire::Path path_from(const IpAddress& from) const;

  const Scenario& scenario_;
  const Hostile& hostile_;
  uint8_t last_;
  ClientHost host_;
  SeededRandom random_;
  Instant turns_;
  Instant next_frame_ = Instant::never();
  uint32_t forged_ = 0;
  bool lies_ = false;          // iWARP: it has turned
  std::set<uint32_t> broken_;  // queue pairs
};

// The cable towards the gateway of whoever is like that: of a limited rate, and with the lie on top.
[[nodiscard]] std::unique_ptr<Link> hostile_cable(std::unique_ptr<Link> wire, const Hostile& hostile, Instant start);
// And back: limited the same.
[[nodiscard]] std::unique_ptr<Link> cable_to_hostile(std::unique_ptr<Link> wire, const Hostile& hostile);

}  // namespace cw::sim
