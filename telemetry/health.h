// Is the gateway alive, should it be given work, and what wants attention? One judgement, which /healthz, /readyz, causewayctl
// status, the live page, causeway_ready and the service manager's status line all show.
//
// Alive: every poll core turns. What is not alive does not recover by itself and wants a restart.
// Ready: alive, listening, not draining, clients can reach it (a port has its link, or a listener goes through the kernel; each
// verbs listener has its RDMA device, and a port of that is ACTIVE), and no backend is down: has no server that is up, or refused
// the last connection. A restart would not fix that.
// Warnings: what an operator should correct though clients are served: a file that a reload refused, a server of a backend or one
// link of several that is down. They do not make it unready, for a load balancer would then take away what still works.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace cw::telemetry {

// A listener that no client can reach.
struct CutOff {
  std::string listener;
  std::string why;
};

struct HealthFacts {
  std::optional<uint32_t> silent_lcore;  // a poll core that did not answer
  bool started = false;                  // listening
  bool draining = false;
  bool reload_failed = false;
  std::vector<std::string> backends_down;
  std::vector<std::string> servers_down;  // "10.0.0.1:2049 of backend nfs", of backends that are up
  std::vector<std::string> links_down;    // devices
  bool has_other_ways = false;            // a port with its link, or a listener that needs none
  std::vector<CutOff> cut_off;            // by what their RDMA devices are
};

struct Health {
  bool live = false;
  bool ready = false;
  std::string reason;  // why not alive or not ready, all causes; empty = both
  std::vector<std::string> warnings;
  std::vector<CutOff> cut_off;  // each stands in `reason`, too
};

[[nodiscard]] Health judge_health(const HealthFacts& facts);
// In one line: "ok", or the reason, and behind it the warnings.
[[nodiscard]] std::string to_text(const Health& health);

class HealthSource {
 public:
  virtual ~HealthSource() = default;
  [[nodiscard]] virtual Health health() const = 0;
};

}  // namespace cw::telemetry
