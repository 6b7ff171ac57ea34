// Where one core's gateway listens, on which wire, and the lanes of what is accepted there.
#pragma once

#include <cstdint>
#include <list>
#include <vector>

#include "base/result.h"
#include "gateway/backends.h"
#include "gateway/gateway_options.h"
#include "gateway/listener_lanes.h"
#include "verbs/transport.h"

namespace cw::gateway {

class Listeners {
 public:
  // `options` by ListenerIds. `transports`: ListenerOptions::transport is a place in it. All must outlive the listeners.
  Listeners(const std::vector<ListenerOptions>& options, const std::vector<verbs::Transport*>& transports, Backends& backends);

  // All or none.
  [[nodiscard]] Status start();
  void stop();
  [[nodiscard]] const ListenerOptions* find(uint32_t transport, uint16_t port) const;
  [[nodiscard]] uint32_t index_of(const ListenerOptions& listener) const {
    return static_cast<uint32_t>(&listener - options_.data());
  }
  // For a connection that is established, until leave().
  [[nodiscard]] LaneTable& join(uint32_t listener);
  void leave(LaneTable& table);

  // Takes over in exchange for what was, and listens, unless stopped. Precondition: all that there have been. False: a port could
  // not be had, and the other listeners listen all the same; the next reconfigure() tries again.
  bool reconfigure(std::vector<ListenerOptions>& fresh);
  [[nodiscard]] const std::vector<ListenerOptions>& options() const { return options_; }

 private:
  void set_lanes(size_t listener);
  [[nodiscard]] rpcrdma::BackendShares shares_of(const ListenerOptions& listener);
  [[nodiscard]] verbs::Transport& wire_of(const ListenerOptions& listener) { return *transports_[listener.transport]; }

  const std::vector<verbs::Transport*>& transports_;
  Backends& backends_;
  std::vector<ListenerOptions> options_;  // with room for all that there may be: connections point to them
  std::list<LaneTable> lane_tables_;
  std::vector<LaneTable*> lanes_;  // by listener: of new connections; nullptr of one that was never there
  bool stopped_ = false;
};

}  // namespace cw::gateway
