#include "dataplane/core_loop.h"

#include <poll.h>
#include <rte_prefetch.h>
#include <sys/prctl.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <thread>

namespace cw::dataplane {
namespace {

// Polling before the first sleep. When it is shorter than the pauses of a peer that works, two ends fall asleep in turns and each
// call waits for both.
constexpr Duration kIdleBeforeSleep = Duration::us(100);
// Nobody wakes a core for a frame. So it sleeps for a part of the time that nothing has happened, and a call that comes behind a
// pause is late by that part of the pause at most.
constexpr int64_t kSleepPart = 32;
constexpr Duration kSleepMin = Duration::us(50);
constexpr Duration kSleepMax = Duration::ms(3);
// Whatever comes wakes a core without a queue of a port, except a heartbeat's question. That may wait so long.
constexpr Duration kSleepMaxWithoutQueues = Duration::ms(100);
// Asking the kernel costs some 200 ns: not in every turn of a core that polls ports, too, while its other wires are quiet.
constexpr Duration kQuietWire = Duration::us(5);

}  // namespace

CoreLoop::CoreLoop(node::Node& node, std::span<const std::unique_ptr<PortQueue>> queues, BufferPools& pools,
                   const TscClock& clock, CoreApp& app, Wakeup& wakeup, const IdlePolicy& idle)
    : node_(node),
      queues_(queues),
      clock_(clock),
      app_(app),
      wakeup_(wakeup),
      idle_(idle),
      polls_ports_(std::ranges::any_of(queues, &PortQueue::receives)),
      handover_(node, queues, stats_),
      watermark_(pools, node),
      batch_(pools.packets()) {}

void CoreLoop::run(const std::atomic<bool>& stop) {
  (void)prctl(PR_SET_TIMERSLACK, 1UL);  // else a sleep of 50 us is one of 100
  Instant now = clock_.now();
  Instant last_work = now;
  while (!stop.load(std::memory_order_relaxed)) {
    const bool worked = turn(now);
    if (!worked) {
      if (!idle_.spins && now - last_work > kIdleBeforeSleep) {
        sleep(now, now - last_work);
      } else if (idle_.yields) {
        std::this_thread::yield();
      }
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
  worked |= serve(now);
  handover_.kick();
  return worked;
}

bool CoreLoop::receive(Instant now) {
  bool worked = false;
  for (uint16_t port = 0; port < queues_.size(); ++port) {
    worked |= receive_port(now, port);
  }
  worked |= handover_.receive(now);
  worked |= receive_wires(now);
  if (!worked) {
    node_.endpoint().flush_acknowledgements();
  }
  split_.end_turn(worked);
  watermark_.look(worked);
  return worked;
}

bool CoreLoop::receive_wires(Instant now) {
  bool worked = false;
  for (Wire& wire : wires_) {
    if (wire.shell->in_use() && now >= wire.after) {
      const bool had_work = wire.shell->receive(now);
      wire.after = had_work || !polls_ports_ ? now : now + kQuietWire;
      worked |= had_work;
    }
  }
  return worked;
}

// What follows from packets that were received: calls are answered, and what is to be sent leaves.
bool CoreLoop::serve(Instant now) {
  bool worked = app_.turn(now);
  for (const Wire& wire : wires_) {
    worked |= wire.shell->transmit(now);
  }
  node_.on_deadline(now);
  worked |= transmit(now);
  return worked;
}

bool CoreLoop::receive_port(Instant now, uint16_t port) {
  std::array<rte_mbuf*, PortQueue::kBurst> mbufs;
  const std::span<rte_mbuf* const> burst(mbufs.data(), queues_[port]->rx(now, mbufs));
  if (const LinkEvent event = queues_[port]->poll_link_event(); event != LinkEvent::kNone) [[unlikely]] {
    on_link_event(port, event);
  }
  if (burst.empty()) {
    return false;
  }
  tap_.received(now, burst);
  for (rte_mbuf* mbuf : burst.first(std::min<size_t>(burst.size(), 2))) {
    rte_prefetch0(rte_pktmbuf_mtod(mbuf, const void*));
  }
  const size_t first = split_.first_part(burst.size());
  take(now, port, burst.first(first));
  if (first < burst.size()) {
    (void)serve(now);
    take(now, port, burst.subspan(first));
  }
  return true;
}

void CoreLoop::take(Instant now, uint16_t port, std::span<rte_mbuf* const> mbufs) {
  std::array<Buffer*, PortQueue::kBurst> frames;
  size_t count = 0;
  for (size_t i = 0; i < mbufs.size(); ++i) {
    if (i + 2 < mbufs.size()) {
      rte_prefetch0(rte_pktmbuf_mtod(mbufs[i + 2], const void*));
    }
    if (!handover_.give_away(mbufs[i], port)) {
      frames[count++] = MbufPools::adopt(mbufs[i]);
    }
  }
  std::array<rte_mbuf*, PortQueue::kBurst> unused;
  const size_t left = node_.on_frames(now, std::span(frames).first(count), port);
  std::transform(frames.begin(), frames.begin() + static_cast<ptrdiff_t>(left), unused.begin(), mbuf_of);
  rte_pktmbuf_free_bulk(unused.data(), static_cast<unsigned>(left));
}

bool CoreLoop::flush(Instant now) {
  bool all = true;
  for (const auto& queue : queues_) {
    queue->flush(now);
    all &= !queue->is_congested();
  }
  return all;
}

// Another host may be behind the link when it comes back.
void CoreLoop::on_link_event(uint16_t port, LinkEvent event) {
  if (event == LinkEvent::kLost) {
    node_.station(port).forget_neighbours();
  } else if (handover_.core() == 0) {
    node_.station(port).announce();
  }
}

bool CoreLoop::transmit(Instant now) {
  bool worked = false;
  bool full = true;
  while (full) {
    if (!flush(now)) {
      return true;  // a device takes no more now; what the queue pairs have stays with them
    }
    worked |= handover_.carry([&] { return flush(now); });
    node_.poll_transmit(now, batch_);
    full = batch_.full();
    const std::span<wire::TxPacket> packets = batch_.packets();
    worked |= !packets.empty();
    tap_.sent(now, packets);
    send(now, packets);
    batch_.reset();
  }
  return worked;
}

// Run by run of one port.
void CoreLoop::send(Instant now, std::span<wire::TxPacket> packets) {
  for (size_t begin = 0; begin < packets.size();) {
    size_t end = begin + 1;
    while (end < packets.size() && packets[end].port == packets[begin].port) {
      ++end;
    }
    queues_[packets[begin].port]->tx(now, packets.subspan(begin, end - begin));
    begin = end;
  }
}

// `quiet`: for how long nothing has happened.
void CoreLoop::sleep(Instant now, Duration quiet) {
  const Instant deadline = earlier(node_.next_deadline(), app_.next_deadline());
  const Duration longest = polls_ports_ ? std::clamp(quiet / kSleepPart, kSleepMin, kSleepMax) : kSleepMaxWithoutQueues;
  const Duration wait = std::min(longest, deadline.is_never() ? longest : deadline - now);
  if (wait <= Duration::us(1)) {
    return;
  }
  ++stats_.sleeps;
  wakeup_.prepare();
  std::array<pollfd, 1 + kWiresMax> waiters{pollfd{wakeup_.fd(), POLLIN, 0}};
  nfds_t count = 1;
  bool may_sleep = !app_.has_input() && !handover_.has_input();
  for (Wire& wire : wires_) {
    if (wire.shell->in_use()) {
      may_sleep = may_sleep && wire.shell->may_sleep(now);
      waiters[count++] = {wire.shell->fd(), POLLIN, 0};
      wire.after = now;
    }
  }
  if (may_sleep) {
    const timespec time{0, wait.to_ns()};
    (void)ppoll(waiters.data(), count, &time, nullptr);
  }
  wakeup_.awake(waiters[0].revents != 0);
}

}  // namespace cw::dataplane
