// RFC 8797 private data: requirement ids in the comments are those of the requirement table of that RFC.
#include "rpcrdma/wire/private_data.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "base/random.h"
#include "control/cm/private_data.h"

namespace cw::rpcrdma {
namespace {

constexpr PrivateData kDefaults{1024, 1024, false};

std::vector<uint8_t> with(std::vector<uint8_t> raw) {
  return raw;
}

// Proves CMPD-4-6, CMPD-4-7, CMPD-4-8, CMPD-8-1.
TEST(PrivateData, WritesTheEightBytesOfTheFormat) {
  std::array<uint8_t, 8> out{};
  out.fill(0xee);
  ASSERT_TRUE((PrivateData{.send_bytes = 4096, .receive_bytes = 65536, .remote_invalidation = true}.write(out).ok()));
  EXPECT_EQ(out, (std::array<uint8_t, 8>{0xf6, 0xab, 0x0e, 0x18, 0x01, 0x01, 0x03, 0x3f}));
  static_assert(PrivateData::kSize == 8 && kPrivateDataFormat == 0xf6ab0e18);
}

// Proves CMPD-4-9, CMPD-4-12, CMPD-4-13, CMPD-7-5, CMPD-3.2-6.
TEST(PrivateData, EachFieldMovesItsOwnByteAndNoOther) {
  std::array<uint8_t, 8> base{};
  std::array<uint8_t, 8> changed{};
  ASSERT_TRUE(PrivateData{}.write(base).ok());
  EXPECT_EQ(base, (std::array<uint8_t, 8>{0xf6, 0xab, 0x0e, 0x18, 1, 0, 0, 0}));
  ASSERT_TRUE((PrivateData{.remote_invalidation = true}.write(changed).ok()));
  EXPECT_EQ(changed, (std::array<uint8_t, 8>{0xf6, 0xab, 0x0e, 0x18, 1, 1, 0, 0}));
  ASSERT_TRUE((PrivateData{.send_bytes = 8192}.write(changed).ok()));
  EXPECT_EQ(changed, (std::array<uint8_t, 8>{0xf6, 0xab, 0x0e, 0x18, 1, 0, 7, 0}));
  ASSERT_TRUE((PrivateData{.receive_bytes = 8192}.write(changed).ok()));
  EXPECT_EQ(changed, (std::array<uint8_t, 8>{0xf6, 0xab, 0x0e, 0x18, 1, 0, 0, 7}));
}

// Proves CMPD-4.2-2, CMPD-4.2-5, CMPD-4.2-6, CMPD-4.2-7.
TEST(PrivateData, EncodesSizesRoundedDownWithinTheirBounds) {
  const std::pair<uint32_t, uint8_t> vectors[] = {
      {1024, 0x00},  {1535, 0x00},  {2047, 0x00},   {2048, 0x01},   {4095, 0x02},   {4096, 0x03},    {4097, 0x03},
      {16384, 0x0f}, {65536, 0x3f}, {262143, 0xfe}, {262144, 0xff}, {262145, 0xff}, {1048576, 0xff}, {UINT32_MAX, 0xff}};
  for (const auto& [bytes, byte] : vectors) {
    ASSERT_TRUE(encode_inline_size(bytes).ok());
    EXPECT_EQ(*encode_inline_size(bytes), byte) << bytes;
    EXPECT_LE(decode_inline_size(byte), bytes);
  }
  EXPECT_EQ(encode_inline_size(1023).error(), Error::kBadValue);
  EXPECT_EQ(encode_inline_size(0).error(), Error::kBadValue);
  std::array<uint8_t, 8> out{};
  EXPECT_FALSE((PrivateData{.send_bytes = 1023}.write(out).ok()));
  EXPECT_FALSE((PrivateData{.receive_bytes = 0}.write(out).ok()));
  EXPECT_EQ(out, (std::array<uint8_t, 8>{}));
}

// Proves CMPD-4.2-1, CMPD-4.2-3, CMPD-4.2-4.
TEST(PrivateData, DecodesEveryByteUnsignedAndBackToItself) {
  for (uint32_t byte = 0; byte < 256; ++byte) {
    const uint32_t bytes = decode_inline_size(static_cast<uint8_t>(byte));
    EXPECT_EQ(bytes, (byte + 1) * 1024);
    EXPECT_EQ(*encode_inline_size(bytes), byte);
  }
  EXPECT_EQ(decode_inline_size(0x80), 132096u);
  EXPECT_EQ(decode_inline_size(0xff), 262144u);
}

// Proves CMPD-4-4, CMPD-4-10, CMPD-4-11, CMPD-6-2.
TEST(PrivateData, IgnoresReservedBitsAndWhatFollows) {
  for (uint32_t flags = 0; flags < 256; ++flags) {
    const auto raw = with({0xf6, 0xab, 0x0e, 0x18, 1, static_cast<uint8_t>(flags), 2, 5});
    EXPECT_EQ(PrivateData::of_peer(raw), (PrivateData{3072, 6144, (flags & 1) != 0}));
  }
  for (const size_t more : {4u, 8u, 24u, 188u}) {
    auto raw = with({0xf6, 0xab, 0x0e, 0x18, 1, 0x7f, 3, 3});
    raw.resize(8 + more, 0xcc);
    EXPECT_EQ(PrivateData::of_peer(raw), (PrivateData{4096, 4096, true}));
  }
}

// Proves CMPD-5-2, CMPD-5.1-1, CMPD-5.1-3, CMPD-5.2-3, CMPD-5.2-5, CMPD-6-1.
TEST(PrivateData, TakesAnythingElseForNoMessageAndItsDefaults) {
  const std::vector<uint8_t> cases[] = {
      {},
      {0xf6, 0xab, 0x0e},
      {0xf6, 0xab, 0x0e, 0x18},
      {0xf6, 0xab, 0x0e, 0x18, 1, 1, 3},     // one byte short, with R set
      {0x18, 0x0e, 0xab, 0xf6, 1, 1, 3, 3},  // little-endian
      {0xf6, 0xab, 0x0e, 0x19, 1, 1, 3, 3},  // another format
      {0xf6, 0xab, 0x0e, 0x18, 0, 1, 0xff, 0xff},
      {0xf6, 0xab, 0x0e, 0x18, 2, 1, 0xff, 0xff},
      {0xf6, 0xab, 0x0e, 0x18, 255, 1, 0xff, 0xff},
  };
  for (const auto& raw : cases) {
    EXPECT_FALSE(PrivateData::find(raw).has_value());
    EXPECT_EQ(PrivateData::of_peer(raw), kDefaults);
  }
  for (const size_t size : {0u, 3u, 4u, 56u, 196u}) {
    EXPECT_FALSE(PrivateData::find(std::vector<uint8_t>(size)).has_value());
  }
}

// Proves CMPD-5.2-1, CMPD-5.2-2, CMPD-5.2-4.
TEST(PrivateData, IsFoundAtEveryOffsetAndAlignment) {
  const std::array<uint8_t, 8> message = {0xf6, 0xab, 0x0e, 0x18, 0x01, 0x00, 0x02, 0x05};
  for (const size_t capacity : {8u, 56u, 92u, 196u, 512u}) {
    for (size_t at = 0; at + 8 <= capacity; ++at) {
      std::vector<uint8_t> raw(capacity);
      std::copy(message.begin(), message.end(), raw.begin() + static_cast<ptrdiff_t>(at));
      EXPECT_EQ(PrivateData::find(raw), (PrivateData{3072, 6144, false})) << at;
    }
  }
}

// Proves CMPD-5.2-6.
TEST(PrivateData, IsNotReadBeyondTheEndOfTheBuffer) {
  const std::array<uint8_t, 8> message = {0xf6, 0xab, 0x0e, 0x18, 0x01, 0x01, 0x03, 0x03};
  for (size_t present = 0; present < 8; ++present) {
    // A heap block of exactly this size, so that the sanitizer sees a read beyond it.
    std::vector<uint8_t> raw(20 + present);
    std::copy_n(message.begin(), present, raw.begin() + 20);
    raw.shrink_to_fit();
    EXPECT_FALSE(PrivateData::find(raw).has_value());
  }
}

// Proves CMPD-5.2-7.
TEST(PrivateData, IsFoundBehindTheFirstWordsOfAnotherLayer) {
  const auto raw = with({0x40, 0x10, 0x00, 0x10, 0xf6, 0xab, 0x0e, 0x18, 0x01, 0x01, 0x03, 0x03});
  EXPECT_EQ(PrivateData::of_peer(raw), (PrivateData{4096, 4096, true}));
}

// Proves CMPD-5.2-9.
TEST(PrivateData, AFalseMatchDoesNotHideAValidMessage) {
  auto raw = with({0xf6, 0xab, 0x0e, 0x18, 0x77, 0, 0, 0, 0xf6, 0xab, 0x0e, 0x18, 1, 0, 3, 3});
  EXPECT_EQ(PrivateData::of_peer(raw), (PrivateData{4096, 4096, false}));
  raw.resize(8);
  EXPECT_EQ(PrivateData::of_peer(raw), kDefaults);
  // Overlapping: the identifier begins inside the false match.
  EXPECT_EQ(PrivateData::of_peer(with({0xf6, 0xab, 0x0e, 0x18, 0xf6, 0xab, 0x0e, 0x18, 1, 1, 1, 2})),
            (PrivateData{2048, 3072, true}));
}

// Proves CMPD-7-4.
TEST(PrivateData, OnlyValidMessagesInNoiseChangeAnything) {
  SeededRandom random(11);
  for (int round = 0; round < 200'000; ++round) {
    std::array<uint8_t, 32> raw{};
    for (size_t i = 0; i < raw.size(); i += 8) {
      store_be64(raw.data() + i, random.next_u64());
    }
    const uint32_t at = random.next_below(29);
    store_be32(raw.data() + at, kPrivateDataFormat);
    const bool valid = at + 8 <= raw.size() && raw[at + 4] == 1;
    EXPECT_EQ(PrivateData::find(raw).has_value(), valid);
  }
}

// Proves CMPD-3.1-1, CMPD-3.1-5, CMPD-4.2-8, CMPD-4.2-9, CMPD-1-5, CMPD-5.1-2, RPCRDMA-3.3.2-1, RPCRDMA-3.3.3-9.
TEST(PrivateData, ThresholdsAreTheSmallerOfWhatIsSentAndWhatIsReceived) {
  const PrivateData client{2048, 8192, true};
  const PrivateData server{4096, 16384, true};
  EXPECT_EQ(negotiate(client, server), (InlineThresholds{2048, 4096, true}));
  EXPECT_EQ(negotiate(server, client), (InlineThresholds{4096, 2048, true}));
  EXPECT_EQ(negotiate({16384, 16384, true}, {4096, 4096, true}).send_bytes, 4096u);
  EXPECT_EQ(negotiate({16384, 16384, true}, {4096, 32768, true}).send_bytes, 16384u);
  // Nothing of what we advertise raises anything for a peer that advertised nothing.
  EXPECT_EQ(negotiate({65536, 65536, true}, PrivateData::of_peer({})), (InlineThresholds{1024, 1024, false}));
}

// Proves CMPD-3.2-5, CMPD-4.1-4.
TEST(PrivateData, RemoteInvalidationNeedsBothSides) {
  for (const bool ours : {false, true}) {
    for (const bool theirs : {false, true}) {
      EXPECT_EQ(negotiate({1024, 1024, ours}, {1024, 1024, theirs}).remote_invalidation, ours && theirs);
    }
  }
}

// Proves CMPD-4.2-11.
TEST(PrivateData, AThresholdNeverExceedsTheRealBuffer) {
  SeededRandom random(5);
  for (int round = 0; round < 10'000; ++round) {
    const PrivateData local{1024 + random.next_below(300'000), 1024 + random.next_below(300'000), false};
    const PrivateData peer{1024 + random.next_below(300'000), 1024 + random.next_below(300'000), false};
    std::array<uint8_t, 8> local_bytes{};
    std::array<uint8_t, 8> peer_bytes{};
    ASSERT_TRUE(local.write(local_bytes).ok());
    ASSERT_TRUE(peer.write(peer_bytes).ok());
    EXPECT_LE(negotiate(local, PrivateData::of_peer(peer_bytes)).send_bytes, peer.receive_bytes);
    EXPECT_LE(negotiate(peer, PrivateData::of_peer(local_bytes)).send_bytes, local.receive_bytes);
    // The sender and the receiver of one direction never disagree by more than what the sender's own rounding hides.
    EXPECT_LE(negotiate(local, PrivateData::of_peer(peer_bytes)).send_bytes, local.send_bytes);
  }
}

// Proves CMPD-4-3.
TEST(PrivateData, EachConnectionStandsForItself) {
  const PrivateData local{4096, 4096, true};
  const auto first = with({0xf6, 0xab, 0x0e, 0x18, 1, 1, 15, 15});
  const auto second = with({0xf6, 0xab, 0x0e, 0x18, 1, 0, 0, 0});
  EXPECT_EQ(negotiate(local, PrivateData::of_peer(first)), (InlineThresholds{4096, 4096, true}));
  EXPECT_EQ(negotiate(local, PrivateData::of_peer(second)), (InlineThresholds{1024, 1024, false}));
}

}  // namespace
}  // namespace cw::rpcrdma
