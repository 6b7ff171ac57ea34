#include "telemetry/web_config.h"

#include <fmt/core.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

namespace cw::telemetry {
namespace {

// What is wrong, and where. Thrown and caught in this file only.
struct Mistake {
  int line;  // from 1; 0: of no line
  std::string what;
};

[[noreturn]] void refuse(const YAML::Node& node, std::string what) {
  throw Mistake{node.Mark().line + 1, std::move(what)};
}

std::string text_of(const YAML::Node& node, std::string_view key) {
  if (!node.IsScalar() || node.Scalar().empty()) {
    refuse(node, fmt::format("{} wants a text", key));
  }
  return node.Scalar();
}

bool truth_of(const YAML::Node& node, std::string_view key) {
  if (!node.IsScalar() || (node.Scalar() != "true" && node.Scalar() != "false")) {
    refuse(node, fmt::format("{} wants true or false", key));
  }
  return node.Scalar() == "true";
}

template <typename Value>
Value choice_of(const YAML::Node& node, std::string_view key, const auto& choices) {
  const std::string text = text_of(node, key);
  std::string names;
  for (const auto& [name, value] : choices) {
    if (text == name) {
      return value;
    }
    names += (names.empty() ? "" : ", ") + std::string(name);
  }
  refuse(node, fmt::format("{} = {} is not offered; there are: {}", key, text, names));
}

// Calls `take` with each key of a mapping and its value; false from it: there is no such key.
void each_of(const YAML::Node& node, std::string_view name, const auto& take) {
  if (node.IsNull()) {
    return;
  }
  if (!node.IsMap()) {
    refuse(node, fmt::format("{} wants keys with values, as \"key: value\"", name));
  }
  std::vector<std::string> seen;
  for (const auto& entry : node) {
    const std::string key = text_of(entry.first, "a key");
    if (std::ranges::find(seen, key) != seen.end()) {
      refuse(entry.first, fmt::format("{} stands twice in {}", key, name));
    }
    seen.push_back(key);
    if (!take(key, entry.second)) {
      refuse(entry.first,
             fmt::format("{} has no key {} here; remove it, or look at deploy/GUIDE.md for those that there are", name, key));
    }
  }
}

constexpr std::array<std::pair<std::string_view, ClientCertificate>, 3> kClientCertificates = {{
    {"NoClientCert", ClientCertificate::kNotAsked},
    {"VerifyClientCertIfGiven", ClientCertificate::kVerifiedIfGiven},
    {"RequireAndVerifyClientCert", ClientCertificate::kRequired},
}};
constexpr std::array<std::pair<std::string_view, TlsVersion>, 2> kVersions = {{
    {"TLS12", TlsVersion::kTls12},
    {"TLS13", TlsVersion::kTls13},
}};

std::string file_of(const YAML::Node& node, std::string_view key, const std::string& path) {
  return (std::filesystem::path(path).parent_path() / text_of(node, key)).string();
}

TlsSettings tls_of(const YAML::Node& node, const std::string& path) {
  TlsSettings tls;
  each_of(node, "tls_server_config", [&](const std::string& key, const YAML::Node& value) {
    if (key == "cert_file") {
      tls.cert_file = file_of(value, key, path);
    } else if (key == "key_file") {
      tls.key_file = file_of(value, key, path);
    } else if (key == "client_ca_file") {
      tls.client_ca_file = file_of(value, key, path);
    } else if (key == "client_auth_type") {
      tls.client_certificate = choice_of<ClientCertificate>(value, key, kClientCertificates);
    } else if (key == "min_version") {
      tls.min_version = choice_of<TlsVersion>(value, key, kVersions);
    } else if (key == "max_version") {
      tls.max_version = choice_of<TlsVersion>(value, key, kVersions);
    } else if (key == "cipher_suites") {
      if (!value.IsSequence()) {
        refuse(value, "cipher_suites wants a list");
      }
      for (const YAML::Node& suite : value) {
        tls.cipher_suites.push_back(text_of(suite, key));
      }
    } else if (key == "prefer_server_cipher_suites") {
      (void)truth_of(value, key);  // Go ignores it as well
    } else {
      return false;
    }
    return true;
  });
  if (tls.cert_file.empty() || tls.key_file.empty()) {
    refuse(node, "tls_server_config wants cert_file and key_file");
  }
  if (tls.client_certificate != ClientCertificate::kNotAsked && tls.client_ca_file.empty()) {
    refuse(node, "client_auth_type wants client_ca_file, whose certificates clients are verified with");
  }
  if (tls.client_certificate == ClientCertificate::kNotAsked && !tls.client_ca_file.empty()) {
    refuse(node, "client_ca_file alone lets everybody in; add client_auth_type: RequireAndVerifyClientCert, or remove it");
  }
  if (tls.min_version > tls.max_version) {
    refuse(node, "min_version is above max_version");
  }
  return tls;
}

void check_hash(const YAML::Node& node, const std::string& user, const std::string& hash) {
  const bool is_bcrypt = hash.size() == 60 &&
                         (hash.starts_with("$2y$") || hash.starts_with("$2b$") || hash.starts_with("$2a$")) && hash[4] >= '0' &&
                         hash[4] <= '9' && hash[5] >= '0' && hash[5] <= '9' && hash[6] == '$';
  if (!is_bcrypt) {
    refuse(node, fmt::format("the password of {} is no bcrypt hash; make one with: htpasswd -nBC 10 {}", user, user));
  }
  const int cost = (hash[4] - '0') * 10 + (hash[5] - '0');
  if (cost > static_cast<int>(kBcryptCostMax)) {
    refuse(node, fmt::format("the hash of {} has cost {}, above {}, and a check of it would keep all others waiting; "
                             "make one with: htpasswd -nBC 10 {}",
                             user, cost, kBcryptCostMax, user));
  }
}

std::vector<WebUser> users_of(const YAML::Node& node) {
  std::vector<WebUser> users;
  each_of(node, "basic_auth_users", [&](const std::string& name, const YAML::Node& value) {
    if (name.find(':') != std::string::npos) {
      refuse(value, "a user's name has no colon in it");
    }
    const std::string hash = text_of(value, name);
    check_hash(value, name, hash);
    users.push_back({name, hash});
    return true;
  });
  if (users.empty()) {
    refuse(node, "basic_auth_users names nobody, so nobody could ask; name a user, or remove it");
  }
  if (users.size() > kWebUsersMax) {
    refuse(node, fmt::format("basic_auth_users names {} users; at most {}", users.size(), kWebUsersMax));
  }
  return users;
}

WebConfig config_of(const YAML::Node& root, const std::string& path) {
  WebConfig config;
  each_of(root, "the file", [&](const std::string& key, const YAML::Node& value) {
    if (key == "tls_server_config") {
      config.tls = tls_of(value, path);
    } else if (key == "basic_auth_users") {
      config.users = users_of(value);
    } else if (key == "http_server_config") {
      each_of(value, key, [](const std::string& inner, const YAML::Node& setting) {
        // Whoever offers HTTP/2 takes HTTP/1.1 too.
        return inner == "http2" && (truth_of(setting, inner), true);
      });
    } else {
      return false;
    }
    return true;
  });
  return config;
}

}  // namespace

std::optional<WebConfig> parse_web_config(const std::string& text, const std::string& path, std::string& problem) {
  try {
    return config_of(YAML::Load(text), path);
  } catch (const Mistake& mistake) {
    problem = fmt::format("{}:{}: {}", path, mistake.line, mistake.what);
  } catch (const YAML::Exception& error) {
    problem = fmt::format("{}:{}: not YAML: {}", path, error.mark.line + 1, error.msg);
  }
  return std::nullopt;
}

std::optional<WebConfig> read_web_config(const std::string& path, std::string& problem) {
  std::ifstream file(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  if (!file.is_open() || file.bad()) {
    problem = fmt::format("{}: {}; the user that the gateway runs as has to read it", path, std::strerror(errno));
    return std::nullopt;
  }
  return parse_web_config(text, path, problem);
}

}  // namespace cw::telemetry
