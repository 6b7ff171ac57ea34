#include "gateway/admission.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "gateway/client_classes.h"

namespace cw::gateway {
namespace {

std::unique_ptr<ConnectionQuota> own_quota(const GatewayOptions& options) {
  if (options.quota != nullptr) {
    return nullptr;
  }
  std::vector<uint32_t> per_listener(kListenerIdsMax);
  std::ranges::transform(options.listeners, per_listener.begin(), &ListenerOptions::connections_max);
  return std::make_unique<LocalQuota>(options.connections_max, per_listener);
}

std::unique_ptr<ConnectionQuota> own_client_quota(const GatewayOptions& options) {
  if (options.client_quota != nullptr) {
    return nullptr;
  }
  std::vector<uint32_t> per_class(kClientIdsMax);
  std::ranges::transform(options.clients, per_class.begin(), &ClientClassOptions::connections_max);
  return std::make_unique<LocalQuota>(UINT32_MAX, per_class);
}

}  // namespace

Admission::Admission(const GatewayOptions& options, GatewayStats& stats)
    : stats_(stats),
      clients_(options.clients),
      own_rates_(options.rates == nullptr ? std::make_unique<OwnedRates<LocalRateLimiter, rpcrdma::LocalRateShares>>() : nullptr),
      rates_(options.rates == nullptr ? own_rates_->rates() : *options.rates),
      lines_(rates_.listeners, rates_.clients, *rates_.shares),
      budgets_(kClientIdsMax),
      own_quota_(own_quota(options)),
      quota_(options.quota == nullptr ? *own_quota_ : *options.quota),
      own_client_quota_(own_client_quota(options)),
      client_quota_(options.client_quota == nullptr ? *own_client_quota_ : *options.client_quota) {
  CW_ASSERT(clients_.size() <= kClientIdsMax);
  clients_.reserve(kClientIdsMax);
  for (size_t i = 0; i < clients_.size(); ++i) {
    budgets_[i].bytes_max = clients_[i].bytes_in_flight_max;
  }
  set_own_rates(options.listeners);
  set_weights();
}

std::optional<uint32_t> Admission::class_of(const IpAddress& address) const {
  return gateway::class_of(clients_, address);
}

std::optional<ConnectionResult> Admission::lack_of_place(uint32_t listener, std::optional<uint32_t> client_class,
                                                         const Connection* rival) const {
  const bool frees_place = rival != nullptr && rival->has_place;
  if (!frees_place && !quota_.has_room(listener)) {
    return ConnectionResult::kRefusedLimit;
  }
  if (client_class && !(frees_place && rival->client_class == client_class) && !client_quota_.has_room(*client_class)) {
    return ConnectionResult::kRefusedClientLimit;
  }
  return std::nullopt;
}

std::optional<ConnectionResult> Admission::take_place(Connection& connection) {
  if (!quota_.take(connection.listener_index)) {
    return ConnectionResult::kRefusedLimit;
  }
  if (connection.client_class && !client_quota_.take(*connection.client_class)) {
    quota_.give_back(connection.listener_index);
    return ConnectionResult::kRefusedClientLimit;
  }
  connection.has_place = true;
  ++stats_.connections_open;
  if (connection.client_class) {
    ++stats_.clients[*connection.client_class].connections;
  }
  return std::nullopt;
}

void Admission::give_place_back(const Connection& connection) {
  quota_.give_back(connection.listener_index);
  --stats_.connections_open;
  if (connection.client_class) {
    client_quota_.give_back(*connection.client_class);
    --stats_.clients[*connection.client_class].connections;
  }
}

void Admission::count_refusal(ConnectionResult result, std::optional<uint32_t> client_class) {
  if (result == ConnectionResult::kRefusedClientDenied) {
    ++stats_.clients[*client_class].refused_denied;
  } else if (result == ConnectionResult::kRefusedClientLimit) {
    ++stats_.clients[*client_class].refused_limit;
  }
}

// Of what is removed they stay as they were.
void Admission::set_own_rates(const std::vector<ListenerOptions>& listeners) {
  listener_count_ = static_cast<uint32_t>(listeners.size());
  if (own_rates_ == nullptr) {
    return;
  }
  for (size_t i = 0; i < listeners.size(); ++i) {
    if (!listeners[i].removed) {
      rates_.listeners[i].set(listeners[i].calls_per_second, listeners[i].bytes_per_second);
    }
  }
  for (size_t i = 0; i < clients_.size(); ++i) {
    rates_.clients[i].set(clients_[i].calls_per_second, clients_[i].bytes_per_second);
  }
}

void Admission::set_weights() {
  for (uint32_t i = 0; i < clients_.size(); ++i) {
    lines_.set_weight(i, clients_[i].weight);
  }
}

void Admission::fold_budgets() {
  for (size_t i = 0; i < clients_.size(); ++i) {
    stats_.clients[i].bytes_in_flight = budgets_[i].bytes_in_use;
    stats_.clients[i].calls_postponed = budgets_[i].calls_postponed;
    stats_.clients[i].credits_granted = budgets_[i].credits_granted;
    stats_.clients[i].credits_in_use = budgets_[i].credits_in_use;
  }
  for (uint32_t i = 0; i < listener_count_; ++i) {
    stats_.listeners[i].calls_postponed = lines_.calls_postponed(i);
  }
}

void Admission::reconfigure(std::vector<ClientClassOptions>& fresh, const std::vector<ListenerOptions>& listeners) {
  for (uint32_t i = 0; own_quota_ != nullptr && i < listeners.size(); ++i) {
    if (!listeners[i].removed) {
      own_quota_->set_max(i, listeners[i].connections_max);
    }
  }
  CW_ASSERT(fresh.size() >= clients_.size() && fresh.size() <= kClientIdsMax);
  clients_.resize(fresh.size());  // reserved at the start
  for (size_t i = 0; i < fresh.size(); ++i) {
    ClientClassOptions& clients = clients_[i];
    if (fresh[i].prefixes.empty()) {
      std::swap(clients.prefixes, fresh[i].prefixes);  // connections that count in it keep its budget
      continue;
    }
    std::swap(clients, fresh[i]);
    budgets_[i].bytes_max = clients.bytes_in_flight_max;
    if (own_client_quota_ != nullptr) {
      own_client_quota_->set_max(static_cast<uint32_t>(i), clients.connections_max);
    }
  }
  set_own_rates(listeners);
  set_weights();
  lines_.reconfigure();
}

}  // namespace cw::gateway
