// RdmaHost on an rdma-core that the test plays: devices come and go, refuse, and fail; what is told of them is told once.
#include "dataplane/rnic/rdma_host.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/heap_buffer_pool.h"
#include "dataplane/monotonic_clock.h"
#include "tests/unit/dataplane/played_rdma.h"

namespace cw::dataplane {
namespace {

using rnic::DeviceEvent;

// A core's host and transport on it, and a user that takes every connection.
struct RdmaRig {
  explicit RdmaRig(std::optional<IpAddress> address, const rnic::RnicOptions& options = {})
      : host({.listen = {{.port = kRdmaPort, .address = address}, {.port = kRdmaPort + 1, .address = address}}}, {pool.storage()},
             &rdma.core),
        transport(options, host, pool, random) {
    host.attach(transport);
  }
  ~RdmaRig() {
    EXPECT_EQ(rdma.violations, std::vector<std::string>());
    EXPECT_EQ(rdma.exposed, std::vector<int>());
    for (const auto& pair : rdma.queue_pairs) {
      for (const auto& [state, access_flags] : pair->states) {
        EXPECT_EQ(access_flags, 0u) << "in state " << state;
      }
    }
  }
  RdmaRig(const RdmaRig&) = delete;
  RdmaRig& operator=(const RdmaRig&) = delete;

  void turn(Duration pause = Duration::ms(1)) {
    now = now + pause;
    (void)host.receive(now);
    verbs::ConnectionEvent event;
    while (transport.poll_event(now, event)) {
      if (event.kind == verbs::ConnectionEvent::Kind::kConnectRequest) {
        const auto accepted = transport.accept(now, event.connection, {.receive_bytes_max = 1024});
        if (accepted.ok()) {
          accepted->queue_pair->post_receives(4);
          connections.push_back(event.connection);
        } else {
          transport.reject(now, event.connection, verbs::RejectReason::kNoResources, {});
        }
      }
    }
    (void)transport.flush(now);
    transport.on_deadline(now);
  }
  rdma_cm_id* connect(PlayedRdma::Device& device) {
    rdma_cm_id* const id = rdma.request(device);
    turn();
    if (rdma.is_alive(id)) {  // and not refused
      rdma.tell(id, RDMA_CM_EVENT_ESTABLISHED);
    }
    turn();
    return id;
  }
  void end(size_t which) {
    transport.disconnect(now, connections[which]);
    transport.destroy(connections[which]);
  }
  [[nodiscard]] uint64_t count(DeviceEvent event) const { return transport.stats().device_events[static_cast<size_t>(event)]; }
  // How often the log tells of it.
  [[nodiscard]] uint32_t told(DeviceEvent event) const {
    std::vector<verbs::TransportEvent> log(transport.log_capacity());
    log.resize(transport.copy_log(log));
    uint32_t sum = 0;
    for (const verbs::TransportEvent& each : log) {
      sum += each.event == "device_event" && each.reason == rnic::to_string(event) ? each.count : 0;
    }
    return sum;
  }
  [[nodiscard]] size_t ended_by(std::string_view cause) const {
    return static_cast<size_t>(std::ranges::count_if(
        connections, [&](verbs::ConnectionId each) { return transport.describe(each).error.cause == cause; }));
  }

  PlayedRdma rdma;
  HeapBufferPool pool{1024, 1024, 64};
  SeededRandom random{1};
  RdmaHost host;
  rnic::RnicTransport transport;
  std::vector<verbs::ConnectionId> connections;
  Instant now = monotonic_now();
};

// siw tells the connection manager of an IPv4 client at a listener for both by an address that no interface has.
TEST(RdmaHost, EveryAddressIsAListenerForEachFamily) {
  RdmaRig rig(std::nullopt);
  PlayedRdma::Device& device = rig.rdma.add("siw0", kRdmaAddress);
  ASSERT_TRUE(rig.transport.listen(kRdmaPort).ok());
  EXPECT_EQ(rig.rdma.families, (std::vector<std::pair<int, bool>>{{AF_INET, true}, {AF_INET6, true}}));
  EXPECT_EQ(device.opens, 1u);
  (void)rig.connect(device);
  EXPECT_EQ(rig.transport.stats().connections, 1u);
  rig.transport.unlisten(kRdmaPort);
  EXPECT_EQ(rig.rdma.ids.size(), 1u) << "the connection's";
}

TEST(RdmaHost, AHostWithoutIpv6IsListenedOnAllTheSame) {
  RdmaRig rig(std::nullopt);
  (void)rig.rdma.add("rxe0", kRdmaAddress);
  rig.rdma.has_ipv6 = false;
  EXPECT_TRUE(rig.transport.listen(kRdmaPort).ok());
  EXPECT_EQ(rig.rdma.ids.size(), 1u);
}

TEST(RdmaHost, SaysOnceThatItListensOnEveryAddress) {
  std::array<telemetry::VerbsListener, 3> rows{};
  RdmaRig any(std::nullopt);
  (void)any.rdma.add("rxe0", kRdmaAddress);
  ASSERT_TRUE(any.transport.listen(kRdmaPort).ok());
  any.host.describe(rows);
  EXPECT_EQ(rows[0].port, kRdmaPort);
  EXPECT_STREQ(rows[0].device.data(), "") << "of whatever device";
  EXPECT_EQ(rows[1].port, 0u) << "once for both families";
}

TEST(RdmaHost, SaysWhoseAddressItListensOn) {
  std::array<telemetry::VerbsListener, 3> rows{};
  RdmaRig rig(kRdmaAddress);
  PlayedRdma::Device& device = rig.rdma.add("rxe0", kRdmaAddress);
  ASSERT_TRUE(rig.transport.listen(kRdmaPort).ok());
  rig.host.describe(rows);
  EXPECT_STREQ(rows[0].device.data(), "rxe0");
  EXPECT_EQ(rows[0].is_lost, 0u);
  rig.rdma.remove(device);
  rig.turn();
  rig.host.describe(rows);
  EXPECT_EQ(rows[0].port, kRdmaPort);
  EXPECT_STREQ(rows[0].device.data(), "");
  EXPECT_EQ(rows[0].is_lost, 1u);
  rig.transport.unlisten(kRdmaPort);
  rig.host.describe(rows);
  EXPECT_EQ(rows[0].port, 0u);
}

TEST(RdmaHost, ADeviceThatIsRemovedUnderAListenerIsClosed) {
  RdmaRig rig(kRdmaAddress);
  PlayedRdma::Device& device = rig.rdma.add("rxe0", kRdmaAddress);
  ASSERT_TRUE(rig.transport.listen(kRdmaPort).ok());
  ASSERT_TRUE(rig.transport.listen(kRdmaPort + 1).ok());
  ASSERT_EQ(device.opens, 1u);
  ASSERT_GT(device.regions, 0);
  rig.rdma.remove(device);
  rig.turn();
  EXPECT_EQ(device.closes, 1u) << "the kernel waits for it";
  EXPECT_EQ(device.regions, 0);
  EXPECT_TRUE(rig.rdma.ids.empty());
  EXPECT_EQ(rig.count(DeviceEvent::kDeviceRemoved), 1u) << "of two listeners";
  EXPECT_EQ(rig.told(DeviceEvent::kDeviceRemoved), 1u);
}

TEST(RdmaHost, ARemovalIsToldOnceHoweverManyConnectionsItEnds) {
  for (const bool has_failed : {false, true}) {
    RdmaRig rig(kRdmaAddress);
    PlayedRdma::Device& device = rig.rdma.add("rxe0", kRdmaAddress);
    ASSERT_TRUE(rig.transport.listen(kRdmaPort).ok());
    ASSERT_TRUE(rig.transport.listen(kRdmaPort + 1).ok());
    for (int i = 0; i < 3; ++i) {
      (void)rig.connect(device);
    }
    ASSERT_EQ(rig.transport.stats().connections, 3u);
    if (has_failed) {
      rig.rdma.tell(device, IBV_EVENT_DEVICE_FATAL);
      rig.turn();
    }
    rig.rdma.remove(device);
    rig.turn();
    rig.turn();
    EXPECT_EQ(rig.count(DeviceEvent::kDeviceRemoved), 1u);
    EXPECT_EQ(rig.told(DeviceEvent::kDeviceRemoved), 1u);
    EXPECT_EQ(rig.ended_by(has_failed ? "device_fatal" : "device_removed"), 3u);
    EXPECT_EQ(device.closes, 1u);
  }
}

// When it has gone already, its listeners are told one after the other.
TEST(RdmaHost, ARemovalIsToldOnceWhenTheDeviceWasClosedBefore) {
  RdmaRig rig(kRdmaAddress);
  PlayedRdma::Device& device = rig.rdma.add("rxe0", kRdmaAddress);
  ASSERT_TRUE(rig.transport.listen(kRdmaPort).ok());
  ASSERT_TRUE(rig.transport.listen(kRdmaPort + 1).ok());
  rig.rdma.tell(device, IBV_EVENT_DEVICE_FATAL);
  rig.turn();
  ASSERT_EQ(device.closes, 1u);
  device.is_there = false;
  const std::vector<rdma_cm_id*> bound = {rig.rdma.ids[0].get(), rig.rdma.ids[1].get()};
  for (rdma_cm_id* id : bound) {
    if (rig.rdma.is_alive(id)) {
      rig.rdma.tell(id, RDMA_CM_EVENT_DEVICE_REMOVAL);
    }
    rig.turn();
  }
  EXPECT_EQ(rig.count(DeviceEvent::kDeviceRemoved), 1u);
  EXPECT_TRUE(rig.rdma.ids.empty());
}

// rxe and siw, when uverbs was loaded behind the connection manager: nobody is told before all have let go of the device.
TEST(RdmaHost, ADeviceWhoseNodeIsGoneIsLetGoOfBeforeAnybodySaysSo) {
  for (const auto& address : {std::optional<IpAddress>(), std::optional(kRdmaAddress)}) {
    for (const uint32_t connections : {0u, 3u}) {
      RdmaRig rig(address);
      PlayedRdma::Device& device = rig.rdma.add("rxe0", kRdmaAddress);
      rig.rdma.add_node(device);
      ASSERT_TRUE(rig.transport.listen(kRdmaPort).ok());
      for (uint32_t i = 0; i < connections; ++i) {
        (void)rig.connect(device);
      }
      ASSERT_EQ(rig.transport.stats().connections, connections);
      ASSERT_TRUE(device.files_of_cm->are_open());
      rig.turn(Duration::seconds(1));
      ASSERT_EQ(rig.count(DeviceEvent::kDeviceRemoved), 0u);
      PlayedRdma::remove_node(device);
      rig.turn(Duration::seconds(1));
      EXPECT_EQ(device.closes, 1u);
      EXPECT_EQ(device.regions, 0);
      EXPECT_FALSE(device.files_of_cm->are_open()) << "librdmacm's";
      EXPECT_EQ(rig.rdma.ids.size(), address ? 0u : 2u) << "listeners of any address stay";
      EXPECT_EQ(rig.ended_by("device_removed"), connections);
      EXPECT_EQ(rig.count(DeviceEvent::kDeviceRemoved), 1u);
      rig.turn(Duration::ms(100));
      rig.rdma.replace(device);
      rig.rdma.add_node(device);
      rig.turn(Duration::seconds(2));
      (void)rig.connect(device);
      EXPECT_EQ(rig.transport.stats().connections, connections + 1) << "nobody restarted anything";
      EXPECT_EQ(rig.count(DeviceEvent::kDeviceRemoved), 1u);
      EXPECT_TRUE(device.files_of_cm->are_open());
      EXPECT_EQ(rig.rdma.lists, 1);
      PlayedRdma::remove_node(device);
      rig.turn(Duration::seconds(1));
      EXPECT_EQ(device.closes, 2u) << "again";
      EXPECT_EQ(rig.count(DeviceEvent::kDeviceRemoved), 2u);
    }
  }
}

// Whose connection manager was told first, and while another device is there.
TEST(RdmaHost, WhatLibrdmacmHasOfARemovedDeviceIsLetGoOfAndNothingElse) {
  RdmaRig rig(std::nullopt);
  PlayedRdma::Device& device = rig.rdma.add("rxe0", kRdmaAddress);
  PlayedRdma::Device& other = rig.rdma.add("rxe1", IpAddress::v4(0xc000'0202));
  ASSERT_TRUE(rig.transport.listen(kRdmaPort).ok());
  (void)rig.connect(device);
  (void)rig.connect(other);
  rig.rdma.remove(device);
  rig.turn();
  EXPECT_FALSE(device.files_of_cm->are_open());
  EXPECT_TRUE(other.files_of_cm->are_open());
  EXPECT_EQ(rig.ended_by("device_removed"), 1u);
  EXPECT_EQ(other.closes, 0u);
}

// It is missing among librdmacm's devices already, and its node is not: before its successor is taken, it is let go of.
TEST(RdmaHost, ADeviceThatIsMissingWhenAnotherOneComesIsGone) {
  RdmaRig rig(std::nullopt);
  PlayedRdma::Device& device = rig.rdma.add("rxe0", kRdmaAddress);
  ASSERT_TRUE(rig.transport.listen(kRdmaPort).ok());
  (void)rig.connect(device);
  device.is_there = false;
  PlayedRdma::Device& other = rig.rdma.add("rxe1", IpAddress::v4(0xc000'0202));
  (void)rig.connect(other);
  EXPECT_EQ(rig.count(DeviceEvent::kDeviceRemoved), 1u);
  EXPECT_EQ(rig.ended_by("device_removed"), 1u);
  EXPECT_FALSE(device.files_of_cm->are_open());
  EXPECT_TRUE(other.files_of_cm->are_open());
  EXPECT_EQ(rig.rdma.queue_pairs.size(), 1u);
}

// No driver in software has these events; those of RNICs do.
TEST(RdmaHost, AnEventOfAQueuePairEndsItsConnectionAndNoOther) {
  for (const auto& [type, cause] : {std::pair(IBV_EVENT_QP_FATAL, "queue_pair"), std::pair(IBV_EVENT_QP_REQ_ERR, "request_error"),
                                    std::pair(IBV_EVENT_QP_ACCESS_ERR, "access_error")}) {
    RdmaRig rig(std::nullopt);
    PlayedRdma::Device& device = rig.rdma.add("rnic0", kRdmaAddress);
    ASSERT_TRUE(rig.transport.listen(kRdmaPort).ok());
    for (int i = 0; i < 3; ++i) {
      (void)rig.connect(device);
    }
    rig.rdma.tell(device, type, nullptr, &rig.rdma.queue_pairs[1]->qp);
    rig.turn();
    EXPECT_EQ(rig.ended_by(cause), 1u) << cause;
    EXPECT_EQ(rig.ended_by("none"), 2u) << cause;
    EXPECT_EQ(rig.transport.describe(rig.connections[1]).error.cause, cause);
    rig.end(1);
    rig.turn();
    EXPECT_EQ(rig.rdma.queue_pairs.size(), 2u);
    EXPECT_EQ(device.closes, 0u);
  }
}

TEST(RdmaHost, AFailedDeviceIsToldOnceWhetherAnybodyIsOnItOrNot) {
  for (const int connections : {0, 3}) {
    RdmaRig rig(std::nullopt);
    PlayedRdma::Device& device = rig.rdma.add("rxe0", kRdmaAddress);
    ASSERT_TRUE(rig.transport.listen(kRdmaPort).ok());
    for (int i = 0; i < connections; ++i) {
      (void)rig.connect(device);
    }
    rig.rdma.tell(device, IBV_EVENT_DEVICE_FATAL);
    rig.turn();
    EXPECT_EQ(rig.count(DeviceEvent::kDeviceFatal), 1u) << connections;
    EXPECT_EQ(rig.told(DeviceEvent::kDeviceFatal), 1u) << connections;
    EXPECT_EQ(rig.ended_by("device_fatal"), static_cast<size_t>(connections));
    EXPECT_EQ(device.closes, connections == 0 ? 1u : 0u);
  }
}

TEST(RdmaHost, AFailedCompletionQueueIsToldOnceAndEndsThoseThatAreOnIt) {
  RdmaRig rig(std::nullopt, {.send_queue_depth = 64, .receive_queue_depth = 32});
  PlayedRdma::Device& device = rig.rdma.add("rxe0", kRdmaAddress);
  device.max_cqe = 2 * (2 * 64 + 32);
  ASSERT_TRUE(rig.transport.listen(kRdmaPort).ok());
  for (int i = 0; i < 3; ++i) {
    (void)rig.connect(device);
  }
  ASSERT_EQ(rig.rdma.queues.size(), 2u);
  rig.rdma.tell(device, IBV_EVENT_CQ_ERR, &rig.rdma.queues[0]->cq);
  rig.turn();
  EXPECT_EQ(rig.count(DeviceEvent::kCompletionQueueError), 1u);
  EXPECT_EQ(rig.told(DeviceEvent::kCompletionQueueError), 1u);
  EXPECT_EQ(rig.ended_by("completion_queue"), 2u);
  rig.end(0);
  rig.end(1);
  rig.turn();
  rig.turn();
  EXPECT_EQ(rig.rdma.queues.size(), 1u) << "nobody is on it any more";
}

TEST(RdmaHost, EventsOfPortsAreCounted) {
  RdmaRig rig(kRdmaAddress);
  PlayedRdma::Device& device = rig.rdma.add("rxe0", kRdmaAddress);
  ASSERT_TRUE(rig.transport.listen(kRdmaPort).ok());
  (void)rig.connect(device);
  rig.rdma.tell(device, IBV_EVENT_PORT_ERR);
  rig.rdma.tell(device, IBV_EVENT_PORT_ACTIVE);
  rig.turn();
  EXPECT_EQ(rig.count(DeviceEvent::kPortDown), 1u);
  EXPECT_EQ(rig.count(DeviceEvent::kPortUp), 1u);
  EXPECT_EQ(rig.told(DeviceEvent::kPortDown), 1u);
  EXPECT_EQ(rig.rdma.queue_pairs.at(0)->qp.state, IBV_QPS_RTS) << "it goes on";
  EXPECT_EQ(device.closes, 0u);
}

TEST(RdmaHost, ADeviceThatDoesNotRegisterAtListenIsSaidAndNotAskedAgainAtOnce) {
  RdmaRig rig(std::nullopt);
  PlayedRdma::Device& device = rig.rdma.add("rxe0", kRdmaAddress);
  device.registers = false;
  EXPECT_FALSE(rig.transport.listen(kRdmaPort).ok());
  EXPECT_EQ(rig.count(DeviceEvent::kRefused), 1u);
  EXPECT_EQ(rig.told(DeviceEvent::kRefused), 1u);
  EXPECT_EQ(device.opens, 1u) << "for both families";
  EXPECT_EQ(device.closes, 1u);
  EXPECT_TRUE(rig.rdma.ids.empty()) << "a listener that can take nobody";
  EXPECT_FALSE(rig.transport.listen(kRdmaPort).ok());
  for (int i = 0; i < 1000; ++i) {
    rig.turn();
  }
  EXPECT_EQ(device.opens, 1u);
}

TEST(RdmaHost, ADeviceThatRefusedIsAskedAgainAfterTenSeconds) {
  RdmaRig rig(std::nullopt);
  ASSERT_TRUE(rig.transport.listen(kRdmaPort).ok()) << "devices may come later";
  PlayedRdma::Device& device = rig.rdma.add("rxe0", kRdmaAddress);
  device.registers = false;
  for (int i = 0; i < 20; ++i) {
    (void)rig.rdma.request(device);
    rig.turn();
  }
  EXPECT_EQ(device.opens, 1u) << "peers may ask as often as they like";
  EXPECT_EQ(rig.rdma.rejects, 20u);
  EXPECT_EQ(rig.count(DeviceEvent::kRefused), 1u);
  device.registers = true;
  rig.turn(Duration::seconds(11));
  (void)rig.connect(device);
  EXPECT_EQ(device.opens, 2u);
  EXPECT_EQ(rig.transport.stats().connections, 1u);
}

TEST(RdmaHost, AnotherDeviceDoesNotAnswerForTheOneThatLayThere) {
  RdmaRig rig(std::nullopt);
  ASSERT_TRUE(rig.transport.listen(kRdmaPort).ok());
  PlayedRdma::Device& device = rig.rdma.add("rxe0", kRdmaAddress);
  device.registers = false;
  (void)rig.rdma.request(device);
  rig.turn();
  ASSERT_EQ(rig.rdma.rejects, 1u);
  rig.rdma.replace(device);
  (void)rig.connect(device);
  EXPECT_EQ(rig.transport.stats().connections, 1u);
  EXPECT_EQ(rig.rdma.rejects, 1u);
}

// Before rdma-core 34 nobody tells which one it is: what goes is forgotten.
TEST(RdmaHost, ARefusalGoesWithItsDevice) {
  RdmaRig rig(kRdmaAddress);
  rig.rdma.core.get_device_index = nullptr;
  PlayedRdma::Device& device = rig.rdma.add("rxe0", kRdmaAddress);
  ASSERT_TRUE(rig.transport.listen(kRdmaPort).ok());
  rig.rdma.tell(device, IBV_EVENT_DEVICE_FATAL);
  rig.turn();
  device.registers = false;
  (void)rig.rdma.request(device);
  rig.turn();
  ASSERT_EQ(rig.count(DeviceEvent::kRefused), 1u);
  rig.rdma.remove(device);
  rig.turn();
  rig.rdma.replace(device);
  rig.turn(Duration::ms(1100));
  (void)rig.connect(device);
  EXPECT_EQ(rig.transport.stats().connections, 1u);
}

TEST(RdmaHost, AListenerThatComesBackHasItsDeviceOpenAndSaysSoOnce) {
  RdmaRig rig(kRdmaAddress);
  PlayedRdma::Device& device = rig.rdma.add("rxe0", kRdmaAddress);
  ASSERT_TRUE(rig.transport.listen(kRdmaPort).ok());
  rig.rdma.remove(device);
  rig.turn();
  rig.turn(Duration::seconds(2));
  EXPECT_EQ(rig.count(DeviceEvent::kListening), 0u);
  rig.rdma.replace(device);
  for (int i = 0; i < 10; ++i) {
    rig.turn(Duration::seconds(1));
  }
  EXPECT_EQ(device.opens, 2u) << "its first connection does not wait until memory is registered";
  EXPECT_GT(device.regions, 0);
  EXPECT_EQ(rig.count(DeviceEvent::kListening), 1u);
  EXPECT_EQ(rig.told(DeviceEvent::kListening), 1u);
  (void)rig.connect(device);
  EXPECT_EQ(rig.transport.stats().connections, 1u);
  EXPECT_EQ(device.opens, 2u);
}

TEST(RdmaHost, AListenerThatCameBackIsToldOfTheNextRemoval) {
  RdmaRig rig(kRdmaAddress);
  PlayedRdma::Device& device = rig.rdma.add("rxe0", kRdmaAddress);
  ASSERT_TRUE(rig.transport.listen(kRdmaPort).ok());
  for (uint32_t i = 1; i <= 3; ++i) {
    rig.rdma.remove(device);
    rig.turn();
    rig.rdma.replace(device);
    rig.turn(Duration::ms(1100));
    EXPECT_EQ(rig.count(DeviceEvent::kDeviceRemoved), i);
    EXPECT_EQ(rig.count(DeviceEvent::kListening), i) << "a second after each, however long the one before took";
    EXPECT_EQ(device.closes, i);
  }
}

TEST(RdmaHost, ALostListenerIsTriedLessAndLessOften) {
  RdmaRig rig(kRdmaAddress);
  PlayedRdma::Device& device = rig.rdma.add("rxe0", kRdmaAddress);
  ASSERT_TRUE(rig.transport.listen(kRdmaPort).ok());
  rig.rdma.remove(device);
  rig.turn();
  std::vector<int> pauses;  // in tenths of a second
  uint32_t binds = rig.rdma.binds;
  int since = 0;
  for (int i = 0; i < 1300; ++i) {
    rig.turn(Duration::ms(100));
    ++since;
    if (rig.rdma.binds != binds) {
      binds = rig.rdma.binds;
      pauses.push_back(std::exchange(since, 0));
    }
  }
  EXPECT_EQ(pauses, (std::vector<int>{10, 20, 40, 80, 160, 300, 300, 300}));
}

TEST(RdmaHost, ADeviceThatComesBackAndDoesNotRegisterIsNotListenedOn) {
  RdmaRig rig(kRdmaAddress);
  PlayedRdma::Device& device = rig.rdma.add("rxe0", kRdmaAddress);
  ASSERT_TRUE(rig.transport.listen(kRdmaPort).ok());
  rig.rdma.remove(device);
  rig.turn();
  rig.rdma.replace(device);
  device.registers = false;
  for (int i = 0; i < 6; ++i) {
    rig.turn(Duration::seconds(1));
  }
  EXPECT_TRUE(rig.rdma.ids.empty()) << "a listener that can take nobody";
  EXPECT_EQ(rig.count(DeviceEvent::kRefused), 1u);
  EXPECT_EQ(rig.count(DeviceEvent::kListening), 0u);
  device.registers = true;
  for (int i = 0; i < 60; ++i) {
    rig.turn(Duration::seconds(1));
  }
  EXPECT_EQ(rig.count(DeviceEvent::kListening), 1u);
}

// What the peer sent is looked at first, and may end the connection that the event is about.
TEST(RdmaHost, AnEventOfAConnectionThatItsFirstMessageHasEndedIsOfNobody) {
  RdmaRig rig(std::nullopt, {.connections_max = 1});
  PlayedRdma::Device& device = rig.rdma.add("rxe0", kRdmaAddress);
  ASSERT_TRUE(rig.transport.listen(kRdmaPort).ok());
  rdma_cm_id* const first = rig.rdma.request(device);
  rdma_cm_id* const second = rig.rdma.request(device);
  rig.turn();
  ASSERT_EQ(rig.rdma.queue_pairs.size(), 2u);
  rig.rdma.tell(first, RDMA_CM_EVENT_ESTABLISHED);
  rig.turn();
  PlayedRdma::QueuePair& late = *rig.rdma.queue_pairs[1];
  ASSERT_FALSE(late.receives.empty());
  rig.rdma.meanwhile = [&] { rig.rdma.complete(late, late.receives[0], 8); };
  rig.rdma.tell(second, RDMA_CM_EVENT_ESTABLISHED);
  rig.turn();
  EXPECT_FALSE(rig.rdma.is_alive(second)) << "there is room for one connection";
  EXPECT_TRUE(rig.rdma.is_alive(first));
}

TEST(RdmaHost, RoomForCompletionsIsTakenBeforeWorkIsPostedAndFreeOnceTheyAreDrained) {
  RdmaRig rig(std::nullopt, {.send_queue_depth = 64, .receive_queue_depth = 32});
  PlayedRdma::Device& device = rig.rdma.add("rxe0", kRdmaAddress);
  device.max_cqe = 2 * 64 + 32;  // one queue pair's
  ASSERT_TRUE(rig.transport.listen(kRdmaPort).ok());
  (void)rig.connect(device);
  EXPECT_EQ(rig.rdma.queues_made, 1u);
  (void)rig.connect(device);
  EXPECT_EQ(rig.rdma.queues_made, 2u) << "the first one could run over";
  // Its completions may lie there yet: a queue pair that is made before they are drained has another queue.
  (void)rig.rdma.request(device);
  rig.now = rig.now + Duration::ms(1);
  (void)rig.host.receive(rig.now);
  rig.end(0);
  verbs::ConnectionEvent asked;
  ASSERT_TRUE(rig.transport.poll_event(rig.now, asked) && asked.kind == verbs::ConnectionEvent::Kind::kConnectRequest);
  ASSERT_TRUE(rig.transport.accept(rig.now, asked.connection, {.receive_bytes_max = 1024}).ok());
  EXPECT_EQ(rig.rdma.queues_made, 3u);
  rig.turn();
  (void)rig.connect(device);
  EXPECT_EQ(rig.rdma.queues_made, 3u) << "the first one was found empty";
}

// What libsiw maps is told by where it begins, and one such place it takes for none: the queue lies over that.
TEST(RdmaHost, TheFirstQueueOfSiwLiesOverThePlaceThatItTakesForNone) {
  RdmaRig rig(std::nullopt);
  PlayedRdma::Device& device = rig.rdma.add("siw0", kRdmaAddress);
  device.device.transport_type = IBV_TRANSPORT_IWARP;
  device.max_cqe = 1 << 20;
  ASSERT_TRUE(rig.transport.listen(kRdmaPort).ok());
  (void)rig.connect(device);
  ASSERT_EQ(rig.rdma.queues.size(), 1u);
  constexpr int kSiwCqeBytes = 32;
  constexpr int kPageBytes = 4096;
  EXPECT_GT(rig.rdma.queues[0]->cq.cqe * kSiwCqeBytes / kPageBytes, 0x90);
}

TEST(RdmaHost, AKeyThatIsInvalidatedStandsWhereLibsiwLooks) {
  RdmaRig rig(std::nullopt);
  PlayedRdma::Device& device = rig.rdma.add("siw0", kRdmaAddress);
  ASSERT_TRUE(rig.transport.listen(kRdmaPort).ok());
  (void)rig.connect(device);
  const std::vector<rnic::SendWork> sends = {{.id = 1, .verb = rnic::WorkVerb::kSendWithInvalidate, .rkey = verbs::Rkey(0x1234)}};
  EXPECT_EQ(rig.host.post_sends(rnic::RnicId(rig.connections.at(0).value()), sends), 1u);
  EXPECT_EQ(rig.rdma.queue_pairs[0]->invalidated, (std::vector<std::pair<uint32_t, uint32_t>>{{0x1234, 0x1234}}));
}

TEST(RdmaHost, AFailedPostThatNamesNoRequestHasTakenAll) {
  for (const int taken : {-1, 1}) {
    RdmaRig rig(std::nullopt);
    PlayedRdma::Device& device = rig.rdma.add("siw0", kRdmaAddress);
    ASSERT_TRUE(rig.transport.listen(kRdmaPort).ok());
    (void)rig.connect(device);
    const rnic::RnicId id(rig.connections.at(0).value());
    const std::vector<rnic::SendWork> sends = {{.id = 1}, {.id = 2}, {.id = 3}};
    const std::vector<rnic::ReceiveWork> receives = {{.id = 4}, {.id = 5}, {.id = 6}};
    rig.rdma.post_fails = true;
    rig.rdma.posts_taken = taken;
    EXPECT_EQ(rig.host.post_sends(id, sends), taken < 0 ? 3u : 1u);
    EXPECT_EQ(rig.rdma.queue_pairs[0]->qp.state, IBV_QPS_ERR) << "what it has is flushed";
    rig.rdma.queue_pairs[0]->qp.state = IBV_QPS_RTS;
    EXPECT_EQ(rig.host.post_receives(id, receives), taken < 0 ? 3u : 1u);
    EXPECT_EQ(rig.rdma.queue_pairs[0]->qp.state, IBV_QPS_ERR);
  }
}

// The kernel's timer is 0, which has a client wait for 655 ms when it has found no receive.
TEST(RdmaHost, APeerThatFindsNoReceiveDoesNotWaitLong) {
  RdmaRig rig(std::nullopt);
  ASSERT_TRUE(rig.transport.listen(kRdmaPort).ok());
  (void)rig.connect(rig.rdma.add("rxe0", kRdmaAddress));
  EXPECT_EQ(rig.rdma.queue_pairs.at(0)->min_rnr_timer, 12);
}

// More than are taken at a time.
TEST(RdmaHost, AllCompletionsOfATurnAreTaken) {
  RdmaRig rig(std::nullopt);
  ASSERT_TRUE(rig.transport.listen(kRdmaPort).ok());
  (void)rig.connect(rig.rdma.add("rxe0", kRdmaAddress));
  PlayedRdma::QueuePair& pair = *rig.rdma.queue_pairs.at(0);
  ASSERT_EQ(pair.receives.size(), 4u);
  for (const uint64_t id : pair.receives) {
    rig.rdma.complete(pair, id, 8);
  }
  for (uint32_t i = 0; i < 150; ++i) {
    rig.rdma.complete(pair, 0xffff'ffff'ffff'ffff, 8);  // of a queue pair that is gone
  }
  rig.turn();
  EXPECT_EQ(rig.transport.work_stats().stale_completions, 150u);
  EXPECT_EQ(rig.transport.work_stats().completions[static_cast<size_t>(verbs::WcStatus::kSuccess)], 154u);
}

// ---- Several cores ----

// Two cores behind one listener, which is the first one's.
struct TwoCores {
  struct Core {
    Core(PlayedRdma& played, RequestDealer& between, uint32_t number)
        : host({.listen = {{.port = kRdmaPort, .address = kRdmaAddress}}, .listens = number == 0}, {pool.storage()},
               &played.core),
          transport({}, host, pool, random) {
      host.attach(transport);
      host.share_with(between, number);
    }
    void turn(Instant moment) {
      (void)host.receive(moment);
      verbs::ConnectionEvent event;
      while (transport.poll_event(moment, event)) {
        if (event.kind == verbs::ConnectionEvent::Kind::kConnectRequest) {
          const auto accepted = transport.accept(moment, event.connection, {.receive_bytes_max = 1024});
          ASSERT_TRUE(accepted.ok());
          accepted->queue_pair->post_receives(4);
          connections.push_back(event.connection);
        }
        ended += event.kind == verbs::ConnectionEvent::Kind::kDisconnected ? 1 : 0;
      }
      (void)transport.flush(moment);
      transport.on_deadline(moment);
    }
    HeapBufferPool pool{1024, 1024, 64};
    SeededRandom random{1};
    RdmaHost host;
    rnic::RnicTransport transport;
    std::vector<verbs::ConnectionId> connections;
    uint32_t ended = 0;
  };

  TwoCores() {
    device = &rdma.add("rxe0", kRdmaAddress);
    for (uint32_t i = 0; i < 2; ++i) {
      cores.push_back(std::make_unique<Core>(rdma, dealer, i));
      EXPECT_TRUE(cores[i]->transport.listen(kRdmaPort).ok());
    }
  }
  void turn() {
    now = now + Duration::ms(1);
    for (const auto& core : cores) {
      core->turn(now);
    }
  }
  rdma_cm_id* connect() {
    rdma_cm_id* const id = rdma.request(*device);
    turn();
    rdma.tell(id, RDMA_CM_EVENT_ESTABLISHED);
    turn();
    return id;
  }
  [[nodiscard]] uint64_t count(DeviceEvent event) const {
    const auto of = [event](const auto& core) { return core->transport.stats().device_events[static_cast<size_t>(event)]; };
    return of(cores[0]) + of(cores[1]);
  }
  [[nodiscard]] uint64_t open_on(uint32_t core) const { return cores[core]->transport.stats().connections; }

  PlayedRdma rdma;
  RequestDealer dealer{2};
  PlayedRdma::Device* device = nullptr;
  std::vector<std::unique_ptr<Core>> cores;
  Instant now = monotonic_now();
};

TEST(RdmaCores, OneListensAndBothServe) {
  TwoCores rig;
  EXPECT_EQ(rig.rdma.ids.size(), 1u) << "one listener";
  EXPECT_EQ(rig.device->opens, 2u) << "before the first connection";
  for (int i = 0; i < 6; ++i) {
    (void)rig.connect();
  }
  EXPECT_EQ(rig.open_on(0), 3u);
  EXPECT_EQ(rig.open_on(1), 3u);
}

TEST(RdmaCores, ARequestGoesWhereTheFewestAre) {
  TwoCores rig;
  rdma_cm_id* const first = rig.connect();
  for (int i = 0; i < 3; ++i) {
    (void)rig.connect();
  }
  ASSERT_EQ(rig.open_on(0), 2u);
  rig.rdma.tell(first, RDMA_CM_EVENT_DISCONNECTED);
  rig.turn();
  rig.cores[0]->transport.destroy(rig.cores[0]->connections[0]);
  rig.turn();
  ASSERT_EQ(rig.open_on(0), 1u);
  (void)rig.connect();
  EXPECT_EQ(rig.open_on(0), 2u);
  EXPECT_EQ(rig.open_on(1), 2u);
}

TEST(RdmaCores, WhatComesOfAConnectionIsItsOwnCores) {
  TwoCores rig;
  (void)rig.connect();
  rdma_cm_id* const second = rig.connect();
  ASSERT_EQ(rig.open_on(1), 1u);
  EXPECT_EQ(second->channel, &rig.rdma.channels[1]->channel);
  rig.rdma.tell(second, RDMA_CM_EVENT_DISCONNECTED);
  rig.turn();
  EXPECT_EQ(rig.cores[0]->ended, 0u);
  EXPECT_EQ(rig.cores[1]->ended, 1u);
}

// The listening core hears of a request that it has given away, and that the other has not taken yet.
TEST(RdmaCores, APeerMayGiveUpBetweenTwoCores) {
  TwoCores rig;
  (void)rig.connect();
  rdma_cm_id* const id = rig.rdma.request(*rig.device);
  rig.now = rig.now + Duration::ms(1);
  rig.cores[0]->turn(rig.now);
  rig.rdma.tell(id, RDMA_CM_EVENT_REJECTED);
  rig.now = rig.now + Duration::ms(1);
  rig.cores[0]->turn(rig.now);
  EXPECT_EQ(rig.open_on(0), 1u);
  rig.rdma.tell(id, RDMA_CM_EVENT_UNREACHABLE);  // after the last look of the one, before the other takes it
  rig.turn();
  rig.turn();
  EXPECT_EQ(rig.open_on(1), 0u);
}

TEST(RdmaCores, AnIdThatCannotBeTakenOverIsRefused) {
  TwoCores rig;
  (void)rig.connect();
  rig.rdma.migrates = false;
  rdma_cm_id* const id = rig.rdma.request(*rig.device);
  rig.turn();
  rig.turn();
  EXPECT_FALSE(rig.rdma.is_alive(id));
  EXPECT_EQ(rig.rdma.rejects, 1u);
  rig.rdma.migrates = true;
  (void)rig.connect();
  EXPECT_EQ(rig.open_on(1), 1u) << "nothing counts for what was refused";
}

TEST(RdmaCores, ACoreThatTakesNothingHoldsUpNobodyElse) {
  TwoCores rig;
  (void)rig.connect();
  for (size_t i = 0; i < RequestDealer::kWaitingMax * 2 + 16; ++i) {
    (void)rig.rdma.request(*rig.device);
  }
  for (int i = 0; i < 200; ++i) {
    rig.now = rig.now + Duration::ms(1);
    rig.cores[0]->turn(rig.now);
  }
  EXPECT_GT(rig.cores[0]->connections.size(), 32u) << "the other's turn counts as if it had taken what waits for it";
  EXPECT_GT(rig.rdma.ids.size(), RequestDealer::kWaitingMax / 4);
  rig.cores.clear();
  EXPECT_TRUE(rig.rdma.ids.empty()) << "what nobody has taken is refused";
}

// A core that stands still, whose clients would give up: the one that listens has a free hand.
TEST(RdmaCores, ARequestThatWaitsTooLongIsServedByTheListeningCore) {
  TwoCores rig;
  rig.connect();
  rig.rdma.request(*rig.device);  // the second core's turn to have one
  const auto turn_alone = [&](Duration pause) {
    rig.now = rig.now + pause;
    rig.cores[0]->turn(rig.now);
  };
  turn_alone(Duration::ms(1));
  turn_alone(Duration::ms(400));
  EXPECT_EQ(rig.cores[0]->connections.size(), 1u) << "it may come yet";
  turn_alone(Duration::ms(600));
  turn_alone(Duration::ms(600));
  EXPECT_EQ(rig.cores[0]->connections.size(), 2u);
  rig.turn();
  EXPECT_EQ(rig.cores[1]->connections.size(), 0u);
}

TEST(RdmaCores, WhatBefallsADeviceIsToldOnce) {
  TwoCores rig;
  (void)rig.connect();
  (void)rig.connect();
  rig.rdma.tell(*rig.device, IBV_EVENT_PORT_ERR);
  rig.turn();
  EXPECT_EQ(rig.count(DeviceEvent::kPortDown), 1u);
  rig.rdma.tell(*rig.device, IBV_EVENT_DEVICE_FATAL);
  rig.turn();
  rig.turn();
  EXPECT_EQ(rig.count(DeviceEvent::kDeviceFatal), 1u);
  EXPECT_EQ(rig.cores[0]->ended + rig.cores[1]->ended, 2u);
}

TEST(RdmaCores, ACoreThatCannotUseTheDeviceIsSaidBeforeItServes) {
  PlayedRdma rdma;
  RequestDealer dealer(2);
  PlayedRdma::Device& device = rdma.add("rxe0", kRdmaAddress);
  TwoCores::Core first(rdma, dealer, 0);
  TwoCores::Core second(rdma, dealer, 1);
  ASSERT_TRUE(first.transport.listen(kRdmaPort).ok());
  device.registers = false;
  EXPECT_FALSE(second.transport.listen(kRdmaPort).ok());
}

TEST(RdmaCores, ADeviceThatGoesEndsTheConnectionsOfBoth) {
  TwoCores rig;
  for (int i = 0; i < 4; ++i) {
    (void)rig.connect();
  }
  rig.rdma.remove(*rig.device);
  rig.turn();
  rig.turn();
  for (const auto& core : rig.cores) {
    EXPECT_EQ(core->ended, 2u);
    for (const verbs::ConnectionId connection : core->connections) {
      core->transport.destroy(connection);
    }
  }
  rig.turn();
  EXPECT_EQ(rig.device->closes, rig.device->opens);
  EXPECT_EQ(rig.count(DeviceEvent::kDeviceRemoved), 1u) << "it is one device, however many cores have it";
}

}  // namespace
}  // namespace cw::dataplane
