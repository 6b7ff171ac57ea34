#include "gateway/backends.h"

#include <utility>

#include "base/assert.h"

namespace cw::gateway {
namespace {

// How long a backend that could not be reached counts as down.
constexpr Duration kRetryBackend = Duration::seconds(1);

}  // namespace

Backends::Backends(const std::vector<BackendOptions>& options, GatewayStats& stats, CoreMails& mails)
    : stats_(stats), mails_(mails), options_(options), down_until_(kBackendIdsMax), shares_(kBackendIdsMax + 1) {
  CW_ASSERT(options_.size() <= kBackendIdsMax);
  options_.reserve(kBackendIdsMax);
  servers_.reserve(kBackendIdsMax);
  for (size_t i = 0; i < options_.size(); ++i) {
    stats_.backends[i].up = options_[i].kind == BackendKind::kBuiltin ? 1 : 0;
    servers_.emplace_back(options_[i].servers);
  }
}

// A client's connection could not be made. Its own address may be why (a firewall, no way back to it), and then it comes again
// for ever: such a failure closes the backend to nobody else. Two clients that fail would prove no more, since one host may have
// many addresses.
bool Backends::speaks_for_all(uint32_t backend) const {
  const BackendOptions& options = options_[backend];
  return !options.from_client && !(options.checked && servers_[backend].any_up());
}

void Backends::note(Instant now, uint32_t backend, bool up) {
  if (up) {
    down_until_[backend] = Instant();
  } else if (speaks_for_all(backend)) {
    down_until_[backend] = now + kRetryBackend;
  }
  if (options_[backend].checked || options_[backend].removed) {
    return;  // that is for the checks to say, or for nobody
  }
  const uint64_t value = up ? 1 : 0;
  if (stats_.backends[backend].up != value) {
    stats_.backends[backend].up = value;
    mails_.tell_others({.kind = CoreMessage::Kind::kBackendUp, .index = backend, .value = static_cast<uint32_t>(value)});
  }
}

void Backends::on_told(Instant now, uint32_t backend, bool up) {
  if (backend < options_.size() && options_[backend].removed) {
    return;
  }
  stats_.backends[backend].up = up ? 1 : 0;
  if (up || (backend < options_.size() && speaks_for_all(backend))) {
    down_until_[backend] = up ? Instant() : now + kRetryBackend;
  }
}

void Backends::on_server_state(Instant now, uint32_t backend, uint32_t server, control::ServerState state) {
  if (backend >= servers_.size()) {
    return;  // of a reload that this core has not taken
  }
  servers_[backend].set(server, state);
  if (options_[backend].checked) {
    judge_by_checks(backend);
    down_until_[backend] = servers_[backend].any_up() ? Instant() : now + kRetryBackend;
  }
}

void Backends::judge_by_checks(uint32_t backend) {
  const ServerChoice& servers = servers_[backend];
  stats_.backends[backend].up = servers.any_up() ? 1 : 0;
  stats_.backends[backend].checked = servers.is_checked() ? 1 : 0;
}

void Backends::reconfigure(std::vector<BackendOptions>& fresh) {
  CW_ASSERT(fresh.size() >= options_.size() && fresh.size() <= kBackendIdsMax);
  for (uint32_t i = 0; i < fresh.size(); ++i) {
    const bool is_new = i == options_.size();
    if (is_new) {  // there is room, since the start
      options_.emplace_back();
      servers_.emplace_back(std::vector<uint32_t>());
    }
    BackendOptions& backend = options_[i];
    BackendStats& stats = stats_.backends[i];
    down_until_[i] = Instant();  // its servers may be others
    if (is_new || backend.removed != fresh[i].removed) {
      stats.up = 0;
      stats.checked = 0;
      stats.forgotten_failures = stats.open_failures;
    }
    if (fresh[i].removed && !is_new) {
      backend.removed = true;  // connections from before go on with what they have
      backend.checked = false;
      continue;
    }
    servers_[i].exchange(fresh[i].servers);
    std::swap(backend, fresh[i]);
    if (backend.kind == BackendKind::kBuiltin) {
      stats.up = backend.removed ? 0 : 1;
    } else if (!backend.checked) {
      stats.checked = 0;
    } else if (servers_[i].is_checked()) {
      judge_by_checks(i);
    }
  }
}

}  // namespace cw::gateway
