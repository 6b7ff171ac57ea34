// The web configuration file: what it says, and what is said of one with a mistake.
#include "telemetry/web_config.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace cw::telemetry {
namespace {

constexpr const char* kHash = "$2y$10$abcdefghijklmnopqrstuuABCDEFGHIJKLMNOPQRSTUVWXYZ01234";

std::string problem_of(const std::string& text) {
  std::string problem;
  EXPECT_FALSE(parse_web_config(text, "/etc/web.yml", problem).has_value()) << text;
  return problem;
}

WebConfig config_of(const std::string& text) {
  std::string problem;
  auto config = parse_web_config(text, "/etc/causeway/web.yml", problem);
  EXPECT_TRUE(config.has_value()) << problem;
  return config.value_or(WebConfig{});
}

TEST(WebConfig, NothingInItIsHttpForEverybody) {
  for (const char* text : {"", "# nothing yet\n", "tls_server_config:\n"}) {
    std::string problem;
    const auto config = parse_web_config(text, "/etc/web.yml", problem);
    EXPECT_EQ(config.has_value(), std::string(text).find("tls") == std::string::npos) << problem;
  }
  EXPECT_FALSE(config_of("").tls.has_value());
  EXPECT_TRUE(config_of("").users.empty());
}

TEST(WebConfig, SaysHowToSpeakTls) {
  const WebConfig config = config_of(
      "tls_server_config:\n"
      "  cert_file: metrics.crt\n"
      "  key_file: /secret/metrics.key\n"
      "  client_auth_type: RequireAndVerifyClientCert\n"
      "  client_ca_file: ca.crt\n"
      "  min_version: TLS13\n"
      "  cipher_suites: [TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256]\n"
      "  prefer_server_cipher_suites: true\n"
      "http_server_config:\n"
      "  http2: true\n");
  ASSERT_TRUE(config.tls.has_value());
  EXPECT_EQ(config.tls->cert_file, "/etc/causeway/metrics.crt");
  EXPECT_EQ(config.tls->key_file, "/secret/metrics.key");
  EXPECT_EQ(config.tls->client_ca_file, "/etc/causeway/ca.crt");
  EXPECT_EQ(config.tls->client_certificate, ClientCertificate::kRequired);
  EXPECT_EQ(config.tls->min_version, TlsVersion::kTls13);
  EXPECT_EQ(config.tls->cipher_suites.size(), 1u);
}

TEST(WebConfig, NamesUsers) {
  const WebConfig config =
      config_of(std::string("basic_auth_users:\n  prometheus: ") + kHash + "\n  \"on call\": " + kHash + "\n");
  ASSERT_EQ(config.users.size(), 2u);
  EXPECT_EQ(config.users[0].name, "prometheus");
  EXPECT_EQ(config.users[0].hash, kHash);
  EXPECT_EQ(config.users[1].name, "on call");
}

// Each with the line, and what to do.
TEST(WebConfig, AMistakeIsSaidWithItsLine) {
  const std::string files = "tls_server_config:\n  cert_file: a\n  key_file: b\n";
  const std::string hash = kHash;
  const std::pair<std::string, const char*> cases[] = {
      {"basic_auth_user:\n  a: b\n", "/etc/web.yml:1: the file has no key basic_auth_user here"},
      {files + "  cert_fil: c\n", "/etc/web.yml:4: tls_server_config has no key cert_fil here"},
      {files + "  key_file: c\n", "/etc/web.yml:4: key_file stands twice in tls_server_config"},
      {"tls_server_config:\n  cert_file: a\n", "/etc/web.yml:2: tls_server_config wants cert_file and key_file"},
      {files + "  min_version: TLS10\n", "/etc/web.yml:4: min_version = TLS10 is not offered; there are: TLS12, TLS13"},
      {files + "  min_version: TLS13\n  max_version: TLS12\n", "min_version is above max_version"},
      {files + "  client_auth_type: RequireAnyClientCert\n",
       "/etc/web.yml:4: client_auth_type = RequireAnyClientCert is not "
       "offered"},
      {files + "  client_auth_type: RequireAndVerifyClientCert\n", "client_auth_type wants client_ca_file"},
      {files + "  client_ca_file: c\n", "client_ca_file alone lets everybody in"},
      {files + "  cipher_suites: A\n", "/etc/web.yml:4: cipher_suites wants a list"},
      {"http_server_config:\n  headers: {}\n", "/etc/web.yml:2: http_server_config has no key headers here"},
      {"http_server_config:\n  http2: maybe\n", "/etc/web.yml:2: http2 wants true or false"},
      {"basic_auth_users:\n", "basic_auth_users names nobody"},
      {"basic_auth_users: {}\n", "basic_auth_users names nobody"},
      {"basic_auth_users: me\n", "/etc/web.yml:1: basic_auth_users wants keys with values"},
      {"basic_auth_users:\n  me: secret\n",
       "/etc/web.yml:2: the password of me is no bcrypt hash; make one with: htpasswd -nBC 10 me"},
      {"basic_auth_users:\n  me: $2y$31" + hash.substr(6) + "\n", "/etc/web.yml:2: the hash of me has cost 31"},
      {"basic_auth_users:\n  \"a:b\": " + hash + "\n", "/etc/web.yml:2: a user's name has no colon in it"},
      {"basic_auth_users:\n\t me: x\n", "/etc/web.yml:2: not YAML: "},
      {"- a\n- b\n", "/etc/web.yml:1: the file wants keys with values"},
  };
  for (const auto& [text, said] : cases) {
    EXPECT_NE(problem_of(text).find(said), std::string::npos) << text << problem_of(text);
  }
}

TEST(WebConfig, AFileThatCannotBeReadIsSaid) {
  std::string problem;
  EXPECT_FALSE(read_web_config("/nonexistent/web.yml", problem).has_value());
  EXPECT_EQ(problem, "/nonexistent/web.yml: No such file or directory; the user that the gateway runs as has to read it");
}

}  // namespace
}  // namespace cw::telemetry
