#include "control/config/config_changes.h"

#include <gtest/gtest.h>

namespace cw::control {
namespace {

using Names = std::vector<std::string>;

Config two_ports() {
  Config config;
  config.ports.resize(2);
  config.listeners.resize(1);
  config.backends.resize(1);
  return config;
}

TEST(ConfigChangesTest, EqualConfigurationsDoNotDiffer) {
  EXPECT_EQ(changed_keys(two_ports(), two_ports()), Names());
}

TEST(ConfigChangesTest, ValuesOfEveryTypeAreCompared) {
  Config after = two_ports();
  after.gateway.instance = "other";        // text
  after.dataplane.poll_lcores = {1};       // list of numbers
  after.dataplane.hugepages = true;        // switch
  after.dataplane.idle = IdleMode::kSpin;  // choice
  after.metrics.listen = std::nullopt;     // address or none
  after.ports[1].mtu = 9000;               // number, second entry
  after.listeners[0].allow = {{wire::IpAddress::v4(0x0a000000), 8}};
  after.log.level = LogLevel::kDebug;
  EXPECT_EQ(changed_keys(two_ports(), after),
            (Names{"gateway.instance", "dataplane.poll_lcores", "dataplane.hugepages", "dataplane.idle", "port[1].mtu",
                   "listener[0].allow", "metrics.listen", "log.level"}));
}

TEST(ConfigChangesTest, SectionsThatCameOrWentAreNamedWhole) {
  Config after = two_ports();
  after.ports.pop_back();
  after.backends.resize(3);
  EXPECT_EQ(changed_keys(two_ports(), after), (Names{"port[1]", "backend[1]", "backend[2]"}));
}

}  // namespace
}  // namespace cw::control
