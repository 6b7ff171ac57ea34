#include "tests/peers/perftest_wire.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace cw::peers {
namespace {

TEST(PerftestKey, StandsInTheOrderOfPerftestsStructure) {
  PerftestKey key;
  key.lid = 1;
  key.reads_outstanding = 2;
  key.qpn = 0x030405;
  key.psn = 0x060708;
  key.rkey = verbs::Rkey(0x090a0b0c);
  key.address = 0x1011121314151617;
  key.gid.fill(0xaa);
  key.srqn = 5;
  key.gid_index = 6;
  std::array<uint8_t, PerftestKey::kSize> raw{};
  key.write(raw);
  EXPECT_EQ(load_be32(&raw[0]), 1u);
  EXPECT_EQ(load_be32(&raw[4]), 2u);
  EXPECT_EQ(load_be32(&raw[8]), 0x030405u);
  EXPECT_EQ(load_be32(&raw[12]), 0x060708u);
  EXPECT_EQ(load_be32(&raw[16]), 0x090a0b0cu);
  EXPECT_EQ(load_be32(&raw[20]), 0u);
  EXPECT_EQ(load_be64(&raw[24]), 0x1011121314151617u);
  EXPECT_EQ(load_be32(&raw[48]), 5u);
  EXPECT_EQ(load_be32(&raw[52]), 6u);
  const auto back = PerftestKey::parse(raw);
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(back->rkey, key.rkey);
  EXPECT_EQ(back->address, key.address);
  EXPECT_EQ(back->gid, key.gid);
}

TEST(PerftestKey, RefusesEveryOtherLength) {
  const std::array<uint8_t, 64> raw{};
  for (size_t size = 0; size <= raw.size(); ++size) {
    EXPECT_EQ(PerftestKey::parse(Bytes(raw).first(size)).ok(), size == PerftestKey::kSize);
  }
}

std::vector<uint8_t> version(const char* text) {
  std::vector<uint8_t> raw(PerftestVersion::kSize);
  for (size_t i = 0; text[i] != 0 && i < raw.size(); ++i) {
    raw[i] = static_cast<uint8_t>(text[i]);
  }
  return raw;
}

TEST(PerftestVersion, TakesItsOwnAndLaterOnes) {
  std::array<uint8_t, PerftestVersion::kSize> ours{};
  PerftestVersion::ours().write(ours);
  EXPECT_TRUE(PerftestVersion::parse(ours).ok());
  EXPECT_TRUE(PerftestVersion::parse(version("5.70")).ok());
  EXPECT_TRUE(PerftestVersion::parse(version("6.10")).ok());
}

TEST(PerftestVersion, RefusesOldOnesAndWhatIsNone) {
  EXPECT_EQ(PerftestVersion::parse(version("5.33")).error(), Error::kUnsupported);
  EXPECT_EQ(PerftestVersion::parse(version("nonsense")).error(), Error::kUnsupported);
  EXPECT_EQ(PerftestVersion::parse(version("")).error(), Error::kUnsupported);
  EXPECT_EQ(PerftestVersion::parse(version("6.0600000000000000")).error(), Error::kBadValue);
  EXPECT_EQ(PerftestVersion::parse(Bytes()).error(), Error::kBadValue);
}

}  // namespace
}  // namespace cw::peers
