#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <arpa/inet.h>

#include <string>

#include "base/ip_address.h"
#include "rocev2/wire/mac_address.h"

namespace cw::wire {
namespace {

static_assert(IpAddress::v4(0x0a090001).is_v4() && IpAddress::v4(0x0a090001).to_v4() == 0x0a090001);
static_assert(IpAddress::v4(0xe0000001).is_multicast() && IpAddress::v4(0xffffffff).is_multicast());
static_assert(!IpAddress::v4(0xdfffffff).is_multicast() && !IpAddress::v4(0xf0000000).is_multicast());

std::string text_of(const IpAddress& address) {
  return to_text(address).data();
}

TEST(IpAddress, TextAndBack) {
  for (const char* text : {"0.0.0.0", "10.9.0.1", "255.255.255.255", "::", "::1", "fd09::1", "2001:db8::1:0:0:1",
                           "1::", "2001:db8:0:1:1:1:1:1", "1:2:3:4:5:6:7:8", "0:0:1::"}) {
    const Result<IpAddress> address = parse_ip(text);
    ASSERT_TRUE(address.ok()) << text;
    EXPECT_EQ(text_of(*address), text);
  }
}

TEST(IpAddress, AcceptsOtherSpellingsOfTheSame) {
  EXPECT_EQ(text_of(*parse_ip("0:0:0:0:0:0:0:1")), "::1");
  EXPECT_EQ(text_of(*parse_ip("FD09:0000:0:0:0:0:0:0A")), "fd09::a");
  EXPECT_EQ(text_of(*parse_ip("1:2:3:4:5:6:7::")), "1:2:3:4:5:6:7:0");
  EXPECT_EQ(text_of(*parse_ip("::2:3:4:5:6:7:8")), "0:2:3:4:5:6:7:8");
  EXPECT_EQ(text_of(*parse_ip("64:ff9b::192.0.2.33")), "64:ff9b::c000:221");
  EXPECT_EQ(*parse_ip("::ffff:192.0.2.1"), IpAddress::v4(0xc0000201));
}

TEST(IpAddress, RefusesWhatIsNoAddress) {
  for (const char* text : {"",
                           " ",
                           "1",
                           "1.2.3",
                           "1.2.3.",
                           "1.2.3.4.",
                           "1.2.3.4.5",
                           ".1.2.3.4",
                           "1..2.3",
                           "256.1.1.1",
                           "01.2.3.4",
                           "1.2.3.-4",
                           "+1.2.3.4",
                           " 1.2.3.4",
                           "1.2.3.4 ",
                           "1.2.3.4/8",
                           "0x1.2.3.4",
                           "1111111111.1.1.1",
                           ":",
                           ":1",
                           "1:",
                           ":::",
                           "::1:",
                           "1::2::3",
                           "1:2:3:4:5:6:7",
                           "1:2:3:4:5:6:7:8:9",
                           "1:2:3:4:5:6:7:8::",
                           "::1:2:3:4:5:6:7:8",
                           "12345::",
                           "g::",
                           "fe80::1%eth0",
                           "::1.2.3",
                           "1:2:3:4:5:6:7:1.2.3.4",
                           "::1.2.3.4:5",
                           "1::-1",
                           "[::1]"}) {
    EXPECT_FALSE(parse_ip(text).ok()) << text;
  }
}

TEST(IpAddress, TextAgreesWithTheSystemLibrary) {
  EXPECT_TRUE(rc::check([] {
    IpAddress address;
    for (uint8_t& byte : address.raw) {
      byte = *rc::gen::weightedOneOf<uint8_t>({{3, rc::gen::just(uint8_t{0})}, {1, rc::gen::arbitrary<uint8_t>()}});
    }
    // Mapped addresses are ours to print as IPv4; compatible ones (::a.b.c.d) the library prints in a way of its own.
    bool low = true;
    for (size_t i = 0; i < 12; ++i) {
      low = low && address.raw[i] == 0;
    }
    RC_PRE(!low && !address.is_v4());
    char expected[INET6_ADDRSTRLEN];
    inet_ntop(AF_INET6, address.raw.data(), expected, sizeof(expected));
    RC_ASSERT(text_of(address) == expected);
    RC_ASSERT(*parse_ip(expected) == address);
  }));
}

TEST(IpAddress, ParserAgreesWithTheSystemLibraryOnArbitraryText) {
  EXPECT_TRUE(rc::check([] {
    const auto text = *rc::gen::container<std::string>(rc::gen::element('0', '1', 'f', ':', ':', '.'));
    uint8_t raw[16];
    const bool is_v6 = inet_pton(AF_INET6, text.c_str(), raw) == 1;
    const bool is_v4 = inet_pton(AF_INET, text.c_str(), raw) == 1;
    RC_ASSERT(parse_ip(text).ok() == (is_v4 || is_v6));
  }));
}

TEST(MacAddress, TextAndBack) {
  EXPECT_STREQ(to_text(MacAddress{{0x02, 0x00, 0x5e, 0x10, 0xab, 0xff}}).data(), "02:00:5e:10:ab:ff");
  EXPECT_EQ(*parse_mac("02:00:5E:10:aB:Ff"), (MacAddress{{0x02, 0x00, 0x5e, 0x10, 0xab, 0xff}}));
  EXPECT_EQ(*parse_mac("02-00-5e-10-ab-ff"), (MacAddress{{0x02, 0x00, 0x5e, 0x10, 0xab, 0xff}}));
}

TEST(MacAddress, RefusesWhatIsNoAddress) {
  for (const char* text : {"", "02:00:5e:10:ab", "02:00:5e:10:ab:ff:00", "02:00:5e:10:ab:f", "02:00:5e-10:ab:ff",
                           "02.00.5e.10.ab.ff", "0g:00:5e:10:ab:ff", "02:00:5e:10:ab:f "}) {
    EXPECT_FALSE(parse_mac(text).ok()) << text;
  }
}

TEST(MacAddress, GroupBitMakesMulticast) {
  EXPECT_TRUE((MacAddress{{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}}).is_multicast());
  EXPECT_TRUE((MacAddress{{0x01, 0, 0x5e, 0, 0, 1}}).is_multicast());
  EXPECT_FALSE((MacAddress{{0x02, 0, 0, 0, 0, 1}}).is_multicast());
}

}  // namespace
}  // namespace cw::wire
