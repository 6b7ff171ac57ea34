// Who may ask, by a web configuration file: passwords, their price, and files that change.
#include "telemetry/web_access.h"

#include <gtest/gtest.h>
#include <openssl/evp.h>

#include <fstream>
#include <string>
#include <utility>

#include "telemetry/http_request.h"
#include "tests/support/certificates.h"
#include "tests/support/file_tree.h"

namespace cw::telemetry {
namespace {

using Verdict = WebAccess::Verdict;

const IpAddress kHost = IpAddress::v4(0xc000'0201);
const IpAddress kOther = IpAddress::v4(0xc000'0202);

std::string basic(const std::string& credentials) {
  std::string packed(4 * ((credentials.size() + 2) / 3) + 1, '\0');
  EVP_EncodeBlock(reinterpret_cast<unsigned char*>(packed.data()), reinterpret_cast<const unsigned char*>(credentials.data()),
                  static_cast<int>(credentials.size()));
  packed.pop_back();
  return "Basic " + packed;
}

class WebAccessTest : public testing::Test {
 protected:
  WebAccessTest() { write_users("prometheus", "right"); }

  void write_users(const std::string& name, const std::string& password) const {
    tree_.write("web.yml", "basic_auth_users:\n  " + name + ": " + test::bcrypt_of(password) + "\n");
  }
  [[nodiscard]] std::unique_ptr<WebAccess> open() const {
    std::string problem;
    auto access = WebAccess::open((tree_.root() / "web.yml").string(), problem);
    EXPECT_NE(access, nullptr) << problem;
    return access;
  }
  [[nodiscard]] std::string problem() const {
    std::string said;
    EXPECT_EQ(WebAccess::open((tree_.root() / "web.yml").string(), said), nullptr);
    return said;
  }

  test::FileTree tree_;
  Instant now_ = Instant::from_ns(1'000'000'000);
};

TEST_F(WebAccessTest, OnlyWhoKnowsThePasswordMayAsk) {
  const auto access = open();
  EXPECT_TRUE(access->asks_password());
  EXPECT_EQ(access->tls(), nullptr);
  EXPECT_EQ(access->judge("", kHost, now_), Verdict::kWrong);
  EXPECT_EQ(access->judge("Bearer abcd", kHost, now_), Verdict::kWrong);
  EXPECT_EQ(access->judge(basic("prometheus:wrong"), kHost, now_), Verdict::kWrong);
  EXPECT_EQ(access->judge(basic("nobody:right"), kHost, now_), Verdict::kWrong);
  EXPECT_EQ(access->judge(basic("prometheus:right"), kHost, now_), Verdict::kMayAsk);
}

// Passwords are calculated at a bounded rate, and the flood of one address is its own.
TEST_F(WebAccessTest, WhoGuessesIsToldToWaitAndKeepsNobodyWaiting) {
  const auto access = open();
  EXPECT_EQ(access->judge(basic("prometheus:right"), kOther, now_), Verdict::kMayAsk);
  for (uint32_t i = 0; i < WebAccess::kChecks.burst; ++i) {
    EXPECT_EQ(access->judge(basic("prometheus:guess"), kHost, now_), Verdict::kWrong);
  }
  EXPECT_EQ(access->judge(basic("prometheus:guess"), kHost, now_), Verdict::kTooFast);
  for (int i = 0; i < 1000; ++i) {
    EXPECT_EQ(access->judge(basic("prometheus:right"), kOther, now_), Verdict::kMayAsk);
  }
  EXPECT_EQ(access->judge(basic("prometheus:wrong"), kOther, now_), Verdict::kWrong);
  EXPECT_EQ(access->judge(basic("prometheus:guess"), kHost, now_ + Duration::seconds(1)), Verdict::kWrong);
}

TEST_F(WebAccessTest, ManyAddressesTogetherAreBoundedToo) {
  const auto access = open();
  uint32_t calculated = 0;
  for (uint32_t i = 0; i < 100; ++i) {
    const IpAddress address = IpAddress::v4(0x0a00'0000 + i);
    calculated += access->judge(basic("prometheus:guess"), address, now_) == Verdict::kWrong ? 1 : 0;
  }
  EXPECT_EQ(calculated, WebAccess::kChecksOfAll.burst);
}

TEST_F(WebAccessTest, ANewPasswordIsTakenAndTheOldOneForgotten) {
  const auto access = open();
  EXPECT_EQ(access->judge(basic("prometheus:right"), kHost, now_), Verdict::kMayAsk);
  EXPECT_EQ(access->refresh(now_), "");
  write_users("prometheus", "another");
  EXPECT_EQ(access->refresh(now_ + Duration::ms(10)), "") << "looked a moment ago";
  now_ = now_ + WebAccess::kLookAgain;
  EXPECT_EQ(access->refresh(now_), (tree_.root() / "web.yml").string() + " has been read again");
  EXPECT_EQ(access->judge(basic("prometheus:right"), kHost, now_), Verdict::kWrong);
  EXPECT_EQ(access->judge(basic("prometheus:another"), kHost, now_), Verdict::kMayAsk);
}

// Who is known is so still when only the certificate has changed: otherwise all who ask would have to wait for their passwords to
// be calculated again.
TEST_F(WebAccessTest, ARenewedCertificateForgetsNoPassword) {
  const auto access = open();
  EXPECT_EQ(access->judge(basic("prometheus:right"), kHost, now_), Verdict::kMayAsk);
  std::ofstream(tree_.root() / "web.yml", std::ios::app) << "\n";
  EXPECT_NE(access->refresh(now_).find("has been read again"), std::string::npos);
  while (access->judge(basic("prometheus:wrong"), kHost, now_) != Verdict::kTooFast) {
  }
  EXPECT_EQ(access->judge(basic("prometheus:right"), kHost, now_), Verdict::kMayAsk) << "it is not calculated";
}

// A mistake must neither open the door nor close it.
TEST_F(WebAccessTest, AFileWithAMistakeLeavesInForceWhatWasBefore) {
  const auto access = open();
  tree_.write("web.yml", "basic_auth_user:\n  x: y\n");
  EXPECT_NE(access->refresh(now_).find("web.yml:1: the file has no key basic_auth_user here"), std::string::npos);
  EXPECT_EQ(access->refresh(now_ + WebAccess::kLookAgain), "") << "said once";
  EXPECT_EQ(access->judge("", kHost, now_), Verdict::kWrong);
  EXPECT_EQ(access->judge(basic("prometheus:right"), kHost, now_), Verdict::kMayAsk);
  tree_.remove("web.yml");
  EXPECT_NE(access->refresh(now_ + WebAccess::kLookAgain * 2).find("No such file"), std::string::npos);
  EXPECT_EQ(access->judge("", kHost, now_), Verdict::kWrong);
}

TEST_F(WebAccessTest, ARenewedCertificateIsTaken) {
  const auto write = [&] {
    const test::Certificate made = test::make_certificate("localhost");
    tree_.write("a.crt", made.cert_pem);
    tree_.write("a.key", made.key_pem);
  };
  write();
  tree_.write("web.yml", "tls_server_config: {cert_file: a.crt, key_file: a.key}\n");
  const auto access = open();
  EXPECT_FALSE(access->asks_password());
  const auto before = access->tls();
  ASSERT_NE(before, nullptr);
  write();
  EXPECT_NE(access->refresh(now_).find("has been read again"), std::string::npos);
  EXPECT_NE(access->tls(), before);
  // Half a renewal: the certificate is new, its key is not there yet.
  const auto whole = access->tls();
  tree_.write("a.crt", test::make_certificate("localhost").cert_pem);
  EXPECT_NE(access->refresh(now_ + WebAccess::kLookAgain).find("stays in force"), std::string::npos);
  EXPECT_EQ(access->tls(), whole);
}

TEST_F(WebAccessTest, FilesThatDoNotFitAreNamed) {
  const std::string tls = "tls_server_config: {cert_file: a.crt, key_file: a.key";
  tree_.write("web.yml", tls + "}\n");
  EXPECT_NE(problem().find("/a.crt: "), std::string::npos) << problem();
  const test::Certificate a = test::make_certificate("a");
  tree_.write("a.crt", a.cert_pem);
  EXPECT_NE(problem().find("/a.key: "), std::string::npos) << problem();
  tree_.write("a.key", test::make_certificate("b").key_pem);
  EXPECT_NE(problem().find("/a.key: key values mismatch"), std::string::npos) << problem();
  tree_.write("a.key", a.key_pem);
  tree_.write("web.yml", tls + ", cipher_suites: [NO_SUCH_SUITE]}\n");
  EXPECT_NE(problem().find("OpenSSL has no NO_SUCH_SUITE"), std::string::npos) << problem();
  tree_.write("web.yml", tls + ", client_auth_type: RequireAndVerifyClientCert, client_ca_file: none.crt}\n");
  EXPECT_NE(problem().find("client_ca_file "), std::string::npos) << problem();
}

TEST(HttpBasicCredentials, AreTakenOutOfTheField) {
  EXPECT_EQ(http_basic_credentials("Basic bmFtZTpwYXNzd29yZA=="), "name:password");
  EXPECT_EQ(http_basic_credentials("bAsIc  OmE="), ":a");
  for (const char* field : {"", "Basic", "Basic ", "Basic !!!!", "Basic bmFtZQ==", "Basic bmFtZTpwYXNzd29yZA=", "Digest bmFtZTph",
                            "Basic OgA=", "Basic ===="}) {
    EXPECT_FALSE(http_basic_credentials(field).has_value()) << field;
  }
  EXPECT_FALSE(http_basic_credentials("Basic " + std::string(4000, 'a')).has_value());
}

}  // namespace
}  // namespace cw::telemetry
