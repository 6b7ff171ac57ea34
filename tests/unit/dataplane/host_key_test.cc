#include "dataplane/host_key.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace cw::dataplane {
namespace {

class HostKey : public testing::Test {
 protected:
  ~HostKey() override { std::filesystem::remove(file_); }
  [[nodiscard]] uint64_t key_of(const std::string& id) const {
    std::ofstream(file_) << id;
    return host_key(file_);
  }
  std::string file_ = "/tmp/cw_host_key_" + std::to_string(getpid());
};

TEST_F(HostKey, IsTheSameAfterARestartAndAnotherOnAnotherHost) {
  const uint64_t key = key_of("0123456789abcdef0123456789abcdef\n");
  EXPECT_EQ(key_of("0123456789abcdef0123456789abcdef\n"), key);
  EXPECT_NE(key_of("1123456789abcdef0123456789abcdef\n"), key);
  EXPECT_NE(key_of("0123456789abcdef0123456789abcdee\n"), key);
}

TEST_F(HostKey, WithoutAnIdNobodyCanGuessIt) {
  EXPECT_NE(host_key(file_), host_key(file_)) << "no file";
  EXPECT_NE(key_of(""), key_of(""));
  EXPECT_NE(key_of("uninitialized\n"), key_of("uninitialized\n"));
}

}  // namespace
}  // namespace cw::dataplane
