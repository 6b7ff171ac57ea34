#include "gateway/source_ports.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace cw::gateway {
namespace {

const IpAddress kClient = IpAddress::v4(0x0a090002);
const IpAddress kOther = IpAddress::v4(0x0a090003);

TEST(SourcePorts, AConnectionThatComesBackHasThePortThatItHad) {
  PortBook book(32'768, 60'999);
  const uint16_t port = book.take(kClient, 0);
  EXPECT_GE(port, 32'768);
  EXPECT_LE(port, 60'999);
  book.give_back(kClient, 0, port);
  EXPECT_EQ(book.used_count(), 0u);
  EXPECT_EQ(book.take(kClient, 0), port);
  EXPECT_EQ(book.used_count(), 1u);
  EXPECT_EQ(book.kept_count(), 0u);
}

TEST(SourcePorts, EachOfSeveralConnectionsHasItsOwnAndTheOneThatBreaksGetsItBack) {
  PortBook book(32'768, 60'999);
  uint16_t ports[4];
  for (uint16_t& port : ports) {
    port = book.take(kClient, 0);
  }
  EXPECT_EQ(std::set<uint16_t>(std::begin(ports), std::end(ports)).size(), 4u);
  book.give_back(kClient, 0, ports[2]);
  EXPECT_EQ(book.take(kClient, 0), ports[2]);
}

TEST(SourcePorts, AnotherGatewayGivesTheSame) {
  PortBook one(32'768, 60'999);
  PortBook two(32'768, 60'999);
  (void)two.take(kOther, 3);
  for (int i = 0; i < 8; ++i) {
    EXPECT_EQ(one.take(kClient, 0), two.take(kClient, 1));
  }
}

TEST(SourcePorts, ClientsThatShareAnAddressNeverShareAPort) {
  PortBook book(100, 139);
  std::set<uint16_t> ports;
  for (uint32_t client = 0; client < 40; ++client) {
    const uint16_t port = book.take(IpAddress::v4(client), 0);
    EXPECT_TRUE(port >= 100 && port <= 139);
    EXPECT_TRUE(ports.insert(port).second);
  }
  EXPECT_EQ(book.take(kOther, 0), 0);  // none is left: the system picks one
  EXPECT_EQ(book.used_count(), 40u);
  EXPECT_NE(book.take(kOther, 1), 0);  // of another backend
}

// Between the break of a connection and the client's return, other clients connect whose hash leads to its port.
TEST(SourcePorts, APortWaitsForItsClientWhileOthersComeAndGo) {
  PortBook book(100, 139);
  const uint16_t port = book.take(kClient, 0);
  book.give_back(kClient, 0, port);
  for (uint32_t other = 0; other < 39; ++other) {
    EXPECT_NE(book.take(IpAddress::v4(other), 0), port) << other;
  }
  EXPECT_EQ(book.take(kClient, 0), port);
  EXPECT_EQ(book.kept_count(), 0u);
}

TEST(SourcePorts, APortThatOnlyWaitsIsBetterThanNone) {
  PortBook book(100, 139);
  book.give_back(kClient, 0, book.take(kClient, 0));
  for (uint32_t other = 0; other < 40; ++other) {
    EXPECT_NE(book.take(IpAddress::v4(other), 0), 0) << other;
  }
  EXPECT_EQ(book.take(kClient, 0), 0);
  EXPECT_EQ(book.used_count(), 40u);
  EXPECT_EQ(book.kept_count(), 0u);
}

TEST(SourcePorts, OfThoseThatWaitTheOldestAreForgotten) {
  PortBook book(32'768, 60'999, 0, 3);
  std::vector<uint16_t> ports;
  for (uint32_t client = 0; client < 5; ++client) {
    ports.push_back(book.take(IpAddress::v4(client), 0));
    book.give_back(IpAddress::v4(client), 0, ports.back());
  }
  EXPECT_EQ(book.kept_count(), 3u);
  PortBook own(32'768, 60'999, 0, 1);
  own.set_from_client(0);
  const uint16_t first = own.take(kClient, 0);
  const uint16_t second = own.take(kClient, 0);
  own.give_back(kClient, 0, first);
  own.give_back(kClient, 0, second);
  EXPECT_EQ(own.kept_count(), 1u);
  EXPECT_EQ(own.take(kClient, 0), first) << "the number's, whether it was kept or not";
  EXPECT_EQ(own.take(kClient, 0), second);
}

// Who knows the key of this gateway's ports could choose an address whose port is another's.
TEST(SourcePorts, PortsThatClientsShareFollowFromAKeyAndThoseOfTheirOwnAddressesDoNot) {
  PortBook one(32'768, 60'999, 1);
  PortBook two(32'768, 60'999, 2);
  PortBook again(32'768, 60'999, 1);
  one.set_from_client(7);
  two.set_from_client(7);
  uint32_t same = 0;
  for (uint32_t client = 0; client < 100; ++client) {
    const IpAddress address = IpAddress::v4(client);
    const uint16_t port = one.take(address, 0);
    same += port == two.take(address, 0) ? 1 : 0;
    EXPECT_EQ(port, again.take(address, 0)) << "a restart changes nothing";
    EXPECT_EQ(one.take(address, 7), two.take(address, 7)) << "nor does the other gateway of a pair";
  }
  EXPECT_LT(same, 5u);
}

// Four connections (nconnect) break together and come back in another order. Each transport of a Linux client counts its XIDs on.
TEST(SourcePorts, TheXidOfTheFirstCallSaysWhichConnectionComesBack) {
  PortBook book(32'768, 60'999);
  constexpr uint32_t kXids[] = {0x1234'5678, 0xffff'fff0, 0x8000'0000, 0x1300'0000};
  uint16_t ports[4];
  for (uint16_t& port : ports) {
    EXPECT_FALSE(book.depends_on_xid(kClient, 0)) << "nobody is waited for";
    port = book.take(kClient, 0);
  }
  for (int i = 0; i < 4; ++i) {
    book.give_back(kClient, 0, ports[i], kXids[i]);
  }
  EXPECT_TRUE(book.depends_on_xid(kClient, 0));
  EXPECT_FALSE(book.depends_on_xid(kClient, 1));
  EXPECT_FALSE(book.depends_on_xid(kOther, 0));
  EXPECT_EQ(book.take(kClient, 0, kXids[2] - 20), ports[2]) << "a call that is repeated";
  EXPECT_EQ(book.take(kClient, 0, kXids[1] + 40), ports[1]) << "the next, past the end of the numbers";
  // A connection that fails before its first call leaves what is known of the one before.
  book.give_back(kClient, 0, ports[2]);
  EXPECT_EQ(book.take(kClient, 0, kXids[3]), ports[3]);
  EXPECT_EQ(book.take(kClient, 0, kXids[2]), ports[2]);
  EXPECT_EQ(book.take(kClient, 0, kXids[0]), ports[0]);
}

// One breaks, and its client comes back with another before the gateway knows that this one is dead, too.
TEST(SourcePorts, AConnectionThatFollowsNobodyLeavesThePortsThatWait) {
  PortBook book(32'768, 60'999);
  const uint16_t one = book.take(kClient, 0);
  const uint16_t two = book.take(kClient, 0);
  book.give_back(kClient, 0, one, 1000);
  const uint16_t three = book.take(kClient, 0, 0x7000'0000);
  EXPECT_NE(three, one);
  EXPECT_NE(three, two);
  EXPECT_EQ(book.take(kClient, 0, 1001), one);
  // A client that mounts anew, with other numbers, has the ports that it had.
  for (const uint16_t port : {one, two, three}) {
    book.give_back(kClient, 0, port, port);
  }
  EXPECT_EQ(book.take(kClient, 0, 0x7fff'0000), one);
}

TEST(SourcePorts, AClientThatComesAndGoesHasNoMoreAndMoreNumbers) {
  PortBook book(32'768, 60'999);
  (void)book.take(kClient, 0, 0);
  std::set<uint16_t> ports;
  for (uint32_t round = 1; round < 200; ++round) {
    const uint16_t port = book.take(kClient, 0, round << 20);
    ports.insert(port);
    book.give_back(kClient, 0, port, round << 20);
  }
  EXPECT_EQ(ports.size(), PortBook::kNumbersMax - 1);
  EXPECT_EQ(book.kept_count(), ports.size());
}

TEST(SourcePorts, ClientsWithAddressesOfTheirOwnMayHaveTheSamePorts) {
  PortBook book(100, 103);
  book.set_from_client(0);
  for (uint32_t client = 0; client < 40; ++client) {
    EXPECT_NE(book.take(IpAddress::v4(client), 0), 0);
  }
}

}  // namespace
}  // namespace cw::gateway
