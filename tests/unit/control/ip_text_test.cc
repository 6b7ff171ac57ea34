#include "control/config/ip_text.h"

#include <gtest/gtest.h>

namespace cw::control {
namespace {

TEST(IpText, ReadsAndWritesBothFamilies) {
  for (const char* text : {"192.0.2.1", "0.0.0.0", "255.255.255.255", "2001:db8::1", "::1", "fe80::5054:ff:fe12:3456"}) {
    const auto address = parse_ip(text);
    ASSERT_TRUE(address) << text;
    EXPECT_EQ(to_string(*address), text);
  }
}

TEST(IpText, RefusesWhatIsNoAddress) {
  for (const char* text : {"", "192.0.2", "192.0.2.256", "192.0.2.1 ", " 192.0.2.1", "1.2.3.4.5", "localhost",
                           ":::", "12345::", "2001:db8::1%eth0"}) {
    EXPECT_FALSE(parse_ip(text)) << text;
  }
  EXPECT_FALSE(parse_ip(std::string_view("1.2.3.4\0", 8)));
}

TEST(IpText, PrefixKeepsTheHostPartAndDefaultsToOneAddress) {
  EXPECT_EQ(to_string(*parse_prefix("192.0.2.1/24")), "192.0.2.1/24");
  EXPECT_EQ(to_string(*parse_prefix("192.0.2.1")), "192.0.2.1/32");
  EXPECT_EQ(to_string(*parse_prefix("2001:db8::1")), "2001:db8::1/128");
  EXPECT_EQ(to_string(*parse_prefix("::/0")), "::/0");
  for (const char* text :
       {"192.0.2.1/33", "192.0.2.1/", "192.0.2.1/-1", "192.0.2.1/8/8", "::1/129", "/8", "192.0.2.1/+8", "192.0.2.1/000008"}) {
    EXPECT_FALSE(parse_prefix(text)) << text;
  }
}

TEST(IpText, PrefixContainsExactlyItsNetwork) {
  struct Case {
    const char* prefix;
    const char* address;
    bool inside;
  };
  for (const Case& c : {Case{"192.0.2.77/24", "192.0.2.1", true}, Case{"192.0.2.0/24", "192.0.3.0", false},
                        Case{"10.0.0.0/9", "10.127.255.255", true}, Case{"10.0.0.0/9", "10.128.0.0", false},
                        Case{"0.0.0.0/0", "203.0.113.9", true}, Case{"0.0.0.0/0", "2001:db8::1", false},
                        Case{"::/0", "2001:db8::1", true}, Case{"::/0", "192.0.2.1", false},
                        Case{"2001:db8::/33", "2001:db8:7fff::", true}, Case{"2001:db8::/33", "2001:db8:8000::", false},
                        Case{"192.0.2.1", "192.0.2.1", true}, Case{"192.0.2.1", "192.0.2.2", false}}) {
    EXPECT_EQ(parse_prefix(c.prefix)->contains(*parse_ip(c.address)), c.inside) << c.prefix << " " << c.address;
  }
}

TEST(IpText, EndpointNeedsBracketsAroundIpv6Only) {
  EXPECT_EQ(to_string(*parse_socket_address("127.0.0.1:2049")), "127.0.0.1:2049");
  EXPECT_EQ(to_string(*parse_socket_address("[::1]:65535")), "[::1]:65535");
  for (const char* text : {"127.0.0.1", "127.0.0.1:", "127.0.0.1:0", "127.0.0.1:65536", "::1:80", "[127.0.0.1]:80", "[::1]",
                           "host:80", ":80", "[]:1"}) {
    EXPECT_FALSE(parse_socket_address(text)) << text;
  }
  EXPECT_TRUE(parse_socket_address("127.0.0.1:0", true));
}

TEST(IpText, KnowsLoopback) {
  EXPECT_TRUE(is_loopback(*parse_ip("127.9.9.9")));
  EXPECT_TRUE(is_loopback(*parse_ip("::1")));
  EXPECT_FALSE(is_loopback(*parse_ip("128.0.0.1")));
  EXPECT_FALSE(is_loopback(*parse_ip("::2")));
}

}  // namespace
}  // namespace cw::control
