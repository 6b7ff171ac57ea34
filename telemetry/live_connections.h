// The connections as the live page shows them: rates from two looks, the first few by some order. Pure; whoever has the rows
// brings them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/time.h"
#include "control/admin/gateway_view.h"

namespace cw::telemetry {

enum class ConnectionOrder : uint8_t {
  kRpcs,
  kBytes,
  kRetransmits,
  kInFlight,
  kCredits,
  kRoundTrip,
  kAge,
  kPeer,
  kListener,
  kLcore
};
[[nodiscard]] std::optional<ConnectionOrder> connection_order_of(std::string_view name);
[[nodiscard]] const char* to_string(ConnectionOrder order);

// Absent: there is no earlier look at this connection to compare with.
struct ConnectionRates {
  double rpcs_per_s = 0;
  double bytes_in_per_s = 0;
  double bytes_out_per_s = 0;
  double retransmits_per_s = 0;
};

struct LiveConnection {
  control::ConnectionStatus status;
  std::optional<ConnectionRates> rates;
};

// All connections of one client address together, and how its calls ended: those of connections that are over, too.
struct ClientSum {
  std::string address;
  uint32_t connections = 0;
  uint32_t calls_in_flight = 0;
  uint32_t credits_granted = 0;
  uint64_t rpcs = 0;
  uint64_t retransmits = 0;
  ConnectionRates rates;  // of those that have any
  Duration round_trip;    // the longest
  uint64_t errors = 0;    // replies that refuse a call, and calls that were lost with their connection
  // Between the last two looks. A mean: from a call's SEND to that of its reply; absent: none was answered.
  std::optional<double> errors_per_s;
  std::optional<double> mean_seconds;
};

class LiveConnections {
 public:
  // Rates are over the time between two looks; after a longer pause there are none.
  static constexpr Duration kPauseMax = Duration::seconds(10);

  // Takes the place of the rows before.
  void update(Instant now, std::vector<control::ConnectionStatus> rows, std::span<const control::ActivityStatus> activity = {});
  [[nodiscard]] uint32_t count() const { return static_cast<uint32_t>(connections_.size()); }
  // The first `limit` by `order`: the highest figures first, names and addresses alphabetically, or the other way round. Equal
  // ones in order of id, so that rows do not dance.
  [[nodiscard]] std::vector<const LiveConnection*> first(uint32_t limit, ConnectionOrder order, bool reversed) const;
  // By client address: the first `limit` of those with the most calls per second, then with the most connections.
  [[nodiscard]] std::vector<ClientSum> busiest_clients(uint32_t limit) const;
  [[nodiscard]] uint32_t client_count() const { return client_count_; }

 private:
  struct Totals {
    uint64_t rpcs = 0;
    uint64_t bytes_in = 0;
    uint64_t bytes_out = 0;
    uint64_t retransmits = 0;
  };
  struct Activity {
    uint64_t errors = 0;
    uint64_t answered = 0;
    Duration spent;
    std::optional<double> errors_per_s;
    std::optional<double> mean_seconds;
  };
  using Activities = std::unordered_map<std::string, Activity>;  // by address
  [[nodiscard]] static Activity activity_of(const control::ActivityStatus& client, const Activity* before, Duration passed);

  std::vector<LiveConnection> connections_;
  std::unordered_map<uint64_t, Totals> last_;  // by id
  Activities activities_;
  Instant last_look_;
  uint32_t client_count_ = 0;
};

}  // namespace cw::telemetry
