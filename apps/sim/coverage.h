// Which of the things that the protocols can do have been seen: every counter of every layer by name, over any number of runs.
// A simulation that never loses an RTU proves nothing about lost RTUs; the list of what was never seen says where it is blind.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "apps/sim/caller.h"
#include "apps/sim/hosts.h"
#include "apps/sim/scenario.h"

namespace cw::sim {

class Coverage {
 public:
  Coverage();
  void add(const Scenario& scenario);
  void add(GatewayHost& host);
  void add(ClientStack& host);
  void add(const CallerStats& stats);
  void add(const Coverage& other);
  // Frames without a Buffer, connections that outlived their peers, repeated READs that standard clients refused, segments of
  // TCP, and the ledger's outcomes.
  void add_fabric(uint64_t undelivered, uint64_t left_over, uint64_t reads_refused, uint64_t segments, const Ledger& ledger);

  struct Event {
    std::string name;
    uint64_t count;
    bool needs_wrong_peer;  // no fault of wire, process or backend brings it about; or there was no iWARP, and it is of that
  };
  // In a fixed order.
  [[nodiscard]] std::vector<Event> events() const;
  [[nodiscard]] uint64_t count_of(std::string_view name) const;  // 0 also for names that there are not

 private:
  std::vector<uint64_t> counts_;
};

}  // namespace cw::sim
