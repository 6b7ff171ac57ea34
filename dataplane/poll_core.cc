#include "dataplane/poll_core.h"

#include "dataplane/assemble.h"
#include "dataplane/dpdk/eal.h"

namespace cw::dataplane {
namespace {

std::vector<wire::MacAddress> macs_of(std::span<const std::unique_ptr<Port>> ports) {
  std::vector<wire::MacAddress> macs;
  for (const std::unique_ptr<Port>& port : ports) {
    macs.push_back(port->mac());
  }
  return macs;
}

}  // namespace

std::vector<std::unique_ptr<PortQueue>> PollCore::open_queues(const PollShared& shared, const CoreShare& share) {
  std::vector<std::unique_ptr<PortQueue>> queues;
  for (const auto& port : shared.ports) {
    const uint16_t index = static_cast<uint16_t>(queues.size());
    queues.push_back(std::make_unique<PortQueue>(*port, index, share.index, *shared.mbufs, shared.exchange));
  }
  return queues;
}

PollCore::PollCore(const PollShared& shared, const CoreShare& share, Wakeup& wakeup)
    : lcore_(control::poll_cpus(shared.config)[share.index]),
      queues_(open_queues(shared, share)),
      node_(node_options(shared.config, macs_of(shared.ports), share, shared.qpn_key), entropy_, nullptr),
      transport_(roce_options(shared.config, share), node_, entropy_),
      tcp_(tcp_options(shared.config, share)),
      iwarp_(iwarp_options(shared.config, share), tcp_, shared.pools.packets(), entropy_),
      rdma_(rdma_options(shared.config, share), shared.pools.memory()),
      rnic_(rnic_options(shared.config, share), rdma_, shared.pools.packets(), entropy_),
      gateway_(gateway_options(shared.config, share, shared.quota, shared.client_quota, shared.rates,
                               shared.workers.source_ports(), shared.numbers),
               std::vector<verbs::Transport*>{&transport_, &iwarp_, &rnic_}, shared.pools.packets(), shared.pools.large(),
               shared.programs, entropy_),
      app_(share.index, gateway_, {transport_, iwarp_, tcp_, rnic_, rdma_}, node_, shared.workers, shared.exchange, queues_,
           shared.pools, wakeup),
      loop_(node_, queues_, shared.pools, clock_, app_, wakeup,
            {.spins = shared.config.dataplane.idle == control::IdleMode::kSpin, .yields = is_worker_cpu(lcore_)}) {
  tcp_.attach(iwarp_);
  app_.set_loop(&loop_);
  rdma_.attach(rnic_);
  if (shared.rdma_requests != nullptr && share.index < shared.rdma_requests->cores()) {
    rdma_.share_with(*shared.rdma_requests, share.index);
  }
  loop_.add_wire(tcp_);
  loop_.add_wire(rdma_);
  if (shared.exchange != nullptr) {
    loop_.share_with(share, static_cast<uint32_t>(shared.config.dataplane.poll_lcores.size()), *shared.exchange);
  }
}

void PollCore::announce() {
  for (uint16_t i = 0; i < queues_.size(); ++i) {
    node_.station(i).announce();
  }
}

}  // namespace cw::dataplane
