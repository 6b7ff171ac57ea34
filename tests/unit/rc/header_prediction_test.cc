// A predicted frame comes to the same as a parsed one, and a SEND with prepared headers is the one that is built from scratch:
// the same frames, and the same wishes of the owner, through two endpoints, of which one takes no express path.
#include "rocev2/rc/header_prediction.h"

#include <cstring>

#include "rocev2/wire/ipv4.h"
#include "tests/unit/rc/lone_qp.h"

namespace cw::rc::test {
namespace {

constexpr uint32_t kIp = 14;
constexpr uint32_t kFirstPsn = 5000;

using Frame = std::vector<uint8_t>;

// What a sender that means it does after a change: both sums are right again. Of what is IPv4 still.
void close_frame(Frame& frame) {
  if (frame.size() < HeaderPrediction::kFrameBytesMin || frame[kIp] >> 4 != 4) {
    return;
  }
  store_be16(frame.data() + kIp + 10, 0);
  const uint64_t sum = wire::ipv4_sum(std::span<const uint8_t, wire::Ipv4::kSize>(frame.data() + kIp, wire::Ipv4::kSize));
  store_be16(frame.data() + kIp + 10, static_cast<uint16_t>(~wire::fold_ones_complement(sum)));
  const size_t end = frame.size() - wire::kIcrcBytes;
  store_le32(frame.data() + end, wire::Icrc(Bytes(frame).subspan(kIp, end - kIp)).value());
}

LoneQpOptions options_of(bool predicts, bool recovers) {
  LoneQpOptions options = client_options();
  options.qp.selective_recovery = recovers;
  options.qp.receive_bytes_max = 200;
  options.buffers = 512;
  options.endpoint.receive_work_max = 12;
  options.endpoint.ack_delay = kAckDelay;
  options.endpoint.express = predicts;
  return options;
}

// One of the two ends.
struct End : LoneQp {
  explicit End(bool predicts, bool recovers = true) : LoneQp(options_of(predicts, recovers)) {}
  explicit End(const LoneQpOptions& options) : LoneQp(options) {}

  // As node::Node::on_frame. Says what became of the frame.
  std::string deliver(const Frame& raw, uint16_t port = 0) {
    Buffer* frame = pool.allocate_one();
    EXPECT_EQ(frame->append(raw), raw.size());
    if (RcQp* who = endpoint->predicting(frame->bytes(), port)) {
      ++predicted;
      endpoint->take_predicted(now, *who, frame);
      return "taken";
    }
    const auto view = wire::PacketView::parse(frame->bytes());
    const bool intact = view.ok() && wire::verify_icrc(*view);
    const bool took = intact && endpoint->on_packet(now, *view, frame, port);
    if (!took) {
      release_buffers(frame);
    }
    return took ? "taken" : !view.ok() ? std::string(wire::to_string(view.error())) : intact ? "not taken" : "iCRC";
  }
  Frame frame_of(const Inbound& inbound) {
    wire::TxPacket packet;
    packet.head = pool.allocate_one();
    wire::Bth bth;
    bth.opcode = inbound.opcode;
    bth.psn = Psn(inbound.psn);
    bth.ack_request = inbound.ack_request;
    bth.solicited = inbound.solicited;
    bth.pkey = inbound.pkey;
    bth.destination = qp->local_qpn();
    wire::build_packet(packet, wire::PathHeader(inbound.path), static_cast<uint16_t>(inbound.psn), bth, inbound.extensions,
                       Bytes(inbound.payload));
    Frame frame = packet.raw();
    release_buffers(packet.head);
    return frame;
  }
  uint32_t predicted = 0;
};

// Everything that shows.
void expect_same(End& one, End& other) {
  EXPECT_EQ(one.completions(), other.completions());
  EXPECT_EQ(one.payloads, other.payloads);
  EXPECT_EQ(one.last_solicited, other.last_solicited);
  EXPECT_EQ(one.endpoint->next_deadline(), other.endpoint->next_deadline());
  EXPECT_EQ(one.endpoint->has_work(), other.endpoint->has_work());
  const RcStats& stats = one.endpoint->stats();
  EXPECT_EQ(std::memcmp(&stats, &other.endpoint->stats(), sizeof(stats)), 0);
  const QpCounters counters = one.qp->counters();
  const QpCounters others = other.qp->counters();
  EXPECT_EQ(std::memcmp(&counters, &others, sizeof(counters)), 0);
  const RcQpInfo info = one.qp->info();
  const RcQpInfo theirs = other.qp->info();
  EXPECT_EQ(info.state, theirs.state);
  EXPECT_EQ(info.expected_psn, theirs.expected_psn);
  EXPECT_EQ(info.msn, theirs.msn);
  EXPECT_EQ(info.gap, theirs.gap);
  EXPECT_EQ(info.receives_posted, theirs.receives_posted);
  EXPECT_EQ(one.endpoint->log().size(), other.endpoint->log().size());
}

void expect_same_sent(End& one, End& other) {
  EXPECT_EQ(one.sent(), other.sent());
  EXPECT_EQ(one.frames, other.frames);
}

TEST(HeaderPrediction, TakesEachSendAfterTheFirst) {
  End end(true);
  end.qp->post_receives(8);
  for (uint32_t i = 0; i < 8; ++i) {
    EXPECT_EQ(end.deliver(end.frame_of(send(kOnly, kFirstPsn + i, 40 + 4 * i))), "taken");
    EXPECT_EQ(end.predicted, i);
  }
  EXPECT_EQ(end.endpoint->stats().packets_in, 8u);
  EXPECT_EQ(end.completions().size(), std::string("receive 0 success; ").size() * 8 - std::string("; ").size());
}

TEST(PreparedSend, IsTheFrameThatIsBuiltFromScratch) {
  End with(true);
  End without(false);
  for (uint32_t bytes = 0; bytes <= 256; ++bytes) {
    EXPECT_TRUE(with.post_send(bytes, bytes + 1).ok());
    EXPECT_TRUE(without.post_send(bytes, bytes + 1).ok());
    expect_same_sent(with, without);
    EXPECT_EQ(with.frames.size(), 1u);
    with.receive_ack(1000 + bytes);
    without.receive_ack(1000 + bytes);
    expect_same(with, without);
  }
}

TEST(HeaderPrediction, LeavesEveryDifferenceToTheGeneralPath) {
  // Each byte of the headers, and some of the payload, in each of its bits.
  End end(true);
  end.qp->post_receives(2);
  EXPECT_EQ(end.deliver(end.frame_of(send(kOnly, kFirstPsn, 40))), "taken");
  const Frame frame = end.frame_of(send(kOnly, kFirstPsn + 1, 40));
  const auto is_predicted = [&](const Frame& raw) {
    return HeaderPrediction::may_match(raw) && end.endpoint->predicting(raw, 0) != nullptr;
  };
  EXPECT_TRUE(is_predicted(frame));
  EXPECT_EQ(end.endpoint->predicting(frame, 1), nullptr);  // another port
  for (size_t at = 0; at < frame.size(); ++at) {
    for (uint32_t bit = 0; bit < 8; ++bit) {
      Frame changed = frame;
      changed[at] ^= static_cast<uint8_t>(1u << bit);
      EXPECT_FALSE(is_predicted(changed)) << at << " " << bit;
      close_frame(changed);
      // With right sums: the identification, the acknowledge request and the payload may differ, and a checksum that was changed
      // is right again.
      const bool may_differ =
          at == 18 || at == 19 || at == 24 || at == 25 || (at == 50 && bit == 7) || (at >= HeaderPrediction::kHeaderBytes);
      EXPECT_EQ(is_predicted(changed), may_differ) << at << " " << bit;
    }
  }
  for (size_t bytes = 0; bytes < frame.size(); ++bytes) {
    EXPECT_FALSE(is_predicted(Frame(frame.begin(), frame.begin() + static_cast<std::ptrdiff_t>(bytes)))) << bytes;
  }
  Frame padded = frame;
  padded.push_back(0);
  EXPECT_FALSE(is_predicted(padded));
  EXPECT_TRUE(is_predicted(frame));
  end.qp->close();
  EXPECT_FALSE(is_predicted(frame));
  (void)end.completions();
}

TEST(HeaderPrediction, NeedsAReceiveAndMemoryForTheMessage) {
  End end(true);
  end.qp->post_receives(2);
  EXPECT_EQ(end.deliver(end.frame_of(send(kOnly, kFirstPsn, 40))), "taken");
  const Frame frame = end.frame_of(send(kOnly, kFirstPsn + 1, 40));
  EXPECT_NE(end.endpoint->predicting(frame, 0), nullptr);
  end.endpoint->set_watermark(BufferWatermark::kLow);
  EXPECT_EQ(end.endpoint->predicting(frame, 0), nullptr);
  end.endpoint->set_watermark(BufferWatermark::kPlenty);
  EXPECT_EQ(end.deliver(frame), "taken");
  EXPECT_EQ(end.predicted, 1u);
  EXPECT_EQ(end.endpoint->predicting(end.frame_of(send(kOnly, kFirstPsn + 2, 40)), 0), nullptr);  // no receive is left
  EXPECT_EQ(end.deliver(end.frame_of(send(kOnly, kFirstPsn + 2, 40))), "not taken");
  (void)end.completions();
}

TEST(HeaderPrediction, DoesNotLearnFromWhatIsOnlyHeld) {
  End end(true);
  end.qp->post_receives(4);
  EXPECT_EQ(end.deliver(end.frame_of(send(kOnly, kFirstPsn, 40))), "taken");
  Inbound ahead = send(kOnly, kFirstPsn + 2, 40);
  ahead.path.udp_source_port = 60000;
  (void)end.deliver(end.frame_of(ahead));
  EXPECT_EQ(end.endpoint->predicting(end.frame_of(send(kOnly, kFirstPsn + 1, 40)), 0), nullptr);  // there is a gap
  EXPECT_EQ(end.deliver(end.frame_of(send(kOnly, kFirstPsn + 1, 40))), "taken");
  EXPECT_EQ(end.predicted, 0u);
  (void)end.completions();
}

LoneQpOptions first_psn_of(bool predicts, uint32_t psn) {
  LoneQpOptions options = options_of(predicts, true);
  options.remote_psn = psn;
  return options;
}

TEST(HeaderPrediction, GoesOnWhereThePsnWraps) {
  constexpr uint32_t kPsnCount = 1u << 24;
  End with(first_psn_of(true, kPsnCount - 4));
  End without(first_psn_of(false, kPsnCount - 4));
  with.qp->post_receives(8);
  without.qp->post_receives(8);
  for (uint32_t i = 0; i < 8; ++i) {
    const Frame frame = with.frame_of(send(kOnly, (kPsnCount - 4 + i) % kPsnCount, 40));
    EXPECT_EQ(with.deliver(frame), "taken");
    EXPECT_EQ(without.deliver(frame), "taken");
    EXPECT_EQ(with.predicted, i);
    expect_same(with, without);
    expect_same_sent(with, without);
  }
  EXPECT_EQ(with.qp->info().expected_psn, Psn(4));
  EXPECT_EQ(without.predicted, 0u);
}

// A queue pair that drains begins nothing of its own, and still takes what the peer sends.
TEST(HeaderPrediction, TakesWhatComesWhileTheQueuePairDrains) {
  End with(true);
  End without(false);
  for (End* end : {&with, &without}) {
    end->qp->post_receives(4);
    EXPECT_EQ(end->deliver(end->frame_of(send(kOnly, kFirstPsn, 40))), "taken");
    EXPECT_TRUE(end->post_send(40, 1).ok());
  }
  expect_same_sent(with, without);
  for (End* end : {&with, &without}) {
    EXPECT_TRUE(end->qp->drain().ok());
    EXPECT_TRUE(end->post_send(40, 2).ok());  // waits until the queue pair sends again
  }
  expect_same_sent(with, without);
  const Frame frame = with.frame_of(send(kOnly, kFirstPsn + 1, 40));
  EXPECT_EQ(with.deliver(frame), "taken");
  EXPECT_EQ(without.deliver(frame), "taken");
  EXPECT_EQ(with.predicted, 1u);
  with.receive_ack(1000);
  without.receive_ack(1000);
  expect_same(with, without);
  expect_same_sent(with, without);
  EXPECT_TRUE(with.qp->drained() && without.qp->drained());
  EXPECT_TRUE(with.qp->to_rts().ok() && without.qp->to_rts().ok());
  expect_same_sent(with, without);
  EXPECT_EQ(with.frames.size(), 1u);
  (void)with.completions();
  (void)without.completions();
}

// What a peer, the network or a stranger may do to a frame.
Frame random_frame(RandomSource& random, End& maker, uint32_t psn) {
  Inbound inbound = send(kOnly, psn, size_t{4} * (1 + random.next_below(50)));
  inbound.ack_request = random.next_below(4) != 0;
  if (random.next_below(4) != 0) {
    return maker.frame_of(inbound);
  }
  switch (random.next_below(8)) {
    case 0:
      inbound.psn += random.next_below(9) - 4;
      break;
    case 1:
      inbound.payload = random_bytes(psn, random.next_below(260));
      break;
    case 2:
      inbound.opcode = random.next_below(2) == 0 ? kFirst : kLast;
      break;
    case 3:
      inbound.solicited = true;
      break;
    case 4:
      inbound.path.udp_source_port = static_cast<uint16_t>(50000 + random.next_below(3));
      break;
    case 5:
      inbound.pkey = random.next_below(2) != 0 ? 0x7fff : 0x8001;
      break;
    default:
      break;
  }
  Frame frame = maker.frame_of(inbound);
  const uint32_t changes = random.next_below(3);
  for (uint32_t i = 0; i < changes; ++i) {
    frame[random.next_below(std::min<uint32_t>(static_cast<uint32_t>(frame.size()), 64))] ^=
        static_cast<uint8_t>(1u << random.next_below(8));
  }
  if (changes > 0 && random.next_below(4) != 0) {
    close_frame(frame);
  }
  if (random.next_below(16) == 0) {
    frame.resize(random.next_below(static_cast<uint32_t>(frame.size()) + 8));
  }
  return frame;
}

// What the owner may post, in the same Buffers on both ends.
void post_same(RandomSource& random, End& one, End& other) {
  const std::vector<uint8_t> payload = random_bytes(random.next_u64(), random.next_below(300));
  const uint32_t kind = random.next_below(12);
  const auto post = [&](End& end) {
    verbs::SendRequest request{.id = verbs::WorkId(7), .payload = end.chain(payload)};
    request.solicited = kind == 0;
    request.fence = kind == 1;
    request.signaled = kind < 6;
    if (kind == 2) {
      request.immediate = 5;
    } else if (kind == 3) {
      request.invalidate = verbs::Rkey(9);
    }
    return end.qp->post_send(std::move(request)).ok();
  };
  EXPECT_EQ(post(one), post(other));
}

// The peer answers some of what was sent: an acknowledgement, a NAK, or to wait.
void answer_same(RandomSource& random, End& one, End& other) {
  const RcQpInfo info = one.qp->info();
  const uint32_t psn = info.una.value() + random.next_below(info.packets_in_flight + 1);
  switch (random.next_below(8)) {
    case 0:
      one.receive_nak(psn, NakCode::kPsnSequenceError);
      other.receive_nak(psn, NakCode::kPsnSequenceError);
      return;
    case 1:
      one.receive_rnr(psn, 1);
      other.receive_rnr(psn, 1);
      return;
    case 2:
      one.receive_aeth(psn, 3);  // so many receives
      other.receive_aeth(psn, 3);
      return;
    default:
      one.receive_ack(psn);
      other.receive_ack(psn);
      return;
  }
}

void live_twice(uint64_t seed, uint32_t& predicted) {
  SCOPED_TRACE(seed);
  SeededRandom random(seed);
  const bool recovers = random.next_below(2) == 0;
  End with(true, recovers);
  End without(false, recovers);
  for (uint32_t step = 0; step < 200 && !testing::Test::HasFailure(); ++step) {
    const uint32_t psn = with.qp->info().expected_psn.value();
    switch (random.next_below(16)) {
      case 0: {
        const uint32_t count = 1 + random.next_below(6);
        with.qp->post_receives(count);
        without.qp->post_receives(count);
        break;
      }
      case 1: {
        expect_same_sent(with, without);
        const Duration time = Duration::us(1 + random.next_below(40));
        with.pass(time);
        without.pass(time);
        break;
      }
      case 2: {
        const auto watermark = static_cast<BufferWatermark>(random.next_below(3));
        const bool plenty = random.next_below(4) != 0;
        with.endpoint->set_watermark(plenty ? BufferWatermark::kPlenty : watermark);
        without.endpoint->set_watermark(plenty ? BufferWatermark::kPlenty : watermark);
        break;
      }
      case 3:
        expect_same(with, without);
        break;
      case 4:
        with.endpoint->flush_acknowledgements();
        without.endpoint->flush_acknowledgements();
        expect_same_sent(with, without);
        break;
      case 5:
      case 6:
        post_same(random, with, without);
        break;
      case 7:
        answer_same(random, with, without);
        break;
      default: {
        const Frame frame = random_frame(random, with, psn);
        EXPECT_EQ(with.deliver(frame), without.deliver(frame));
        break;
      }
    }
  }
  expect_same(with, without);
  expect_same_sent(with, without);
  EXPECT_EQ(without.predicted, 0u);
  predicted += with.predicted;
}

TEST(HeaderPrediction, ComesToTheSameAsTheGeneralPath) {
  uint32_t predicted = 0;
  for (uint64_t seed = 0; seed < 400 && !testing::Test::HasFailure(); ++seed) {
    live_twice(seed, predicted);
  }
  EXPECT_GT(predicted, 3000u);  // else nothing has been compared
}

}  // namespace
}  // namespace cw::rc::test
