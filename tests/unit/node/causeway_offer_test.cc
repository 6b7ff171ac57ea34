#include "gateway/node/causeway_offer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "control/cm/private_data.h"
#include "rpcrdma/wire/private_data.h"

namespace cw::node {
namespace {

using rpcrdma::decode_inline_size;
using rpcrdma::kPrivateDataFormat;
using rpcrdma::PrivateData;

// What a side says about itself, and what it offers.
struct Sent {
  Sent(const PrivateData& message, const CausewayOffer& offer)
      : said(rpcrdma::connect_bytes(message)), all(said.bytes(), offer) {}
  [[nodiscard]] Bytes bytes() const { return all.bytes(); }

  rpcrdma::ConnectBytes said;
  ExtendedPrivateData all;
};

TEST(CausewayOffer, StandsBehindTheMessageAndIsReadBack) {
  const Sent sent({4096, 4096, true}, {.hold_packets = 512});
  EXPECT_EQ(std::vector<uint8_t>(sent.bytes().begin(), sent.bytes().end()),
            (std::vector<uint8_t>{0xf6, 0xab, 0x0e, 0x18, 1, 1, 3, 3, 0x43, 0x57, 0x79, 0x31, 1, 1, 2, 0}));
  EXPECT_EQ(CausewayOffer::of_peer(sent.bytes()).hold_packets, 512);
}

// CMPD-6-2: bytes behind the message are none of the other peer's business.
TEST(CausewayOffer, ChangesNothingOfTheMessage) {
  const Sent sent({4096, 8192, true}, {.hold_packets = 512});
  const PrivateData expected{4096, 8192, true};
  EXPECT_EQ(PrivateData::of_peer(sent.bytes()), expected);
  EXPECT_EQ(*PrivateData::parse(sent.bytes()), expected);
}

// What keeps our unregistered identifier from being taken for something else: it differs from the only registered one and occurs
// in no message under that one; and a peer that looks for RFC 8797's message anywhere finds no second one in our offer.
TEST(CausewayOffer, NeitherIdentifierOccursInTheFormatOfTheOther) {
  static_assert(CausewayOffer::kIdentifier != kPrivateDataFormat);
  const auto identifier_at = [](Bytes raw, uint32_t identifier) {
    size_t at = 0;
    while (at + 4 <= raw.size() && load_be32(raw.data() + at) != identifier) {
      ++at;
    }
    return at;
  };
  for (uint32_t fields = 0; fields < 1u << 17; ++fields) {
    const PrivateData message{decode_inline_size(static_cast<uint8_t>(fields)),
                              decode_inline_size(static_cast<uint8_t>(fields >> 8)), fields >> 16 != 0};
    std::array<uint8_t, PrivateData::kSize> raw{};
    ASSERT_TRUE(message.write(raw).ok());
    ASSERT_EQ(identifier_at(raw, CausewayOffer::kIdentifier), PrivateData::kSize - 3) << fields;
  }
  for (uint32_t hold_packets = 1; hold_packets <= UINT16_MAX; ++hold_packets) {
    std::array<uint8_t, cm::kReqConsumerDataSize> raw{};  // zeros follow, as in the private data of a REQ
    const Sent sent({4096, 4096, true}, {.hold_packets = static_cast<uint16_t>(hold_packets)});
    std::copy(sent.bytes().begin(), sent.bytes().end(), raw.begin());
    ASSERT_EQ(PrivateData::find(Bytes(raw).subspan(1)), std::nullopt) << hold_packets;
    ASSERT_EQ(identifier_at(Bytes(raw).subspan(1), kPrivateDataFormat), raw.size() - 4) << hold_packets;
  }
}

TEST(CausewayOffer, WhoOffersNothingSendsTheMessageAlone) {
  EXPECT_EQ(Sent({4096, 4096, true}, {}).bytes().size(), PrivateData::kSize);
  EXPECT_TRUE(Sent({100, 4096, true}, {.hold_packets = 512}).bytes().empty());
}

TEST(CausewayOffer, AnythingElseIsAnOfferOfNothing) {
  const Sent sent({4096, 4096, true}, {.hold_packets = 512});
  for (size_t size = 0; size < sent.bytes().size(); ++size) {
    EXPECT_EQ(CausewayOffer::of_peer(sent.bytes().first(size)), CausewayOffer{}) << size;
  }
  for (const size_t at : {0u, 3u, 4u, 8u, 11u, 12u, 13u}) {  // identifiers, versions, flag
    std::vector<uint8_t> raw(sent.bytes().begin(), sent.bytes().end());
    raw[at] ^= 0xff;
    EXPECT_EQ(CausewayOffer::of_peer(raw), CausewayOffer{}) << at;
  }
  EXPECT_EQ(CausewayOffer::of_peer(std::vector<uint8_t>(196, 0)), CausewayOffer{});
}

TEST(CausewayOffer, StandsBehindNothingElse) {
  for (const std::vector<uint8_t>& said : {std::vector<uint8_t>{}, {1, 2, 3, 4, 5, 6, 7, 8}, std::vector<uint8_t>(16, 0xf6)}) {
    const ExtendedPrivateData sent(said, {.hold_packets = 512});
    EXPECT_EQ(std::vector<uint8_t>(sent.bytes().begin(), sent.bytes().end()), said);
  }
}

}  // namespace
}  // namespace cw::node
