#include "control/ctl/activity_rates.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <initializer_list>
#include <string>
#include <vector>

namespace cw::control {
namespace {

using Json = nlohmann::ordered_json;

Json client(const std::string& address, const std::string& section, uint64_t calls, uint64_t bytes, uint64_t errors,
            const Json& procedures) {
  return {{"client", address}, {"section", section},  {"connections", 1},         {"calls", calls},          {"replies", calls},
          {"errors", errors},  {"call_bytes", bytes}, {"reply_bytes", 2 * bytes}, {"procedures", procedures}};
}

Json use(const std::string& procedure, uint64_t calls, double seconds) {
  return {{"program", "nfs4"}, {"procedure", procedure}, {"calls", calls}, {"seconds", seconds}};
}

Json answer(std::initializer_list<Json> clients) {
  return {{"activity", std::vector<Json>(clients)}};
}

TEST(ActivityRates, AreWhatHappenedInBetween) {
  const Json before = answer({client("10.0.0.1", "a", 100, 1000, 1, Json::array({use("read", 60, 0.6), use("write", 40, 0.1)}))});
  const Json after =
      answer({client("10.0.0.1", "a", 300, 5000, 2, Json::array({use("read", 160, 0.8), use("write", 140, 0.9)}))});
  const Json rates = activity_rates(before, after, 2, "client", "calls", 20);
  ASSERT_EQ(rates["rows"].size(), 1u);
  const Json& row = rates["rows"][0];
  EXPECT_EQ(row["client"], "10.0.0.1");
  EXPECT_EQ(row["section"], "a");
  EXPECT_DOUBLE_EQ(row["calls_per_second"], 100);
  EXPECT_DOUBLE_EQ(row["errors_per_second"], 0.5);
  EXPECT_DOUBLE_EQ(row["call_bytes_per_second"], 2000);
  EXPECT_DOUBLE_EQ(row["reply_bytes_per_second"], 4000);
  EXPECT_DOUBLE_EQ(row["mean_seconds"], 0.005);
  ASSERT_EQ(row["procedures"].size(), 2u);
  EXPECT_EQ(row["procedures"][0]["procedure"], "write") << "the one that takes most time first";
  EXPECT_DOUBLE_EQ(row["procedures"][0]["share_of_time"], 0.8);
  EXPECT_DOUBLE_EQ(row["procedures"][0]["mean_seconds"], 0.008);
  EXPECT_DOUBLE_EQ(row["procedures"][1]["calls_per_second"], 50);
}

TEST(ActivityRates, WhoCalledNothingHasNoTimes) {
  const Json same = answer({client("10.0.0.1", "", 5, 5, 0, Json::array({use("read", 5, 0.5)}))});
  const Json row = activity_rates(same, same, 1, "client", "calls", 20)["rows"][0];
  EXPECT_DOUBLE_EQ(row["calls_per_second"], 0);
  EXPECT_EQ(row["mean_seconds"], nullptr);
  EXPECT_TRUE(row["procedures"].empty());
}

// A gateway that was started anew counts from zero.
TEST(ActivityRates, WhatBeganAnewCountsFromZero) {
  const Json before = answer({client("10.0.0.1", "", 1000, 10, 0, Json::array({use("read", 1000, 10)}))});
  const Json after = answer(
      {client("10.0.0.1", "", 10, 4, 0, Json::array({use("read", 10, 0.1)})), client("10.0.0.2", "", 3, 3, 0, Json::array())});
  const Json rows = activity_rates(before, after, 1, "client", "calls", 20)["rows"];
  EXPECT_DOUBLE_EQ(rows[0]["calls_per_second"], 10);
  EXPECT_DOUBLE_EQ(rows[0]["mean_seconds"], 0.01);
  EXPECT_DOUBLE_EQ(rows[1]["calls_per_second"], 3);
}

TEST(ActivityRates, AreSortedAndCutAsAsked) {
  const Json before = answer({});
  const Json after = answer({client("10.0.0.1", "", 9, 1, 0, Json::array({use("read", 9, 0.1)})),
                             client("10.0.0.2", "", 1, 900, 0, Json::array({use("read", 1, 0.2)})),
                             client("10.0.0.3", "", 2, 2, 7, Json::array({use("read", 2, 0.9)}))});
  const auto first = [&](const char* sort) {
    return activity_rates(before, after, 1, "client", sort, 1)["rows"][0]["client"].get<std::string>();
  };
  EXPECT_EQ(first("calls"), "10.0.0.1");
  EXPECT_EQ(first("bytes"), "10.0.0.2");
  EXPECT_EQ(first("time"), "10.0.0.3");
  EXPECT_EQ(first("errors"), "10.0.0.3");
  const Json two = activity_rates(before, after, 1, "client", "calls", 2);
  EXPECT_EQ(two["rows"].size(), 2u);
  EXPECT_NE(render_rates(two, Detail::kNarrow).find("and 1 more"), std::string::npos);
}

TEST(ActivityRates, SectionsAreTheSumOfTheirClients) {
  const Json after = answer({client("10.0.0.1", "a", 1, 1, 0, Json::array({use("read", 1, 0.1)})),
                             client("10.0.0.2", "a", 2, 2, 0, Json::array({use("read", 1, 0.3)})),
                             client("10.0.0.3", "", 4, 4, 0, Json::array())});
  const Json rows = activity_rates(answer({}), after, 1, "section", "bytes", 20)["rows"];
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0]["section"], "") << "those without a section";
  EXPECT_EQ(rows[1]["section"], "a");
  EXPECT_DOUBLE_EQ(rows[1]["calls_per_second"], 3);
  EXPECT_DOUBLE_EQ(rows[1]["mean_seconds"], 0.2);
  EXPECT_DOUBLE_EQ(rows[1]["connections"], 2);
}

TEST(ActivityRates, AsTextTheyFit) {
  const auto busy = [](const char* address) {
    return client(address, "compute-nodes", 123'456, 1'234'567'890, 0,
                  Json::array({use("read", 60, 3), use("getattr", 40, 2), use("write", 40, 1), use("open", 1, 0.5)}));
  };
  const Json after = answer({busy("192.168.100.100"), busy("2001:db8:1234:5678:9abc:def0:1234:5678")});
  const std::string text = render_rates(activity_rates(answer({}), after, 1, "client", "calls", 20), Detail::kNarrow);
  EXPECT_NE(text.find("nfs4 read 46 %, nfs4 getattr 31 %, nfs4 write 15 %"), std::string::npos) << text;
  EXPECT_NE(text.find("1.1 GiB"), std::string::npos) << text;
  size_t longest = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find('\n', at);
    longest = std::max(longest, end - at);
    at = end + 1;
  }
  EXPECT_LE(longest, 160u) << text;
  EXPECT_EQ(render_rates(activity_rates(answer({}), answer({}), 1, "client", "calls", 20), Detail::kNarrow), "no such clients\n");
}

}  // namespace
}  // namespace cw::control
