// Asks devices for their links, and says in the log what no connection's end tells: a link that goes down or comes up, a buffer
// pool that is empty. The counters say the same to Prometheus; the log says it to who reads why a client stood still.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/time.h"
#include "dataplane/buffer_pools.h"
#include "dataplane/dpdk/port.h"

namespace cw::dataplane {

class TroubleWatch {
 public:
  static constexpr Duration kInterval = Duration::ms(200);
  // A pool that finds its buffers again and runs out again within this time says so once.
  static constexpr Duration kRelief = Duration::seconds(5);

  // Both outlive this.
  TroubleWatch(std::span<const std::unique_ptr<Port>> ports, const BufferPools& pools);
  // Control thread, as often as it likes: looks once per kInterval.
  void turn(Instant now);

 private:
  struct Pool {
    const char* name = "";
    const char* key = "";  // of the configuration, which gives it more buffers
    uint64_t refused = 0;  // as of the last look
    bool empty = false;
    uint64_t refused_before = 0;  // when it ran empty
    Instant last_empty;
  };
  void look_at_links();
  static void look_at_pool(Instant now, Pool& pool, const BufferPools::Usage& usage);

  std::span<const std::unique_ptr<Port>> ports_;
  const BufferPools& pools_;
  std::vector<bool> up_;  // by port
  std::array<Pool, 3> seen_{
      {{"packets", "dataplane.rx_buffers"}, {"replies", "dataplane.memory_mb"}, {"views", "dataplane.rx_buffers"}}};
  Instant next_;
};

}  // namespace cw::dataplane
