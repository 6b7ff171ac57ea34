// Who may ask the metrics server, by its web configuration file (web_config.h). The files are looked at again while it runs, so
// that a certificate that has been renewed is used without a reload; files with a mistake leave in force what was before.
//
// A password costs a long calculation, by design, in the thread that answers everybody. One that was right is remembered, by a
// digest, and costs nothing from then on. Others are calculated at kChecks a second for one address, kChecksOfAll for all; who
// asks faster is told to wait, and keeps nobody waiting whose password is known.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/ip_address.h"
#include "base/prefix_table.h"
#include "base/random.h"
#include "base/time.h"
#include "base/token_bucket.h"
#include "telemetry/tls.h"
#include "telemetry/web_config.h"

namespace cw::telemetry {

class WebAccess {
 public:
  static constexpr RateLimit kChecks{.per_second = 2, .burst = 4};
  static constexpr RateLimit kChecksOfAll{.per_second = 4, .burst = 8};
  static constexpr Duration kLookAgain = Duration::seconds(1);

  // Null, and one sentence in `problem`.
  [[nodiscard]] static std::unique_ptr<WebAccess> open(const std::string& path, std::string& problem);

  // Looks whether the files have changed, at most every kLookAgain, and takes them. What it says, if anything, is for the log.
  [[nodiscard]] std::string refresh(Instant now);

  // Null: plain HTTP. For one connection, from its beginning to its end.
  [[nodiscard]] const std::shared_ptr<const TlsServer>& tls() const { return tls_; }
  [[nodiscard]] bool asks_password() const { return !config_.users.empty(); }

  enum class Verdict : uint8_t { kMayAsk, kWrong, kTooFast };
  // `authorization`: the value of the field, "Basic ..."; empty: there is none.
  [[nodiscard]] Verdict judge(std::string_view authorization, const IpAddress& client, Instant now);

 private:
  using Digest = std::string;
  // What tells whether a file is another one; all zeros: there is none.
  struct Signature {
    uint64_t inode = 0;
    int64_t size = 0;
    int64_t changed_ns = 0;
    bool operator==(const Signature&) const = default;
  };

  WebAccess(std::string path, WebConfig config, std::shared_ptr<const TlsServer> tls);
  [[nodiscard]] std::vector<Signature> signatures() const;
  [[nodiscard]] Digest digest_of(std::string_view credentials) const;

  std::string path_;
  WebConfig config_;
  std::shared_ptr<const TlsServer> tls_;
  std::vector<Signature> seen_;
  Instant look_after_;
  std::string salt_;           // of the digests; of this process alone
  std::vector<Digest> known_;  // one for each user at most, empty: not known yet
  SeededRandom random_;        // which networks share a set of the table
  PrefixTable checks_;         // by address
  TokenBucket checks_of_all_{kChecksOfAll};
};

}  // namespace cw::telemetry
