#include "control/gateway/source_ports.h"

#include <gtest/gtest.h>

#include <set>

namespace cw::gateway {
namespace {

const wire::IpAddress kClient = wire::IpAddress::v4(0x0a090002);
const wire::IpAddress kOther = wire::IpAddress::v4(0x0a090003);

TEST(SourcePorts, AConnectionThatComesBackHasThePortThatItHad) {
  PortBook book(32'768, 60'999);
  const uint16_t port = book.take(kClient, 0);
  EXPECT_GE(port, 32'768);
  EXPECT_LE(port, 60'999);
  book.give_back(kClient, 0, port);
  EXPECT_EQ(book.client_count(), 0u);
  EXPECT_EQ(book.take(kClient, 0), port);
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
    const uint16_t port = book.take(wire::IpAddress::v4(client), 0);
    EXPECT_TRUE(port >= 100 && port <= 139);
    EXPECT_TRUE(ports.insert(port).second);
  }
  EXPECT_EQ(book.take(kOther, 0), 0);  // none is left: the system picks one
  EXPECT_EQ(book.client_count(), 40u);
  EXPECT_NE(book.take(kOther, 1), 0);  // of another backend
}

TEST(SourcePorts, ClientsWithAddressesOfTheirOwnMayHaveTheSamePorts) {
  PortBook book(100, 103);
  book.set_from_client(0);
  for (uint32_t client = 0; client < 40; ++client) {
    EXPECT_NE(book.take(wire::IpAddress::v4(client), 0), 0);
  }
}

}  // namespace
}  // namespace cw::gateway
