// What each client does: its calls and bytes, how they ended, and how long each procedure took. Of one core.
//
// Known are the clients that have a connection, and of those that have none the kGoneMax that left last. So the table is bounded
// by connections, which are bounded by configuration, and nobody who has not proved his address gets into it. Allocates with
// connections, and once with a client's first answered call.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/intrusive_list.h"
#include "base/ip_address.h"
#include "gateway/client_use.h"
#include "rpcrdma/endpoint/server_endpoint.h"
#include "rpcrdma/ulb/procedures.h"

namespace cw::gateway {

struct ProcedureUse {
  uint64_t calls = 0;  // answered
  uint64_t ns = 0;     // that these took, from their SEND to their reply's
};
using ProcedureUses = std::array<ProcedureUse, rpcrdma::kProcedureRows>;  // by rpcrdma::procedure_row()

struct GoneClientTag {};

struct ActiveClient : ListNode<GoneClientTag> {
  ClientUse use;
  IpAddress address;
  std::optional<uint32_t> section;            // the class that its last connection counts in
  uint32_t number = 0;                        // ServerOptions::client
  uint32_t connections = 0;                   // established
  std::unique_ptr<ProcedureUses> procedures;  // nullptr: none of its calls has been answered
};

// A copy for whoever asks.
struct ClientInfo {
  IpAddress address;
  std::optional<uint32_t> section;
  uint32_t connections = 0;
  ClientUse use;
  ProcedureUses procedures{};
};

class ClientActivity {
 public:
  static constexpr size_t kGoneMax = 256;

  ClientActivity() = default;
  ClientActivity(const ClientActivity&) = delete;
  ClientActivity& operator=(const ClientActivity&) = delete;

  // A connection of the client is established. The entry stays where it is until leave().
  [[nodiscard]] ActiveClient& join(const IpAddress& address, std::optional<uint32_t> section);
  void leave(ActiveClient& client);
  void on_done(const rpcrdma::CallDone& done);

  // By instalments: looks at `places` places from `place` on, adds to `out` from `count` on as far as it reaches, and returns the
  // place to go on from; 0 when that were all. Begin with 0 and 0.
  [[nodiscard]] uint32_t describe_some(uint32_t place, uint32_t places, std::span<ClientInfo> out, uint32_t& count) const;
  [[nodiscard]] size_t size() const { return clients_.size(); }

 private:
  using Key = std::array<uint8_t, 16>;

  std::map<Key, ActiveClient> clients_;
  std::vector<ActiveClient*> by_number_;             // nullptr: nobody
  std::deque<uint32_t> free_numbers_;                // the longest free is used first: a late CallDone finds nobody
  IntrusiveList<ActiveClient, GoneClientTag> gone_;  // the longest gone first
  size_t gone_count_ = 0;
};

}  // namespace cw::gateway
