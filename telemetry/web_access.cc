#include "telemetry/web_access.h"

#include <crypt.h>
#include <fmt/core.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/rand.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "base/assert.h"
#include "telemetry/http_request.h"

namespace cw::telemetry {
namespace {

uint64_t random_word() {
  uint64_t word = 0;
  CW_ASSERT(RAND_bytes(reinterpret_cast<unsigned char*>(&word), sizeof(word)) == 1);
  return word;
}

std::string random_salt() {
  std::string salt(32, '\0');
  CW_ASSERT(RAND_bytes(reinterpret_cast<unsigned char*>(salt.data()), static_cast<int>(salt.size())) == 1);
  return salt;
}

bool is_same(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

bool has_password(const std::string& hash, const std::string& password) {
  const auto scratch = std::make_unique<crypt_data>();
  const char* made = crypt_r(password.c_str(), hash.c_str(), scratch.get());
  return made != nullptr && is_same(made, hash);
}

std::shared_ptr<const TlsServer> tls_of(const WebConfig& config, const std::string& path, std::string& problem) {
  if (!config.tls) {
    return nullptr;
  }
  auto tls = TlsServer::make(*config.tls, problem);
  if (tls == nullptr) {
    problem = fmt::format("{}: {}", path, problem);
  }
  return tls;
}

}  // namespace

WebAccess::WebAccess(std::string path, WebConfig config, std::shared_ptr<const TlsServer> tls)
    : path_(std::move(path)),
      config_(std::move(config)),
      tls_(std::move(tls)),
      seen_(signatures()),
      salt_(random_salt()),
      known_(config_.users.size()),
      random_(random_word()),
      checks_({.ipv4_bits = 32, .ipv6_bits = 64, .request_rate = kChecks, .prefix_max = 256}, random_) {}

std::unique_ptr<WebAccess> WebAccess::open(const std::string& path, std::string& problem) {
  problem.clear();
  std::optional<WebConfig> config = read_web_config(path, problem);
  if (!config) {
    return nullptr;
  }
  auto tls = tls_of(*config, path, problem);
  if (!problem.empty()) {
    return nullptr;
  }
  return std::unique_ptr<WebAccess>(new WebAccess(path, std::move(*config), std::move(tls)));
}

std::vector<WebAccess::Signature> WebAccess::signatures() const {
  std::vector<std::string> files = {path_};
  if (config_.tls) {
    files.insert(files.end(), {config_.tls->cert_file, config_.tls->key_file, config_.tls->client_ca_file});
  }
  std::vector<Signature> all;
  for (const std::string& file : files) {
    struct stat status {};
    const bool exists = !file.empty() && stat(file.c_str(), &status) == 0;
    all.push_back(exists
                      ? Signature{status.st_ino, status.st_size, status.st_ctim.tv_sec * 1'000'000'000 + status.st_ctim.tv_nsec}
                      : Signature{});
  }
  return all;
}

std::string WebAccess::refresh(Instant now) {
  if (now < look_after_) {
    return {};
  }
  look_after_ = now + kLookAgain;
  std::vector<Signature> found = signatures();
  if (found == seen_) {
    return {};
  }
  seen_ = std::move(found);  // looked at once, whatever comes of it
  std::string problem;
  std::optional<WebConfig> config = read_web_config(path_, problem);
  auto tls = config ? tls_of(*config, path_, problem) : nullptr;
  if (!problem.empty()) {
    return fmt::format("{}; what was there before stays in force", problem);
  }
  if (config->users != config_.users) {  // a certificate that is renewed has nobody's password calculated again
    known_.assign(config->users.size(), {});
  }
  config_ = std::move(*config);
  tls_ = std::move(tls);
  seen_ = signatures();  // the configuration may name other files now
  return fmt::format("{} has been read again", path_);
}

WebAccess::Digest WebAccess::digest_of(std::string_view credentials) const {
  const std::string salted = salt_ + std::string(credentials);
  Digest digest(EVP_MAX_MD_SIZE, '\0');
  unsigned int size = 0;
  CW_ASSERT(EVP_Digest(salted.data(), salted.size(), reinterpret_cast<unsigned char*>(digest.data()), &size, EVP_sha256(),
                       nullptr) == 1);
  digest.resize(size);
  return digest;
}

WebAccess::Verdict WebAccess::judge(std::string_view authorization, const IpAddress& client, Instant now) {
  if (!asks_password()) {
    return Verdict::kMayAsk;
  }
  const std::optional<std::string> credentials = http_basic_credentials(authorization);
  if (!credentials) {
    return Verdict::kWrong;
  }
  const Digest digest = digest_of(*credentials);
  if (std::ranges::any_of(known_, [&](const Digest& known) { return is_same(known, digest); })) {
    return Verdict::kMayAsk;
  }
  if (!checks_.take_request(now, checks_.find(now, client)) || !checks_of_all_.take(now)) {
    return Verdict::kTooFast;
  }
  const size_t colon = credentials->find(':');
  const auto user = std::ranges::find(config_.users, std::string_view(*credentials).substr(0, colon), &WebUser::name);
  // Of a name that is not there a password is calculated too, so that the time does not tell which are.
  const bool exists = user != config_.users.end();
  if (!has_password(exists ? user->hash : config_.users.front().hash, credentials->substr(colon + 1)) || !exists) {
    return Verdict::kWrong;
  }
  known_[static_cast<size_t>(user - config_.users.begin())] = digest;
  return Verdict::kMayAsk;
}

}  // namespace cw::telemetry
