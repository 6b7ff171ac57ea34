// Responses that come before their turn: what the requester keeps, what it asks for again, and what the responder makes of that.
#include "rocev2/rc/read_gaps.h"

#include <gtest/gtest.h>

#include "rocev2/rc/retransmit.h"
#include "tests/unit/rc/lone_qp.h"

namespace cw::rc::test {
namespace {

LoneQpOptions peer(bool causeway) {
  LoneQpOptions options;
  options.qp.read_request_packets = 64;
  options.connect.path_mtu_bytes = 256;
  options.connect.peer_hold_packets = causeway ? 512 : 0;
  options.connect.initiator_depth = 8;
  options.connect.ack_timeout = 16;
  return options;
}

std::vector<uint8_t> responses(uint32_t psn, uint32_t count) {
  std::vector<uint8_t> raw;
  for (uint32_t i = 0; i < count; ++i) {
    const auto part = random_bytes(psn + i, 256);
    raw.insert(raw.end(), part.begin(), part.end());
  }
  return raw;
}

// "psn+responses ..." of the READ requests sent now.
std::string requests_sent(LoneQp& lone) {
  std::string text;
  const SentList list = lone.sent();
  for (size_t i = 0; i < list.size(); ++i) {
    EXPECT_EQ(list[i].opcode, kReadRequest);
    const wire::Reth reth = wire::PacketView::parse(lone.frames[i])->reth();
    text += (text.empty() ? "" : " ") + std::to_string(list[i].psn) + "+" + std::to_string(reth.length / 256);
  }
  return text;
}

// The answer to a request for `count` of the responses from `psn` on.
void answer_request(LoneQp& lone, uint32_t psn, uint32_t count) {
  for (uint32_t i = 0; i < count; ++i) {
    const bool last = i + 1 == count;
    lone.receive_response(i == 0 ? (last ? kResponseOnly : kResponseFirst) : (last ? kResponseLast : kResponseMiddle), psn + i,
                          256);
  }
}

TEST(EarlyResponses, OfACausewayPeerOnlyWhatIsMissingIsAskedForAgain) {
  LoneQp lone(peer(true));
  for (uint64_t id = 1; id <= 3; ++id) {
    ASSERT_TRUE(lone.post_read(256 * 10, id).ok());
  }
  EXPECT_EQ(requests_sent(lone), "1000+10 1010+10 1020+10");
  for (uint32_t psn = 1000; psn < 1030; ++psn) {
    const uint32_t index = psn % 10;
    if (psn != 1003 && psn != 1004 && psn != 1008 && psn != 1015) {
      EXPECT_TRUE(lone.receive_response(index == 0 ? kResponseFirst : index == 9 ? kResponseLast : kResponseMiddle, psn, 256));
    }
  }
  EXPECT_EQ(lone.completions(), "");
  EXPECT_EQ(requests_sent(lone), "1003+2 1008+1 1015+1");
  answer_request(lone, 1008, 1);  // 1003 and 1004, asked for before, are lost again
  EXPECT_EQ(requests_sent(lone), "");
  lone.pass(Duration::ms(70));  // the answer can be to the repetition
  answer_request(lone, 1015, 1);
  EXPECT_EQ(requests_sent(lone), "");
  lone.wait_for_late_ones();
  EXPECT_EQ(requests_sent(lone), "1003+2");
  answer_request(lone, 1003, 2);
  EXPECT_EQ(lone.completions(), "RDMA read 1 success; RDMA read 2 success; RDMA read 3 success");
  for (uint32_t i = 0; i < 3; ++i) {
    EXPECT_EQ(lone.payloads[i], responses(1000 + 10 * i, 10));
  }
  EXPECT_EQ(lone.qp->info().retries, 0u);
}

TEST(EarlyResponses, OfAnyOtherPeerTheRestOfTheReadIsAskedForAndNotTheReadsBehindIt) {
  LoneQp lone(peer(false));
  for (uint64_t id = 1; id <= 3; ++id) {
    ASSERT_TRUE(lone.post_read(256 * 10, id).ok());
  }
  (void)lone.sent();
  for (uint32_t psn = 1000; psn < 1030; ++psn) {
    const uint32_t index = psn % 10;
    if (psn != 1003 && psn != 1008 && psn != 1015) {
      lone.receive_response(index == 0 ? kResponseFirst : index == 9 ? kResponseLast : kResponseMiddle, psn, 256);
    }
  }
  EXPECT_EQ(requests_sent(lone), "1003+7 1015+5");
  lone.pass(Duration::ms(70));
  answer_request(lone, 1003, 7);
  EXPECT_EQ(lone.completions(), "RDMA read 1 success");
  answer_request(lone, 1015, 5);
  EXPECT_EQ(lone.completions(), "RDMA read 2 success; RDMA read 3 success");
  EXPECT_EQ(lone.payloads[1], responses(1020, 10));
  EXPECT_EQ(lone.discards(DropReason::kDuplicate), 5u + 4u);
  EXPECT_EQ(requests_sent(lone), "");
}

// rdma_rxe answers a repetition from no earlier than the one before began: it must not ask for a later part of a READ while an
// earlier one is missing.
TEST(EarlyResponses, OfAnyOtherPeerAReadIsRepeatedFromEverFurtherIn) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    LoneQp lone(peer(false));
    SeededRandom random(seed);
    ASSERT_TRUE(lone.post_read(256 * 40).ok());
    (void)lone.sent();
    lone.pass(Duration::us(50));
    struct Request {
      uint32_t at;
      uint32_t end;
    };
    std::vector<Request> requests = {{1000, 1040}};
    uint32_t begin = 1000;
    for (size_t next = 0; next < requests.size() && lone.qp->has_unfinished_work(); ++next) {
      for (uint32_t psn = requests[next].at; psn < requests[next].end; ++psn) {
        if (random.next_below(100) < 70) {
          const bool first = psn == requests[next].at;
          const bool last = psn + 1 == 1040;
          lone.receive_response(first ? (last ? kResponseOnly : kResponseFirst) : (last ? kResponseLast : kResponseMiddle), psn,
                                256);
        }
        lone.pass(Duration::us(100));
        const SentList list = lone.sent();
        for (size_t i = 0; i < list.size(); ++i) {
          EXPECT_GE(list[i].psn, begin) << seed;
          begin = list[i].psn;
          requests.push_back({begin, begin + wire::PacketView::parse(lone.frames[i])->reth().length / 256});
        }
      }
      if (next + 1 == requests.size() && lone.qp->has_unfinished_work()) {
        SentList list;
        for (uint32_t wait = 0; wait < 1000 && list.empty(); ++wait) {  // for a probe or timeout
          lone.pass(Duration::ms(5));
          list = lone.sent();
        }
        for (const Sent& sent : list) {
          EXPECT_GE(sent.psn, begin) << seed;
          requests.push_back({sent.psn, 1040});
          begin = sent.psn;
        }
      }
    }
    ASSERT_EQ(lone.completions(), "RDMA read 1 success") << seed;
    EXPECT_EQ(lone.payloads[0], responses(1000, 40)) << seed;
  }
}

TEST(EarlyResponses, ALostRepetitionShowsWhenSomethingAskedForLaterComes) {
  LoneQp lone(peer(true));
  ASSERT_TRUE(lone.post_read(256 * 4, 1).ok());
  (void)lone.sent();
  lone.receive_response(kResponseFirst, 1000, 256);
  lone.receive_response(kResponseMiddle, 1002, 256);
  lone.wait_for_late_ones();
  EXPECT_EQ(requests_sent(lone), "1001+1");
  ASSERT_TRUE(lone.post_read(256, 2).ok());
  EXPECT_EQ(requests_sent(lone), "1004+1");
  lone.receive_response(kResponseLast, 1003, 256);  // of the first answer
  EXPECT_EQ(requests_sent(lone), "");
  answer_request(lone, 1004, 1);
  lone.pass(kTailProbeMin);  // no repetition is repeated within a round trip
  EXPECT_EQ(requests_sent(lone), "1001+1");
}

TEST(EarlyResponses, AProbeOfACausewayPeerAsksForOneResponse) {
  LoneQp lone(peer(true));
  ASSERT_TRUE(lone.post_read(256 * 40).ok());
  (void)lone.sent();
  lone.pass(Duration::us(10));
  lone.receive_response(kResponseFirst, 1000, 256);
  lone.pass(Duration::us(250));  // the rest is lost
  EXPECT_EQ(requests_sent(lone), "1001+1");
  EXPECT_EQ(lone.endpoint->stats().tail_probes, 1u);
  answer_request(lone, 1001, 1);
  EXPECT_EQ(requests_sent(lone), "1002+38");
  answer_request(lone, 1002, 38);
  EXPECT_EQ(lone.completions(), "RDMA read 1 success");
  EXPECT_EQ(lone.payloads[0], responses(1000, 40));
}

TEST(EarlyResponses, AResponseFromAnotherSourcePortIsNotKept) {  // a forger has to guess it
  LoneQp lone(peer(true));
  ASSERT_TRUE(lone.post_read(256 * 4).ok());
  (void)lone.sent();
  lone.receive_response(kResponseFirst, 1000, 256);
  Inbound forged{.opcode = kResponseMiddle, .psn = 1002, .payload = random_bytes(7, 256)};
  forged.path.udp_source_port = 1;
  EXPECT_FALSE(lone.receive(forged));
  lone.receive_response(kResponseLast, 1003, 256);
  EXPECT_FALSE(lone.receive(forged));
  lone.receive_response(kResponseMiddle, 1001, 256);
  lone.receive_response(kResponseMiddle, 1002, 256);
  EXPECT_EQ(lone.completions(), "RDMA read 1 success");
  EXPECT_EQ(lone.payloads[0], responses(1000, 4));
}

TEST(EarlyResponses, APeerThatChangesItsSourcePortBehindAGapIsHeardAtTheGap) {
  for (const bool causeway : {true, false}) {
    LoneQp lone(peer(causeway));
    ASSERT_TRUE(lone.post_read(256 * 4).ok());
    (void)lone.sent();
    lone.receive_response(kResponseFirst, 1000, 256);
    lone.receive_response(kResponseLast, 1003, 256);  // 1001 and 1002 are missing
    Inbound moved{.opcode = kResponseMiddle, .psn = 1001, .payload = random_bytes(1001, 256)};
    moved.path.udp_source_port = 50'321;
    EXPECT_TRUE(lone.receive(moved));
    moved.psn = 1002;
    moved.payload = random_bytes(1002, 256);
    EXPECT_TRUE(lone.receive(moved));
    EXPECT_EQ(lone.completions(), "RDMA read 1 success");
    EXPECT_EQ(lone.payloads[0], responses(1000, 4));
    EXPECT_EQ(lone.qp->info().retries, 0u);
  }
}

// F11 of tests/requirements/hostile.md
TEST(EarlyResponses, WhatDoesNotFitItsReadIsABadResponseWhereverItIs) {
  for (const auto& [opcode, psn, bytes] : {std::tuple{kResponseMiddle, 1005u, 252u},
                                           {kResponseLast, 1009u, 252u},
                                           {kResponseMiddle, 1009u, 256u},
                                           {kResponseMiddle, 1010u, 256u}}) {
    LoneQp lone(peer(true));
    ASSERT_TRUE(lone.post_read(256 * 10, 1).ok());
    ASSERT_TRUE(lone.post_read(256 * 10, 2).ok());
    (void)lone.sent();
    lone.receive_response(kResponseFirst, 1000, 256);
    EXPECT_FALSE(lone.receive_response(opcode, psn, bytes));
    EXPECT_EQ(lone.completions(), "RDMA read 1 bad response; RDMA read 2 work request flushed") << psn;
  }
}

TEST(EarlyResponses, ATimeoutGivesUpWhatCameEarly) {
  LoneQp lone(peer(false));
  ASSERT_TRUE(lone.post_read(256 * 4, 1).ok());
  ASSERT_TRUE(lone.post_read(256, 2).ok());
  (void)lone.sent();
  lone.receive_response(kResponseFirst, 1000, 256);
  lone.receive_response(kResponseMiddle, 1002, 256);
  answer_request(lone, 1004, 1);
  lone.wait_for_late_ones();
  EXPECT_EQ(requests_sent(lone), "1001+3");
  lone.pass(Duration::seconds(1));
  EXPECT_EQ(requests_sent(lone), "1001+3");
  answer_request(lone, 1001, 3);
  EXPECT_EQ(requests_sent(lone), "1004+1");
  answer_request(lone, 1004, 1);
  EXPECT_EQ(lone.completions(), "RDMA read 1 success; RDMA read 2 success");
  EXPECT_EQ(lone.payloads[0], responses(1000, 4));
}

TEST(EarlyResponses, ASequenceNakBehindAGapRepeatsFromThereOnly) {
  LoneQp lone(peer(false));
  ASSERT_TRUE(lone.post_read(256 * 4, 1).ok());
  ASSERT_TRUE(lone.post_send(10, 2).ok());
  ASSERT_TRUE(lone.post_read(256 * 2, 3).ok());
  (void)lone.sent();
  lone.receive_response(kResponseFirst, 1000, 256);
  lone.receive_response(kResponseMiddle, 1002, 256);
  lone.receive_response(kResponseLast, 1003, 256);
  lone.receive_nak(1004, NakCode::kPsnSequenceError);
  EXPECT_EQ(lone.sent(), (SentList{{Opcode::kRcSendOnly, 1004, true, 10}, {kReadRequest, 1005, true, 0}}));
  lone.wait_for_late_ones();
  EXPECT_EQ(lone.sent(), (SentList{{kReadRequest, 1001, true, 0}}));
  lone.receive_nak(1001, NakCode::kPsnSequenceError);  // has been executed: an old one
  EXPECT_EQ(lone.sent().size(), 0u);
  lone.receive_response(kResponseMiddle, 1001, 256);
  EXPECT_EQ(lone.completions(), "RDMA read 1 success");
  answer_request(lone, 1005, 2);
  EXPECT_EQ(lone.completions(), "send 2 success; RDMA read 3 success");
}

TEST(EarlyResponses, MoreHolesThanItCanNoteComeAgainInTheirTime) {
  LoneQpOptions options = peer(true);
  options.qp.read_request_packets = 128;
  LoneQp lone(options);
  ASSERT_TRUE(lone.post_read(256 * 101).ok());
  (void)lone.sent();
  lone.pass(Duration::us(10));
  lone.receive_response(kResponseFirst, 1000, 256);
  for (uint32_t psn = 1002; psn < 1100; psn += 2) {
    lone.receive_response(kResponseMiddle, psn, 256);
  }
  std::string history;
  for (uint32_t round = 0; round < 20 && lone.qp->has_unfinished_work(); ++round) {
    const SentList list = lone.sent();
    const std::vector<std::vector<uint8_t>> frames = lone.frames;
    for (size_t i = 0; i < list.size(); ++i) {
      const uint32_t count = wire::PacketView::parse(frames[i])->reth().length / 256;
      history += std::to_string(list[i].psn) + "+" + std::to_string(count) + " ";
      answer_request(lone, list[i].psn, count);
    }
    lone.pass(Duration::ms(1));
  }
  ASSERT_EQ(lone.completions(), "RDMA read 1 success") << history;
  EXPECT_EQ(lone.payloads[0], responses(1000, 101));
}

TEST(EarlyResponses, ReadsThatAreCompleteDoNotFillTheDepthOfACausewayPeer) {
  for (const bool causeway : {false, true}) {
    LoneQpOptions options = peer(causeway);
    options.connect.initiator_depth = 2;
    LoneQp lone(options);
    for (uint64_t id = 1; id <= 20; ++id) {
      ASSERT_TRUE(lone.post_read(256 * 2, id).ok());
    }
    EXPECT_EQ(requests_sent(lone), "1000+2 1002+2");
    lone.receive_response(kResponseLast, 1001, 256);  // the first of two is missing
    lone.wait_for_late_ones();
    EXPECT_EQ(requests_sent(lone), causeway ? "1000+1" : "1000+2");
    answer_request(lone, 1002, 2);
    uint32_t further = 0;
    for (bool more = true; more;) {
      more = false;
      for (const Sent& sent : lone.sent()) {
        if (sent.psn != 1000) {  // else the repetition is taken for lost once more
          answer_request(lone, sent.psn, 2);
          ++further;
          more = true;
        }
      }
    }
    EXPECT_EQ(further, causeway ? 14u : 0u);  // the peer remembers sixteen
    EXPECT_EQ(lone.completions(), "");
    lone.receive_response(causeway ? kResponseOnly : kResponseFirst, 1000, 256);
    EXPECT_EQ(lone.sent().size(), 2u);
    (void)lone.completions();
    EXPECT_EQ(lone.payloads.size(), causeway ? 16u : 2u);
  }
}

TEST(EarlyResponses, PsnsWrap) {
  LoneQpOptions options = peer(true);
  options.local_psn = 0xff'fffe;
  LoneQp lone(options);
  ASSERT_TRUE(lone.post_read(256 * 4).ok());
  (void)lone.sent();
  lone.receive_response(kResponseFirst, 0xff'fffe, 256);
  lone.receive_response(kResponseMiddle, 0, 256);
  lone.wait_for_late_ones();
  EXPECT_EQ(lone.sent(), (SentList{{kReadRequest, 0xff'ffff, true, 0}}));
  lone.receive_response(kResponseLast, 1, 256);
  lone.receive_response(kResponseOnly, 0xff'ffff, 256);
  EXPECT_EQ(lone.completions(), "RDMA read 1 success");
}

TEST(PartialReplay, AnswersAnyPartOfAReadAndNothingElse) {
  ReadReplay replay;
  const verbs::Rkey rkey(5);
  replay.accept({.first_psn = Psn(10), .rkey = rkey, .address = 0x1000, .bytes = 256 * 9 + 100, .msn = 1});
  replay.finish_current();
  const auto repeats = [&](uint32_t psn, uint64_t address, uint32_t length) {
    const bool known = replay.replay(Psn(psn), wire::Reth{address, rkey, length}, 256);
    if (known) {
      EXPECT_EQ(replay.current().bytes_in, (psn - 10) * 256);
      EXPECT_EQ(replay.current().bytes_end, replay.current().bytes_in + length);
      replay.finish_current();
    }
    return known;
  };
  EXPECT_TRUE(repeats(10, 0x1000, 256 * 9 + 100));
  EXPECT_TRUE(repeats(12, 0x1200, 256 * 7 + 100));
  EXPECT_TRUE(repeats(12, 0x1200, 256 * 3));
  EXPECT_TRUE(repeats(10, 0x1000, 256));
  EXPECT_TRUE(repeats(19, 0x1900, 100));
  EXPECT_FALSE(repeats(12, 0x1200, 100));      // part of a response
  EXPECT_FALSE(repeats(12, 0x1200, 0));        // nothing
  EXPECT_FALSE(repeats(12, 0x1200, 256 * 8));  // beyond the end
  EXPECT_FALSE(repeats(12, 0x1300, 256));      // other bytes than that PSN stands for
  EXPECT_FALSE(repeats(20, 0x1a00, 100));
}

}  // namespace
}  // namespace cw::rc::test
