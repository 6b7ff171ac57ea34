// A NIC that takes rules, as far as a test can have one: a device of DPDK's that carries nothing, with functions of rte_flow that
// write down what they are asked and refuse what a test wants refused. Debian ships no header to write a driver with, so the
// linker puts these functions between the port and DPDK (--wrap in meson.build); what is not about rules goes on to DPDK.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace cw::dataplane::test {

class TestNic {
 public:
  static constexpr uint16_t kQueues = 4;
  static constexpr const char* kAddress = "0000:99:00.0";  // a device of this name is it, once for each make()

  // One at a time; it is gone when its port is closed.
  static void make();

  // What has happened, one line each: "isolate 1", "configure 4 queues", "start", "promiscuous", "validate RULE", "create RULE",
  // "destroy RULE", "stop", "close". RULE is "PRIORITY: ITEM / ITEM -> ACTION" with everything that the driver is told.
  [[nodiscard]] static std::vector<std::string>& calls();
  // Those that begin with `word`, without it.
  [[nodiscard]] static std::vector<std::string> calls_of(const std::string& word);

  // Rules that contain this are not valid; empty: all are.
  static std::string& refused();
  // Creating fails from this one on.
  static size_t& created_max();
  static bool& isolates();
  // Whoever asked for its link, so often.
  static uint32_t& link_questions();
  // It has RSS, as at first.
  static bool& deals();
};

}  // namespace cw::dataplane::test
