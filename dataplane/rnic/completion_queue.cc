#include "dataplane/rnic/completion_queue.h"

#include <algorithm>
#include <array>

namespace cw::dataplane {
namespace {

// Work completions are handed on by their values.
static_assert(static_cast<uint32_t>(verbs::WcStatus::kWorkRequestFlushed) == IBV_WC_WR_FLUSH_ERR &&
              static_cast<uint32_t>(verbs::WcStatus::kRetryExceeded) == IBV_WC_RETRY_EXC_ERR &&
              static_cast<uint32_t>(verbs::WcStatus::kGeneralError) == IBV_WC_GENERAL_ERR);

rnic::WorkDone done_of(const ibv_wc& from) {
  rnic::WorkDone done{.id = from.wr_id, .status = static_cast<verbs::WcStatus>(from.status), .bytes = from.byte_len};
  if (from.status == IBV_WC_SUCCESS && (from.wc_flags & IBV_WC_WITH_INV) != 0) {
    done.invalidated = verbs::Rkey(from.invalidated_rkey);
  }
  return done;
}

}  // namespace

std::unique_ptr<CompletionQueue> CompletionQueue::make(const RdmaCore& core, ibv_context* context, ibv_comp_channel* channel,
                                                       uint32_t entries) {
  std::unique_ptr<CompletionQueue> made(new CompletionQueue(core));
  made->cq_ = core.create_cq(context, static_cast<int>(entries), made.get(), channel, 0);
  if (made->cq_ == nullptr) {
    return nullptr;
  }
  made->room = rnic::CompletionRoom(static_cast<uint32_t>(made->cq_->cqe));
  return made;
}

CompletionQueue::~CompletionQueue() {
  if (cq_ != nullptr) {
    (void)core_.destroy_cq(cq_);
  }
}

uint32_t CompletionQueue::poll(std::array<rnic::WorkDone, kAtOnce>& out) {
  std::array<ibv_wc, kAtOnce> done;
  const int count = ibv_poll_cq(cq_, static_cast<int>(done.size()), done.data());
  const auto taken = static_cast<uint32_t>(std::max(count, 0));
  std::transform(done.begin(), done.begin() + taken, out.begin(), done_of);
  return taken;
}

void CompletionQueue::arm() {
  if (!is_armed_) {
    is_armed_ = ibv_req_notify_cq(cq_, 0) == 0;
  }
}

}  // namespace cw::dataplane
