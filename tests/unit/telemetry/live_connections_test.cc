#include "telemetry/live_connections.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace cw::telemetry {
namespace {

using control::ActivityStatus;
using control::ConnectionStatus;

ConnectionStatus row(uint64_t id, uint64_t rpcs, std::string peer = "10.0.0.1") {
  ConnectionStatus status;
  status.id = id;
  status.rpcs = rpcs;
  status.qp.traffic.payload_bytes_in = rpcs * 100;
  status.peer_address = std::move(peer);
  return status;
}

std::vector<uint64_t> ids(const std::vector<const LiveConnection*>& rows) {
  std::vector<uint64_t> result;
  result.reserve(rows.size());
  for (const LiveConnection* each : rows) {
    result.push_back(each->status.id);
  }
  return result;
}

constexpr Instant kFirst = Instant::from_ns(1'000'000'000'000);

TEST(LiveConnections, RatesNeedTwoLooks) {
  LiveConnections connections;
  connections.update(kFirst, {row(1, 1000)});
  EXPECT_FALSE(connections.first(1, ConnectionOrder::kRpcs, false)[0]->rates);
  connections.update(kFirst + Duration::seconds(2), {row(1, 1500), row(2, 7)});
  const auto rows = connections.first(2, ConnectionOrder::kRpcs, false);
  ASSERT_TRUE(rows[0]->rates);
  EXPECT_EQ(rows[0]->rates->rpcs_per_s, 250);
  EXPECT_EQ(rows[0]->rates->bytes_in_per_s, 25'000);
  EXPECT_FALSE(rows[1]->rates) << "it was not there before";
}

TEST(LiveConnections, AfterALongPauseNothingIsSaidOfRates) {
  LiveConnections connections;
  connections.update(kFirst, {row(1, 1000)});
  connections.update(kFirst + LiveConnections::kPauseMax + Duration::ms(1), {row(1, 1500)});
  EXPECT_FALSE(connections.first(1, ConnectionOrder::kRpcs, false)[0]->rates);
}

TEST(LiveConnections, TheFirstFewOfManyComeInTheOrderThatIsWanted) {
  LiveConnections connections;
  const std::vector<ConnectionStatus> none = {row(1, 0, "10.0.0.10"), row(2, 0, "10.0.0.9"), row(3, 0, "10.0.0.2"),
                                              row(4, 0, "10.0.0.2")};
  connections.update(kFirst, none);
  std::vector<ConnectionStatus> rows = none;
  rows[0].rpcs = 10;
  rows[1].rpcs = 300;
  rows[2].rpcs = 20;
  rows[1].age = Duration::seconds(1);
  connections.update(kFirst + Duration::seconds(1), rows);
  EXPECT_EQ(connections.count(), 4u);
  EXPECT_EQ(ids(connections.first(2, ConnectionOrder::kRpcs, false)), (std::vector<uint64_t>{2, 3}));
  EXPECT_EQ(ids(connections.first(2, ConnectionOrder::kRpcs, true)), (std::vector<uint64_t>{4, 1}));
  EXPECT_EQ(ids(connections.first(9, ConnectionOrder::kPeer, false)), (std::vector<uint64_t>{3, 4, 2, 1}));
  EXPECT_EQ(ids(connections.first(1, ConnectionOrder::kAge, false)), (std::vector<uint64_t>{2}));
}

TEST(LiveConnections, ThoseThatDoTheSameKeepTheirPlaces) {
  LiveConnections connections;
  connections.update(kFirst, {row(1, 0), row(2, 0)});
  connections.update(kFirst + Duration::seconds(1), {row(1, 1001), row(2, 1004)});
  EXPECT_EQ(ids(connections.first(2, ConnectionOrder::kRpcs, false)), (std::vector<uint64_t>{1, 2}));
}

TEST(LiveConnections, ClientsAreTheSumsOfTheirConnections) {
  LiveConnections connections;
  connections.update(kFirst, {row(1, 0), row(2, 0, "10.0.0.2"), row(3, 0), row(4, 0, "10.0.0.3")});
  std::vector<ConnectionStatus> rows = {row(1, 10), row(2, 100, "10.0.0.2"), row(3, 20), row(4, 0, "10.0.0.3")};
  rows[0].qp.traffic.retransmits = 2;
  rows[2].qp.traffic.retransmits = 5;
  rows[0].calls_in_flight = 3;
  rows[2].calls_in_flight = 4;
  rows[2].qp.traffic.round_trip = Duration::us(70);
  connections.update(kFirst + Duration::seconds(1), rows);
  EXPECT_EQ(connections.client_count(), 3u);
  const std::vector<ClientSum> busiest = connections.busiest_clients(2);
  ASSERT_EQ(busiest.size(), 2u);
  EXPECT_EQ(busiest[0].address, "10.0.0.2");
  EXPECT_EQ(busiest[1].address, "10.0.0.1");
  EXPECT_EQ(busiest[1].connections, 2u);
  EXPECT_EQ(busiest[1].calls_in_flight, 7u);
  EXPECT_EQ(busiest[1].rpcs, 30u);
  EXPECT_EQ(busiest[1].retransmits, 7u);
  EXPECT_EQ(busiest[1].rates.rpcs_per_s, 30);
  EXPECT_EQ(busiest[1].round_trip, Duration::us(70));
}

ActivityStatus activity(uint64_t errors, uint64_t answered, Duration spent, const char* client = "10.0.0.1") {
  return {.client = client,
          .section = "",
          .connections = 1,
          .use = {.errors = errors},
          .procedures = {{"nfs4", "read", answered / 2, spent / 2}, {"nfs4", "write", answered / 2, spent / 2}}};
}

TEST(LiveConnections, ClientsHaveTheErrorsAndTimesOfTheirCalls) {
  LiveConnections connections;
  const std::vector first = {activity(3, 100, Duration::seconds(5))};
  connections.update(kFirst, {row(1, 0), row(2, 0, "10.0.0.2")}, first);
  ASSERT_EQ(connections.busiest_clients(2)[0].address, "10.0.0.1");
  EXPECT_EQ(connections.busiest_clients(2)[0].errors, 3u);
  EXPECT_EQ(connections.busiest_clients(2)[0].errors_per_s, std::nullopt) << "nothing to compare with";
  EXPECT_EQ(connections.busiest_clients(2)[0].mean_seconds, std::nullopt);
  const std::vector second = {activity(13, 300, Duration::seconds(6))};
  connections.update(kFirst + Duration::seconds(2), {row(1, 9), row(2, 0, "10.0.0.2")}, second);
  const std::vector<ClientSum> both = connections.busiest_clients(2);
  EXPECT_EQ(both[0].errors, 13u);
  EXPECT_DOUBLE_EQ(both[0].errors_per_s.value_or(0), 5);
  EXPECT_DOUBLE_EQ(both[0].mean_seconds.value_or(0), 0.005);
  EXPECT_EQ(both[1].errors, 0u) << "nothing is known of it";
  connections.update(kFirst + Duration::seconds(4), {row(1, 9)}, second);
  EXPECT_EQ(connections.busiest_clients(1)[0].errors_per_s, 0);
  EXPECT_EQ(connections.busiest_clients(1)[0].mean_seconds, std::nullopt) << "no call was answered";
  const std::vector anew = {activity(1, 2, Duration::ms(1))};
  connections.update(kFirst + Duration::seconds(6), {row(1, 9)}, anew);
  EXPECT_EQ(connections.busiest_clients(1)[0].errors, 1u);
  EXPECT_EQ(connections.busiest_clients(1)[0].errors_per_s, std::nullopt) << "it was forgotten in between";
}

TEST(LiveConnections, OrdersHaveNames) {
  for (const char* name :
       {"rpcs", "bytes", "retransmits", "in_flight", "credits", "round_trip", "age", "peer", "listener", "lcore"}) {
    const auto order = connection_order_of(name);
    ASSERT_TRUE(order) << name;
    EXPECT_STREQ(to_string(*order), name);
  }
  EXPECT_FALSE(connection_order_of("rpc"));
  EXPECT_FALSE(connection_order_of(""));
}

}  // namespace
}  // namespace cw::telemetry
