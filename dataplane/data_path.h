// What serves clients: DPDK and its ports where the configuration has any, buffers, workers, and poll cores that listen. Built
// from top to bottom by the main thread; no poll core runs before run_cores() (core_threads.h).
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "control/config/config.h"
#include "control/service/notifier.h"
#include "dataplane/buffer_pools.h"
#include "dataplane/core_exchange.h"
#include "dataplane/dpdk/mbuf_pool.h"
#include "dataplane/dpdk/port.h"
#include "dataplane/gateway_app.h"
#include "dataplane/handed_over.h"
#include "dataplane/heap_pools.h"
#include "dataplane/poll_core.h"
#include "dataplane/shared_rate_limiter.h"
#include "dataplane/shared_rate_shares.h"
#include "dataplane/wakeup.h"
#include "dataplane/worker_pool.h"
#include "gateway/config_ids.h"
#include "gateway/connection_quota.h"
#include "rpcrdma/backend/bench_program.h"

namespace cw::dataplane {

class DataPath {
 public:
  // `config` outlives it, with the addresses of the kernel filled in. `verbose`: DPDK's own messages are shown. Null, and one
  // sentence in `problem`, when something is missing. The log has been started. Once started, DPDK runs until stop_eal().
  // `before`: what the process before has left; nullptr: there was none.
  [[nodiscard]] static std::unique_ptr<DataPath> create(const control::Config& config, const control::Notifier& notifier,
                                                        bool verbose, const HandedOver* before, std::string& problem);

  // Before run_cores(): the connections of the process before go on. How many do.
  uint32_t take_over(const HandedOver& before);
  // Behind run_cores(): the process ends.
  void keep_memory_until_exit() {
    if (mbufs_ != nullptr) {
      mbufs_->keep_until_exit();
    }
  }
  // Likewise: those that the next process gets.
  [[nodiscard]] HandedOver take_handed_over();

  [[nodiscard]] std::span<const std::unique_ptr<PollCore>> cores() const { return cores_; }
  [[nodiscard]] const std::vector<GatewayApp*>& apps() const { return apps_; }
  [[nodiscard]] const std::vector<std::unique_ptr<Port>>& ports() const { return ports_; }
  [[nodiscard]] BufferPools& pools() { return *pools_; }
  [[nodiscard]] WorkerPool& workers() { return *workers_; }
  [[nodiscard]] gateway::ConnectionQuota& quota() { return *quota_; }
  [[nodiscard]] gateway::ConnectionQuota& client_quota() { return *client_quota_; }
  [[nodiscard]] const gateway::Rates& rates() { return rates_.rates(); }
  [[nodiscard]] gateway::ConfigIds& numbers() { return numbers_; }

 private:
  explicit DataPath(const control::Config& config) : config_(config) {}

  [[nodiscard]] bool open_ports(const control::Notifier& notifier, bool verbose, std::string& problem);
  [[nodiscard]] bool make_workers(std::string& problem);
  [[nodiscard]] bool has_rdma(std::string& problem) const;
  [[nodiscard]] bool make_cores(const HandedOver* before, std::string& problem);
  [[nodiscard]] uint32_t core_count() const { return control::poll_core_count(config_); }

  // In the order in which one is made of the other.
  const control::Config& config_;
  std::unique_ptr<MbufPools> mbufs_;  // with ports
  std::unique_ptr<HeapPools> heap_;   // without: no hugepages, no device, nothing that takes root
  BufferPools* pools_ = nullptr;      // the one of the two that is there
  std::vector<std::unique_ptr<Port>> ports_;
  rpcrdma::BenchProgram bench_;
  rpcrdma::ProgramRegistry programs_;
  std::unique_ptr<Wakeup[]> wakeups_;  // one for each core
  std::unique_ptr<WorkerPool> workers_;
  std::unique_ptr<CoreExchange> exchange_;        // between several cores
  std::unique_ptr<RequestDealer> rdma_requests_;  // likewise: those that do not serve iWARP alone
  gateway::ConfigIds numbers_;
  uint64_t qpn_key_ = 0;
  std::unique_ptr<gateway::ConnectionQuota> quota_;
  std::unique_ptr<gateway::ConnectionQuota> client_quota_;
  gateway::OwnedRates<SharedRateLimiter, SharedRateShares> rates_;
  std::vector<std::unique_ptr<PollCore>> cores_;
  std::vector<GatewayApp*> apps_;  // of cores_, in their order
};

}  // namespace cw::dataplane
