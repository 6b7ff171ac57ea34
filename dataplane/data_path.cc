#include "dataplane/data_path.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "control/doctor/interface_queues.h"
#include "dataplane/assemble.h"
#include "dataplane/cpus.h"
#include "dataplane/dpdk/eal.h"
#include "dataplane/entropy.h"
#include "dataplane/host_key.h"
#include "dataplane/rnic/rdma_core.h"
#include "dataplane/sockets/backend_stream.h"
#include "telemetry/log.h"

namespace cw::dataplane {
namespace {

// How packets reach their core, and what is particular about a port that is shared with the kernel.
void say_port(const control::Config& config, const control::PortConfig& settings, const Port& port) {
  if (port.steering() == PortSteering::kFlow) {
    telemetry::log_info("port '{}': rules of the driver {} give each of {} queues the packets of its core's queue pairs",
                        settings.device, port.driver(), port.queues());
  } else if (!port.steering_refusal().empty()) {
    telemetry::log_info(
        "port '{}': the driver {} takes no rules by queue pair number ({}): packets {}, "
        "and cores hand over what is another one's",
        settings.device, port.driver(), port.steering_refusal(),
        port.steering() == PortSteering::kRss ? fmt::format("are dealt to {} queues by RSS", port.queues())
                                              : "all come to the first queue, since it has no RSS either");
  }
  if (!settings.beside_kernel && settings.exception_tap.empty()) {
    return;
  }
  std::string addresses;
  for (const control::IpPrefix& prefix : settings.addresses) {
    addresses += (addresses.empty() ? "" : ", ") + control::to_string(prefix.address);
  }
  telemetry::log_info("port '{}': takes UDP 4791 to {}; the kernel {}. RoCE packets carry {} bytes", settings.device, addresses,
                      settings.beside_kernel ? "keeps the rest" : "has the rest by " + settings.exception_tap,
                      control::path_mtu_for(settings.mtu, config.roce.path_mtu_max));
  if (const uint32_t there = control::doctor::receive_queues_of(port.interface());
      control::is_af_xdp(settings.device) && there > port.queues()) {
    telemetry::log_warning(
        "port '{}': {} has {} receive queues and the gateway reads {}: RoCE packets on the others are lost. {}", settings.device,
        port.interface(), there, port.queues(), control::doctor::queue_fix(port.interface(), port.queues()));
  }
}

}  // namespace

std::unique_ptr<DataPath> DataPath::create(const control::Config& config, const control::Notifier& notifier, bool verbose,
                                           const HandedOver* before, std::string& problem) {
  std::unique_ptr<DataPath> path(new DataPath(config));
  if (!path->open_ports(notifier, verbose, problem) || !path->make_workers(problem) || !path->make_cores(before, problem)) {
    return nullptr;
  }
  return path;
}

bool DataPath::open_ports(const control::Notifier& notifier, bool verbose, std::string& problem) {
  if (!control::needs_dpdk(config_)) {
    if (!choose_cpus(cpu_settings(config_), problem)) {
      return false;
    }
    heap_ = std::make_unique<HeapPools>(control::pool_sizes(config_));
    pools_ = heap_.get();
    return true;
  }
  (void)notifier.status("starting DPDK");
  EalSettings eal = eal_settings(config_);
  eal.verbose = verbose;
  if (!start_eal(eal, problem)) {
    return false;
  }
  mbufs_ = MbufPools::create(control::pool_sizes(config_), problem);
  if (mbufs_ == nullptr) {
    return false;
  }
  pools_ = mbufs_.get();
  for (const control::PortConfig& settings : config_.ports) {
    std::unique_ptr<Port> port = Port::open(port_settings(config_, settings), *mbufs_, problem);
    if (port == nullptr) {
      return false;
    }
    say_port(config_, settings, *port);
    ports_.push_back(std::move(port));
  }
  return true;
}

bool DataPath::make_workers(std::string& problem) {
  const auto borrows = std::ranges::find(config_.backends, control::SourceKind::kClient, &control::BackendConfig::source);
  if (borrows != config_.backends.end() && !BackendStream::may_borrow()) {
    problem = "backend '" + borrows->name +
              "': source = \"client\" connects from addresses that are not this host's, which takes CAP_NET_RAW; "
              "give it to the process (deploy/systemd/drop-ins/source-client.conf), or use source = \"gateway\"";
    return false;
  }
  (void)programs_.add(bench_);
  wakeups_ = std::make_unique<Wakeup[]>(core_count());
  std::vector<Wakeup*> wakeup_list;
  for (uint32_t i = 0; i < core_count(); ++i) {
    wakeup_list.push_back(&wakeups_[i]);
  }
  WorkerPoolOptions options = worker_options(config_);
  options.cpus = worker_cpus();
  options.port_key = host_key();
  options.yields = std::ranges::any_of(control::poll_cpus(config_), is_worker_cpu);
  workers_ =
      std::make_unique<WorkerPool>(options, rpcrdma::ReplyPools{pools_->packets(), pools_->large()}, programs_, wakeup_list);
  exchange_ = core_count() > 1 ? std::make_unique<CoreExchange>(wakeup_list) : nullptr;
  const auto of_all_wires = static_cast<uint32_t>(config_.dataplane.poll_lcores.size());
  rdma_requests_ = of_all_wires > 1 ? std::make_unique<RequestDealer>(of_all_wires) : nullptr;
  return true;
}

// A typing error, or what is not installed, is said before anybody listens.
bool DataPath::has_rdma(std::string& problem) const {
  for (const control::ListenerConfig& listener : config_.listeners) {
    if (listener.transport == control::TransportKind::kVerbs) {
      problem = rdma_problem(listener.device, listener.address);
      if (!problem.empty()) {
        problem.insert(0, "listener '" + listener.name + "': ");
        return false;
      }
    }
  }
  return true;
}

uint32_t DataPath::take_over(const HandedOver& before) {
  uint32_t count = 0;
  if (before.cores.size() == cores_.size()) {
    for (size_t i = 0; i < cores_.size(); ++i) {
      count += apps_[i]->take_over(cores_[i]->now(), before.cores[i]);
    }
  }
  return count;
}

HandedOver DataPath::take_handed_over() {
  HandedOver out{.qpn_key = qpn_key_, .cores = {}};
  for (GatewayApp* app : apps_) {
    out.cores.push_back(app->take_handed_over());
  }
  return out;
}

bool DataPath::make_cores(const HandedOver* before, std::string& problem) {
  if (!has_rdma(problem)) {
    return false;
  }
  numbers_.add(config_);
  quota_ = connection_quota(config_, numbers_);
  client_quota_ = dataplane::client_quota(config_, numbers_);
  set_rates(config_, numbers_, rates());
  qpn_key_ = before != nullptr ? before->qpn_key : Entropy().next_u64() | 1;
  const PollShared shared{.config = config_,
                          .ports = ports_,
                          .pools = *pools_,
                          .mbufs = mbufs_.get(),
                          .workers = *workers_,
                          .programs = programs_,
                          .quota = *quota_,
                          .client_quota = *client_quota_,
                          .rates = rates(),
                          .numbers = numbers_,
                          .exchange = exchange_.get(),
                          .rdma_requests = rdma_requests_.get(),
                          .qpn_key = qpn_key_};
  for (uint32_t i = 0; i < core_count(); ++i) {
    cores_.push_back(std::make_unique<PollCore>(shared, CoreShare{i, core_count()}, wakeups_[i]));
    apps_.push_back(&cores_.back()->app());
    if (const Status listening = cores_.back()->listen(); !listening.ok()) {
      problem = listening.error() == Error::kLimit
                    ? "too many listeners"
                    : "a listener could not take its address and port: causewayctl doctor says what is in the way";
      return false;
    }
  }
  return true;
}

}  // namespace cw::dataplane
