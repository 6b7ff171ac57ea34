#include "dataplane/trouble_watch.h"

#include "telemetry/log.h"

namespace cw::dataplane {

TroubleWatch::TroubleWatch(std::span<const std::unique_ptr<Port>> ports, const BufferPools& pools)
    : ports_(ports), pools_(pools) {
  for (const std::unique_ptr<Port>& port : ports_) {
    port->look_at_link();
    up_.push_back(port->link_up());
  }
}

void TroubleWatch::turn(Instant now) {
  if (now < next_) {
    return;
  }
  next_ = now + kInterval;
  look_at_links();
  look_at_pool(now, seen_[0], pools_.packet_usage());
  look_at_pool(now, seen_[1], pools_.large_usage());
  look_at_pool(now, seen_[2], pools_.view_usage());
}

void TroubleWatch::look_at_links() {
  for (size_t i = 0; i < ports_.size(); ++i) {
    ports_[i]->look_at_link();
    const bool up = ports_[i]->link_up();
    if (up == up_[i]) {
      continue;
    }
    up_[i] = up;
    using enum telemetry::LogFieldName;
    const telemetry::LogFields fields = {{kPort, i}, {kDevice, ports_[i]->device()}, {kState, up ? "up" : "down"}};
    if (up) {
      telemetry::log_info(fields, "port {} ({}): link is up", i, ports_[i]->device());
    } else {
      telemetry::log_warning(fields, "port {} ({}): link is down", i, ports_[i]->device());
    }
  }
}

// Two lines, when it begins and when it is over; the counter says how much of it there was. Drivers take buffers too, and not all
// of them count what they do not get: a pool without any is empty whoever asks.
void TroubleWatch::look_at_pool(Instant now, Pool& pool, const BufferPools::Usage& usage) {
  const uint64_t before = pool.refused;
  pool.refused = usage.refused;
  if (usage.refused > before || usage.available == 0) {
    pool.last_empty = now;
    if (!pool.empty) {
      pool.empty = true;
      pool.refused_before = before;
      telemetry::log_warning(
          "pool {} runs out of buffers: {} of {} are free, {} requests found too few; what needs them waits, or is sent again; "
          "raise {}",
          pool.name, usage.available, usage.size, usage.refused - before, pool.key);
    }
  } else if (pool.empty && now - pool.last_empty > kRelief) {
    pool.empty = false;
    telemetry::log_info("pool {} has buffers again, {} of {} are free; {} requests found too few", pool.name, usage.available,
                        usage.size, usage.refused - pool.refused_before);
  }
}

}  // namespace cw::dataplane
