#include "apps/load/pktgen/provision.h"

#include <fmt/format.h>

#include "control/config/config.h"
#include "dataplane/core_loop.h"
#include "dataplane/entropy.h"
#include "gateway/client/client.h"
#include "gateway/node/roce_transport.h"

namespace cw::pktgen {
namespace {

constexpr uint32_t kMemoryRegions = 64;
// After the news that the connection is up: time for the RTU to leave.
constexpr Duration kSettleTime = Duration::ms(300);
constexpr Duration kRetryPause = Duration::ms(500);

class ClientApp final : public dataplane::CoreApp {
 public:
  explicit ClientApp(client::Client& client) : client_(client) {}
  bool turn(Instant now) override {
    client_.run(now);
    return false;
  }
  [[nodiscard]] bool has_input() const override { return false; }
  [[nodiscard]] Instant next_deadline() const override { return client_.next_deadline(); }

 private:
  client::Client& client_;
};

struct Attempt {
  std::optional<client::ClientId> id;
  bool connected = false;
  std::string refusal = "nobody answered";
};

// Looks at the client's news: up, or down with a reason.
void follow(client::Client& client, Attempt& attempt) {
  client::ClientEvent event;
  while (client.poll_event(event)) {
    if (!attempt.id || event.id != *attempt.id) {
      continue;
    }
    attempt.connected = event.kind == client::ClientEvent::Kind::kConnected;
    if (!attempt.connected) {
      attempt.id.reset();
      attempt.refusal =
          std::string(event.kind == client::ClientEvent::Kind::kRefused ? event.rejection.name : event.qp_error.cause);
    }
  }
}

Provisioned describe(const ProvisionOptions& options, const rc::RcQpInfo& qp) {
  Provisioned out;
  out.target.path = qp.path;
  out.target.path_mtu_bytes = qp.path_mtu_bytes;
  out.target.service_port = options.service_port;
  out.qp = {.qpn = qp.remote_qpn, .first_psn = qp.next_psn};
  return out;
}

client::ClientOptions client_options(const ProvisionOptions& options) {
  client::ClientOptions out;
  out.connections_max = 1;
  out.inline_bytes = options.inline_bytes;
  return out;
}

node::RoceOptions roce_options(const ProvisionOptions& options) {
  node::RoceOptions out;
  out.connections_max = 1;
  out.path_mtu_bytes = control::path_mtu_for(options.link.port.mtu, 4096);
  // As a standard peer: what comes behind a gap is dropped and counted, not kept.
  out.rc.selective_recovery = false;
  return out;
}

}  // namespace

std::optional<Provisioned> provision(const ProvisionOptions& options, std::string& error) {
  const auto link = dataplane::OnePort::open(options.link.port, error);
  if (link == nullptr) {
    return std::nullopt;
  }
  const dataplane::TscClock clock;
  dataplane::Entropy entropy;
  verbs::MemoryTable memory(kMemoryRegions, entropy);
  const control::IpPrefix own = options.link.own();
  node::NodeOptions node_options = link->node_options(own.address, own.length_bits);
  node_options.endpoint.read_replay_max = 1;
  node::Node node(node_options, entropy, &memory);
  node::RoceTransport transport(roce_options(options), node, entropy);
  client::Client client(client_options(options), transport, memory, link->pools().packets(), entropy);
  ClientApp app(client);
  dataplane::Wakeup wakeup;
  dataplane::CoreLoop loop(node, link->queues(), link->pools(), clock, app, wakeup, {.spins = true});
  node.station(0).announce();

  Attempt attempt;
  Instant next_attempt = clock.now();
  const Instant give_up = clock.now() + Duration::seconds(options.wait_seconds);
  while (!attempt.connected) {
    const Instant now = clock.now();
    if (now >= give_up) {
      error = fmt::format("no connection to {} port {} within {} s: {}; is causewayd ready, and does it share the link?",
                          to_text(options.server).data(), options.service_port, options.wait_seconds, attempt.refusal);
      return std::nullopt;
    }
    if (!attempt.id && now >= next_attempt) {
      next_attempt = now + kRetryPause;
      const auto id = client.connect(now, options.server, options.service_port);
      if (id.ok()) {
        attempt.id = *id;
      }
    }
    (void)loop.turn(now);
    follow(client, attempt);
  }
  const Provisioned out = describe(options, client.describe(*attempt.id).detail<rc::RcQpInfo>());
  const Instant settled = clock.now() + kSettleTime;
  while (clock.now() < settled) {
    (void)loop.turn(clock.now());
  }
  return out;
}

}  // namespace cw::pktgen
