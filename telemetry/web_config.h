// The web configuration file of Prometheus' exporter-toolkit, which node_exporter and others read too: by which certificate
// /metrics and the live page are served, and which users may ask for them.
//
//   tls_server_config:
//     cert_file: metrics.crt        # a relative name is looked for beside the file
//     key_file: metrics.key
//     client_auth_type: RequireAndVerifyClientCert
//     client_ca_file: ca.crt
//   basic_auth_users:
//     prometheus: $2y$10$...        # htpasswd -nBC 10 prometheus
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cw::telemetry {

// client_auth_type. A certificate that is not asked to be verified shows nothing, so the two kinds that do not are not offered.
enum class ClientCertificate : uint8_t {
  kNotAsked,         // NoClientCert
  kVerifiedIfGiven,  // VerifyClientCertIfGiven
  kRequired,         // RequireAndVerifyClientCert
};

enum class TlsVersion : uint8_t { kTls12, kTls13 };

struct TlsSettings {
  std::string cert_file;  // PEM: the certificate, and behind it those between it and the root
  std::string key_file;   // PEM, without a passphrase
  std::string client_ca_file;
  ClientCertificate client_certificate = ClientCertificate::kNotAsked;
  TlsVersion min_version = TlsVersion::kTls12;
  TlsVersion max_version = TlsVersion::kTls13;
  std::vector<std::string> cipher_suites;  // IANA's names; of TLS 1.2. Empty: OpenSSL's choice
};

struct WebUser {
  std::string name;
  std::string hash;  // bcrypt: "$2y$", cost, "$", 53 characters
  [[nodiscard]] bool operator==(const WebUser&) const = default;
};

struct WebConfig {
  std::optional<TlsSettings> tls;  // absent: HTTP
  std::vector<WebUser> users;      // empty: everybody may ask
};

// A check of a password takes 2^cost rounds, about 60 ms with 10 and 250 ms with 12, in the thread that answers everybody.
inline constexpr uint32_t kBcryptCostMax = 12;
inline constexpr uint32_t kWebUsersMax = 64;

// `text` as it stands in the file `path`, which is named in what is wrong. Nothing, and one sentence in `problem` ("FILE:LINE:
// what, and what to do"), when anything in it is not understood: a misspelt key must not leave a door open.
[[nodiscard]] std::optional<WebConfig> parse_web_config(const std::string& text, const std::string& path, std::string& problem);
// The same of the file itself.
[[nodiscard]] std::optional<WebConfig> read_web_config(const std::string& path, std::string& problem);

}  // namespace cw::telemetry
