// What the live page asks for, and what is refused.
#include "telemetry/live_page.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "telemetry/log.h"
#include "telemetry/page_assets.h"
#include "tests/unit/control/fake_view.h"
#include "tests/unit/telemetry/synthetic.h"

namespace cw::telemetry {
namespace {

using Json = nlohmann::json;

class LivePageTest : public testing::Test {
 protected:
  LivePageTest() : cores_(1), collector_(cores_.sources()), history_(cores_.sources(), 1'700'000'000'000) {
    core_ = std::thread([this] {
      Published<CoreSnapshot>& snapshot = *collector_.sources().cores[0].snapshot;
      while (!stop_) {
        if (!hangs_ && snapshot.is_wanted()) {
          snapshot.publish(fill_synthetic);
        }
        std::this_thread::yield();
      }
    });
  }
  ~LivePageTest() override {
    stop_ = true;
    core_.join();
  }
  std::string get(const std::string& target, const std::string& fields = "") {
    LivePage page(collector_, history_, view_);
    const std::string request = "GET " + target + " HTTP/1.1\r\n" + fields + "\r\n";
    return page.answer(http_parse(request)).bytes;
  }
  static std::string body(const std::string& answer) { return answer.substr(answer.find("\r\n\r\n") + 4); }

  SyntheticCores cores_;
  Collector collector_;
  History history_;
  control::FakeView view_;
  std::atomic<bool> hangs_{false};
  std::atomic<bool> stop_{false};
  std::thread core_;
};

TEST_F(LivePageTest, SnapshotNamesWhatIsThere) {
  log_warning("a line for the page");
  const std::string answer = get("/api/snapshot");
  ASSERT_TRUE(answer.starts_with("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n")) << answer;
  const Json json = Json::parse(body(answer));
  EXPECT_EQ(json["boot"], "1700000000000");
  EXPECT_EQ(json["instance"], "test");
  EXPECT_EQ(json["limits"]["connections_max"], 64);
  EXPECT_EQ(json["cores"][0]["role"], "poll");
  EXPECT_EQ(json["backends"][2]["up"], nullptr) << "nobody has asked for it";
  EXPECT_EQ(json["listeners"][0]["port"], 20049);
  EXPECT_EQ(json["servers"][1]["check_error"], "Connection refused");
  EXPECT_EQ(json["servers"][0]["preferred"], true);
  EXPECT_EQ(json["routes"][0]["backend"], "old");
  EXPECT_EQ(json["clients"][0]["connections_max"], 4);
  EXPECT_EQ(json["connections"]["count"], 2);
  EXPECT_EQ(json["peers"]["count"], json["peers"]["rows"].size());
  EXPECT_EQ(json["peers"]["rows"][0]["address"], "192.0.2.9");
  EXPECT_EQ(json["peers"]["rows"][0]["errors"], 3);
  EXPECT_EQ(json["peers"]["rows"][0]["errors_per_s"], nullptr) << "one look tells no rate";
  EXPECT_EQ(json["peers"]["rows"][0]["mean_seconds"], nullptr);
  const Json& row = json["connections"]["rows"][0];
  EXPECT_EQ(row["peer_address"], "192.0.2.9");
  EXPECT_EQ(row["rpcs_per_s"], nullptr) << "one look tells no rate";
  EXPECT_EQ(row["round_trip_seconds"], 12e-6);
  EXPECT_EQ(json["notices"].back()["text"], "a line for the page");
  EXPECT_EQ(json["notices"].back()["level"], "warning");
}

TEST_F(LivePageTest, SnapshotIsBounded) {
  view_.connection_count = 2000;
  for (const auto& [query, rows] :
       std::initializer_list<std::pair<const char*, size_t>>{{"", 50}, {"?limit=1", 1}, {"?limit=500", 500}}) {
    const Json json = Json::parse(body(get(std::string("/api/snapshot") + query)));
    EXPECT_EQ(json["connections"]["rows"].size(), rows);
    EXPECT_EQ(json["connections"]["count"], 2000);
  }
}

TEST_F(LivePageTest, WrongQueriesAreRefused) {
  for (const char* target : {"/api/snapshot?limit=0", "/api/snapshot?limit=501", "/api/snapshot?limit=-1",
                             "/api/snapshot?limit=1x", "/api/snapshot?limit=", "/api/snapshot?sort=colour",
                             "/api/history?since=x", "/api/history?since=", "/api/history?since=99999999999999999999"}) {
    const std::string answer = get(target);
    EXPECT_TRUE(answer.starts_with("HTTP/1.1 400 Bad Request\r\n")) << target;
    EXPECT_NE(body(answer).find("takes"), std::string::npos) << target;
  }
}

TEST_F(LivePageTest, TheCoresAreAskedOnceHoweverManyPagesAreOpen) {
  LivePage page(collector_, history_, view_);
  const std::string request = "GET /api/snapshot HTTP/1.1\r\n\r\n";
  for (int i = 0; i < 20; ++i) {
    (void)page.answer(http_parse(request));
  }
  EXPECT_LE(view_.calls, 8) << "once for connections, activity, policy and status, and some again should this take seconds";
}

TEST_F(LivePageTest, AHangingCoreIsSaidAndNotAskedForConnections) {
  hangs_ = true;
  const Json json = Json::parse(body(get("/api/snapshot")));
  EXPECT_EQ(json["live"], false);
  EXPECT_NE(json["reason"], "");
  EXPECT_EQ(view_.calls, 0);
}

TEST_F(LivePageTest, AssetsAreGivenCompressedAndOnce) {
  if (page_assets().empty()) {
    EXPECT_NE(get("/", "Accept-Encoding: gzip\r\n").find("not built in"), std::string::npos);
    GTEST_SKIP() << "built without the page";
  }
  for (const PageAsset& asset : page_assets()) {
    const std::string answer = get(std::string(asset.path), "Accept-Encoding: gzip\r\n");
    EXPECT_TRUE(answer.starts_with("HTTP/1.1 200 OK\r\nContent-Type: " + std::string(asset.content_type) + "\r\n")) << asset.path;
    EXPECT_NE(answer.find("Content-Encoding: gzip\r\n"), std::string::npos) << asset.path;
    EXPECT_EQ(body(answer), asset.gzip) << asset.path;
    const std::string known =
        get(std::string(asset.path), "Accept-Encoding: gzip\r\nIf-None-Match: " + std::string(asset.etag) + "\r\n");
    EXPECT_TRUE(known.starts_with("HTTP/1.1 304 Not Modified\r\n")) << asset.path;
  }
  EXPECT_TRUE(get("/page/main.js").starts_with("HTTP/1.1 406 ")) << "who takes no gzip";
}

TEST_F(LivePageTest, WhoTakesNoGzipGetsTheListAsText) {
  const std::string answer = get("/");
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\n")) << answer;
  EXPECT_NE(answer.find("/metrics  Prometheus metrics"), std::string::npos);
  EXPECT_NE(answer.find("/api/snapshot"), std::string::npos);
}

TEST_F(LivePageTest, NothingOutsideThePageCanBeAskedFor) {
  for (const char* target : {"/page/", "/page/../metrics", "/page/none.js", "/page//etc/passwd", "/page/main.js/"}) {
    EXPECT_TRUE(get(target, "Accept-Encoding: gzip\r\n").starts_with("HTTP/1.1 404 ")) << target;
  }
}

// Bundled files load nothing from elsewhere: what the page needs is in it.
TEST_F(LivePageTest, EveryAssetThatThePageNamesIsThere) {
  if (page_assets().empty()) {
    GTEST_SKIP() << "built without the page";
  }
  for (const char* path : {"/", "/page/style.css", "/page/uplot.css", "/page/uplot.js", "/page/uplot-license.txt",
                           "/page/early.js", "/page/icon.svg", "/page/main.js", "/page/chart.js", "/page/heatmap.js"}) {
    EXPECT_TRUE(std::ranges::any_of(page_assets(), [path](const PageAsset& asset) { return asset.path == path; })) << path;
  }
}

}  // namespace
}  // namespace cw::telemetry
