#include "dataplane/management.h"

#include <chrono>
#include <memory>
#include <utility>
#include <vector>

#include "control/admin/admin_peer.h"
#include "dataplane/metric_sources.h"
#include "dataplane/monotonic_clock.h"

namespace cw::dataplane {
namespace {

int64_t unix_now_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::vector<PollCore*> cores_of(DataPath& path) {
  std::vector<PollCore*> cores;
  for (const auto& core : path.cores()) {
    cores.push_back(core.get());
  }
  return cores;
}

}  // namespace

Management::Page::Page(telemetry::Collector& collector, LiveView& view, bool on)
    : history(collector.sources(), unix_now_ms(), monotonic_now()),
      recorder(collector, history, on),
      page(collector, history, view) {
  page.set_on(on);
}

Management::Management(const Settings& settings, DataPath& path, const control::Notifier& notifier)
    : config_(settings.config),
      checks_(config_.backends, path.numbers(), static_cast<uint32_t>(path.apps().size()),
              [&path](uint32_t core, const gateway::CoreMessage& message) { return path.apps()[core]->tell(message); }),
      collector_(metric_sources(config_, settings.version.c_str(), path.apps(), path.ports(), flags_, checks_, path.numbers(),
                                web_refusals_)),
      view_(config_, settings.version, path.apps(), collector_, path.ports(), flags_, checks_, path.numbers()),
      page_(config_.metrics.listen ? std::make_unique<Page>(collector_, view_, config_.metrics.page) : nullptr),
      drain_(path.apps(), flags_),
      trouble_(path.ports(), path.pools()),
      changes_({.apps = path.apps(),
                .workers = path.workers(),
                .quota = path.quota(),
                .client_quota = path.client_quota(),
                .rates = path.rates(),
                .numbers = path.numbers(),
                .checks = checks_,
                .view = view_,
                .collector = collector_,
                .page = page_ != nullptr ? &page_->page : nullptr,
                .recorder = page_ != nullptr ? &page_->recorder : nullptr}),
      control_thread_(settings.file_config, settings.config_path, settings.successor, path.apps(), flags_, notifier, drain_,
                      trouble_, changes_, collector_),
      capture_(cores_of(path), !path.ports().empty()),
      live_control_(control_thread_, drain_, capture_),
      recorder_(settings.recorder) {
  const bool hugepages = control::needs_dpdk(config_) && config_.dataplane.hugepages;
  flags_.config_last_reload_unix_s.store(unix_now_ms() / 1000);
  flags_.hugepage_bytes.store(hugepages ? uint64_t{config_.dataplane.memory_mb} << 20 : 0);
  collector_.tell_addresses(view_, config_.metrics.addresses_max);
  if (config_.metrics.dpdk_telemetry) {
    telemetry_commands_.emplace(collector_, settings.version);
  }
}

bool Management::listen(std::string& problem) {
  const std::optional<control::AdminPolicy> policy = control::resolve_policy(config_.admin, problem);
  if (!policy) {
    return false;
  }
  admin_ = control::AdminServer::start(admin_socket(), *policy, {view_, live_control_}, problem);
  if (admin_ == nullptr) {
    return false;
  }
  if (config_.metrics.listen) {
    metrics_ = telemetry::MetricsServer::start({.listen = *config_.metrics.listen,
                                                .page = &page_->page,
                                                .web_config = config_.metrics.web_config,
                                                .refusals = &web_refusals_},
                                               collector_, collector_, problem);
    return metrics_ != nullptr;
  }
  return true;
}

void Management::start() {
  checks_.start();
  flags_.listening.store(true);
  if (recorder_ != nullptr) {
    recorder_->put_modules();  // drivers have been loaded
    state_recorder_.emplace(*recorder_, control::AdminTarget{view_, live_control_});
  }
}

std::optional<control::SocketAddress> Management::metrics_address() const {
  return metrics_ != nullptr ? std::optional(metrics_->address()) : std::nullopt;
}

}  // namespace cw::dataplane
