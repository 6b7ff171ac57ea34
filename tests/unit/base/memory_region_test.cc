#include "verbs/memory_region.h"

#include <gtest/gtest.h>

#include <map>
#include <utility>
#include <vector>

#include "base/random.h"

namespace cw::verbs {
namespace {

constexpr ProtectionDomain kMine(1);
constexpr ProtectionDomain kOther(2);

// Draws that a test chooses. A registration draws its address first, then keys until one is free.
class ChosenDraws final : public RandomSource {
 public:
  explicit ChosenDraws(std::vector<uint64_t> draws) : draws_(std::move(draws)) {}
  [[nodiscard]] uint64_t next_u64() override { return draws_.at(next_++); }

 private:
  std::vector<uint64_t> draws_;
  size_t next_ = 0;
};

constexpr uint64_t kAddress = 0x1234'5678'9abc'def0ULL;
constexpr uint64_t key_draw(uint64_t key) {
  return key << 32;
}

class MemoryTableTest : public ::testing::Test {
 protected:
  SeededRandom random{7};
  MemoryTable table{8, random};
  std::vector<uint8_t> memory = std::vector<uint8_t>(100);
};

// Proves RPCRDMA-8.1-1.
TEST_F(MemoryTableTest, ResolvesInsideTheRegionAndNowhereElse) {
  const Rkey key = *table.register_region(kMine, memory, RemoteAccess::kReadWrite);
  const uint64_t address = table.address_of(key);
  ASSERT_NE(address, 0u);
  const auto whole = table.resolve(kMine, key, address, 100, RemoteAccess::kRead);
  ASSERT_TRUE(whole.ok());
  EXPECT_EQ(whole->data(), memory.data());
  EXPECT_EQ(whole->size(), 100u);
  EXPECT_EQ(table.resolve(kMine, key, address + 60, 40, RemoteAccess::kWrite)->data(), memory.data() + 60);
  EXPECT_FALSE(table.resolve(kMine, key, address + 60, 41, RemoteAccess::kRead).ok());
  EXPECT_FALSE(table.resolve(kMine, key, address - 1, 1, RemoteAccess::kRead).ok());
  EXPECT_FALSE(table.resolve(kMine, key, address + 101, 0, RemoteAccess::kRead).ok());
}

// Proves RPCRDMA-8.1-1: CVE-2026-98365: address + length wraps.
TEST_F(MemoryTableTest, LengthsAndAddressesThatWrapAreRefused) {
  const Rkey key = *table.register_region(kMine, memory, RemoteAccess::kReadWrite);
  const uint64_t address = table.address_of(key);
  EXPECT_FALSE(table.resolve(kMine, key, address + 50, UINT64_MAX, RemoteAccess::kRead).ok());
  EXPECT_FALSE(table.resolve(kMine, key, address + 50, UINT64_MAX - address - 49, RemoteAccess::kRead).ok());
  EXPECT_FALSE(table.resolve(kMine, key, UINT64_MAX, 2, RemoteAccess::kRead).ok());
}

// Proves RPCRDMA-8.1-1.
TEST_F(MemoryTableTest, RightsAndDomainsAreChecked) {
  const Rkey readable = *table.register_region(kMine, memory, RemoteAccess::kRead);
  const Rkey writable = *table.register_region(kMine, memory, RemoteAccess::kWrite);
  EXPECT_FALSE(table.resolve(kMine, readable, table.address_of(readable), 1, RemoteAccess::kWrite).ok());
  EXPECT_FALSE(table.resolve(kMine, writable, table.address_of(writable), 1, RemoteAccess::kRead).ok());
  EXPECT_FALSE(table.resolve(kOther, readable, table.address_of(readable), 1, RemoteAccess::kRead).ok());
  EXPECT_FALSE(table.invalidate(kOther, readable));
  EXPECT_TRUE(table.resolve(kMine, readable, table.address_of(readable), 1, RemoteAccess::kRead).ok());
}

TEST_F(MemoryTableTest, AnInvalidatedKeyOpensNothing) {
  const Rkey key = *table.register_region(kMine, memory, RemoteAccess::kRead);
  const uint64_t address = table.address_of(key);
  EXPECT_TRUE(table.invalidate(kMine, key));
  EXPECT_FALSE(table.invalidate(kMine, key));
  EXPECT_FALSE(table.resolve(kMine, key, address, 1, RemoteAccess::kRead).ok());
  EXPECT_EQ(table.address_of(key), 0u);
  EXPECT_EQ(table.region_count(), 0u);
}

TEST_F(MemoryTableTest, KeyZeroIsNoKey) {
  EXPECT_FALSE(table.resolve(kMine, Rkey(0), 0, 0, RemoteAccess::kNone).ok());
  EXPECT_FALSE(table.resolve(ProtectionDomain(0), Rkey(0), 0, 0, RemoteAccess::kNone).ok());
  EXPECT_FALSE(table.invalidate(ProtectionDomain(0), Rkey(0)));
  EXPECT_EQ(table.address_of(Rkey(0)), 0u);
}

TEST_F(MemoryTableTest, AFullTableRefusesUntilSomethingGoes) {
  std::vector<Rkey> keys;
  for (int i = 0; i < 8; ++i) {
    keys.push_back(*table.register_region(kMine, memory, RemoteAccess::kRead));
  }
  EXPECT_EQ(table.register_region(kMine, memory, RemoteAccess::kRead).error(), Error::kNoResources);
  EXPECT_TRUE(table.invalidate(kMine, keys[3]));
  EXPECT_TRUE(table.register_region(kMine, memory, RemoteAccess::kRead).ok());
}

TEST(MemoryTable, ATableOfNothingRefusesEverything) {
  SeededRandom random(1);
  MemoryTable table(0, random);
  uint8_t byte = 0;
  EXPECT_FALSE(table.register_region(kMine, MutableBytes(&byte, 1), RemoteAccess::kRead).ok());
  EXPECT_FALSE(table.resolve(kMine, Rkey(5), 0, 1, RemoteAccess::kRead).ok());
  EXPECT_EQ(table.invalidate_all(kMine), 0u);
}

TEST(MemoryTable, KeysThatShareASlotAreKeptApart) {
  // 4 regions at most: 16 slots; all these keys have the last slot as their home and wrap around.
  ChosenDraws random({kAddress, key_draw(0x1f), kAddress, key_draw(0x2f), kAddress, key_draw(0x3f), kAddress, key_draw(0x4f)});
  MemoryTable table(4, random);
  std::vector<std::vector<uint8_t>> memory(4, std::vector<uint8_t>(10));
  std::vector<Rkey> keys;
  for (auto& raw : memory) {
    keys.push_back(*table.register_region(kMine, raw, RemoteAccess::kRead));
  }
  EXPECT_TRUE(table.invalidate(kMine, keys[1]));
  for (const size_t i : {0u, 2u, 3u}) {
    const auto found = table.resolve(kMine, keys[i], table.address_of(keys[i]), 10, RemoteAccess::kRead);
    ASSERT_TRUE(found.ok()) << i;
    EXPECT_EQ(found->data(), memory[i].data());
  }
  EXPECT_EQ(table.invalidate_all(kMine), 3u);
  EXPECT_EQ(table.region_count(), 0u);
}

TEST(MemoryTable, ZeroAndTakenKeysAreDrawnAgain) {
  ChosenDraws random({kAddress, key_draw(0x11), kAddress, key_draw(0), key_draw(0x11), key_draw(0x12)});
  MemoryTable table(4, random);
  uint8_t byte = 0;
  EXPECT_EQ(*table.register_region(kMine, MutableBytes(&byte, 1), RemoteAccess::kRead), Rkey(0x11));
  EXPECT_EQ(*table.register_region(kMine, MutableBytes(&byte, 1), RemoteAccess::kRead), Rkey(0x12));
}

// Against a map, with few bits in the keys so that probes are long.
class NarrowKeys final : public RandomSource {
 public:
  explicit NarrowKeys(uint64_t seed) : random_(seed) {}
  [[nodiscard]] uint64_t next_u64() override { return random_.next_u64() & 0x0000'003f'ffff'f000ULL; }

 private:
  SeededRandom random_;
};

TEST(MemoryTable, AgreesWithAMap) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    SeededRandom random(seed);
    NarrowKeys keys(seed);
    MemoryTable table(24, keys);
    std::vector<uint8_t> memory(64);
    std::map<uint32_t, ProtectionDomain> model;
    for (int step = 0; step < 2000; ++step) {
      const ProtectionDomain domain(random.next_below(3));
      const uint32_t action = random.next_below(100);
      if (action < 50) {
        const auto key = table.register_region(domain, memory, RemoteAccess::kRead);
        ASSERT_EQ(key.ok(), model.size() < 24);
        if (key.ok()) {
          ASSERT_TRUE(model.emplace(key->value(), domain).second);
        }
      } else if (action < 98) {
        const uint32_t key = random.next_below(64);
        const auto found = model.find(key);
        const bool owned = found != model.end() && found->second == domain;
        ASSERT_EQ(table.resolve(domain, Rkey(key), table.address_of(Rkey(key)), 64, RemoteAccess::kRead).ok(), owned);
        ASSERT_EQ(table.invalidate(domain, Rkey(key)), owned);
        if (owned) {
          model.erase(found);
        }
      } else {
        const size_t gone = std::erase_if(model, [domain](const auto& entry) { return entry.second == domain; });
        ASSERT_EQ(table.invalidate_all(domain), gone);
      }
      ASSERT_EQ(table.region_count(), model.size());
    }
  }
}

TEST(MemoryTable, KnowsWhichMemoryIsExposed) {
  SeededRandom random(1);
  MemoryTable table(8, random);
  std::vector<uint8_t> memory(64);
  const MutableBytes all(memory);
  const Rkey key = *table.register_region(ProtectionDomain(1), all.subspan(16, 16), RemoteAccess::kRead);
  EXPECT_TRUE(table.exposes(all));
  EXPECT_TRUE(table.exposes(all.subspan(31, 1)));
  EXPECT_FALSE(table.exposes(all.subspan(0, 16)));
  EXPECT_FALSE(table.exposes(all.subspan(32)));
  table.invalidate(ProtectionDomain(1), key);
  EXPECT_FALSE(table.exposes(all));
}

}  // namespace
}  // namespace cw::verbs
