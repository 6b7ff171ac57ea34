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
  after.listeners[0].allow = {{IpAddress::v4(0x0a000000), 8}};
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

TEST(ConfigChangesTest, AReloadAppliesWhatItCan) {
  Config after = two_ports();
  after.listeners[0].allow = {{IpAddress::v4(0x0a000000), 8}};
  after.listeners[0].credits = 8;
  after.roce.congestion_control = !after.roce.congestion_control;
  after.log.level = LogLevel::kDebug;
  after.dataplane.workers = 5;
  Names live;
  for (const SettingChange& change : config_changes(two_ports(), after)) {
    live.push_back(change.key + (change.live ? "" : " waits"));
  }
  EXPECT_EQ(live, (Names{"dataplane.workers waits", "listener[0].credits", "listener[0].allow", "roce.congestion_control",
                         "log.level"}));
  const Config applied = with_live_changes(two_ports(), after);
  EXPECT_EQ(changed_keys(applied, after), Names{"dataplane.workers"});
  EXPECT_EQ(changed_keys(two_ports(), applied),
            (Names{"listener[0].credits", "listener[0].allow", "roce.congestion_control", "log.level"}));
}

TEST(ConfigChangesTest, WhatWaitsSaysWhy) {
  Config after = two_ports();
  after.dataplane.workers = 5;
  after.listeners[0].allow = {{IpAddress::v4(0x0a000000), 8}};
  const std::vector<SettingChange> changes = config_changes(two_ports(), after);
  ASSERT_EQ(changes.size(), 2u);
  EXPECT_EQ(changes[0].reason, "threads and memory are set up at the start");
  EXPECT_EQ(changes[1].reason, "");
  after.backends[0].source = SourceKind::kClient;
  after.listeners[0].port = 20050;
  after.ports.resize(3);
  for (const SettingChange& change : config_changes(two_ports(), after)) {
    EXPECT_EQ(change.live, change.reason.empty()) << change.key;
  }
}

TEST(ConfigChangesTest, AReloadAddsChangesAndRemovesRoutes) {
  Config before = two_ports();
  before.listeners[0].name = before.backends[0].name = "nfs";
  before.routes = {{"nfs", 100003, "nfs"}, {"nfs", 100005, "nfs"}};
  Config after = before;
  after.routes = {{"nfs", 100227, "nfs"}};
  const std::vector<SettingChange> changes = config_changes(before, after);
  ASSERT_EQ(changed_keys(before, after), (Names{"route[0].program", "route[1]"}));
  EXPECT_TRUE(changes[0].live && changes[1].live);
  EXPECT_EQ(changed_keys(with_live_changes(before, after), after), Names());
  EXPECT_EQ(changed_keys(with_live_changes(after, before), before), Names());
}

// Whatever else changes, and wherever in the file they stand.
TEST(ConfigChangesTest, ClientsAreWhoTheirNamesSay) {
  Config before = two_ports();
  const auto client = [](const char* name, uint32_t credits) {
    ClientConfig section;
    section.name = name;
    section.credits = credits;
    return section;
  };
  before.clients = {client("one", 1), client("two", 2), client("three", 3)};
  Config after = before;
  after.ports.resize(3);
  after.clients = {client("four", 4), client("three", 30), client("one", 1)};
  std::vector<std::string> lines;
  for (const SettingChange& change : config_changes(before, after)) {
    if (change.live) {
      lines.push_back(change.key + ": " + change.before + " -> " + change.after);
    }
  }
  EXPECT_EQ(lines, (Names{"client[0]:  -> \"four\"", "client[1].credits: 3 -> 30", "client[1]: \"two\" -> "}));
  const Config applied = with_live_changes(before, after);
  EXPECT_EQ(changed_keys(applied, after), Names{"port[2]"});
  ASSERT_EQ(applied.clients.size(), 3u);
  EXPECT_EQ(applied.clients[1].credits, 30u);
  after.clients.clear();
  EXPECT_TRUE(with_live_changes(before, after).clients.empty());
}

// What a backend is stays, whatever else of it and the others changes.
TEST(ConfigChangesTest, BackendsAreWhoTheirNamesSay) {
  Config before = two_ports();
  const auto backend = [](const char* name, uint16_t port) {
    BackendConfig section;
    section.name = name;
    section.address = SocketAddress{IpAddress::v4(0x7f00'0001), port};
    return section;
  };
  before.backends = {backend("one", 1), backend("two", 2)};
  Config after = before;
  after.backends = {backend("three", 3), backend("one", 11)};
  after.backends[1].type = BackendType::kBuiltin;
  std::vector<std::string> lines;
  for (const SettingChange& change : config_changes(before, after)) {
    lines.push_back(change.key + (change.live ? "" : " waits"));
  }
  EXPECT_EQ(lines, (Names{"backend[0]", "backend[1].type waits", "backend[1].address", "backend[1]"}));
  const Config applied = with_live_changes(before, after);
  EXPECT_EQ(changed_keys(applied, after), Names{"backend[1].type"});
  EXPECT_EQ(applied.backends[1].address->port, 11);
}

// Else the allow list of one listener could become another's.
TEST(ConfigChangesTest, ListenersAreWhoTheirNamesSay) {
  Config before = two_ports();
  before.listeners.resize(2);
  before.listeners[0].name = "open";
  before.listeners[1].name = "closed";
  before.listeners[1].port = 20050;
  before.listeners[1].allow = {{IpAddress::v4(0x0a000000), 8}};
  Config after = before;
  std::swap(after.listeners[0], after.listeners[1]);
  EXPECT_EQ(changed_keys(before, after), Names()) << "the same ones, whose sections changed places";
  after.listeners[0].port = 20051;
  after.listeners[1].name = "new";
  std::vector<std::string> lines;
  for (const SettingChange& change : config_changes(before, after)) {
    lines.push_back(change.key + (change.live ? "" : " waits"));
  }
  EXPECT_EQ(lines, (Names{"listener[0].port waits", "listener[1]", "listener[0]"}));
  const Config applied = with_live_changes(before, after);
  EXPECT_EQ(changed_keys(applied, after), Names{"listener[0].port"});
  ASSERT_EQ(applied.listeners.size(), 2u);
  EXPECT_EQ(applied.listeners[0].name, "closed");
  EXPECT_EQ(applied.listeners[0].allow.size(), 1u);
  EXPECT_EQ(applied.listeners[1].name, "new");
}

}  // namespace
}  // namespace cw::control
