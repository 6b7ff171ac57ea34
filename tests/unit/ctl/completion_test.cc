#include "control/ctl/completion.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace cw::control {
namespace {

Completion completed(std::vector<std::string_view> words) {
  return complete(words, command_table());
}
std::vector<std::string> offered(std::vector<std::string_view> words) {
  std::vector<std::string> out;
  for (const Offer& offer : completed(std::move(words)).offers) {
    out.push_back(offer.word);
  }
  return out;
}
using Words = std::vector<std::string>;

TEST(Completion, OffersWhatMayStandThere) {
  EXPECT_EQ(offered({"co"}), (Words{"connections", "cores", "config", "completion"}));
  EXPECT_EQ(offered({"doc"}), Words{"doctor"});
  EXPECT_EQ(offered({"drain", "st"}), (Words{"start", "stop"}));
  EXPECT_EQ(offered({"drain", "start", "--t"}), Words{"--timeout"});
  EXPECT_EQ(offered({"connections", "cl"}), Words{"client"});
  EXPECT_EQ(offered({"connections", "show", "state", "est"}), Words{"established"});
  EXPECT_EQ(offered({"connections", "state", "established", "li"}), Words{"listener"});
  EXPECT_EQ(offered({"--socket", "/tmp/x", "qp", "show", "lq"}), Words{"lqpn"});
  EXPECT_EQ(offered({"-w", "1", "backends", "up", ""}), (Words{"yes", "no"}));
  EXPECT_EQ(offered({"log", "level", "wa"}), Words{"warning"});
  EXPECT_EQ(offered({"reload", "--dr"}), Words{"--dry-run"});
  EXPECT_EQ(offered({"--js"}), Words{"--json"});
  EXPECT_EQ(offered({"completion", ""}), (Words{"bash", "zsh", "fish"}));
  EXPECT_EQ(offered({"nonsense", ""}), Words{});
  EXPECT_FALSE(offered({}).empty());
}

TEST(Completion, EachObjectStandsOnceWithWhatItMeansByItself) {
  for (const Offer& offer : completed({"dr"}).offers) {
    EXPECT_EQ(offer.word, "drain");
    EXPECT_EQ(offer.help, "Whether the gateway drains, and how far it is.");
  }
}

TEST(Completion, AFileMayStandWhereOneIsMeant) {
  EXPECT_TRUE(completed({"config", "check", ""}).wants_file);
  EXPECT_TRUE(completed({"doctor", "--config", ""}).wants_file);
  EXPECT_TRUE(completed({"--socket", ""}).wants_file);
  EXPECT_FALSE(completed({"--socket", "/tmp/x", ""}).wants_file);
  EXPECT_FALSE(completed({"capture", "start", "/tmp/one.pcapng", ""}).wants_file);
}

TEST(Completion, OnlyTheGatewayKnowsItsNames) {
  const auto live = [](std::vector<std::string_view> words) {
    const Completion::Live found = completed(std::move(words)).live;
    return found.request == nullptr ? std::string() : std::string(found.request) + " " + found.rows + " " + found.field;
  };
  EXPECT_EQ(live({"connections", "listener", ""}), "connections connections listener");
  EXPECT_EQ(live({"qp", "show", "lqpn", ""}), "queue_pairs queue_pairs local_qpn");
  EXPECT_EQ(live({"ping", ""}), "status listeners backend");
  EXPECT_EQ(live({"trace", "lqpn", ""}), "connections connections local_qpn");
  EXPECT_EQ(live({"capture", "start", "f", "client", ""}), "connections connections peer_address");
  EXPECT_EQ(live({"stats", ""}), "");
  EXPECT_EQ(completed({"--instance", "one", "connections", "id", ""}).global.instance, "one");
  EXPECT_EQ(completed({"--socket=/tmp/x", "connections", "id", ""}).global.socket, "/tmp/x");
}

TEST(Completion, ValuesStandOnceAndBeginAsTheWordDoes) {
  const nlohmann::ordered_json answer = {
      {"rows", {{{"f", "nfs"}}, {{"f", "nfs"}}, {{"f", 7}}, {{"f", {"10.0.0.0/8", "nine"}}}, {{"g", "no"}}, {{"f", nullptr}}}}};
  const auto values = [&](const char* begun) {
    Words out;
    for (const Offer& offer : live_offers({"r", "rows", "f"}, answer, begun)) {
      out.push_back(offer.word);
    }
    return out;
  };
  EXPECT_EQ(values(""), (Words{"10.0.0.0/8", "7", "nfs", "nine"}));
  EXPECT_EQ(values("n"), (Words{"nfs", "nine"}));
  EXPECT_TRUE(live_offers({"r", "others", "f"}, answer, "").empty());
}

}  // namespace
}  // namespace cw::control
