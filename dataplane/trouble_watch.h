// Says in the log what no connection's end tells: a link that goes down or comes up, a buffer pool that is empty. The
// counters say the same to Prometheus; the log says it to who reads why a client stood still.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "dataplane/dpdk/mbuf_pool.h"
#include "dataplane/dpdk/port.h"
#include "rocev2/base/time.h"

namespace cw::dataplane {

class TroubleWatch {
 public:
  static constexpr Duration kInterval = Duration::ms(200);

  // Both outlive this.
  TroubleWatch(std::span<const std::unique_ptr<Port>> ports, const MbufPools& pools);
  // Control thread, as often as it likes: looks once per kInterval.
  void turn(Instant now);

 private:
  struct Pool {
    const char* name = "";
    uint64_t refused = 0;
    bool empty = false;
  };
  void look_at_links();
  void look_at_pool(Pool& pool, const MbufPools::Usage& usage) const;

  std::span<const std::unique_ptr<Port>> ports_;
  const MbufPools& pools_;
  std::vector<bool> up_;  // by port
  std::array<Pool, 3> seen_{{{"packets"}, {"replies"}, {"views"}}};
  Instant next_;
};

}  // namespace cw::dataplane
