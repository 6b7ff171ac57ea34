#include "dataplane/trouble_watch.h"

#include "telemetry/log.h"

namespace cw::dataplane {

TroubleWatch::TroubleWatch(std::span<const std::unique_ptr<Port>> ports, const MbufPools& pools) : ports_(ports), pools_(pools) {
  for (const std::unique_ptr<Port>& port : ports_) {
    up_.push_back(port->link_up());
  }
}

void TroubleWatch::turn(Instant now) {
  if (now < next_) {
    return;
  }
  next_ = now + kInterval;
  look_at_links();
  look_at_pool(seen_[0], pools_.packet_usage());
  look_at_pool(seen_[1], pools_.large_usage());
  look_at_pool(seen_[2], pools_.view_usage());
}

void TroubleWatch::look_at_links() {
  for (size_t i = 0; i < ports_.size(); ++i) {
    const bool up = ports_[i]->link_up();
    if (up == up_[i]) {
      continue;
    }
    up_[i] = up;
    if (up) {
      telemetry::log_info("port {} ({}): link is up", i, ports_[i]->device());
    } else {
      telemetry::log_warning("port {} ({}): link is down", i, ports_[i]->device());
    }
  }
}

// One line when it begins; the counter says for how long it lasts.
void TroubleWatch::look_at_pool(Pool& pool, const MbufPools::Usage& usage) const {
  const bool empty = usage.refused > pool.refused;
  if (empty && !pool.empty) {
    telemetry::log_warning("pool {} is empty: {} of {} buffers are free, {} requests found too few; what needs them waits",
                           pool.name, usage.available, usage.size, usage.refused - pool.refused);
  }
  pool.refused = usage.refused;
  pool.empty = empty;
}

}  // namespace cw::dataplane
