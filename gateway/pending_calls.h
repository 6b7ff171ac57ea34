// Calls that a backend owes a reply, found by XID. At most one for each credit of a connection, so that looking through the XIDs,
// which lie together, is a few cache lines. Empty, it takes nothing from the heap.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/time.h"
#include "rpcrdma/endpoint/server_endpoint.h"

namespace cw::gateway {

struct PendingCall {
  rpcrdma::CallId call;
  Instant since;
  uint32_t epoch = 0;  // of the ReplayGuard
  uint32_t units = 0;  // of an orphan's: rpcrdma::ServerEndpoint::take_units
};

class PendingCalls {
 public:
  [[nodiscard]] bool empty() const { return xids_.empty(); }
  [[nodiscard]] size_t size() const { return xids_.size(); }
  [[nodiscard]] bool has(uint32_t xid) const { return std::find(xids_.begin(), xids_.end(), xid) != xids_.end(); }
  // Precondition: !has(xid).
  void add(uint32_t xid, const PendingCall& call) {
    xids_.push_back(xid);
    calls_.push_back(call);
  }
  // Takes it out; nothing when there is none.
  [[nodiscard]] std::optional<PendingCall> take(uint32_t xid) {
    const auto found = std::find(xids_.begin(), xids_.end(), xid);
    if (found == xids_.end()) {
      return std::nullopt;
    }
    const auto index = static_cast<size_t>(found - xids_.begin());
    const PendingCall call = calls_[index];
    *found = xids_.back();
    xids_.pop_back();
    calls_[index] = calls_.back();
    calls_.pop_back();
    return call;
  }
  // Precondition: !empty().
  [[nodiscard]] Instant oldest() const { return std::ranges::min(calls_, std::ranges::less{}, &PendingCall::since).since; }
  // visit(uint32_t xid, const PendingCall&), in no particular order.
  template <typename Visit>
  void for_each(Visit&& visit) const {
    for (size_t i = 0; i < xids_.size(); ++i) {
      visit(xids_[i], calls_[i]);
    }
  }
  template <typename Visit>
  void for_each(Visit&& visit) {
    for (size_t i = 0; i < xids_.size(); ++i) {
      visit(xids_[i], calls_[i]);
    }
  }

 private:
  std::vector<uint32_t> xids_;
  std::vector<PendingCall> calls_;  // by the same index
};

}  // namespace cw::gateway
