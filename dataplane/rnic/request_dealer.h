// Requests for connections, dealt to the poll cores: librdmacm gives a port to one listener, so one core hears them all. Each
// goes to the core that has the fewest connections. That core takes the id over (rdma_migrate_id), and its later events with it.
#pragma once

#include <rdma/rdma_cma.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "base/time.h"
#include "control/socket/unique_fd.h"

namespace cw::dataplane {

// Of the event, what outlives its acknowledgement. Nobody but the one who has it uses the id.
struct DealtRequest {
  rdma_cm_id* id = nullptr;
  uint16_t listener_port = 0;
  uint8_t initiator_depth = 0;
  std::array<uint8_t, 256> private_data{};
  size_t private_bytes = 0;
  Instant dealt_at;
};

class RequestDealer {
 public:
  // Requests that one core has not taken yet; with more, it has other trouble.
  static constexpr size_t kWaitingMax = 256;

  explicit RequestDealer(uint32_t cores);

  [[nodiscard]] uint32_t cores() const { return count_; }
  // Any thread. The core with the fewest connections, those that wait for it included; `own`, where it has as few.
  [[nodiscard]] uint32_t choose(uint32_t own) const;
  // Any thread. False: as many wait for that core as may.
  [[nodiscard]] bool give(uint32_t core, const DealtRequest& request);
  // What `core` is to have next. Its fd() is readable while there is something.
  [[nodiscard]] std::optional<DealtRequest> take(uint32_t core);
  // A request that was dealt to another core than `own` and has waited there for `patience`. That core will not have it.
  [[nodiscard]] std::optional<DealtRequest> take_late(Instant now, uint32_t own, Duration patience);
  [[nodiscard]] int fd(uint32_t core) const { return boxes_[core].bell.get(); }
  // `core` has one more, or one less.
  void add_connection(uint32_t core) { boxes_[core].connections.fetch_add(1, std::memory_order_relaxed); }
  void remove_connection(uint32_t core) { boxes_[core].connections.fetch_sub(1, std::memory_order_relaxed); }

 private:
  // A lock: requests are few, and limited by their rate.
  struct Box {
    control::UniqueFd bell;
    std::atomic<uint32_t> connections{0};
    std::mutex mutex;
    std::vector<DealtRequest> waiting;  // the first came first; guarded by the mutex
  };

  [[nodiscard]] static DealtRequest take_first(Box& box);

  uint32_t count_;
  std::unique_ptr<Box[]> boxes_;
};

}  // namespace cw::dataplane
