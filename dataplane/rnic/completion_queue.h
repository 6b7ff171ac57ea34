// A completion queue of a device, and what of it queue pairs have been promised.
#pragma once

#include <infiniband/verbs.h>

#include <array>
#include <cstdint>
#include <memory>

#include "dataplane/rnic/rdma_core.h"
#include "rnic/completion_room.h"
#include "rnic/rnic_host.h"

namespace cw::dataplane {

class CompletionQueue {
 public:
  static constexpr uint32_t kAtOnce = 64;

  // Room for so many entries, at least; events go to `channel`. nullptr: the device makes none; errno says why.
  [[nodiscard]] static std::unique_ptr<CompletionQueue> make(const RdmaCore& core, ibv_context* context,
                                                             ibv_comp_channel* channel, uint32_t entries);
  ~CompletionQueue();
  CompletionQueue(const CompletionQueue&) = delete;
  CompletionQueue& operator=(const CompletionQueue&) = delete;

  // Takes completions, the oldest first, and says how many. Fewer than kAtOnce: the queue was found empty.
  [[nodiscard]] uint32_t poll(std::array<rnic::WorkDone, kAtOnce>& out);
  // Its next completion makes an event, once.
  void arm();
  void on_event() { is_armed_ = false; }

  [[nodiscard]] ibv_cq* cq() const { return cq_; }
  // Of an event of the device that names it.
  [[nodiscard]] static CompletionQueue& of(const ibv_cq& cq) { return *static_cast<CompletionQueue*>(cq.cq_context); }

  rnic::CompletionRoom room{0};
  bool is_broken = false;  // the device has said so: for nobody any more

 private:
  explicit CompletionQueue(const RdmaCore& core) : core_(core) {}

  const RdmaCore& core_;
  ibv_cq* cq_ = nullptr;
  bool is_armed_ = false;
};

}  // namespace cw::dataplane
