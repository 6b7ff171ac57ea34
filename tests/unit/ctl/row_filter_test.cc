#include "control/ctl/row_filter.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "control/ctl/command_line.h"

namespace cw::control {
namespace {

using Json = nlohmann::ordered_json;

Json connections() {
  return Json::parse(R"({"connections": [
    {"id": 1, "peer_address": "10.1.2.3", "listener": "nfs", "state": "established", "local_qpn": 6699},
    {"id": 2, "peer_address": "10.9.0.1", "listener": "bench", "state": "accepting", "local_qpn": 2},
    {"id": 3, "peer_address": "2001:db8::7", "listener": "nfs", "state": "established", "local_qpn": 3},
    {"id": 4}]})");
}

std::set<int> kept(std::vector<std::string_view> words) {
  words.insert(words.begin(), "connections");
  const CommandLine line = parse_command_line(words, command_table());
  EXPECT_EQ(line.kind, CommandLine::Kind::kCommand) << line.problem;
  Json answer = connections();
  filter_rows(line.invocation, answer);
  std::set<int> ids;
  for (const Json& row : answer["connections"]) {
    ids.insert(row["id"].get<int>());
  }
  return ids;
}

using Ids = std::set<int>;

TEST(RowFilter, NothingAskedKeepsAll) {
  EXPECT_EQ(kept({}), (Ids{1, 2, 3, 4}));
}

TEST(RowFilter, NetworksHoldAddressesOfTheirFamily) {
  EXPECT_EQ(kept({"client", "10.0.0.0/8"}), (Ids{1, 2}));
  EXPECT_EQ(kept({"client", "10.1.2.3"}), (Ids{1}));
  EXPECT_EQ(kept({"client", "2001:db8::/32"}), (Ids{3}));
  EXPECT_EQ(kept({"client", "0.0.0.0/0"}), (Ids{1, 2}));
}

TEST(RowFilter, OneKeywordMeansAnyDifferentOnesMeanAll) {
  EXPECT_EQ(kept({"client", "10.1.2.3", "client", "2001:db8::7"}), (Ids{1, 3}));
  EXPECT_EQ(kept({"client", "10.0.0.0/8", "listener", "nfs"}), (Ids{1}));
  EXPECT_EQ(kept({"listener", "nfs", "state", "accepting"}), (Ids{}));
}

TEST(RowFilter, NumbersInEitherBaseAreTheSame) {
  EXPECT_EQ(kept({"lqpn", "0x1a2b"}), (Ids{1}));
  EXPECT_EQ(kept({"lqpn", "6699"}), (Ids{1}));
}

TEST(RowFilter, ListsOfNetworksMeetTheirAddressesAndTheNetworksAround) {
  const auto sections = [](const char* network) {
    const std::vector<std::string_view> words = {"clients", "client", network};
    Json answer = Json::parse(R"({"clients": [{"name": "a", "prefixes": ["10.1.0.0/16", "2001:db8::/64"]},
                                              {"name": "b", "prefixes": ["10.1.2.0/24"]}, {"name": "c", "prefixes": []}]})");
    filter_rows(parse_command_line(words, command_table()).invocation, answer);
    std::string names;
    for (const Json& row : answer["clients"]) {
      names += row["name"].get<std::string>();
    }
    return names;
  };
  EXPECT_EQ(sections("10.1.2.3"), "ab");
  EXPECT_EQ(sections("10.1.3.3"), "a");
  EXPECT_EQ(sections("10.0.0.0/8"), "ab");
  EXPECT_EQ(sections("2001:db8::9"), "a");
  EXPECT_EQ(sections("192.0.2.1"), "");
}

TEST(RowFilter, AnswersOfAnotherShapeAreLeftAlone) {
  const std::vector<std::string_view> words = {"connections", "id", "1"};
  const CommandLine line = parse_command_line(words, command_table());
  for (const char* text : {"{}", "[]", "{\"connections\": 5}", "{\"connections\": [5, null]}"}) {
    Json answer = Json::parse(text);
    filter_rows(line.invocation, answer);
    EXPECT_FALSE(answer.is_null());
  }
}

}  // namespace
}  // namespace cw::control
