// The metrics server behind TLS and passwords, over real loopback sockets, asked by OpenSSL.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <prometheus/metric_family.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <array>
#include <cerrno>
#include <memory>
#include <string>
#include <vector>

#include "control/socket/unique_fd.h"
#include "telemetry/metrics_server.h"
#include "telemetry/web_access.h"
#include "tests/support/certificates.h"
#include "tests/support/file_tree.h"
#include "tests/unit/telemetry/refused.h"

namespace cw::telemetry {
namespace {

using control::UniqueFd;

constexpr const char* kGet = "GET /metrics HTTP/1.1\r\n\r\n";
constexpr const char* kWithPassword = "GET /metrics HTTP/1.1\r\nAuthorization: Basic bWU6c2VjcmV0\r\n\r\n";  // me:secret

class OneGauge final : public prometheus::Collectable {
 public:
  [[nodiscard]] std::vector<prometheus::MetricFamily> Collect() const override {
    prometheus::ClientMetric metric;
    metric.gauge.value = 42;
    return {{"causeway_answer" + std::string(padding, 'x'), "An answer.", prometheus::MetricType::Gauge, {metric}}};
  }
  size_t padding = 0;
};

class Healthy final : public HealthSource {
 public:
  [[nodiscard]] Health health() const override { return {true, true, ""}; }
};

class TlsServerTest : public testing::Test {
 protected:
  TlsServerTest() {
    tree_.write("a.crt", server_certificate_.cert_pem);
    tree_.write("a.key", server_certificate_.key_pem);
    tree_.write("ca.crt", authority_.cert_pem);
  }
  void start(const std::string& web_config, Duration timeout = Duration::seconds(5)) {
    tree_.write("web.yml", web_config);
    std::string problem;
    server_ = MetricsServer::start({.listen = {IpAddress::v4(INADDR_LOOPBACK), 0},
                                    .client_timeout = timeout,
                                    .web_config = (tree_.root() / "web.yml").string(),
                                    .refusals = &refusals_},
                                   metrics_, health_, problem);
    ASSERT_NE(server_, nullptr) << problem;
  }
  [[nodiscard]] UniqueFd connect_client() const {
    UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const timeval timeout{.tv_sec = 10, .tv_usec = 0};
    setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(server_->address().port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    return fd;
  }
  // The server has closed the connection, and has counted it before.
  static void wait_for_end(const UniqueFd& fd) {
    std::array<char, 4096> buffer{};
    while (recv(fd.get(), buffer.data(), buffer.size(), 0) > 0) {
    }
  }
  // Of a plain connection.
  [[nodiscard]] std::string ask_plain(const std::string& request) const {
    const UniqueFd fd = connect_client();
    send(fd.get(), request.data(), request.size(), MSG_NOSIGNAL);
    std::string text;
    std::array<char, 4096> buffer{};
    ssize_t got = 0;
    while ((got = recv(fd.get(), buffer.data(), buffer.size(), 0)) > 0) {
      text.append(buffer.data(), static_cast<size_t>(got));
    }
    return text;
  }
  // By TLS, with a certificate of the client's where there is one; an empty text: no TLS, or no answer.
  [[nodiscard]] std::string ask(const std::string& request, const test::Certificate* client = nullptr,
                                int version_max = TLS1_3_VERSION) const {
    const std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context(SSL_CTX_new(TLS_client_method()), &SSL_CTX_free);
    SSL_CTX_set_max_proto_version(context.get(), version_max);
    SSL_CTX_set_security_level(context.get(), 0);  // or an old version would not even be asked for
    SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, nullptr);
    SSL_CTX_load_verify_file(context.get(), (tree_.root() / "ca.crt").c_str());
    if (client != nullptr) {
      tree_.write("client.crt", client->cert_pem);
      tree_.write("client.key", client->key_pem);
      SSL_CTX_use_certificate_file(context.get(), (tree_.root() / "client.crt").c_str(), SSL_FILETYPE_PEM);
      SSL_CTX_use_PrivateKey_file(context.get(), (tree_.root() / "client.key").c_str(), SSL_FILETYPE_PEM);
    }
    const UniqueFd fd = connect_client();
    const std::unique_ptr<SSL, decltype(&SSL_free)> ssl(SSL_new(context.get()), &SSL_free);
    SSL_set_fd(ssl.get(), fd.get());
    SSL_set1_host(ssl.get(), "localhost");
    std::string text;
    if (SSL_connect(ssl.get()) != 1 || SSL_write(ssl.get(), request.data(), static_cast<int>(request.size())) <= 0) {
      ERR_clear_error();
      wait_for_end(fd);
      return text;
    }
    std::array<char, 4096> buffer{};
    int got = 0;
    while ((got = SSL_read(ssl.get(), buffer.data(), buffer.size())) > 0) {
      text.append(buffer.data(), static_cast<size_t>(got));
    }
    ended_in_order_ = SSL_get_error(ssl.get(), got) == SSL_ERROR_ZERO_RETURN;
    ERR_clear_error();
    wait_for_end(fd);
    return text;
  }

  test::FileTree tree_;
  test::Certificate authority_ = test::make_certificate("An Authority");
  test::Certificate server_certificate_ = test::make_certificate("localhost", &authority_);
  OneGauge metrics_;
  Healthy health_;
  WebRefusals refusals_;
  mutable bool ended_in_order_ = false;
  std::unique_ptr<MetricsServer> server_;
};

constexpr const char* kTls = "tls_server_config: {cert_file: a.crt, key_file: a.key}\n";

TEST_F(TlsServerTest, AnswersByTls) {
  start(kTls);
  const std::string answer = ask(kGet);
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 200 OK\r\n")) << answer;
  EXPECT_TRUE(answer.ends_with("causeway_answer 42\n")) << answer;
  EXPECT_TRUE(ended_in_order_) << "a cut would pass for the end";
}

// Longer than what the socket takes at once, so that the server waits for the client again and again.
TEST_F(TlsServerTest, ALongAnswerComesWhole) {
  metrics_.padding = 8 << 20;
  start(kTls, Duration::seconds(60));
  EXPECT_GT(ask(kGet).size(), metrics_.padding);
  EXPECT_TRUE(ended_in_order_);
}

TEST_F(TlsServerTest, WhoAsksByPlainHttpIsToldSo) {
  start(kTls);
  const std::string answer = ask_plain(kGet);
  EXPECT_TRUE(answer.starts_with("HTTP/1.0 400 Bad Request\r\n")) << answer;
  EXPECT_NE(answer.find("ask with https://"), std::string::npos);
  EXPECT_EQ(refused(refusals_), "plain_http 1");
  EXPECT_EQ(ask_plain(std::string("\x16\x03\x01\x00\x05hello", 10)).find("HTTP"), std::string::npos);
  EXPECT_EQ(refused(refusals_), "tls 1, plain_http 1") << "no TLS either";
  EXPECT_TRUE(ask(kGet).starts_with("HTTP/1.1 200 OK\r\n")) << "others are served as before";
}

TEST_F(TlsServerTest, AnOldVersionIsRefused) {
  start(kTls);
  EXPECT_EQ(ask(kGet, nullptr, TLS1_1_VERSION), "");
  EXPECT_EQ(refused(refusals_), "tls 1");
  EXPECT_TRUE(ask(kGet, nullptr, TLS1_2_VERSION).starts_with("HTTP/1.1 200 OK\r\n"));
  start("tls_server_config: {cert_file: a.crt, key_file: a.key, min_version: TLS13}\n");
  EXPECT_EQ(ask(kGet, nullptr, TLS1_2_VERSION), "");
  EXPECT_TRUE(ask(kGet).starts_with("HTTP/1.1 200 OK\r\n"));
}

TEST_F(TlsServerTest, AClientsCertificateIsAskedForAndVerified) {
  start(
      "tls_server_config: {cert_file: a.crt, key_file: a.key, client_auth_type: RequireAndVerifyClientCert, client_ca_file: "
      "ca.crt}\n");
  const test::Certificate known = test::make_certificate("prometheus", &authority_);
  const test::Certificate stranger = test::make_certificate("prometheus");
  EXPECT_EQ(ask(kGet), "");
  EXPECT_EQ(refused(refusals_), "tls 1");
  EXPECT_EQ(ask(kGet, &stranger), "");
  EXPECT_EQ(refused(refusals_), "tls 2");
  EXPECT_TRUE(ask(kGet, &known).starts_with("HTTP/1.1 200 OK\r\n"));
  EXPECT_EQ(refused(refusals_), "tls 2");
}

// As after a renewal of which Prometheus was not told.
TEST_F(TlsServerTest, AClientThatDoesNotTrustTheGatewayIsCounted) {
  const test::Certificate other = test::make_certificate("Another Authority");
  tree_.write("ca.crt", other.cert_pem);
  start(kTls);
  EXPECT_EQ(ask(kGet), "");
  EXPECT_EQ(refused(refusals_), "tls 1");
}

TEST_F(TlsServerTest, WhoGivesNoPasswordOrAWrongOneIsCounted) {
  start(std::string(kTls) + "basic_auth_users: {me: \"" + test::bcrypt_of("secret") + "\"}\n");
  (void)ask(kWithPassword);
  (void)ask("GET /healthz HTTP/1.1\r\n\r\n");
  EXPECT_EQ(refused(refusals_), "");
  (void)ask(kGet);
  EXPECT_EQ(refused(refusals_), "no_password 1");
  (void)ask("GET /metrics HTTP/1.1\r\nAuthorization: Basic bWU6Z3Vlc3M=\r\n\r\n");      // me:guess
  (void)ask("GET /metrics HTTP/1.1\r\nAuthorization: Basic eW91OnNlY3JldA==\r\n\r\n");  // you:secret
  (void)ask("GET /metrics HTTP/1.1\r\nAuthorization: Bearer secret\r\n\r\n");
  EXPECT_EQ(refused(refusals_), "no_password 1, wrong_password 3");
}

TEST_F(TlsServerTest, APasswordIsAskedForExceptByProbes) {
  start(std::string(kTls) + "basic_auth_users: {me: \"" + test::bcrypt_of("secret") + "\"}\n");
  const std::string refused = ask(kGet);
  EXPECT_TRUE(refused.starts_with("HTTP/1.1 401 Unauthorized\r\n")) << refused;
  EXPECT_NE(refused.find("\r\nWWW-Authenticate: Basic realm=\"Causeway\""), std::string::npos);
  EXPECT_EQ(refused.find("causeway_answer"), std::string::npos);
  for (const char* path : {"/", "/api/snapshot", "/page/main.js", "/no/such/page"}) {
    EXPECT_TRUE(ask(std::string("GET ") + path + " HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 401 ")) << path;
  }
  EXPECT_TRUE(ask("GET /healthz HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 200 "));
  EXPECT_TRUE(ask("GET /readyz HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 200 "));
  EXPECT_TRUE(ask(kWithPassword).starts_with("HTTP/1.1 200 OK\r\n"));
}

TEST_F(TlsServerTest, APasswordIsAskedForWithoutTlsToo) {
  start("basic_auth_users: {me: \"" + test::bcrypt_of("secret") + "\"}\n");
  EXPECT_TRUE(ask_plain(kGet).starts_with("HTTP/1.1 401 "));
  EXPECT_TRUE(ask_plain(kWithPassword).starts_with("HTTP/1.1 200 "));
}

TEST_F(TlsServerTest, GuessesAreSlowedDown) {
  start("basic_auth_users: {me: \"" + test::bcrypt_of("secret") + "\"}\n");
  std::string answer;
  for (int i = 0; i < 50 && !answer.starts_with("HTTP/1.1 429 "); ++i) {
    answer = ask_plain("GET /metrics HTTP/1.1\r\nAuthorization: Basic bWU6Z3Vlc3M=\r\n\r\n");  // me:guess
  }
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 429 Too Many Requests\r\nRetry-After: 1\r\n") ||
              answer.find("\r\nRetry-After: 1\r\n") != std::string::npos)
      << answer;
  EXPECT_EQ(refusals_.of(WebRefusal::kPasswordRate), 1u);
  EXPECT_GE(refusals_.of(WebRefusal::kWrongPassword), WebAccess::kChecks.burst);
}

TEST_F(TlsServerTest, WhoStopsInTheHandshakeIsClosedAndDelaysNobody) {
  start(kTls, Duration::ms(500));
  const UniqueFd slow = connect_client();
  send(slow.get(), "\x16\x03\x01\x02", 4, MSG_NOSIGNAL);
  EXPECT_TRUE(ask(kGet).starts_with("HTTP/1.1 200 "));
  char end = 0;
  EXPECT_LE(recv(slow.get(), &end, 1, 0), 0);
  EXPECT_EQ(refused(refusals_), "handshake_timeout 1");
}

TEST_F(TlsServerTest, WhoShakesHandsAndAsksNothingIsClosedForThat) {
  start(kTls, Duration::ms(500));
  const std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context(SSL_CTX_new(TLS_client_method()), &SSL_CTX_free);
  const UniqueFd silent = connect_client();
  const std::unique_ptr<SSL, decltype(&SSL_free)> ssl(SSL_new(context.get()), &SSL_free);
  SSL_set_fd(ssl.get(), silent.get());
  ASSERT_EQ(SSL_connect(ssl.get()), 1);
  wait_for_end(silent);
  EXPECT_EQ(refused(refusals_), "request_timeout 1");
}

// The bound of clients counts those that are in a handshake, too: whoever is silent longest in it gives way.
TEST_F(TlsServerTest, SilentClientsInTheHandshakeGiveWayToOneThatAsks) {
  start(kTls, Duration::seconds(60));
  std::vector<UniqueFd> silent;
  for (uint32_t i = 0; i < MetricsServer::kClientsMax * 2; ++i) {
    silent.push_back(connect_client());
    if (i % 2 == 0) {
      send(silent.back().get(), "\x16\x03\x01\x02", 4, MSG_NOSIGNAL);
    }
  }
  EXPECT_TRUE(ask(kGet).starts_with("HTTP/1.1 200 "));
  EXPECT_EQ(refused(refusals_), "evicted " + std::to_string(MetricsServer::kClientsMax + 1));
  char end = 0;
  for (uint32_t i = 0; i < silent.size(); ++i) {
    if (i <= MetricsServer::kClientsMax) {
      EXPECT_LE(recv(silent[i].get(), &end, 1, 0), 0) << i;
    } else {
      EXPECT_EQ(recv(silent[i].get(), &end, 1, MSG_DONTWAIT), -1) << i << " came later, and stays";
      EXPECT_EQ(errno, EAGAIN) << i;
    }
  }
}

TEST_F(TlsServerTest, AFileWithAMistakeStartsNothing) {
  tree_.write("web.yml", "tls_server_config: {cert_file: a.crt}\n");
  std::string problem;
  EXPECT_EQ(
      MetricsServer::start({.listen = {IpAddress::v4(INADDR_LOOPBACK), 0}, .web_config = (tree_.root() / "web.yml").string()},
                           metrics_, health_, problem),
      nullptr);
  EXPECT_EQ(problem,
            "metrics.web_config: " + (tree_.root() / "web.yml").string() + ":1: tls_server_config wants cert_file and key_file");
}

}  // namespace
}  // namespace cw::telemetry
