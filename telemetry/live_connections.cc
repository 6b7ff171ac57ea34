#include "telemetry/live_connections.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <unordered_set>
#include <utility>

namespace cw::telemetry {
namespace {

using control::ConnectionStatus;

// In order of ConnectionOrder.
constexpr std::array kOrders = {"rpcs",       "bytes", "retransmits", "in_flight", "credits",
                                "round_trip", "age",   "peer",        "listener",  "lcore"};

// Within a tenth of one another rates are equal: rows that do the same would change places every second otherwise.
double coarse(double rate) {
  return rate < 1 ? 0 : std::floor(std::log(rate) / std::log(1.1));
}

// What figures are ordered by; the rate where there is one, for totals tell of the past.
double figure(const LiveConnection& connection, ConnectionOrder order) {
  const ConnectionStatus& status = connection.status;
  const ConnectionRates rates = connection.rates.value_or(ConnectionRates{});
  switch (order) {
    case ConnectionOrder::kRpcs:
      return coarse(rates.rpcs_per_s);
    case ConnectionOrder::kBytes:
      return coarse(rates.bytes_in_per_s + rates.bytes_out_per_s);
    case ConnectionOrder::kRetransmits:
      return static_cast<double>(status.qp.traffic.retransmits);
    case ConnectionOrder::kInFlight:
      return status.calls_in_flight;
    case ConnectionOrder::kCredits:
      return status.credits_granted;
    case ConnectionOrder::kRoundTrip:
      return status.qp.traffic.round_trip.to_seconds();
    case ConnectionOrder::kAge:
      return status.age.to_seconds();
    case ConnectionOrder::kLcore:
      return -static_cast<double>(status.lcore);  // the first CPU first, where of other figures the largest is
    case ConnectionOrder::kPeer:
    case ConnectionOrder::kListener:
      return 0;
  }
  return 0;
}

// Shorter first, so that 10.0.0.9 comes before 10.0.0.10.
int compare_names(const std::string& a, const std::string& b) {
  return a.size() == b.size() ? a.compare(b) : (a.size() < b.size() ? -1 : 1);
}

// Negative: `a` comes first.
int compare(const LiveConnection& a, const LiveConnection& b, ConnectionOrder order) {
  if (order == ConnectionOrder::kPeer) {
    return compare_names(a.status.peer_address, b.status.peer_address);
  }
  if (order == ConnectionOrder::kListener) {
    return a.status.listener.compare(b.status.listener);
  }
  const double difference = figure(b, order) - figure(a, order);
  return difference < 0 ? -1 : (difference > 0 ? 1 : 0);
}

}  // namespace

const char* to_string(ConnectionOrder order) {
  return kOrders[static_cast<size_t>(order)];
}

std::optional<ConnectionOrder> connection_order_of(std::string_view name) {
  const auto found = std::ranges::find(kOrders, name);
  return found == kOrders.end() ? std::nullopt : std::optional(static_cast<ConnectionOrder>(found - kOrders.begin()));
}

// `before`: at the last look, `passed` ago; nullptr: there is nothing to compare with. A client that was forgotten in between has
// counted less.
LiveConnections::Activity LiveConnections::activity_of(const control::ActivityStatus& client, const Activity* before,
                                                       Duration passed) {
  Activity activity;
  activity.errors = client.use.errors;
  for (const control::ProcedureStatus& procedure : client.procedures) {
    activity.answered += procedure.calls;
    activity.spent = activity.spent + procedure.spent;
  }
  if (before == nullptr || before->errors > activity.errors || before->answered > activity.answered) {
    return activity;
  }
  activity.errors_per_s = static_cast<double>(activity.errors - before->errors) / passed.to_seconds();
  if (const uint64_t answered = activity.answered - before->answered; answered > 0) {
    activity.mean_seconds = (activity.spent - before->spent).to_seconds() / static_cast<double>(answered);
  }
  return activity;
}

void LiveConnections::update(Instant now, std::vector<ConnectionStatus> rows, std::span<const control::ActivityStatus> activity) {
  const Duration passed = now - last_look_;
  const bool comparable = !last_.empty() && passed > Duration() && passed <= kPauseMax;
  const auto rate = [&](uint64_t after, uint64_t before) {
    return after < before ? 0.0 : static_cast<double>(after - before) / passed.to_seconds();
  };
  connections_.clear();
  connections_.reserve(rows.size());
  std::unordered_map<uint64_t, Totals> totals;
  totals.reserve(rows.size());
  for (ConnectionStatus& row : rows) {
    LiveConnection& connection = connections_.emplace_back();
    const verbs::QueuePairTraffic traffic = row.qp.traffic;
    const auto before = last_.find(row.id);
    if (comparable && before != last_.end()) {
      connection.rates = {rate(row.rpcs, before->second.rpcs), rate(traffic.payload_bytes_in, before->second.bytes_in),
                          rate(traffic.payload_bytes_out, before->second.bytes_out),
                          rate(traffic.retransmits, before->second.retransmits)};
    }
    totals[row.id] = {row.rpcs, traffic.payload_bytes_in, traffic.payload_bytes_out, traffic.retransmits};
    connection.status = std::move(row);
  }
  std::unordered_set<std::string_view> clients;
  for (const LiveConnection& connection : connections_) {
    clients.insert(connection.status.peer_address);
  }
  client_count_ = static_cast<uint32_t>(clients.size());
  Activities activities;
  for (const control::ActivityStatus& client : activity) {
    const auto before = activities_.find(client.client);
    const bool is_known = comparable && before != activities_.end();
    activities.emplace(client.client, activity_of(client, is_known ? &before->second : nullptr, passed));
  }
  activities_ = std::move(activities);
  last_ = std::move(totals);
  last_look_ = now;
}

std::vector<ClientSum> LiveConnections::busiest_clients(uint32_t limit) const {
  std::unordered_map<std::string_view, ClientSum> by_address;
  for (const LiveConnection& connection : connections_) {
    const ConnectionStatus& status = connection.status;
    ClientSum& sum = by_address[status.peer_address];
    const ConnectionRates rates = connection.rates.value_or(ConnectionRates{});
    sum.address = status.peer_address;
    ++sum.connections;
    sum.calls_in_flight += status.calls_in_flight;
    sum.credits_granted += status.credits_granted;
    sum.rpcs += status.rpcs;
    sum.retransmits += status.qp.traffic.retransmits;
    sum.rates.rpcs_per_s += rates.rpcs_per_s;
    sum.rates.bytes_in_per_s += rates.bytes_in_per_s;
    sum.rates.bytes_out_per_s += rates.bytes_out_per_s;
    sum.rates.retransmits_per_s += rates.retransmits_per_s;
    sum.round_trip = std::max(sum.round_trip, status.qp.traffic.round_trip);
  }
  std::vector<ClientSum> sums;
  sums.reserve(by_address.size());
  for (auto& [address, sum] : by_address) {
    sums.push_back(std::move(sum));
  }
  const auto comes_first = [](const ClientSum& a, const ClientSum& b) {
    const double busier = coarse(a.rates.rpcs_per_s) - coarse(b.rates.rpcs_per_s);
    return busier != 0                      ? busier > 0
           : a.connections != b.connections ? a.connections > b.connections
                                            : compare_names(a.address, b.address) < 0;
  };
  const size_t count = std::min<size_t>(limit, sums.size());
  std::partial_sort(sums.begin(), sums.begin() + static_cast<std::ptrdiff_t>(count), sums.end(), comes_first);
  sums.resize(count);
  for (ClientSum& sum : sums) {
    if (const auto found = activities_.find(sum.address); found != activities_.end()) {
      sum.errors = found->second.errors;
      sum.errors_per_s = found->second.errors_per_s;
      sum.mean_seconds = found->second.mean_seconds;
    }
  }
  return sums;
}

std::vector<const LiveConnection*> LiveConnections::first(uint32_t limit, ConnectionOrder order, bool reversed) const {
  std::vector<const LiveConnection*> all;
  all.reserve(connections_.size());
  for (const LiveConnection& connection : connections_) {
    all.push_back(&connection);
  }
  const auto comes_first = [&](const LiveConnection* a, const LiveConnection* b) {
    const int compared = reversed ? compare(*b, *a, order) : compare(*a, *b, order);
    return compared != 0 ? compared < 0 : a->status.id < b->status.id;
  };
  const size_t count = std::min<size_t>(limit, all.size());
  std::partial_sort(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(count), all.end(), comes_first);
  all.resize(count);
  return all;
}

}  // namespace cw::telemetry
