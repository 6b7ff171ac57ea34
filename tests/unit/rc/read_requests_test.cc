// A long READ is asked for by several READ requests: where they begin and end, how many are under way, what is asked for again
// when something is lost, and that a burst which the receiver cannot take ends in the READ being done.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>

#include "tests/unit/rc/lone_qp.h"

namespace cw::rc::test {
namespace {

constexpr uint32_t kMtu = 256;

// Requests of four responses, eight responses at once.
LoneQpOptions options_for(bool causeway, uint8_t depth = 8) {
  LoneQpOptions options;
  options.qp.read_request_packets = 4;
  options.qp.read_window_packets = 8;
  options.connect.path_mtu_bytes = kMtu;
  options.connect.peer_hold_packets = causeway ? 512 : 0;
  options.connect.initiator_depth = depth;
  options.connect.ack_timeout = 16;
  return options;
}

struct Asked {
  uint32_t psn = 0;
  uint32_t responses = 0;
  wire::Reth reth;
};

std::vector<Asked> requests(LoneQp& lone) {
  std::vector<Asked> all;
  const SentList list = lone.sent();
  for (size_t i = 0; i < list.size(); ++i) {
    EXPECT_EQ(list[i].opcode, Opcode::kRcReadRequest);
    const wire::Reth reth = wire::PacketView::parse(lone.frames[i])->reth();
    all.push_back({list[i].psn, std::max(1u, (reth.length + kMtu - 1) / kMtu), reth});
  }
  return all;
}

// "psn+responses ..." of the READ requests sent now.
std::string asked(LoneQp& lone) {
  std::string text;
  for (const Asked& one : requests(lone)) {
    text += (text.empty() ? "" : " ") + std::to_string(one.psn) + "+" + std::to_string(one.responses);
  }
  return text;
}

Opcode opcode_at(uint32_t index, uint32_t count) {
  const bool last = index + 1 == count;
  return index == 0 ? (last ? kResponseOnly : kResponseFirst) : (last ? kResponseLast : kResponseMiddle);
}

// Response `index` of the `count` that a request from `psn` on asked for.
bool respond(LoneQp& lone, uint32_t psn, uint32_t count, uint32_t index, uint32_t bytes = kMtu) {
  return lone.receive_response(opcode_at(index, count), (psn + index) & 0xff'ffff, bytes);
}
void answer(LoneQp& lone, uint32_t psn, uint32_t count) {
  for (uint32_t i = 0; i < count; ++i) {
    respond(lone, psn, count, i);
  }
}

std::vector<uint8_t> bytes_from(uint32_t psn, uint32_t bytes) {
  std::vector<uint8_t> raw;
  for (; raw.size() < bytes; psn = (psn + 1) & 0xff'ffff) {
    const auto part = random_bytes(psn, std::min<size_t>(kMtu, bytes - raw.size()));
    raw.insert(raw.end(), part.begin(), part.end());
  }
  return raw;
}

TEST(ReadRequests, EndAtMultiplesOfTheirLengthOrWithTheRead) {
  for (const uint32_t first_psn : {1000u, 0xff'fffeu, 0xff'fffdu}) {
    for (const uint32_t bytes : {0u, 1u, 1023u, 1024u, 1025u, 2047u, 2048u, 2049u, 5000u}) {
      LoneQpOptions options = options_for(false);
      options.qp.read_window_packets = 32;
      options.local_psn = first_psn;
      LoneQp lone(options);
      ASSERT_TRUE(lone.post_read(bytes).ok());
      const std::vector<Asked> all = requests(lone);
      ASSERT_EQ(all.size(), std::max(1u, (bytes + 1023) / 1024)) << bytes;
      for (uint32_t i = 0; i < all.size(); ++i) {
        const uint32_t begin = i * 1024;
        EXPECT_EQ(all[i].psn, (first_psn + i * 4) & 0xff'ffff);
        EXPECT_EQ(all[i].reth.address, 0x10000u + begin);
        EXPECT_EQ(all[i].reth.length, std::min(1024u, bytes - begin));
        EXPECT_EQ(lone.completions(), "");
        for (uint32_t k = 0; k < all[i].responses; ++k) {
          respond(lone, all[i].psn, all[i].responses, k, std::min(kMtu, bytes - begin - k * kMtu));
        }
      }
      EXPECT_EQ(lone.completions(), "RDMA read 1 success") << bytes;
      EXPECT_EQ(lone.payloads[0], bytes_from(first_psn, bytes));
      EXPECT_EQ(lone.qp->info().reads_outstanding, 0u);
    }
  }
}

TEST(ReadRequests, AreSentAsResponsesMakeRoom) {
  LoneQp lone(options_for(false));
  ASSERT_TRUE(lone.post_read(kMtu * 18, 1).ok());
  ASSERT_TRUE(lone.post_read(kMtu * 2, 2).ok());
  EXPECT_EQ(asked(lone), "1000+4 1004+4");
  EXPECT_EQ(lone.qp->info().reads_outstanding, 2u);
  for (uint32_t i = 0; i < 3; ++i) {
    respond(lone, 1000, 4, i);
    EXPECT_EQ(asked(lone), "");
  }
  respond(lone, 1000, 4, 3);
  EXPECT_EQ(asked(lone), "1008+4");
  answer(lone, 1004, 4);
  EXPECT_EQ(asked(lone), "1012+4");
  respond(lone, 1008, 4, 0);
  EXPECT_EQ(asked(lone), "");
  respond(lone, 1008, 4, 1);
  EXPECT_EQ(asked(lone), "1016+2");  // what is left takes less room
  respond(lone, 1008, 4, 2);
  respond(lone, 1008, 4, 3);
  EXPECT_EQ(asked(lone), "1018+2");
  answer(lone, 1012, 4);
  answer(lone, 1016, 2);
  EXPECT_EQ(lone.completions(), "RDMA read 1 success");
  answer(lone, 1018, 2);
  EXPECT_EQ(lone.completions(), "RDMA read 2 success");
}

TEST(ReadRequests, CountAgainstTheDepthOfThePeer) {
  LoneQpOptions options = options_for(false, 2);
  options.qp.read_window_packets = 15;  // a share of the depth is less than 8
  LoneQp lone(options);
  ASSERT_TRUE(lone.post_read(kMtu * 12, 1).ok());
  ASSERT_TRUE(lone.post_fetch_add(1, 2).ok());
  EXPECT_EQ(asked(lone), "1000+4 1004+4");
  answer(lone, 1000, 4);
  EXPECT_EQ(asked(lone), "1008+4");
  EXPECT_EQ(lone.qp->info().reads_outstanding, 2u);
  answer(lone, 1004, 4);
  EXPECT_EQ(lone.sent().size(), 1u);  // the atomic
  answer(lone, 1008, 4);
  lone.receive_atomic_ack(1012, 7);
  EXPECT_EQ(lone.completions(), "RDMA read 1 success; fetch and add 2 success");
}

TEST(ReadRequests, OfAPeerThatTakesOneReadAtOnceFillTheWindow) {
  LoneQp one(options_for(false, 1));
  ASSERT_TRUE(one.post_read(kMtu * 20).ok());
  EXPECT_EQ(asked(one), "1000+8");
  answer(one, 1000, 8);
  EXPECT_EQ(asked(one), "1008+8");
  answer(one, 1008, 8);
  EXPECT_EQ(asked(one), "1016+4");
}

TEST(ReadRequests, OfAnyPeerNoMoreThanTheRestOfOneIsAskedForAgain) {
  for (const bool causeway : {false, true}) {
    for (const uint32_t lost : {0u, 1u, 3u, 4u, 6u, 7u}) {
      LoneQp lone(options_for(causeway));
      ASSERT_TRUE(lone.post_read(kMtu * 12).ok());
      EXPECT_EQ(asked(lone), "1000+4 1004+4");
      for (uint32_t i = 0; i < 8; ++i) {
        if (i != lost) {
          respond(lone, 1000 + (i & ~3u), 4, i & 3);
        }
      }
      const uint32_t count = causeway ? 1 : 4 - (lost & 3);
      const std::string again = std::to_string(1000 + lost) + "+" + std::to_string(count);
      if (lost == 7) {  // nothing comes behind it until the next request is answered
        EXPECT_EQ(asked(lone), "1008+4");
        respond(lone, 1008, 4, 0);
        lone.wait_for_late_ones();
        EXPECT_EQ(asked(lone), again);
      } else if (lost > 4) {  // not enough has come behind it
        EXPECT_EQ(asked(lone), "1008+4");
        lone.wait_for_late_ones();
        EXPECT_EQ(asked(lone), again);
        respond(lone, 1008, 4, 0);
      } else {
        EXPECT_EQ(asked(lone), again + " 1008+4") << causeway << " " << lost;
        respond(lone, 1008, 4, 0);
      }
      answer(lone, 1000 + lost, count);
      for (uint32_t i = 1; i < 4; ++i) {
        respond(lone, 1008, 4, i);
      }
      EXPECT_EQ(lone.completions(), "RDMA read 1 success") << causeway << " " << lost;
      EXPECT_EQ(lone.payloads[0], bytes_from(1000, kMtu * 12));
    }
  }
}

TEST(ReadRequests, ALostOneComesAgainFromTheNakOn) {
  LoneQp lone(options_for(false));
  ASSERT_TRUE(lone.post_read(kMtu * 20, 1).ok());
  EXPECT_EQ(asked(lone), "1000+4 1004+4");
  lone.receive_nak(1004, NakCode::kPsnSequenceError);  // nothing of the first has come yet: it is executed, and lost
  EXPECT_EQ(asked(lone), "1004+4");
  lone.wait_for_late_ones();
  EXPECT_EQ(asked(lone), "1000+4");
  answer(lone, 1000, 4);
  answer(lone, 1004, 4);
  EXPECT_EQ(asked(lone), "1008+4 1012+4");
  answer(lone, 1008, 4);
  EXPECT_EQ(asked(lone), "1016+4");
  lone.pass(Duration::ms(1));
  lone.receive_nak(1012, NakCode::kPsnSequenceError);
  EXPECT_EQ(asked(lone), "1012+4 1016+4");
  EXPECT_EQ(lone.qp->info().reads_outstanding, 2u);
  answer(lone, 1012, 4);
  answer(lone, 1016, 4);
  EXPECT_EQ(lone.completions(), "RDMA read 1 success");
  EXPECT_EQ(lone.payloads[0], bytes_from(1000, kMtu * 20));
}

TEST(ReadRequests, ALostOneAloneComesAgainToACausewayPeer) {
  LoneQp lone(options_for(true));
  ASSERT_TRUE(lone.post_read(kMtu * 16).ok());
  EXPECT_EQ(asked(lone), "1000+4 1004+4");
  answer(lone, 1000, 4);
  EXPECT_EQ(asked(lone), "1008+4");
  Inbound inbound{.opcode = Opcode::kRcGapReport, .psn = 1004};
  inbound.extensions.aeth = wire::Aeth::nak(NakCode::kPsnSequenceError, 1);
  wire::GapReport report;
  report.set(3);  // 1008 is held
  inbound.payload.resize(wire::GapReport::kSizeMax);
  inbound.payload.resize(report.write(std::span<uint8_t, wire::GapReport::kSizeMax>(inbound.payload)));
  lone.receive(inbound);
  lone.wait_for_late_ones();
  EXPECT_EQ(asked(lone), "1004+4");
  answer(lone, 1004, 4);
  EXPECT_EQ(asked(lone), "1012+4");
  answer(lone, 1008, 4);
  answer(lone, 1012, 4);
  EXPECT_EQ(lone.completions(), "RDMA read 1 success");
  EXPECT_EQ(lone.payloads[0], bytes_from(1000, kMtu * 16));
}

// Holes of neighbouring requests have nothing between them: where responses belong must not depend on which comes first.
TEST(ReadRequests, ResponsesFindTheirPlaceInAnyOrder) {
  std::vector<uint32_t> missing{2, 3, 4, 5, 6, 8, 9};
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    LoneQpOptions options = options_for(true);
    options.qp.read_window_packets = 32;
    LoneQp lone(options);
    SeededRandom random(seed);
    ASSERT_TRUE(lone.post_read(kMtu * 12).ok());
    EXPECT_EQ(asked(lone), "1000+4 1004+4 1008+4");
    for (uint32_t i = 0; i < 12; ++i) {
      if (std::find(missing.begin(), missing.end(), i) == missing.end()) {
        respond(lone, 1000 + (i & ~3u), 4, i & 3);
      }
    }
    EXPECT_EQ(asked(lone), "1002+2 1004+3");
    lone.wait_for_late_ones();
    EXPECT_EQ(asked(lone), "1008+2");
    for (size_t i = missing.size() - 1; i > 0; --i) {
      std::swap(missing[i], missing[random.next_below(static_cast<uint32_t>(i + 1))]);
    }
    for (const uint32_t i : missing) {
      respond(lone, 1000 + (i & ~3u), 4, i & 3);
    }
    ASSERT_EQ(lone.completions(), "RDMA read 1 success") << seed;
    ASSERT_EQ(lone.payloads[0], bytes_from(1000, kMtu * 12)) << seed;
  }
}

// A peer that answers in order and loses what it likes of it.
TEST(ReadRequests, EndUnderAnyLoss) {
  for (uint64_t seed = 1; seed <= 400; ++seed) {
    SeededRandom random(seed);
    const bool causeway = random.next_below(2) == 0;
    LoneQpOptions options = options_for(causeway, static_cast<uint8_t>(1 + random.next_below(8)));
    options.qp.read_request_packets = 1u << random.next_below(5);
    options.qp.read_window_packets = options.qp.read_request_packets << random.next_below(3);
    options.local_psn = 0xff'ffff - random.next_below(60);
    const uint32_t longest =
        std::max(options.qp.read_request_packets, options.qp.read_window_packets / options.connect.initiator_depth);
    LoneQp lone(options);
    const uint32_t packets = 1 + random.next_below(60);
    ASSERT_TRUE(lone.post_read(kMtu * packets).ok());
    std::deque<Asked> queue;
    for (uint32_t turn = 0; turn < 20'000 && lone.qp->has_unfinished_work(); ++turn) {
      for (const Asked& one : requests(lone)) {
        EXPECT_LE(one.responses, longest) << seed;
        queue.push_back(one);
      }
      EXPECT_LE(lone.qp->info().reads_outstanding, causeway ? ReadReplay::kHistory : options.connect.initiator_depth);
      if (queue.empty()) {
        lone.pass(Duration::ms(1));
        continue;
      }
      const Asked one = queue.front();
      queue.pop_front();
      for (uint32_t i = 0; i < one.responses; ++i) {
        lone.pass(Duration::us(2));
        if (random.next_below(100) < 70) {
          respond(lone, one.psn, one.responses, i);
        }
      }
    }
    ASSERT_EQ(lone.completions(), "RDMA read 1 success") << seed;
    ASSERT_EQ(lone.payloads[0], bytes_from(options.local_psn, kMtu * packets)) << seed;
  }
}

TEST(ReadRequests, AreProbedForAsSoonAsTheirRestIsWorth) {
  LoneQp lone(options_for(false));
  ASSERT_TRUE(lone.post_read(kMtu * 400).ok());
  EXPECT_EQ(asked(lone), "1000+4 1004+4");
  lone.pass(Duration::us(10));
  respond(lone, 1000, 4, 0);
  lone.pass(Duration::us(200 + 20 * 3 - 20));
  EXPECT_EQ(asked(lone), "");
  lone.pass(Duration::us(40));
  EXPECT_EQ(asked(lone), "1001+3");
  EXPECT_EQ(lone.endpoint->stats().tail_probes, 1u);
}

// Of a request of which nothing has come a Causeway peer may know nothing: one response of it cannot be asked for.
TEST(ReadRequests, OneThatThePeerMayNotHaveIsProbedForAsAWhole) {
  LoneQp lone(options_for(true));
  ASSERT_TRUE(lone.post_read(kMtu * 9).ok());
  EXPECT_EQ(asked(lone), "1000+4 1004+4");
  lone.pass(Duration::us(10));
  respond(lone, 1000, 4, 0);
  lone.pass(Duration::ms(1));
  EXPECT_EQ(asked(lone), "1008+1 1001+1");  // the window has room again; of 1001 the peer has sent something
  answer(lone, 1001, 1);
  EXPECT_EQ(asked(lone), "1002+2");  // the rest is lost
  answer(lone, 1002, 2);
  lone.pass(Duration::ms(2));
  EXPECT_EQ(asked(lone), "1004+4");  // of this one nothing has come
  answer(lone, 1004, 4);
  lone.pass(Duration::ms(2));
  EXPECT_EQ(asked(lone), "1008+1");
  answer(lone, 1008, 1);  // an Only, as it would have been the first time
  EXPECT_EQ(lone.completions(), "RDMA read 1 success");
  EXPECT_EQ(lone.endpoint->stats().tail_probes, 3u);
}

TEST(ReadRequests, AfterATimeoutTheOldestGoesAlone) {
  LoneQp lone(options_for(false));
  ASSERT_TRUE(lone.post_read(kMtu * 12).ok());
  EXPECT_EQ(asked(lone), "1000+4 1004+4");
  lone.pass(Duration::seconds(1));
  EXPECT_EQ(asked(lone), "1000+4");
  respond(lone, 1000, 4, 0);
  EXPECT_EQ(asked(lone), "1004+4");
  for (uint32_t i = 1; i < 4; ++i) {
    respond(lone, 1000, 4, i);
  }
  answer(lone, 1004, 4);
  EXPECT_EQ(asked(lone), "1008+4");
}

// The first answers, the answers to a probe and those to a timeout all come, one after the other.
TEST(ReadRequests, LateAnswersAreTakenOnce) {
  LoneQp lone(options_for(false));
  ASSERT_TRUE(lone.post_read(kMtu * 12, 1).ok());
  ASSERT_TRUE(lone.post_read(kMtu * 3, 2).ok());
  EXPECT_EQ(asked(lone), "1000+4 1004+4");
  lone.pass(Duration::seconds(1));
  EXPECT_EQ(asked(lone), "1000+4");
  answer(lone, 1000, 4);
  EXPECT_EQ(asked(lone), "1004+4 1008+4");
  answer(lone, 1004, 4);
  answer(lone, 1000, 4);
  EXPECT_EQ(asked(lone), "1012+3");
  answer(lone, 1004, 4);
  EXPECT_EQ(asked(lone), "");
  EXPECT_EQ(lone.discards(DropReason::kDuplicate), 8u);
  answer(lone, 1008, 4);
  answer(lone, 1012, 3);
  answer(lone, 1008, 4);
  EXPECT_EQ(lone.completions(), "RDMA read 1 success; RDMA read 2 success");
  EXPECT_EQ(lone.payloads[0], bytes_from(1000, kMtu * 12));
  EXPECT_EQ(lone.payloads[1], bytes_from(1012, kMtu * 3));
  EXPECT_EQ(lone.discards(DropReason::kDuplicate), 12u);
}

TEST(ReadRequests, AnswersToWhatWasNotAskedForAreRefused) {
  LoneQp lone(options_for(false));
  ASSERT_TRUE(lone.post_read(kMtu * 12).ok());
  EXPECT_EQ(asked(lone), "1000+4 1004+4");
  EXPECT_FALSE(respond(lone, 1008, 4, 0));  // of the same READ, but not asked for yet
  lone.receive_ack(1009);
  lone.receive_nak(1008, NakCode::kPsnSequenceError);
  EXPECT_EQ(lone.discards(DropReason::kPsnStale), 3u);
  EXPECT_EQ(asked(lone), "");
  for (const Opcode opcode : {kResponseMiddle, kResponseFirst, kResponseLast, kResponseOnly}) {
    LoneQp other(options_for(false));
    ASSERT_TRUE(other.post_read(kMtu * 12).ok());
    (void)other.sent();
    for (uint32_t i = 0; i < 3; ++i) {
      respond(other, 1000, 4, i);
    }
    other.receive_response(opcode, 1003, kMtu);  // a request ends here: Last, or Only of a repetition
    const bool ends = opcode == kResponseLast || opcode == kResponseOnly;
    EXPECT_EQ(other.qp->in_error(), !ends);
    if (ends) {
      other.receive_response(kResponseMiddle, 1004, kMtu);  // and here one begins
      EXPECT_TRUE(other.qp->in_error());
    }
  }
}

TEST(ReadRequests, ASequenceNakWithinOneGoesBackToTheOldestResponse) {
  LoneQp lone(options_for(false));
  ASSERT_TRUE(lone.post_read(kMtu * 12).ok());
  EXPECT_EQ(asked(lone), "1000+4 1004+4");
  respond(lone, 1000, 4, 0);
  lone.receive_nak(1006, NakCode::kPsnSequenceError);  // no request begins there
  EXPECT_EQ(asked(lone), "1001+3 1004+4");
  EXPECT_EQ(lone.qp->info().reads_outstanding, 2u);
  for (uint32_t i = 1; i < 4; ++i) {
    respond(lone, 1000, 4, i);
  }
  answer(lone, 1004, 4);
  EXPECT_EQ(asked(lone), "1008+4");
  answer(lone, 1008, 4);
  EXPECT_EQ(lone.completions(), "RDMA read 1 success");
}

TEST(ReadRequests, EachIsAMessageToThePeerThatCountsReceives) {
  LoneQp lone(options_for(false));
  ASSERT_TRUE(lone.post_send(1, 1).ok());
  ASSERT_TRUE(lone.post_read(kMtu * 8, 2).ok());
  ASSERT_TRUE(lone.post_send(1, 3).ok());
  ASSERT_TRUE(lone.post_send(1, 4).ok());
  EXPECT_EQ(lone.sent().size(), 5u);
  Inbound inbound{.opcode = Opcode::kRcAcknowledge, .psn = 1000};
  inbound.extensions.aeth = wire::Aeth::ack(1, wire::credit_code(4));  // up to message 5, the last so far
  lone.receive(inbound);
  ASSERT_TRUE(lone.post_send(1, 5).ok());
  EXPECT_EQ(lone.sent().size(), 0u);
  inbound = {.opcode = kResponseFirst, .psn = 1001, .payload = random_bytes(1001, kMtu)};
  inbound.extensions.aeth = wire::Aeth::ack(2, wire::credit_code(4));  // up to 6
  lone.receive(inbound);
  EXPECT_EQ(lone.sent().size(), 1u);
}

TEST(ReadRequests, AFencedSendWaitsForThemAllAndADrainSendsThemAll) {
  LoneQp lone(options_for(false));
  ASSERT_TRUE(lone.post_read(kMtu * 12, 1).ok());
  ASSERT_TRUE(lone.qp->post_send({.id = verbs::WorkId(2), .payload = lone.chain({1}), .fence = true}).ok());
  EXPECT_EQ(asked(lone), "1000+4 1004+4");
  EXPECT_TRUE(lone.qp->drain().ok());
  answer(lone, 1000, 4);
  EXPECT_EQ(asked(lone), "1008+4");
  answer(lone, 1004, 4);
  EXPECT_EQ(lone.sent().size(), 0u);
  EXPECT_FALSE(lone.qp->drained());
  answer(lone, 1008, 4);
  EXPECT_EQ(lone.completions(), "RDMA read 1 success");
  EXPECT_TRUE(lone.qp->drained());
  EXPECT_EQ(lone.sent().size(), 0u);
  EXPECT_TRUE(lone.endpoint->to_rts(*lone.qp).ok());
  EXPECT_EQ(lone.sent().size(), 1u);
}

TEST(ReadRequests, HaveOptionsThatFitTogether) {
  const auto valid = [](uint32_t request, uint32_t window) {
    return check(RcOptions{.read_request_packets = request, .read_window_packets = window}).ok();
  };
  EXPECT_TRUE(valid(1, 1));
  EXPECT_TRUE(valid(kReadRequestPacketsMax, kReadWindowPacketsMax));
  EXPECT_FALSE(valid(0, 8));
  EXPECT_FALSE(valid(6, 8));
  EXPECT_FALSE(valid(16, 8));
  EXPECT_FALSE(valid(kReadRequestPacketsMax * 2, kReadWindowPacketsMax));
  EXPECT_FALSE(valid(64, kReadWindowPacketsMax + 1));
}

// Five READs of 2 MiB at once from a peer that sends as fast as it can, into a receive ring of `ring_packets`. With a request per
// READ the ring lost 44 packets for each that it took.
struct RingCase {
  bool causeway = false;
  uint32_t ring_packets = 0;
  uint8_t depth = 16;
  uint32_t loss_permille = 0;
};

void read_into_ring(const RingCase& one) {
  SCOPED_TRACE(std::string(one.causeway ? "Causeway" : "standard") + " ring " + std::to_string(one.ring_packets) + " depth " +
               std::to_string(one.depth) + " loss " + std::to_string(one.loss_permille));
  constexpr uint32_t kPackets = 2048;
  constexpr uint32_t kReads = 5;
  constexpr uint32_t kBytes = kPackets * 1024;
  sim::RcPairOptions options = pair_options();
  options.connect.path_mtu_bytes = 1024;
  options.connect.peer_hold_packets = one.causeway ? 512 : 0;
  options.connect.initiator_depth = one.depth;
  options.connect.responder_resources = 16;
  options.qp.domain = verbs::ProtectionDomain(1);
  options.qp.remote_access = verbs::RemoteAccess::kRead;
  options.qp.responder_resources_max = 16;
  sim::RcPair pair(options);
  pair.link.faults.delay = Duration::us(25);
  pair.link.faults.loss = one.loss_permille;
  pair.link.faults.bytes_per_second = 500'000'000;
  pair.link.faults.queue_bytes_max = uint64_t{one.ring_packets} * 1126;
  std::vector<uint8_t> memory = random_bytes(1, kBytes);
  const auto key = *pair.nodes[1]->memory.register_region(options.qp.domain, memory, verbs::RemoteAccess::kRead);
  const uint64_t address = pair.nodes[1]->memory.address_of(key);
  uint32_t posted = 0;
  uint32_t done = 0;
  const bool finished = pair.run([&] {
    for (; posted < kReads && posted - done < 5; ++posted) {
      EXPECT_TRUE(pair.qps[0]->post_read({.rkey = key, .remote_address = address, .length = kBytes}).ok());
    }
    verbs::Completion completion;
    while (pair.qps[0]->poll_completion(completion)) {
      EXPECT_EQ(completion.status, verbs::WcStatus::kSuccess);
      EXPECT_TRUE(bytes_of(completion.payload) == memory);
      completion.payload.clear();
      ++done;
    }
    return done == kReads || pair.qps[0]->in_error();
  });
  EXPECT_TRUE(finished && done == kReads);
  const RcStats& stats = pair.stats(0);
  constexpr uint64_t kData = uint64_t{kPackets} * kReads;
  EXPECT_LT(stats.discards[static_cast<size_t>(DropReason::kDuplicate)], kData / 4);
  EXPECT_LT(pair.stats(1).packets_out, 4 * kData);
  EXPECT_EQ(stats.bad_responses, 0u);
  pair.destroy();
  EXPECT_EQ(pair.buffers_in_use(), 0u);
}

TEST(ReadRequests, ABurstThatTheReceiverCannotTakeEnds) {
  for (const bool causeway : {false, true}) {
    for (const uint32_t ring : {40u, 100u, 512u}) {
      read_into_ring({.causeway = causeway, .ring_packets = ring, .depth = 1});
      read_into_ring({.causeway = causeway, .ring_packets = ring});
    }
    read_into_ring({.causeway = causeway, .ring_packets = 100, .loss_permille = 5});
  }
}

}  // namespace
}  // namespace cw::rc::test
