#include "rocev2/wire/opcode.h"

#include <gtest/gtest.h>

#include <string>

#include "rocev2/wire/drop_reason.h"

namespace cw::wire {
namespace {

TEST(Opcode, TableKnowsExactlyTheOpcodesOfTheEnumeration) {
  int known = 0;
  for (int value = 0; value < 256; ++value) {
    const OpcodeTraits& traits = traits_of(static_cast<Opcode>(value));
    if (traits.kind == OpcodeKind::kReserved) {
      EXPECT_STREQ(traits.name, "reserved") << value;
      continue;
    }
    ++known;
    EXPECT_TRUE(value <= 0x17 || value == 0x64 || value == 0x65 || value == 0x81 || value == 0xd1) << value;
  }
  EXPECT_EQ(known, 27);
}

// The bounds below are what parse() relies on to let accessors read without a check.
TEST(Opcode, ExtensionHeadersFitIntoTheExtensionBytes) {
  for (int value = 0; value < 256; ++value) {
    const OpcodeTraits& traits = traits_of(static_cast<Opcode>(value));
    uint32_t sum = 0;
    const auto check = [&](uint8_t offset, uint32_t size) {
      if (offset != OpcodeTraits::kAbsent) {
        EXPECT_LE(offset + size, traits.extension_bytes) << value;
        sum += size;
      }
    };
    check(traits.reth, 16);
    check(traits.aeth, 4);
    check(traits.atomic_eth, 28);
    check(traits.atomic_ack_eth, 8);
    check(traits.immdt, 4);
    check(traits.ieth, 4);
    check(traits.deth, 8);
    EXPECT_EQ(sum, traits.extension_bytes) << value;
  }
}

TEST(Opcode, HeaderSetsFollowTheStandard) {
  struct Row {
    Opcode opcode;
    uint8_t extension_bytes;
  };
  for (const Row& row :
       {Row{Opcode::kRcSendMiddle, 0}, Row{Opcode::kRcSendLastImmediate, 4}, Row{Opcode::kRcWriteFirst, 16},
        Row{Opcode::kRcWriteOnlyImmediate, 20}, Row{Opcode::kRcWriteLastImmediate, 4}, Row{Opcode::kRcReadRequest, 16},
        Row{Opcode::kRcReadResponseFirst, 4}, Row{Opcode::kRcReadResponseMiddle, 0}, Row{Opcode::kRcReadResponseOnly, 4},
        Row{Opcode::kRcAcknowledge, 4}, Row{Opcode::kRcAtomicAcknowledge, 12}, Row{Opcode::kRcCompareSwap, 28},
        Row{Opcode::kRcFetchAdd, 28}, Row{Opcode::kRcSendOnlyInvalidate, 4}, Row{Opcode::kUdSendOnly, 8},
        Row{Opcode::kUdSendOnlyImmediate, 12}, Row{Opcode::kCnp, 0}}) {
    EXPECT_EQ(traits_of(row.opcode).extension_bytes, row.extension_bytes) << traits_of(row.opcode).name;
  }
}

TEST(Opcode, PlaceSaysWhereAMessageStartsAndEnds) {
  EXPECT_TRUE(traits_of(Opcode::kRcSendFirst).starts_message());
  EXPECT_FALSE(traits_of(Opcode::kRcSendFirst).ends_message());
  EXPECT_FALSE(traits_of(Opcode::kRcWriteMiddle).starts_message());
  EXPECT_FALSE(traits_of(Opcode::kRcWriteMiddle).ends_message());
  EXPECT_TRUE(traits_of(Opcode::kRcSendLastInvalidate).ends_message());
  EXPECT_TRUE(traits_of(Opcode::kRcSendOnly).starts_message());
  EXPECT_TRUE(traits_of(Opcode::kRcSendOnly).ends_message());
}

TEST(Opcode, RequestsAndPayloadFollowTheKind) {
  EXPECT_TRUE(traits_of(Opcode::kRcReadRequest).is_request);
  EXPECT_FALSE(traits_of(Opcode::kRcReadRequest).may_carry_payload);
  EXPECT_FALSE(traits_of(Opcode::kRcReadResponseMiddle).is_request);
  EXPECT_TRUE(traits_of(Opcode::kRcReadResponseMiddle).may_carry_payload);
  EXPECT_FALSE(traits_of(Opcode::kRcAcknowledge).is_request);
  EXPECT_FALSE(traits_of(Opcode::kRcAcknowledge).may_carry_payload);
  EXPECT_TRUE(traits_of(Opcode::kRcFetchAdd).is_request);
  EXPECT_FALSE(traits_of(Opcode::kCnp).is_request);
}

TEST(DropReason, EveryReasonHasItsOwnLabel) {
  for (uint32_t i = 0; i < kDropReasonCount; ++i) {
    const std::string label = to_string(static_cast<DropReason>(i));
    EXPECT_NE(label, "unknown");
    EXPECT_EQ(label.find_first_not_of("abcdefghijklmnopqrstuvwxyz_"), std::string::npos) << label;
    for (uint32_t j = 0; j < i; ++j) {
      EXPECT_NE(label, to_string(static_cast<DropReason>(j)));
    }
  }
  EXPECT_STREQ(to_string(DropReason::kCount), "unknown");
}

}  // namespace
}  // namespace cw::wire
