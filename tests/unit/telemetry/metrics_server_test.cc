// The /metrics endpoint over real loopback sockets.
#include "telemetry/metrics_server.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <prometheus/metric_family.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "control/socket/unique_fd.h"
#include "telemetry/http_request.h"
#include "tests/support/sanitized.h"
#include "tests/unit/telemetry/refused.h"

namespace cw::telemetry {
namespace {

using control::UniqueFd;

class FakeMetrics final : public prometheus::Collectable {
 public:
  [[nodiscard]] std::vector<prometheus::MetricFamily> Collect() const override {
    ++scrapes;
    prometheus::ClientMetric metric;
    metric.gauge.value = 42;
    return {{"causeway_answer" + std::string(padding, 'x'), "An answer.", prometheus::MetricType::Gauge, {metric}}};
  }
  mutable std::atomic<int> scrapes{0};
  size_t padding = 0;
};

class FakeHealth final : public HealthSource {
 public:
  [[nodiscard]] Health health() const override { return now; }
  Health now{true, true, ""};
};

class MetricsServerTest : public testing::Test {
 protected:
  void start(Duration client_timeout = Duration::seconds(5), uint32_t address = INADDR_LOOPBACK) {
    std::string problem;
    server_ =
        MetricsServer::start({.listen = {IpAddress::v4(address), 0}, .client_timeout = client_timeout, .refusals = &refusals_},
                             metrics_, health_, problem);
    ASSERT_NE(server_, nullptr) << problem;
  }
  [[nodiscard]] UniqueFd connect_client() const {
    UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const timeval timeout{.tv_sec = 10, .tv_usec = 0};
    setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
    setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(server_->address().port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    return fd;
  }
  static std::string rest_of(const UniqueFd& fd) {
    std::string text;
    std::array<char, 65536> buffer;
    ssize_t got = 0;
    while ((got = recv(fd.get(), buffer.data(), buffer.size(), 0)) > 0) {
      text.append(buffer.data(), static_cast<size_t>(got));
    }
    return text;
  }
  [[nodiscard]] std::string ask(const std::string& request) const {
    const UniqueFd fd = connect_client();
    send(fd.get(), request.data(), request.size(), MSG_NOSIGNAL);
    return rest_of(fd);
  }

  FakeMetrics metrics_;
  FakeHealth health_;
  WebRefusals refusals_;
  std::unique_ptr<MetricsServer> server_;
};

TEST_F(MetricsServerTest, ProbesOfAHealthyGatewayAreAnsweredOk) {
  start();
  for (const char* path : {"/healthz", "/readyz"}) {
    const std::string answer = ask(std::string("GET ") + path + " HTTP/1.1\r\n\r\n");
    EXPECT_TRUE(answer.starts_with("HTTP/1.1 200 OK\r\n")) << answer;
    EXPECT_TRUE(answer.ends_with("\r\n\r\nok\n")) << answer;
  }
  EXPECT_EQ(metrics_.scrapes, 0);
}

TEST_F(MetricsServerTest, ReadinessSaysWhyNotWhileLivenessHolds) {
  health_.now = {true, false, "backend nfs is down", {}};
  start();
  const std::string ready = ask("GET /readyz HTTP/1.1\r\n\r\n");
  EXPECT_TRUE(ready.starts_with("HTTP/1.1 503 Service Unavailable\r\n")) << ready;
  EXPECT_TRUE(ready.ends_with("backend nfs is down\n")) << ready;
  EXPECT_TRUE(ask("GET /healthz HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 200 OK\r\n"));
}

TEST_F(MetricsServerTest, ReadinessSaysWhatWantsAttentionToo) {
  health_.now = {true, true, "", {"the last reload was refused"}};
  start();
  const std::string ready = ask("GET /readyz HTTP/1.1\r\n\r\n");
  EXPECT_TRUE(ready.starts_with("HTTP/1.1 200 OK\r\n")) << ready;
  EXPECT_TRUE(ready.ends_with("\r\n\r\nok; the last reload was refused\n")) << ready;
  EXPECT_TRUE(ask("GET /healthz HTTP/1.1\r\n\r\n").ends_with("\r\n\r\nok\n"));
}

TEST_F(MetricsServerTest, ASilentPollCoreFailsBothProbes) {
  health_.now = {false, false, "the poll core on CPU 1 does not turn", {}};
  start();
  for (const char* path : {"/healthz", "/readyz"}) {
    const std::string answer = ask(std::string("GET ") + path + " HTTP/1.1\r\n\r\n");
    EXPECT_TRUE(answer.starts_with("HTTP/1.1 503 ")) << answer;
    EXPECT_TRUE(answer.ends_with("the poll core on CPU 1 does not turn\n")) << answer;
  }
}

TEST_F(MetricsServerTest, GetGivesTheMetrics) {
  start();
  const std::string answer = ask("GET /metrics HTTP/1.1\r\nHost: localhost\r\nAccept: text/plain\r\n\r\n");
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: "))
      << answer;
  EXPECT_TRUE(answer.ends_with("\r\n\r\n# HELP causeway_answer An answer.\n# TYPE causeway_answer gauge\ncauseway_answer 42\n"))
      << answer;
}

// What Prometheus sends.
TEST_F(MetricsServerTest, WhoAsksForOpenMetricsGetsIt) {
  start();
  const std::string answer =
      ask("GET /metrics HTTP/1.1\r\nAccept: "
          "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
          "text/plain;version=0.0.4;q=0.5,*/*;q=0.1\r\n\r\n");
  EXPECT_TRUE(
      answer.starts_with("HTTP/1.1 200 OK\r\nContent-Type: application/openmetrics-text; version=1.0.0; charset=utf-8\r\n"))
      << answer;
  EXPECT_TRUE(answer.ends_with("causeway_answer 42\n# EOF\n")) << answer;
  EXPECT_EQ(ask("GET /metrics HTTP/1.1\r\n\r\n").find("# EOF"), std::string::npos) << "the other form, of the same scrape";
  EXPECT_EQ(metrics_.scrapes, 1);
}

TEST_F(MetricsServerTest, WhoTakesGzipGetsTheMetricsCompressed) {
  metrics_.padding = 10'000;
  start();
  const std::string answer = ask("GET /metrics HTTP/1.1\r\nAccept-Encoding: gzip\r\n\r\n");
  EXPECT_NE(answer.find("\r\nContent-Encoding: gzip\r\nVary: Accept-Encoding\r\n"), std::string::npos);
  EXPECT_NE(answer.find("\r\n\r\n\x1f\x8b"), std::string::npos);
  EXPECT_LT(answer.size(), 2000u);
  EXPECT_GT(ask("GET /metrics HTTP/1.1\r\nAccept-Encoding: gzip;q=0\r\n\r\n").size(), 20'000u);
}

// DNS rebinding: a web site's name points to 127.0.0.1 for a moment, and its script reads what it finds there.
TEST_F(MetricsServerTest, OnLoopbackOnlyLoopbackNamesAreAnswered) {
  start();
  for (const char* path : {"/", "/metrics", "/page/main.js", "/api/snapshot", "/api/history"}) {
    const std::string get = std::string("GET ") + path + " HTTP/1.1\r\n";
    const std::string refused = ask(get + "Host: rebound.example:9464\r\n\r\n");
    EXPECT_TRUE(refused.starts_with("HTTP/1.1 421 Misdirected Request\r\n")) << path;
    EXPECT_NE(refused.find("http://localhost"), std::string::npos);
    EXPECT_EQ(refused.find("causeway_answer"), std::string::npos);
    for (const char* host : {"Host: localhost:9464\r\n", "Host: 127.0.0.1\r\n", "Host: [::1]:9464\r\n", ""}) {
      EXPECT_FALSE(ask(get + host + "\r\n").starts_with("HTTP/1.1 421 ")) << path << ' ' << host;
    }
  }
  EXPECT_TRUE(ask("GET /healthz HTTP/1.1\r\nHost: rebound.example\r\n\r\n").starts_with("HTTP/1.1 200 "));
}

TEST_F(MetricsServerTest, OnAnotherAddressEveryNameIsAnswered) {
  start(Duration::seconds(5), INADDR_ANY);
  EXPECT_TRUE(ask("GET /metrics HTTP/1.1\r\nHost: gateway7:9464\r\n\r\n").starts_with("HTTP/1.1 200 "));
  EXPECT_TRUE(ask("GET /metrics HTTP/1.1\r\nHost: 192.0.2.7:9464\r\n\r\n").starts_with("HTTP/1.1 200 "));
}

TEST_F(MetricsServerTest, HeadGivesTheHeaderOnly) {
  start();
  EXPECT_TRUE(ask("HEAD /metrics HTTP/1.0\r\n\r\n").ends_with("Connection: close\r\n\r\n"));
}

TEST_F(MetricsServerTest, IndexNamesTheMetrics) {
  start();
  EXPECT_NE(ask("GET / HTTP/1.1\r\n\r\n").find("/metrics  Prometheus metrics"), std::string::npos);
}

TEST_F(MetricsServerTest, WrongRequestsGetTheirStatus) {
  start();
  EXPECT_TRUE(ask("POST /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405 Method Not Allowed\r\nAllow: GET, HEAD\r\n"));
  EXPECT_TRUE(ask("GET /etc/passwd HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404 "));
  EXPECT_TRUE(ask("GET /metrics HTTP/2.0\r\n\r\n").starts_with("HTTP/1.1 505 "));
  EXPECT_TRUE(ask("nonsense\r\n\r\n").starts_with("HTTP/1.1 400 "));
  EXPECT_TRUE(ask(std::string("\0\xff\r\n\r\n", 6)).starts_with("HTTP/1.1 400 "));
  EXPECT_EQ(metrics_.scrapes, 0);
}

TEST_F(MetricsServerTest, LongRequestIsRefusedAndStillReadsTheAnswer) {
  start();
  const std::string answer = ask("GET /" + std::string(20'000, 'a'));
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 431 ")) << answer;
}

TEST_F(MetricsServerTest, RequestInPiecesIsPutTogether) {
  start();
  const UniqueFd fd = connect_client();
  for (const char* piece : {"GET /met", "rics HTT", "P/1.1\r\n", "\r", "\n"}) {
    send(fd.get(), piece, strlen(piece), MSG_NOSIGNAL);
    EXPECT_TRUE(ask("GET / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 200"));  // the server has turned since
  }
  EXPECT_TRUE(rest_of(fd).starts_with("HTTP/1.1 200 OK"));
}

TEST_F(MetricsServerTest, P7_SlowClientIsClosedAtItsDeadlineAndDelaysNobody) {
  start(Duration::ms(300));
  const UniqueFd slow = connect_client();
  send(slow.get(), "GET /metr", 9, MSG_NOSIGNAL);
  EXPECT_TRUE(ask("GET /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 200"));
  EXPECT_EQ(rest_of(slow), "");
  EXPECT_EQ(refused(refusals_), "request_timeout 1");
}

TEST_F(MetricsServerTest, ClientThatNeverReadsDelaysNobody) {
  metrics_.padding = 16 << 20;
  start(Duration::ms(test::kSanitized ? 20'000 : 500));  // seconds pass before a sanitizer has made so much text
  const UniqueFd deaf = connect_client();
  send(deaf.get(), "GET /metrics HTTP/1.1\r\n\r\n", 25, MSG_NOSIGNAL);
  EXPECT_TRUE(ask("GET / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 200"));
}

TEST_F(MetricsServerTest, WhoDoesNotTakeItsAnswerInTimeIsCounted) {
  metrics_.padding = 16 << 20;
  start(Duration::ms(500));
  const UniqueFd deaf = connect_client();
  send(deaf.get(), "GET /metrics HTTP/1.1\r\n\r\n", 25, MSG_NOSIGNAL);
  for (int i = 0; i < 1200 && refused(refusals_).empty(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  EXPECT_EQ(refused(refusals_), "answer_timeout 1");
}

// It has its answer, and holds the connection until the server ends it.
TEST_F(MetricsServerTest, WhoHasItsAnswerAndStaysIsNotCounted) {
  start(Duration::ms(300));
  const UniqueFd staying = connect_client();
  send(staying.get(), "GET / HTTP/1.1\r\n\r\n", 18, MSG_NOSIGNAL);
  EXPECT_TRUE(rest_of(staying).starts_with("HTTP/1.1 200"));
  bool is_closed = false;
  for (int i = 0; i < 200 && !is_closed; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    is_closed = send(staying.get(), "x", 1, MSG_NOSIGNAL) < 0;
  }
  EXPECT_TRUE(is_closed);
  EXPECT_EQ(refused(refusals_), "");
}

TEST_F(MetricsServerTest, WhoLeavesByItselfIsNotCounted) {
  start();
  (void)connect_client();
  send(connect_client().get(), "GET /metr", 9, MSG_NOSIGNAL);
  EXPECT_TRUE(ask("GET / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 200")) << "the server has turned since";
  EXPECT_EQ(refused(refusals_), "");
}

TEST_F(MetricsServerTest, WhatIsRefusedIsCountedUnderItsReason) {
  health_.now = {true, false, "backend nfs is down", {}};
  start();
  for (const char* good : {"GET /metrics HTTP/1.1\r\n\r\n", "HEAD / HTTP/1.1\r\n\r\n", "GET /readyz HTTP/1.1\r\n\r\n"}) {
    (void)ask(good);
    EXPECT_EQ(refused(refusals_), "") << good;
  }
  for (const char* bad : {"nonsense\r\n\r\n", "POST /metrics HTTP/1.1\r\n\r\n", "GET /metrics HTTP/2.0\r\n\r\n"}) {
    (void)ask(bad);
  }
  EXPECT_EQ(refused(refusals_), "bad_request 3");
  (void)ask("GET /" + std::string(20'000, 'a'));
  EXPECT_EQ(refused(refusals_), "bad_request 4");
  (void)ask("GET /favicon.ico HTTP/1.1\r\n\r\n");
  (void)ask("GET /api/history HTTP/1.1\r\n\r\n");  // there is no page
  EXPECT_EQ(refused(refusals_), "bad_request 4, not_found 2");
  (void)ask("GET /metrics HTTP/1.1\r\nHost: rebound.example\r\n\r\n");
  EXPECT_EQ(refused(refusals_), "wrong_host 1, bad_request 4, not_found 2");
}

TEST_F(MetricsServerTest, ManySilentClientsCannotLockOutAScrape) {
  start(Duration::seconds(60));
  std::vector<UniqueFd> silent;
  for (uint32_t i = 0; i < MetricsServer::kClientsMax * 2; ++i) {
    silent.push_back(connect_client());
  }
  EXPECT_TRUE(ask("GET /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 200"));
  EXPECT_EQ(refused(refusals_), "evicted " + std::to_string(MetricsServer::kClientsMax + 1));
}

TEST_F(MetricsServerTest, ManyClientsAtOnceShareScrapes) {
  start();
  std::atomic<int> good{0};
  std::vector<std::thread> threads;
  threads.reserve(8);
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 25; ++i) {
        good += ask("GET /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 200") ? 1 : 0;
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(good, 200);
  EXPECT_LT(metrics_.scrapes, 100);
}

// Each on a connection of its own, as scrapers do: all are answered, and no descriptor is left open.
TEST_F(MetricsServerTest, P7_TenThousandScrapesAreAnsweredAndLeaveNothingOpen) {
  start();
  ASSERT_TRUE(ask("GET /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 200"));
  const auto descriptors = [] {
    const std::filesystem::directory_iterator open("/proc/self/fd");
    return std::distance(begin(open), end(open));
  };
  const auto before = descriptors();
  for (int i = 0; i < 10'000; ++i) {
    ASSERT_TRUE(ask("GET /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 200")) << i;
  }
  EXPECT_LE(descriptors(), before + 1) << "the last one may be closing yet";
  EXPECT_GT(metrics_.scrapes, 0);
}

TEST_F(MetricsServerTest, AddressInUseIsSaidWithWhatToDo) {
  start();
  std::string problem;
  const control::SocketAddress taken = server_->address();
  EXPECT_EQ(MetricsServer::start({.listen = taken}, metrics_, health_, problem), nullptr);
  EXPECT_EQ(problem, "metrics on " + control::to_string(taken) +
                         ": Address already in use; set metrics.listen to a free address, or to \"off\"");
}

TEST_F(MetricsServerTest, ServesIpv6Too) {
  std::string problem;
  IpAddress loopback;
  loopback.raw[15] = 1;
  const auto server = MetricsServer::start({.listen = {loopback, 0}}, metrics_, health_, problem);
  if (server == nullptr) {
    GTEST_SKIP() << problem;
  }
  EXPECT_NE(server->address().port, 0);
}

TEST(HttpRequest, CompleteOnlyWithItsEmptyLine) {
  EXPECT_FALSE(http_is_complete("GET / HTTP/1.1\r\n"));
  EXPECT_FALSE(http_is_complete("GET / HTTP/1.1\r\nHost: x\r\n\r"));
  EXPECT_TRUE(http_is_complete("GET / HTTP/1.1\r\n\r\n"));
  EXPECT_TRUE(http_is_complete("GET / HTTP/1.1\n\n"));
}

TEST(HttpRequest, QueryIsIgnored) {
  EXPECT_EQ(http_parse("GET /metrics?x=1 HTTP/1.1\r\n\r\n").page, HttpPage::kMetrics);
}

TEST(HttpRequest, OddRequestLinesAreBad) {
  for (const char* line : {"", "\n\n", "GET\r\n\r\n", "GET /metrics\r\n\r\n", "GET  HTTP/1.1\r\n\r\n", "get / HTTP/1.1\r\n\r\n",
                           "GET http://x/metrics HTTP/1.1\r\n\r\n", "GET /a b HTTP/1.1\r\n\r\n", "GET / FTP/1.1\r\n\r\n"}) {
    EXPECT_EQ(http_parse(line).status, HttpStatus::kBadRequest) << line;
  }
}

}  // namespace
}  // namespace cw::telemetry
