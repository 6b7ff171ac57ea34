#include "dataplane/worker_pool.h"

#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/task_arena.h>
#include <oneapi/tbb/task_group.h>
#include <oneapi/tbb/task_scheduler_observer.h>
#include <pthread.h>
#include <rte_lcore.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <optional>
#include <span>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/intrusive_list.h"
#include "control/config/memory_plan.h"
#include "dataplane/dpdk/bind_thread.h"
#include "dataplane/monotonic_clock.h"
#include "gateway/gateway_options.h"
#include "telemetry/log.h"

namespace cw::dataplane {
namespace {

constexpr size_t kBurst = 32;
constexpr int kEpollEvents = 64;
// Turns without work before a worker sleeps: a few microseconds of spinning catch the reply of a backend that is quick.
constexpr uint32_t kIdleTurnsBeforeSleep = 64;
constexpr int kSleepMs = 100;
// While replies wait for memory, or for views: nobody tells a worker that some came back, since drivers give it back too.
constexpr int kStarvedSleepMs = 1;
// How often the replies that have begun are looked through for those that do not go on.
constexpr Duration kPaceInterval = Duration::ms(100);
// How often a link looks that waits for its source port.
constexpr Duration kPortInterval = Duration::ms(2);

void release(std::span<const EventItem> events) {
  for (const EventItem& event : events) {
    release_buffers(event.message);
  }
}

// Those that the system itself picks from (ip(7), ip_local_port_range).
std::pair<uint16_t, uint16_t> local_ports() {
  std::ifstream file("/proc/sys/net/ipv4/ip_local_port_range");
  uint16_t first = 0;
  uint16_t last = 0;
  if (file >> first >> last && first > 0 && first <= last) {
    return {first, last};
  }
  return {32'768, 60'999};
}

// TBB's threads inherit the CPUs of whoever made them come, as a rule one thread bound to one CPU.
class Placement : public oneapi::tbb::task_scheduler_observer {
 public:
  Placement(oneapi::tbb::task_arena& arena, const std::vector<uint32_t>& cpus) : task_scheduler_observer(arena), cpus_(cpus) {
    observe(!cpus.empty());
  }
  ~Placement() override { observe(false); }
  Placement(const Placement&) = delete;
  Placement& operator=(const Placement&) = delete;
  void on_scheduler_entry(bool /*is_worker*/) override { bind_this_thread(cpus_); }

 private:
  std::vector<uint32_t> cpus_;
};

}  // namespace

struct WorkerPool::Arenas {
  Arenas(uint32_t workers, const std::vector<uint32_t>& cpus)
      : parallelism(oneapi::tbb::global_control::max_allowed_parallelism, 2 * workers + 2),
        io(static_cast<int>(workers), 0),
        programs(static_cast<int>(workers), 0),
        io_placement(io, cpus),
        programs_placement(programs, cpus) {}
  oneapi::tbb::global_control parallelism;
  oneapi::tbb::task_arena io;        // each slot runs one Worker loop until stop()
  oneapi::tbb::task_arena programs;  // short-lived tasks
  Placement io_placement;
  Placement programs_placement;
  std::atomic<uint32_t> loops_running{0};
  std::atomic<uint32_t> programs_running{0};
};

class WorkerPool::Worker {
 public:
  // `index`: which one of the pool's.
  Worker(WorkerPool& pool, uint32_t index)
      : pool_(pool), admission_(pool.replies_, control::kReservedLargeBuffers), epoll_(epoll_create1(EPOLL_CLOEXEC)) {
    CW_ASSERT(epoll_ >= 0);
    for (CoreSide& core : pool_.cores_) {
      requests_.push_back(
          std::make_unique<ValueRing<RequestItem>>("cw_requests", pool_.options_.ring_entries, RingProducers::kOne));
      events_.emplace_back(*core.events[index], *core.wakeup);
    }
    watch(wakeup_.fd(), EPOLLIN, nullptr, EPOLL_CTL_ADD);
  }
  ~Worker() {
    drop_requests();
    for (const auto& outbox : events_) {
      release(outbox.waiting());
    }
    close(epoll_);
  }

  [[nodiscard]] ValueRing<RequestItem>& ring(uint32_t core) { return *requests_[core]; }
  [[nodiscard]] Wakeup& wakeup() { return wakeup_; }
  // Any thread.
  void add_to(telemetry::WorkerStats& stats) const {
    stats.replies_waiting += waiting_.load(std::memory_order_relaxed);
    stats.replies_waited += waited_.load(std::memory_order_relaxed);
    stats.other_ports += other_ports_.load(std::memory_order_relaxed);
    stats.replies_stalled += stalled_.load(std::memory_order_relaxed);
  }

  void loop() {
    (void)pthread_setname_np(pthread_self(), "cw-worker");
    // A DPDK thread id of its own gives this thread a cache in every buffer pool.
    const bool registered = rte_thread_register() == 0;
    uint32_t idle_turns = 0;
    while (!pool_.stop_.load(std::memory_order_relaxed)) {
      // While a core takes no events nothing is done that would make more of them: what waits here stays bounded.
      bool worked = false;
      if (publish()) {
        worked |= take_requests();
        flush_dirty();
        worked |= serve_sockets(0);
        serve_starved();
        serve_admitted();
        take_ports();
        end_stalled();
        (void)publish();
      }
      idle_turns = worked ? 0 : idle_turns + 1;
      // Without a backend's socket there is nothing that a sleeper would notice too late: spinning would only take the CPU from a
      // poll core beside.
      if (idle_turns > kIdleTurnsBeforeSleep && (!pool_.options_.spin || links_.empty())) {
        // Whom nothing woke has nothing to spin for.
        idle_turns = sleep() ? 0 : kIdleTurnsBeforeSleep;
      } else if (!worked && pool_.options_.yields) {
        std::this_thread::yield();
      }
    }
    links_.clear();
    if (registered) {
      rte_thread_unregister();
    }
  }

 private:
  struct UnfinishedTag {};
  struct Link : ListNode<UnfinishedTag> {
    Link(const control::SocketAddress& address, const IpAddress& source, Worker& worker, const RequestItem& item)
        : stream(address, source, worker.admission_, worker.pool_.options_.limits, item.backend, item.link.value(),
                 item.source_port),
          from{address, source, item.source_port},
          id(item.link),
          backend(item.backend) {}
    ~Link() { unlink_if_linked(); }
    Link(const Link&) = delete;
    Link& operator=(const Link&) = delete;
    std::optional<PortHold> hold;  // of its source port; the stream, which is behind it, closes first
    BackendStream stream;
    PortsHeld::Use from;
    Instant port_busy_since;
    gateway::LinkId id;
    uint32_t core = 0;
    uint32_t backend;
    uint32_t watched = 0;  // epoll events; 0: not in the epoll set
    Instant due;           // of an unfinished reply
    bool dirty = false;
    bool announced = false;  // kOpened was said
  };
  void watch(int fd, uint32_t events, Link* link, int operation) {
    epoll_event event{};
    event.events = events;
    event.data.ptr = link;
    (void)epoll_ctl(epoll_, operation, fd, &event);
  }

  bool take_requests() {
    bool worked = false;
    for (uint32_t core = 0; core < requests_.size(); ++core) {
      const uint32_t count = requests_[core]->pop(burst_);
      worked |= count > 0;
      for (uint32_t i = 0; i < count; ++i) {
        on_request(core, burst_[i]);
      }
    }
    return worked;
  }

  void on_request(uint32_t core, const RequestItem& item) {
    switch (item.kind) {
      case gateway::BackendRequest::Kind::kOpen:
        open(core, item);
        return;
      case gateway::BackendRequest::Kind::kSend: {
        Chain message(item.message());
        const auto found = links_.find(item.link.value());
        if (found == links_.end()) {
          return;  // closed meanwhile: the poll core has been or will be told
        }
        Link& link = *found->second;
        link.stream.queue(std::move(message));
        if (!link.dirty) {
          link.dirty = true;
          dirty_.push_back(&link);
        }
        return;
      }
      case gateway::BackendRequest::Kind::kClose: {
        const auto found = links_.find(item.link.value());
        if (found != links_.end()) {
          forget(*found->second);
        }
        return;
      }
      case gateway::BackendRequest::Kind::kRun:
        run_program(core, item);
        return;
    }
  }

  void open(uint32_t core, const RequestItem& item) {
    const Backend& backend = pool_.backends_[item.backend];
    auto link =
        std::make_unique<Link>(backend.servers[item.server], backend.from_client ? item.client() : IpAddress{}, *this, item);
    link->core = core;
    if (link->stream.state() == BackendStream::State::kFailed) {
      log_failure(*link);
      tell(*link, gateway::BackendEvent::Kind::kFailed, {});
      return;
    }
    Link& kept = *link;
    links_[item.link.value()] = std::move(link);
    if (kept.stream.state() == BackendStream::State::kPortBusy) {
      kept.port_busy_since = monotonic_now();
      without_port_.push_back(kept.id.value());
      tell(kept, gateway::BackendEvent::Kind::kPortBusy, {});
      return;
    }
    begin(kept);
  }

  void begin(Link& kept) {
    if (kept.from.port != 0) {
      kept.hold.emplace(pool_.ports_held_, kept.from);
    }
    watch_for(kept, kept.stream.state() == BackendStream::State::kConnecting ? EPOLLOUT : EPOLLIN);
    if (kept.stream.state() == BackendStream::State::kOpen) {
      kept.announced = true;
      tell(kept, gateway::BackendEvent::Kind::kOpened, {});
    }
  }

  void run_program(uint32_t core, const RequestItem& item) {
    std::atomic<uint32_t>& running = pool_.arenas_->programs_running;
    running.fetch_add(1);
    pool_.arenas_->programs.enqueue([this, core, item, &running] {
      (void)running.load();  // see start()
      EventItem answer{item.link, item.call(), nullptr, gateway::BackendEvent::Kind::kRan, item.backend};
      {
        Chain message(item.message());
        Chain reply;
        if (pool_.programs_.dispatch(rpcrdma::inspect_call(message), message, pool_.pools_, reply)) {
          answer.message = reply.detach();
        }
      }
      const CoreSide& side = pool_.cores_[core];
      while (!side.events.back()->push(answer)) {
        if (pool_.stop_.load(std::memory_order_relaxed)) {
          release_buffers(answer.message);
          break;
        }
        std::this_thread::yield();
      }
      side.wakeup->wake();
      running.fetch_sub(1);
    });
  }

  // The core hears of it at the end of this turn, or when there is a batch.
  void tell(const Link& link, gateway::BackendEvent::Kind kind, Chain&& message) {
    events_[link.core].put({link.id, rpcrdma::CallId(), message.detach(), kind, static_cast<uint16_t>(link.backend)});
  }

  // True when the cores have been told everything.
  bool publish() {
    bool all = true;
    for (auto& outbox : events_) {
      all &= outbox.publish();
    }
    return all;
  }

  void flush_dirty() {
    for (Link* link : dirty_) {
      link->dirty = false;
      link->stream.flush();
    }
    // Flushing may fail streams; telling and forgetting comes after, so that no pointer in dirty_ dangles.
    std::vector<Link*> done;
    done.swap(dirty_);
    for (Link* link : done) {
      settle(*link);
    }
    done.clear();
    dirty_.swap(done);
  }

  // Messages that found no buffer view: the socket may have nothing more to say, so nobody else would ask for them.
  void serve_starved() {
    std::vector<uint64_t> starved;
    starved.swap(starved_);
    for (const uint64_t id : starved) {
      const auto found = links_.find(id);
      if (found != links_.end()) {
        serve(*found->second, 0);
      }
    }
  }

  bool serve_sockets(int timeout_ms) {
    std::array<epoll_event, kEpollEvents> events;
    const int count = epoll_wait(epoll_, events.data(), kEpollEvents, timeout_ms);
    bool worked = false;
    for (int i = 0; i < count; ++i) {
      if (events[static_cast<size_t>(i)].data.ptr == nullptr) {
        wakeup_.awake(true);
        continue;
      }
      worked = true;
      Link& link = *static_cast<Link*>(events[static_cast<size_t>(i)].data.ptr);
      serve(link, events[static_cast<size_t>(i)].events);
    }
    return worked;
  }

  void serve(Link& link, uint32_t events) {
    if (link.stream.state() == BackendStream::State::kConnecting) {
      link.stream.finish_connect();
      if (link.stream.state() == BackendStream::State::kOpen) {
        link.announced = true;
        tell(link, gateway::BackendEvent::Kind::kOpened, {});
      }
    }
    if ((events & EPOLLOUT) != 0) {
      link.stream.flush();
    }
    if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0 && link.stream.state() == BackendStream::State::kOpen) {
      link.stream.read();
    }
    Chain message;
    while (link.stream.poll_message(message)) {
      tell(link, gateway::BackendEvent::Kind::kMessage, std::move(message));
    }
    if (link.stream.has_message()) {
      starved_.push_back(link.id.value());
    }
    link.stream.end_turn();
    note_pace(link);
    settle(link);
  }

  // Links whose source port is busy: as a rule the client's connection before has calls at the backend still, and is closed when
  // these are answered.
  void take_ports() {
    if (without_port_.empty()) [[likely]] {
      return;
    }
    const Instant now = monotonic_now();
    if (now < ports_tried_at_ + kPortInterval) {
      return;
    }
    ports_tried_at_ = now;
    std::erase_if(without_port_, [&](uint64_t id) {
      const auto found = links_.find(id);
      if (found == links_.end()) {
        return true;
      }
      Link& link = *found->second;
      // Asked first: who holds the port no more has closed its socket before.
      const PortTry next = port_try(pool_.ports_held_.has(link.from), now - link.port_busy_since);
      if (next == PortTry::kLater) {
        return false;
      }
      link.stream.reconnect(link.from.port);
      if (link.stream.state() == BackendStream::State::kPortBusy && next == PortTry::kThisOrAny) {
        other_ports_.fetch_add(1, std::memory_order_relaxed);
        link.from.port = 0;
        link.stream.reconnect(0);
      }
      if (link.stream.state() == BackendStream::State::kPortBusy) {
        return false;
      }
      if (link.stream.state() == BackendStream::State::kFailed) {
        settle(link);
      } else {
        begin(link);
      }
      return true;
    });
  }

  // Replies that waited for memory and have it now.
  void serve_admitted() {
    if (!admission_.wants_poll()) [[likely]] {
      return;
    }
    admission_.begin_turn();
    while (const rpcrdma::RecordDemand* admitted = admission_.poll()) {
      const auto found = links_.find(admitted->owner);
      CW_ASSERT(found != links_.end());  // a link that goes takes its reader along
      serve(*found->second, EPOLLIN);
    }
    waiting_.store(admission_.waiting(), std::memory_order_relaxed);
    waited_.store(admission_.waited(), std::memory_order_relaxed);
  }

  // A backend that begins a reply and does not go on with it holds memory that others need.
  void note_pace(Link& link) {
    link.unlink_if_linked();
    if (link.stream.is_unfinished()) {
      link.due = link.stream.due(monotonic_now());
      unfinished_.push_back(link);
    }
  }
  void end_stalled() {
    if (unfinished_.empty()) {
      return;
    }
    const Instant now = monotonic_now();
    if (now < paced_at_ + kPaceInterval) {
      return;
    }
    paced_at_ = now;
    for (Link* link = unfinished_.front(); link != nullptr;) {
      Link& each = *link;
      link = unfinished_.next(each);
      if (each.due <= now) {
        stalled_.fetch_add(1, std::memory_order_relaxed);
        each.stream.stall();
        settle(each);
      }
    }
  }

  // The poll core learns that it failed; why, only this thread knows.
  void log_failure(const Link& link) const {
    const std::string& name = pool_.backends_[link.backend].name;
    const int error = link.stream.failure();
    const char* cause = error == 0                             ? "it closed the connection"
                        : error == EPROTO                      ? "it sent a record that is too long or malformed"
                        : error == ETIMEDOUT && link.announced ? "it did not go on with a reply that it began, or is not there"
                                                               : std::strerror(error);
    const control::SocketAddress& server = link.from.server;
    using enum telemetry::LogFieldName;
    telemetry::log_warning({{kBackend, name}, {kServer, control::to_string(server)}, {kError, cause}},
                           "backend {} ({} port {}): {}: {}", name, to_text(server.address).data(), server.port,
                           link.announced ? "connection lost" : "cannot connect", cause);
  }

  // After anything that may have changed the stream: tells of its end, or watches what it wants.
  void settle(Link& link) {
    if (link.stream.state() == BackendStream::State::kPortBusy) {
      return;
    }
    if (link.stream.state() == BackendStream::State::kFailed) {
      log_failure(link);
      tell(link, link.announced ? gateway::BackendEvent::Kind::kClosed : gateway::BackendEvent::Kind::kFailed, {});
      forget(link);
      return;
    }
    const bool reads = link.stream.state() == BackendStream::State::kOpen && !link.stream.is_waiting();
    watch_for(link, (reads ? EPOLLIN : 0u) | (link.stream.wants_write() ? EPOLLOUT : 0u));
  }

  // A link that wants nothing is not in the set: epoll would go on telling that its peer has hung up.
  void watch_for(Link& link, uint32_t wanted) {
    if (wanted != link.watched) {
      watch(link.stream.fd(), wanted, &link, link.watched == 0 ? EPOLL_CTL_ADD : wanted == 0 ? EPOLL_CTL_DEL : EPOLL_CTL_MOD);
      link.watched = wanted;
    }
  }

  void forget(Link& link) {
    std::erase(dirty_, &link);
    // The socket leaves the epoll set with its close; events of this turn that still point to it cannot exist, since a link is
    // forgotten only from its own event or between turns.
    links_.erase(link.id.value());
  }

  // True: a socket woke it.
  bool sleep() {
    if (!publish()) {
      std::this_thread::yield();  // nobody wakes this thread when a ring of events has room again
      return false;
    }
    wakeup_.prepare();
    bool empty = true;
    for (auto& ring : requests_) {
      empty = empty && ring->empty();
    }
    const bool is_starved = !starved_.empty() || admission_.wants_poll() || !without_port_.empty();
    const bool worked = serve_sockets(!empty || pool_.stop_.load(std::memory_order_relaxed) ? 0
                                      : is_starved                                          ? kStarvedSleepMs
                                                                                            : kSleepMs);
    (void)publish();
    wakeup_.awake(false);
    return worked;
  }

  void drop_requests() {
    for (auto& ring : requests_) {
      std::array<RequestItem, kBurst> burst;
      while (const uint32_t count = ring->pop(burst)) {
        for (uint32_t i = 0; i < count; ++i) {
          release_buffers(burst[i].message());
        }
      }
    }
  }

  WorkerPool& pool_;
  Wakeup wakeup_;
  rpcrdma::RecordAdmission admission_;  // outlives the links
  int epoll_;
  std::vector<std::unique_ptr<ValueRing<RequestItem>>> requests_;
  std::array<RequestItem, kBurst> burst_{};  // here, since making one anew would cost more than an idle turn
  std::unordered_map<uint64_t, std::unique_ptr<Link>> links_;
  std::vector<Link*> dirty_;
  std::vector<uint64_t> starved_;
  IntrusiveList<Link, UnfinishedTag> unfinished_;
  Instant paced_at_;
  std::vector<uint64_t> without_port_;
  Instant ports_tried_at_;
  std::atomic<uint64_t> other_ports_{0};
  std::atomic<uint64_t> waiting_{0};
  std::atomic<uint64_t> waited_{0};
  std::atomic<uint64_t> stalled_{0};
  std::vector<Outbox<EventItem>> events_;  // by core
};

WorkerPool::WorkerPool(const WorkerPoolOptions& options, rpcrdma::ReplyPools pools, rpcrdma::ProgramRegistry& programs,
                       std::vector<Wakeup*> core_wakeups)
    : options_(options),
      backends_(gateway::kBackendIdsMax),
      pools_(pools),
      replies_(pools.large, options.reply_buffers, options.reply_buffers_min, gateway::kBackendIdsMax),
      source_ports_(local_ports().first, local_ports().second, options.port_key),
      programs_(programs),
      cores_(options.cores) {
  set_backend_count(static_cast<uint32_t>(std::ranges::count_if(
      options.backends, [](const std::vector<control::SocketAddress>& servers) { return !servers.empty(); })));
  CW_ASSERT(core_wakeups.size() == options.cores);
  static_assert(gateway::kBackendServersMax <= 65'536 && gateway::kBackendIdsMax <= 65'536);  // RequestItem has 16 bits for each
  for (size_t i = 0; i < options.backends.size(); ++i) {
    std::ranges::copy(options.backends[i], backends_[i].servers.begin());
    backends_[i].name = i < options.names.size() ? options.names[i] : "";
    backends_[i].from_client = i < options.from_client.size() && options.from_client[i];
    if (backends_[i].from_client) {
      source_ports_.set_from_client(static_cast<uint32_t>(i));
    }
  }
  for (uint32_t core = 0; core < options.cores; ++core) {
    CoreSide& side = cores_[core];
    for (uint32_t ring = 0; ring <= options.workers; ++ring) {
      const RingProducers producers = ring < options.workers ? RingProducers::kOne : RingProducers::kMany;
      side.events.push_back(std::make_unique<ValueRing<EventItem>>("cw_events", options.ring_entries, producers));
    }
    side.wakeup = core_wakeups[core];
    side.burst.resize(kBurst);
  }
  for (uint32_t index = 0; index < options.workers; ++index) {
    workers_.push_back(std::make_unique<Worker>(*this, index));
    for (uint32_t core = 0; core < options.cores; ++core) {
      cores_[core].requests.emplace_back(workers_[index]->ring(core), workers_[index]->wakeup());
    }
  }
}

WorkerPool::~WorkerPool() {
  stop();
  for (CoreSide& core : cores_) {
    for (const auto& outbox : core.requests) {
      for (const RequestItem& item : outbox.waiting()) {
        release_buffers(item.message());
      }
    }
    do {
      release(std::span(core.burst).subspan(core.burst_at, core.burst_size - core.burst_at));
    } while (take_events(core));
  }
}

void WorkerPool::set_backend(uint32_t backend, const std::string& name, bool from_client) {
  backends_[backend].name = name;
  backends_[backend].from_client = from_client;
  if (from_client) {
    source_ports_.set_from_client(backend);
  }
}

telemetry::WorkerStats WorkerPool::stats() const {
  telemetry::WorkerStats stats;
  for (const auto& worker : workers_) {
    worker->add_to(stats);
  }
  return stats;
}

void WorkerPool::start() {
  arenas_ = std::make_unique<Arenas>(options_.workers, options_.cpus);
  for (auto& worker : workers_) {
    std::atomic<uint32_t>& running = arenas_->loops_running;
    running.fetch_add(1);
    arenas_->io.enqueue([raw = worker.get(), &running] {
      // Reads what was added above: everything made before start() is visible here, to ThreadSanitizer too, which sees nothing of
      // how TBB hands tasks over.
      (void)running.load();
      raw->loop();
      running.fetch_sub(1);
    });
  }
}

void WorkerPool::stop() {
  if (arenas_ == nullptr) {
    return;
  }
  stop_.store(true);
  while (arenas_->loops_running.load() > 0 || arenas_->programs_running.load() > 0) {
    for (auto& worker : workers_) {
      worker->wakeup().wake();
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  arenas_.reset();
}

bool WorkerPool::submit(uint32_t core, gateway::BackendRequest& request) {
  Outbox<RequestItem>& outbox = cores_[core].requests[static_cast<uint32_t>(request.link.value()) % options_.workers];
  if (!outbox.has_room()) {
    return false;
  }
  outbox.put(RequestItem(request));
  return true;
}

void WorkerPool::kick(uint32_t core) {
  for (Outbox<RequestItem>& outbox : cores_[core].requests) {
    const bool all = outbox.publish();
    CW_ASSERT(all);  // submit() asked for room
  }
}

bool WorkerPool::poll(uint32_t core, gateway::BackendEvent& out) {
  CoreSide& side = cores_[core];
  if (side.burst_at == side.burst_size && !take_events(side)) {
    return false;
  }
  const EventItem& item = side.burst[side.burst_at++];
  out.kind = item.kind;
  out.backend = item.backend;
  out.link = item.link;
  out.call = item.call;
  out.message = Chain(item.message);
  return true;
}

// A burst of each ring in turn.
bool WorkerPool::take_events(CoreSide& side) {
  side.burst_at = 0;
  side.burst_size = 0;
  for (size_t looks = 0; looks < side.events.size() && side.burst_size == 0; ++looks) {
    side.burst_size = side.events[side.next_ring]->pop(side.burst);
    side.next_ring = side.next_ring + 1 < side.events.size() ? side.next_ring + 1 : 0;
  }
  return side.burst_size > 0;
}

bool WorkerPool::has_events(uint32_t core) const {
  const CoreSide& side = cores_[core];
  const auto holds_some = [](const auto& ring) { return !ring->empty(); };
  return side.burst_at < side.burst_size || std::any_of(side.events.begin(), side.events.end(), holds_some);
}

}  // namespace cw::dataplane
