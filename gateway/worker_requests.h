// What waits for the workers: requests, of which there is room for so many, and backend connections to close.
#pragma once

#include <cstdint>
#include <deque>
#include <utility>

#include "base/assert.h"
#include "base/ring.h"
#include "gateway/backend_link.h"

namespace cw::gateway {

class WorkerRequests {
 public:
  explicit WorkerRequests(uint32_t capacity) : requests_(capacity) {}

  [[nodiscard]] bool has_room(uint32_t count = 1) const { return requests_.capacity() - requests_.size() >= count; }
  // Precondition: has_room().
  void push(BackendRequest&& request) {
    const bool pushed = requests_.push(std::move(request));
    CW_ASSERT(pushed);
    ++pushed_;
  }
  // Behind what was pushed before. In a queue of its own, so that closing never has to wait for room: it grows with backend
  // connections, never with calls.
  void close(LinkId link, uint32_t backend) { closes_.push_back({link, backend, pushed_}); }
  // The next for the workers; false when there is none.
  [[nodiscard]] bool poll(BackendRequest& out) {
    if (!closes_.empty() && closes_.front().behind == pushed_ - requests_.size()) [[unlikely]] {
      const Close close = closes_.front();
      closes_.pop_front();
      out = BackendRequest();
      out.kind = BackendRequest::Kind::kClose;
      out.link = close.link;
      out.backend = close.backend;
      return true;
    }
    if (requests_.empty()) {
      return false;
    }
    out = requests_.pop();
    return true;
  }

 private:
  struct Close {
    LinkId link;
    uint32_t backend = 0;
    uint32_t behind = 0;  // pushed_ at the time
  };
  Ring<BackendRequest> requests_;
  uint32_t pushed_ = 0;  // modulo 2^32
  std::deque<Close> closes_;
};

}  // namespace cw::gateway
