// Judges facts: what is missing, and the command that fixes it. Pure.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "control/doctor/facts.h"

namespace cw::control::doctor {

// Connections that an iWARP listener has the kernel queue (dataplane::TcpStreamsOptions::backlog).
inline constexpr uint32_t kTcpBacklog = 1024;

enum class Severity : uint8_t {
  kFine,
  kNote,     // worth knowing
  kWarning,  // it runs, and worse than it could
  kFault,    // it does not run, or serves nobody
};
[[nodiscard]] const char* to_string(Severity severity) noexcept;

struct Finding {
  const char* check;  // "hugepages"
  Severity severity = Severity::kFine;
  std::string what;  // one sentence
  std::string fix;   // a command, or what to do; empty when there is nothing to do
};
using Findings = std::vector<Finding>;

// One subject each; adds what it finds, at least one finding when the subject matters for the configuration.
struct Check {
  const char* name;
  const char* subject;
  void (*judge)(const Facts& facts, Findings& out);
};
[[nodiscard]] std::span<const Check> checks();
// All checks, in order.
[[nodiscard]] Findings judge(const Facts& facts);

void check_configuration(const Facts& facts, Findings& out);
void check_hugepages(const Facts& facts, Findings& out);
void check_memory(const Facts& facts, Findings& out);
void check_names(const Facts& facts, Findings& out);
void check_memlock(const Facts& facts, Findings& out);
void check_capabilities(const Facts& facts, Findings& out);
void check_devices(const Facts& facts, Findings& out);
void check_mtu(const Facts& facts, Findings& out);
void check_firewall(const Facts& facts, Findings& out);
void check_ports_taken(const Facts& facts, Findings& out);
void check_backends(const Facts& facts, Findings& out);
void check_listeners(const Facts& facts, Findings& out);
void check_descriptors(const Facts& facts, Findings& out);
void check_tcp(const Facts& facts, Findings& out);
void check_rdma(const Facts& facts, Findings& out);
void check_rdma_addresses(const Facts& facts, Findings& out);
void check_rdma_memory(const Facts& facts, Findings& out);
void check_rdma_mtu(const Facts& facts, Findings& out);
void check_clock(const Facts& facts, Findings& out);
void check_cpus(const Facts& facts, Findings& out);
void check_numa(const Facts& facts, Findings& out);
void check_crc(const Facts& facts, Findings& out);

}  // namespace cw::control::doctor
