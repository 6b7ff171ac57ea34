// SENDs without a Work: whatever comes while some wait, it comes to the same as if each were a Work.
#include "rocev2/rc/whole_sends.h"

#include <array>
#include <span>

#include "tests/unit/rc/lone_qp.h"

namespace cw::rc::test {
namespace {

struct Lone : LoneQp {
  using LoneQp::LoneQp;

  // A SEND for each id; of those whose id is not 0 the owner wants to hear.
  uint32_t post(std::span<const uint64_t> ids, size_t bytes = 40) {
    std::vector<verbs::PlainSend> sends;
    for (const uint64_t id : ids) {
      sends.push_back({.id = verbs::WorkId(id), .payload = chain(random_bytes(id, bytes)).detach(), .signaled = id > 0});
    }
    const uint32_t posted = qp->post_receives_and_sends(sends);
    for (size_t i = posted; i < sends.size(); ++i) {
      release_buffers(sends[i].payload);
    }
    EXPECT_TRUE(qp->is_consistent());
    return posted;
  }
  uint32_t post(std::initializer_list<uint64_t> ids) { return post(std::span(ids.begin(), ids.size())); }
  Status post_write(size_t bytes) {
    return qp->post_write({.id = verbs::WorkId(77), .payload = chain(random_bytes(1, bytes)), .remote_address = 0x1000});
  }
};

SentList only(uint32_t first, uint32_t count, size_t bytes = 40) {
  SentList all;
  for (uint32_t i = 0; i < count; ++i) {
    all.push_back({kOnly, first + i, true, bytes});
  }
  return all;
}

TEST(WholeSends, LeaveInOrderAndCompleteUnheard) {
  Lone lone;
  EXPECT_EQ(lone.post({0, 0, 0}), 3u);
  EXPECT_EQ(lone.sent(), only(1000, 3));
  EXPECT_EQ(lone.post({0, 0}), 2u);
  lone.receive_ack(1001);
  EXPECT_EQ(lone.qp->works_pending(), 3u);
  EXPECT_EQ(lone.sent(), only(1003, 2));
  lone.receive_ack(1004);
  EXPECT_EQ(lone.qp->works_pending(), 0u);
  EXPECT_EQ(lone.completions(), "");
}

TEST(WholeSends, TheOwnerHearsOfThoseThatItWatches) {
  Lone lone;
  EXPECT_EQ(lone.post({0, 5, 0, 6, 0}), 5u);
  (void)lone.sent();
  lone.receive_ack(1000);
  EXPECT_EQ(lone.completions(), "");
  lone.receive_ack(1003);
  EXPECT_EQ(lone.completions(), "send 5 success; send 6 success");
  lone.receive_ack(1004);
  EXPECT_EQ(lone.completions(), "");
}

// A core remembers only so many; the rest are Works, and nothing tells them apart.
TEST(WholeSends, MoreMayBeWatchedThanACoreRemembers) {
  Lone lone;
  std::vector<uint64_t> ids;
  std::string expected;
  for (uint64_t id = 1; id <= uint64_t{2} * RcCore::kWatchedSends; ++id) {
    ids.push_back(id);
    expected += (id > 1 ? "; send " : "send ") + std::to_string(id) + " success";
  }
  EXPECT_EQ(lone.post(ids), ids.size());
  EXPECT_EQ(lone.sent(), only(1000, static_cast<uint32_t>(ids.size())));
  lone.receive_ack(1000 + static_cast<uint32_t>(ids.size()) - 1);
  EXPECT_EQ(lone.completions(), expected);
  // All places are free again.
  EXPECT_EQ(lone.post(ids), ids.size());
  (void)lone.sent();
  lone.receive_ack(1000 + 2 * static_cast<uint32_t>(ids.size()) - 1);
  EXPECT_EQ(lone.completions(), expected);
}

TEST(WholeSends, ANakHasThemSentAgain) {
  Lone lone(without_recovery());
  EXPECT_EQ(lone.post({0, 0, 9, 0}), 4u);
  EXPECT_EQ(lone.sent(), only(1000, 4));
  const auto frames = lone.frames;
  EXPECT_EQ(lone.post({0}), 1u);
  lone.receive_nak(1001, NakCode::kPsnSequenceError);
  EXPECT_EQ(lone.sent(), only(1001, 4));
  const auto view = [](const std::vector<uint8_t>& frame) { return wire::PacketView::parse(frame); };
  EXPECT_TRUE(std::ranges::equal(view(lone.frames[0])->payload, view(frames[1])->payload));
  lone.receive_ack(1004);
  EXPECT_EQ(lone.completions(), "send 9 success");
  EXPECT_EQ(lone.post({0}), 1u);
  EXPECT_EQ(lone.sent(), only(1005, 1));
}

TEST(WholeSends, SilenceHasThemSentAgainUntilTheConnectionEnds) {
  LoneQpOptions options = without_recovery();
  options.connect.retry_count = 1;
  Lone lone(options);
  EXPECT_EQ(lone.post({0, 3, 0}), 3u);
  EXPECT_EQ(lone.sent().size(), 3u);
  lone.pass(ack_timeout(options.connect.ack_timeout));
  EXPECT_EQ(lone.sent().front(), only(1000, 1).front());
  for (int i = 0; i < 8 && !lone.qp->in_error(); ++i) {
    lone.pass(ack_timeout(options.connect.ack_timeout) * 8);
  }
  EXPECT_TRUE(lone.qp->in_error());
  EXPECT_EQ(lone.completions(),
            "send 0 transport retry count exceeded; send 3 work request flushed; send 0 work request flushed");
}

TEST(WholeSends, AnRnrNakHasThemWait) {
  Lone lone(without_recovery());
  EXPECT_EQ(lone.post({0, 0}), 2u);
  (void)lone.sent();
  lone.receive_rnr(1000, 14);
  EXPECT_EQ(lone.post({0}), 1u);
  EXPECT_EQ(lone.sent(), SentList());
  lone.pass(Duration::ms(2));
  EXPECT_EQ(lone.sent(), only(1000, 3));
  lone.receive_ack(1002);
}

TEST(WholeSends, WhatIsPostedBehindThemLeavesBehindThem) {
  Lone lone;
  EXPECT_EQ(lone.post({0, 0}), 2u);
  ASSERT_TRUE(lone.post_write(30).ok());
  ASSERT_TRUE(lone.post_send(300, 8).ok());
  EXPECT_EQ(lone.post({0}), 1u);
  SentList expected = only(1000, 2);
  expected.push_back({Opcode::kRcWriteOnly, 1002, true, 30});
  expected.push_back({kFirst, 1003, false, 256});
  expected.push_back({kLast, 1004, true, 44});
  expected.push_back({kOnly, 1005, true, 40});
  EXPECT_EQ(lone.sent(), expected);
  lone.receive_ack(1005);
  EXPECT_EQ(lone.completions(), "RDMA write 77 success; send 8 success");
}

// Works that have been sent may lie before them.
TEST(WholeSends, WaitBehindWorksThatHaveBeenSent) {
  Lone lone(without_recovery());
  ASSERT_TRUE(lone.post_send(300, 8).ok());
  EXPECT_EQ(lone.sent().size(), 2u);
  EXPECT_EQ(lone.post({0, 4}), 2u);
  EXPECT_EQ(lone.sent(), only(1002, 2));
  lone.receive_ack(1000);
  EXPECT_EQ(lone.qp->works_pending(), 3u);
  lone.receive_nak(1002, NakCode::kPsnSequenceError);
  EXPECT_EQ(lone.completions(), "send 8 success");
  EXPECT_EQ(lone.sent(), only(1002, 2));
  lone.receive_ack(1003);
  EXPECT_EQ(lone.completions(), "send 4 success");
}

// The peer acknowledges what lies behind a READ that it has not answered: the response is lost, and is asked for again.
TEST(WholeSends, WaitBehindAReadWhoseResponsesAreLost) {
  LoneQpOptions options = client_options();
  options.qp.selective_recovery = false;
  Lone lone(options);
  ASSERT_TRUE(lone.post_read(100, 6).ok());
  EXPECT_EQ(lone.sent().size(), 1u);
  EXPECT_EQ(lone.post({0, 2}), 2u);
  EXPECT_EQ(lone.sent(), only(1001, 2));
  lone.receive_ack(1002);
  EXPECT_EQ(lone.completions(), "");
  lone.pass(Duration::ms(1));
  const SentList again = lone.sent();
  ASSERT_FALSE(again.empty());
  EXPECT_EQ(again.front().opcode, kReadRequest);
  lone.receive_response(kResponseOnly, 1000, 100);
  lone.receive_ack(1002);
  EXPECT_EQ(lone.completions(), "RDMA read 6 success; send 2 success");
}

TEST(WholeSends, CountAgainstTheQueueAndTheSlab) {
  LoneQpOptions options;
  options.endpoint.send_work_max = 6;
  options.qp.send_queue_depth = 4;
  Lone lone(options);
  RcQp* other = lone.connect_another(options, IpAddress::v4(0x0a0000fe));
  EXPECT_EQ(lone.post({0, 0, 0, 0, 0}), 4u);
  EXPECT_EQ(lone.qp->send_queue_room(), 0u);
  EXPECT_EQ(other->send_queue_room(), 2u);
  EXPECT_EQ(lone.sent(), only(1000, 4));
  lone.receive_ack(1002);
  EXPECT_EQ(lone.qp->send_queue_room(), 3u);
  EXPECT_EQ(other->send_queue_room(), 4u);
  lone.qp->close();
  EXPECT_EQ(lone.completions(), "send 0 work request flushed");
  EXPECT_EQ(other->send_queue_room(), 4u);
}

TEST(WholeSends, AFullWindowHasTheRestWait) {
  LoneQpOptions options;
  options.qp.send_window_packets = 3;
  Lone lone(options);
  EXPECT_EQ(lone.post({0, 0, 0, 0, 0}), 5u);
  EXPECT_EQ(lone.sent(), only(1000, 3));
  lone.receive_ack(1000);
  EXPECT_EQ(lone.sent(), only(1003, 1));
  lone.receive_ack(1003);
  EXPECT_EQ(lone.sent(), only(1004, 1));
  lone.receive_ack(1004);
}

TEST(WholeSends, DrainingBeginsNone) {
  Lone lone;
  EXPECT_EQ(lone.post({0, 0}), 2u);
  ASSERT_TRUE(lone.qp->drain().ok());
  EXPECT_EQ(lone.sent(), SentList());
  EXPECT_TRUE(lone.qp->drained());
  ASSERT_TRUE(lone.endpoint->to_rts(*lone.qp).ok());
  EXPECT_EQ(lone.sent(), only(1000, 2));
  ASSERT_TRUE(lone.qp->drain().ok());
  EXPECT_FALSE(lone.qp->drained());
  lone.receive_ack(1001);
  EXPECT_TRUE(lone.qp->drained());
}

TEST(WholeSends, GoWithTheirQueuePair) {
  Lone lone;
  EXPECT_EQ(lone.post({0, 1, 0}), 3u);
  (void)lone.sent();
  EXPECT_EQ(lone.post({0, 2}), 2u);
  lone.endpoint->destroy_qp(*lone.qp);
  lone.qp = nullptr;
}

}  // namespace
}  // namespace cw::rc::test
