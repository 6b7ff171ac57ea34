// The workers: threads of a TBB arena that own the backend sockets, and a second arena that runs built-in programs which may
// take long.
//
//   poll core --(one ring per core and worker)--> worker: opens, sends, closes
//   worker --(one ring per worker and core)--> poll core      built-in programs --(one ring per core)--> poll core
//
// A backend connection belongs to one worker for life (by its LinkId), so that no socket needs a lock. Messages cross the
// rings as values; their buffers change owner with them. Both sides publish once per burst (outbox.h). When a ring is full the
// sender keeps what it has and stops taking more: workers stop reading sockets, poll cores stop taking calls from clients.
//
// Memory for replies is shared by all backends. A reply is admitted for all of its bytes before it is read, one in fragments for
// those announced, or its socket is not read until there is memory (rpcrdma::RecordAdmission); one that has begun and does not go
// on costs its connection.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "dataplane/handoff_items.h"
#include "dataplane/outbox.h"
#include "dataplane/shared_record_budget.h"
#include "dataplane/shared_source_ports.h"
#include "dataplane/sockets/backend_stream.h"
#include "dataplane/value_ring.h"
#include "dataplane/wakeup.h"
#include "gateway/backend_link.h"
#include "gateway/gateway_stats.h"
#include "rpcrdma/backend/backend.h"
#include "telemetry/core_snapshot.h"

namespace cw::dataplane {

struct WorkerPoolOptions {
  uint32_t workers = 1;
  uint32_t cores = 1;            // poll cores
  uint32_t ring_entries = 4096;  // per direction
  bool spin = false;             // never sleep while connected to a backend
  bool yields = false;           // a poll core has one of their CPUs: idle turns leave it to whoever waits
  std::vector<uint32_t> cpus;    // that the threads may run on; empty: those of the thread that calls start()
  std::vector<std::vector<control::SocketAddress>> backends;  // by backend, its servers by number; built-in ones have none
  std::vector<std::string> names;                             // of the backends, for the log; empty: their addresses
  std::vector<bool> from_client;                              // by backend: connect from the client's address; empty: from none
  uint64_t port_key = 0;                                      // of source ports (gateway::PortBook)
  rpcrdma::RecordLimits limits;
  uint32_t reply_buffers = UINT32_MAX;      // that `pools.large` has
  uint32_t reply_buffers_min = UINT32_MAX;  // of these, enough for the longest reply (control::large_buffers_min)
};

class WorkerPool {
 public:
  // `core_wakeups[i]` wakes poll core i. `pools` serve replies. `programs` may be used by several threads at once.
  WorkerPool(const WorkerPoolOptions& options, rpcrdma::ReplyPools pools, rpcrdma::ProgramRegistry& programs,
             std::vector<Wakeup*> core_wakeups);
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  void start();
  // Closes all backend connections and joins. Requests still in rings are given back.
  void stop();

  // Any thread, while no poll core knows of a backend of this number, or of a server of it: what it is, from its first kOpen on.
  // Such an order comes to a worker through a ring, behind what is written here.
  void set_backend(uint32_t backend, const std::string& name, bool from_client);
  // Where the gateways of all cores take the ports of their backend connections from.
  [[nodiscard]] gateway::SourcePorts& source_ports() { return source_ports_; }
  // Any thread: among so many backends the memory for replies is shared.
  void set_backend_count(uint32_t count) { replies_.set_sources(std::max(count, 1u)); }
  void set_server(uint32_t backend, uint32_t number, const control::SocketAddress& address) {
    backends_[backend].servers[number] = address;
  }

  // Poll core `core`. False, and `request` untouched, when the worker's ring has no room. What was taken goes with the next
  // kick(), or before.
  [[nodiscard]] bool submit(uint32_t core, gateway::BackendRequest& request);
  // Poll core, at the end of a burst: gives the workers what they have not got yet, and wakes them.
  void kick(uint32_t core);
  [[nodiscard]] bool poll(uint32_t core, gateway::BackendEvent& out);
  [[nodiscard]] bool has_events(uint32_t core) const;
  // Any thread.
  [[nodiscard]] telemetry::WorkerStats stats() const;

 private:
  class Worker;
  struct Arenas;
  // One per poll core. Workers look at the first members only.
  struct CoreSide {
    // One per worker, and one that built-in programs share.
    std::vector<std::unique_ptr<ValueRing<EventItem>>> events;
    Wakeup* wakeup = nullptr;
    alignas(RTE_CACHE_LINE_SIZE) std::vector<Outbox<RequestItem>> requests;  // by worker
    std::vector<EventItem> burst;
    uint32_t burst_size = 0;
    uint32_t burst_at = 0;
    uint32_t next_ring = 0;  // of events: the one that the next burst is looked for in first
  };
  [[nodiscard]] static bool take_events(CoreSide& side);

  struct Backend {
    std::string name;
    bool from_client = false;
    std::array<control::SocketAddress, gateway::kBackendServersMax> servers;
  };

  WorkerPoolOptions options_;
  std::vector<Backend> backends_;  // by number, with room for all that there may be: none moves when others come
  const rpcrdma::ReplyPools pools_;
  SharedRecordBudget replies_;
  SharedSourcePorts source_ports_;
  PortsHeld ports_held_;
  rpcrdma::ProgramRegistry& programs_;
  std::vector<CoreSide> cores_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::unique_ptr<Arenas> arenas_;
  std::atomic<bool> stop_{false};
};

}  // namespace cw::dataplane
