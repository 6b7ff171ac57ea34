#include "dataplane/core_loop.h"

#include <poll.h>
#include <rte_prefetch.h>
#include <sys/prctl.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <thread>

#include "base/assert.h"

namespace cw::dataplane {
namespace {

// Polling before the first sleep. When it is shorter than the pauses of a peer that works, two ends fall asleep in turns and each
// call waits for both.
constexpr Duration kIdleBeforeSleep = Duration::us(100);
constexpr Duration kSleepMax = Duration::us(50);

}  // namespace

CoreLoop::CoreLoop(node::Node& node, std::span<const std::unique_ptr<PortQueue>> queues, MbufPools& pools, const TscClock& clock,
                   CoreApp& app, Wakeup& wakeup, const IdlePolicy& idle)
    : node_(node),
      queues_(queues),
      pools_(pools),
      clock_(clock),
      app_(app),
      wakeup_(wakeup),
      idle_(idle),
      steering_({}, node.endpoint().qpn_codec()),
      batch_(pools.packets()) {}

void CoreLoop::share_with(const CoreShare& share, CoreExchange& exchange) {
  CW_ASSERT(share.is_valid() && share.count == exchange.cores());
  exchange_ = &exchange;
  steering_ = node::Steering(share, node_.endpoint().qpn_codec());
}

void CoreLoop::run(const std::atomic<bool>& stop) {
  (void)prctl(PR_SET_TIMERSLACK, 1UL);  // else a sleep of 50 us is one of 100
  Instant now = clock_.now();
  Instant last_work = now;
  while (!stop.load(std::memory_order_relaxed)) {
    const bool worked = turn(now);
    if (!worked) {
      if (!idle_.spins && now - last_work > kIdleBeforeSleep) {
        sleep(now);
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
  if (exchange_ != nullptr) {
    exchange_->kick(steering_.core().index);
  }
  return worked;
}

// What follows from packets that were received: calls are answered, and what is to be sent leaves.
bool CoreLoop::serve(Instant now) {
  bool worked = app_.turn(now);
  node_.on_deadline(now);
  worked |= transmit(now);
  return worked;
}

bool CoreLoop::receive(Instant now) {
  bool worked = false;
  for (uint16_t port = 0; port < queues_.size(); ++port) {
    std::array<rte_mbuf*, PortQueue::kBurst> mbufs;
    const uint16_t count = queues_[port]->rx(now, mbufs);
    if (const LinkEvent event = queues_[port]->poll_link_event(); event != LinkEvent::kNone) [[unlikely]] {
      on_link_event(port, event);
    }
    if (count == 0) {
      continue;
    }
    worked = true;
    if (control::capture::CaptureRing* tap = tap_.load(std::memory_order_acquire); tap != nullptr) [[unlikely]] {
      capture_received(now, {mbufs.data(), count}, *tap);
    }
    const std::span<rte_mbuf* const> burst(mbufs.data(), count);
    prefetch(burst);
    // After a turn without packets the peers wait for us, not we for them: what the first half asks for leaves before the second
    // half is served, so that both sides work at once instead of by turns. Where there is always more, large bursts are cheaper.
    const size_t at_first = received_ ? count : (size_t{count} + 1) / 2;
    take(now, port, burst.first(at_first));
    if (at_first < count) {
      (void)serve(now);
      take(now, port, burst.subspan(at_first));
    }
  }
  worked |= exchange_ != nullptr && receive_handed(now);
  if (!worked) {
    node_.endpoint().flush_acknowledgements();
  }
  received_ = worked;
  watch_watermark(worked);
  return worked;
}

void CoreLoop::take(Instant now, uint16_t port, std::span<rte_mbuf* const> mbufs) {
  std::array<rte_mbuf*, PortQueue::kBurst> unused;
  unsigned unused_count = 0;
  for (size_t i = 0; i < mbufs.size(); ++i) {
    if (i + 2 < mbufs.size()) {
      rte_prefetch0(rte_pktmbuf_mtod(mbufs[i + 2], const void*));
    }
    if (exchange_ != nullptr && is_others(mbufs[i], port)) {
      continue;
    }
    if (!node_.on_frame(now, MbufPools::adopt(mbufs[i]), port)) {
      unused[unused_count++] = mbufs[i];
    }
  }
  rte_pktmbuf_free_bulk(unused.data(), unused_count);
}

// Buffers go with frames and come back with anything: while there are few, every turn looks.
void CoreLoop::watch_watermark(bool received) {
  if (!received && watermark_ == BufferWatermark::kPlenty) {
    return;
  }
  const BufferWatermark before = watermark_;
  watermark_ = pools_.packet_watermark();
  if (watermark_ != before) [[unlikely]] {
    node_.endpoint().set_watermark(watermark_);
  }
  if (received && before != BufferWatermark::kPlenty) [[unlikely]] {
    pools_.note_packets_short();
  }
}

void CoreLoop::prefetch(std::span<rte_mbuf* const> mbufs) {
  for (rte_mbuf* mbuf : mbufs.first(std::min<size_t>(mbufs.size(), 2))) {
    rte_prefetch0(rte_pktmbuf_mtod(mbuf, const void*));
  }
  if (!node_.wants_prefetch()) {
    return;
  }
  std::array<Bytes, PortQueue::kBurst> frames;
  for (size_t i = 0; i < mbufs.size(); ++i) {
    frames[i] = {rte_pktmbuf_mtod(mbufs[i], const uint8_t*), rte_pktmbuf_data_len(mbufs[i])};
  }
  node_.prefetch({frames.data(), mbufs.size()});
}

bool CoreLoop::is_others(rte_mbuf* mbuf, uint16_t port) {
  const uint32_t own = steering_.core().index;
  const uint32_t owner = steering_.owner_of({rte_pktmbuf_mtod(mbuf, const uint8_t*), rte_pktmbuf_data_len(mbuf)});
  if (owner == own) {
    return false;
  }
  if (exchange_->give_received(own, owner, {mbuf, port, 0})) {
    ++stats_.frames_handed;
  } else {
    ++stats_.frames_not_handed;
    rte_pktmbuf_free(mbuf);
  }
  return true;
}

bool CoreLoop::receive_handed(Instant now) {
  bool worked = false;
  const uint32_t own = steering_.core().index;
  for (uint32_t from = 0; from < exchange_->cores(); ++from) {
    std::array<CoreExchange::Frame, PortQueue::kBurst> frames;
    const uint32_t count = exchange_->take_received(own, from, frames);
    worked |= count > 0;
    for (uint32_t i = 0; i < count; ++i) {
      if (i + 1 < count) {
        rte_prefetch0(rte_pktmbuf_mtod(frames[i + 1].mbuf, const void*));
      }
      if (!node_.on_frame(now, MbufPools::adopt(frames[i].mbuf), static_cast<uint16_t>(frames[i].port))) {
        rte_pktmbuf_free(frames[i].mbuf);
      }
    }
  }
  return worked;
}

// Packets of cores that have no queue of their own at a port. A burst of each core in turn, so that none of them waits for
// another one's, as long as the devices take all of it.
bool CoreLoop::carry_for_others(Instant now) {
  bool worked = false;
  const uint32_t own = steering_.core().index;
  for (uint32_t i = 0; i < exchange_->cores(); ++i) {
    const uint32_t from = next_carried_++ % exchange_->cores();
    CoreExchange::Frame frame;
    for (uint16_t k = 0; k < PortQueue::kBurst && exchange_->take_to_send(own, from, frame); ++k) {
      queues_[frame.port]->carry(frame.mbuf);
      worked = true;
    }
    if (!flush(now)) {
      break;
    }
  }
  return worked;
}

bool CoreLoop::flush(Instant now) {
  bool all = true;
  for (const auto& queue : queues_) {
    queue->flush(now);
    all &= !queue->is_congested();
  }
  return all;
}

void CoreLoop::capture_received(Instant now, std::span<rte_mbuf* const> mbufs, control::capture::CaptureRing& tap) {
  for (const rte_mbuf* mbuf : mbufs) {
    const Bytes frame(rte_pktmbuf_mtod(mbuf, const uint8_t*), rte_pktmbuf_data_len(mbuf));
    tap.offer(now.to_ns(), {&frame, 1}, true);
  }
}

void CoreLoop::capture_sent(Instant now, std::span<const wire::TxPacket> packets, control::capture::CaptureRing& tap) {
  for (const wire::TxPacket& packet : packets) {
    std::array<Bytes, wire::TxPacket::kPiecesMax + 2> pieces;
    uint32_t count = 0;
    packet.for_each_run([&](Bytes run) { pieces[count++] = run; });
    tap.offer(now.to_ns(), {pieces.data(), count}, false);
  }
}

// Who was behind the link may be another by the time it is back.
void CoreLoop::on_link_event(uint16_t port, LinkEvent event) {
  if (event == LinkEvent::kLost) {
    node_.station(port).forget_neighbours();
  } else if (steering_.core().index == 0) {
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
    if (exchange_ != nullptr) {
      worked |= carry_for_others(now);
    }
    node_.poll_transmit(now, batch_);
    full = batch_.full();
    const std::span<wire::TxPacket> packets = batch_.packets();
    worked |= !packets.empty();
    if (control::capture::CaptureRing* tap = tap_.load(std::memory_order_acquire); tap != nullptr) [[unlikely]] {
      capture_sent(now, packets, *tap);
    }
    for (size_t begin = 0; begin < packets.size();) {
      size_t end = begin + 1;
      while (end < packets.size() && packets[end].port == packets[begin].port) {
        ++end;
      }
      queues_[packets[begin].port]->tx(now, packets.subspan(begin, end - begin));
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
  if (!app_.has_input() && (exchange_ == nullptr || !exchange_->has_input(steering_.core().index))) {
    pollfd waiter{wakeup_.fd(), POLLIN, 0};
    const timespec time{0, wait.to_ns()};
    (void)ppoll(&waiter, 1, &time, nullptr);
  }
  wakeup_.awake();
}

}  // namespace cw::dataplane
