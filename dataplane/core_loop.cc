#include "dataplane/core_loop.h"

#include <poll.h>
#include <rte_prefetch.h>
#include <sys/prctl.h>

#include <algorithm>
#include <array>
#include <ctime>

namespace cw::dataplane {
namespace {

// Polling before the first sleep. When it is shorter than the pauses of a peer that works, two ends fall asleep in turns and each
// call waits for both.
constexpr Duration kIdleBeforeSleep = Duration::us(100);
constexpr Duration kSleepMax = Duration::us(50);

}  // namespace

CoreLoop::CoreLoop(node::Node& node, std::span<const std::unique_ptr<Port>> ports, MbufPools& pools, const TscClock& clock,
                   CoreApp& app, Wakeup& wakeup, bool spin)
    : node_(node), ports_(ports), clock_(clock), app_(app), wakeup_(wakeup), spin_(spin), batch_(pools.packets()) {}

void CoreLoop::run(const std::atomic<bool>& stop) {
  (void)prctl(PR_SET_TIMERSLACK, 1UL);  // else a sleep of 50 us is one of 100
  Instant now = clock_.now();
  Instant last_work = now;
  while (!stop.load(std::memory_order_relaxed)) {
    const bool worked = turn(now);
    if (!worked && !spin_ && now - last_work > kIdleBeforeSleep) {
      sleep(now);
    }
    const Instant after = clock_.now();
    const uint64_t spent = static_cast<uint64_t>((after - now).to_ns());
    if (worked) {
      last_work = after;
      ++stats_.polls_busy;
      stats_.busy_ns += spent;
    } else {
      ++stats_.polls_idle;
      stats_.idle_ns += spent;
    }
    now = after;
  }
}

bool CoreLoop::turn(Instant now) {
  bool worked = receive(now);
  worked |= app_.turn(now);
  node_.on_deadline(now);
  worked |= transmit(now);
  return worked;
}

bool CoreLoop::receive(Instant now) {
  bool worked = false;
  for (uint16_t port = 0; port < ports_.size(); ++port) {
    std::array<rte_mbuf*, Port::kBurst> mbufs;
    const uint16_t count = ports_[port]->rx(mbufs);
    if (const LinkEvent event = ports_[port]->poll_link_event(); event != LinkEvent::kNone) [[unlikely]] {
      on_link_event(port, event);
    }
    if (count == 0) {
      continue;
    }
    worked = true;
    std::array<rte_mbuf*, Port::kBurst> unused;
    unsigned unused_count = 0;
    for (uint16_t i = 0; i < std::min<uint16_t>(count, 2); ++i) {
      rte_prefetch0(rte_pktmbuf_mtod(mbufs[i], const void*));
    }
    for (uint16_t i = 0; i < count; ++i) {
      if (i + 2 < count) {
        rte_prefetch0(rte_pktmbuf_mtod(mbufs[i + 2], const void*));
      }
      Buffer* frame = MbufPools::adopt(mbufs[i]);
      if (!node_.on_frame(now, frame, port)) {
        unused[unused_count++] = mbufs[i];
      }
    }
    rte_pktmbuf_free_bulk(unused.data(), unused_count);
  }
  return worked;
}

// Who was behind the link may be another by the time it is back.
void CoreLoop::on_link_event(uint16_t port, LinkEvent event) {
  if (event == LinkEvent::kLost) {
    node_.station(port).forget_neighbours();
  } else {
    node_.station(port).announce();
  }
}

bool CoreLoop::transmit(Instant now) {
  bool worked = false;
  bool full = true;
  while (full) {
    for (const auto& port : ports_) {
      port->flush(now);
      if (port->is_congested()) {
        return true;  // the device takes no more now; what the queue pairs have stays with them
      }
    }
    node_.poll_transmit(now, batch_);
    full = batch_.full();
    const std::span<wire::TxPacket> packets = batch_.packets();
    worked |= !packets.empty();
    for (size_t begin = 0; begin < packets.size();) {
      size_t end = begin + 1;
      while (end < packets.size() && packets[end].port == packets[begin].port) {
        ++end;
      }
      ports_[packets[begin].port]->tx(now, packets.subspan(begin, end - begin));
      begin = end;
    }
    batch_.reset();
  }
  return worked;
}

void CoreLoop::sleep(Instant now) {
  const Instant deadline = earlier(node_.next_deadline(), app_.next_deadline());
  const Duration wait = std::min(kSleepMax, deadline.is_never() ? kSleepMax : deadline - now);
  if (wait <= Duration::us(1)) {
    return;
  }
  ++stats_.sleeps;
  wakeup_.prepare();
  if (!app_.has_input()) {
    pollfd waiter{wakeup_.fd(), POLLIN, 0};
    const timespec time{0, wait.to_ns()};
    (void)ppoll(&waiter, 1, &time, nullptr);
  }
  wakeup_.awake();
}

}  // namespace cw::dataplane
