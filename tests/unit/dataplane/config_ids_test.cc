// What a configuration names keeps its numbers over reloads, wherever in the file it stands.
#include "gateway/config_ids.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "gateway/gateway_options.h"

namespace cw::dataplane {
namespace {

control::BackendConfig backend(const std::string& name, uint16_t port) {
  control::BackendConfig section;
  section.name = name;
  section.address = control::SocketAddress{IpAddress::v4(0x7f00'0001), port};
  return section;
}

control::ListenerConfig listener(const std::string& name, uint16_t port, const std::string& backend) {
  control::ListenerConfig section;
  section.name = name;
  section.port = port;
  section.backend = backend;
  return section;
}

control::Config config(const std::vector<control::BackendConfig>& backends,
                       const std::vector<control::ListenerConfig>& listeners) {
  control::Config config;
  config.backends = backends;
  config.listeners = listeners;
  return config;
}

TEST(ConfigIds, StayWithTheirNames) {
  const auto one = backend("one", 1);
  const auto two = backend("two", 2);
  const auto nfs = listener("nfs", 20049, "one");
  const auto more = listener("more", 20050, "two");
  gateway::ConfigIds numbers;
  numbers.add(config({one}, {nfs}));
  const control::Config after = config({two, one}, {more, nfs});
  numbers.add(after);
  EXPECT_EQ(numbers.of(one), 0u);
  EXPECT_EQ(numbers.of(two), 1u);
  EXPECT_EQ(numbers.of(nfs), 0u);
  EXPECT_EQ(numbers.of(more), 1u);
  EXPECT_EQ(numbers.of_backend(after, "one"), 0u);
  EXPECT_EQ(numbers.of_backend(after, ""), gateway::ListenerOptions::kNoBackend);
  EXPECT_EQ(numbers.of_server(1, *two.address), 0u);
  using Key = gateway::RouteKey;
  EXPECT_EQ(gateway::route_keys(after, numbers), (std::vector<Key>{{1, std::nullopt, 1}, {0, std::nullopt, 0}}));
  numbers.add(config({two}, {more}));
  EXPECT_EQ(numbers.of(one), 0u) << "those that are gone are remembered";
  EXPECT_EQ(numbers.routes.values().size(), 2u);
}

TEST(ConfigIds, ABackendOfAnotherKindIsAnotherOne) {
  auto one = backend("one", 1);
  gateway::ConfigIds numbers;
  numbers.add(config({one}, {}));
  one.address->port = 7;
  EXPECT_EQ(numbers.backends.find(gateway::identity_of(one)), 0u) << "elsewhere, but the same";
  one.source = control::SourceKind::kClient;
  EXPECT_EQ(numbers.backends.find(gateway::identity_of(one)), std::nullopt);
}

}  // namespace
}  // namespace cw::dataplane
