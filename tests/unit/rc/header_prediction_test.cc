// A predicted frame comes to the same as a parsed one, and a SEND with prepared headers is the one that is built from scratch:
// the same frames, and the same wishes of the owner, through two endpoints, of which one takes no express path.
#include "rocev2/rc/header_prediction.h"

#include <algorithm>
#include <span>

#include "rocev2/rc/responder.h"
#include "tests/unit/rc/twin_ends.h"

namespace cw::rc::test {
namespace {

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

// The MSN counts messages: to see it wrap takes 16 million of them, or a state that has seen them.
TEST(HeaderPrediction, GoesOnWhereTheMsnWraps) {
  const LoneQpOptions options = options_of(true, true);
  RcCore core(1, 1, 4, 1, recovery_limits(1, 1), 1, 1, nullptr);
  HeapBufferPool pool(4, 256, 1);
  uint32_t msns[2];
  for (const bool predicted : {false, true}) {
    QpContext context(core);
    ReceiveState state;
    state.expected = Psn(0);
    state.ack_psn = Psn(0xff'ffff);
    state.msn = 0xff'ffff;
    state.receives = 1;
    state.receive_bytes_max = 256;
    context.mtu_bytes = 256;
    context.psn_window_packets = 1024;
    wire::TxPacket packet;
    packet.head = pool.allocate_one();
    wire::Bth bth;
    bth.opcode = kOnly;
    wire::build_packet(packet, wire::PathHeader(options.path), 1, bth, {}, Bytes(random_bytes(1, 40)));
    if (predicted) {
      ASSERT_TRUE(takes_whole_send(context, state));
      take_whole_send(context, state, Instant(), packet.head, false, true);
    } else {
      const auto view = wire::PacketView::parse(packet.head->bytes());
      ASSERT_TRUE(view.ok());
      ASSERT_TRUE(on_request(context, state, Instant(), *view, packet.head).took_frame);
    }
    msns[predicted ? 1 : 0] = state.msn;
    EXPECT_EQ(state.expected, Psn(1));
    if (predicted) {
      ASSERT_EQ(context.completions.front(), nullptr);
      release_buffers(context.completions.pop_whole(core));
    } else {
      context.completions.front()->payload.clear();
      core.receives.destroy(context.completions.pop());
    }
  }
  EXPECT_EQ(msns[0], 0u);
  EXPECT_EQ(msns[1], 0u);
}

// Frames over IPv6 or with a tag are nobody's common case: the general path has them all.
TEST(HeaderPrediction, LeavesIpv6AndVlanToTheGeneralPath) {
  for (const Look& look : kLooks) {
    SCOPED_TRACE(testing::Message() << "IPv6 " << look.ipv6 << ", VLAN " << look.vlan);
    End with(true, true, look);
    End without(false, true, look);
    with.qp->post_receives(4);
    without.qp->post_receives(4);
    for (uint32_t i = 0; i < 4; ++i) {
      const Frame frame = with.frame_of(with.of_peer(kOnly, kFirstPsn + i, 40));
      EXPECT_EQ(with.deliver(frame), "taken");
      EXPECT_EQ(without.deliver(frame), "taken");
      EXPECT_TRUE(with.post_send(60, i + 1).ok() && without.post_send(60, i + 1).ok());
      expect_same_sent(with, without);
      with.answer(1000 + i, wire::Aeth::kCreditsInvalid);
      without.answer(1000 + i, wire::Aeth::kCreditsInvalid);
      expect_same(with, without);
    }
    EXPECT_EQ(with.predicted, look.is_common() ? 3u : 0u);
  }
}

// Nor is a frame predicted that shows the other family or tag than what was learned.
TEST(HeaderPrediction, DoesNotTakeAFrameOfAnotherLook) {
  End end(true);
  end.qp->post_receives(2);
  EXPECT_EQ(end.deliver(end.frame_of(send(kOnly, kFirstPsn, 40))), "taken");
  for (const Look& look : kLooks) {
    Inbound inbound = send(kOnly, kFirstPsn + 1, 40);
    inbound.path = path_of(1, look);
    EXPECT_EQ(end.endpoint->predicting(end.frame_of(inbound), 0) != nullptr, look.is_common());
  }
  (void)end.completions();
}

// A frame that the network has marked is answered with a notification, by the general path; what comes behind it unmarked is
// predicted again.
TEST(HeaderPrediction, LeavesAMarkedFrameToTheGeneralPath) {
  End with(true);
  End without(false);
  with.qp->post_receives(4);
  without.qp->post_receives(4);
  for (uint32_t i = 0; i < 4; ++i) {
    Frame frame = with.frame_of(send(kOnly, kFirstPsn + i, 40));
    if (i == 2) {
      mark(frame);
    }
    EXPECT_EQ(with.deliver(frame), "taken");
    EXPECT_EQ(without.deliver(frame), "taken");
    EXPECT_EQ(with.predicted, i < 2 ? i : i - 1);
    expect_same_sent(with, without);
    EXPECT_EQ(with.endpoint->stats().cnps_sent, i < 2 ? 0u : 1u);
    expect_same(with, without);
  }
  EXPECT_EQ(with.endpoint->stats().ecn_marked, 1u);
}

// A notification limits the rate of prepared SENDs as that of others, and what comes in is predicted all the same.
TEST(PreparedSend, KeepsToTheRateThatANotificationSets) {
  const auto slow = [](bool predicts) {
    LoneQpOptions options = options_of(predicts, true);
    options.qp.rate = {.line_rate = 100'000'000, .floor_rate = 10'000'000};
    return options;
  };
  End with(slow(true));
  End without(slow(false));
  for (End* end : {&with, &without}) {
    end->qp->post_receives(8);
    EXPECT_EQ(end->deliver(end->frame_of(send(kOnly, kFirstPsn, 40))), "taken");
    for (uint32_t i = 0; i < 16; ++i) {
      EXPECT_TRUE(end->post_send(200, i + 1).ok());
    }
    end->notify_of_congestion();
    EXPECT_GT(end->qp->info().rate_bytes_per_second, 0u);
  }
  for (uint32_t i = 1; i < 8; ++i) {
    const Frame frame = with.frame_of(send(kOnly, kFirstPsn + i, 40));
    EXPECT_EQ(with.deliver(frame), "taken");
    EXPECT_EQ(without.deliver(frame), "taken");
    EXPECT_EQ(with.predicted, i);
    expect_same_sent(with, without);
    with.pass(Duration::us(5));
    without.pass(Duration::us(5));
    expect_same(with, without);
  }
  EXPECT_GT(with.endpoint->stats().paced_turns, 0u);
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
  Inbound inbound = maker.of_peer(kOnly, psn, size_t{4} * (1 + random.next_below(50)));
  inbound.ack_request = random.next_below(4) != 0;
  if (random.next_below(4) != 0) {
    return maker.frame_of(inbound);
  }
  bool marked = false;
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
    case 6:
      marked = true;
      break;
    default:
      break;
  }
  Frame frame = maker.frame_of(inbound);
  if (marked) {
    mark(frame);
  }
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

// The peer answers some of what was sent: an acknowledgement, a NAK, or to wait; or it has met congestion.
void answer_same(RandomSource& random, End& one, End& other) {
  const RcQpInfo info = one.qp->info();
  const uint32_t psn = info.una.value() + random.next_below(info.packets_in_flight + 1);
  const uint32_t kind = random.next_below(10);
  for (End* end : {&one, &other}) {
    switch (kind) {
      case 0:
        end->answer(psn, 0x60 | static_cast<uint8_t>(NakCode::kPsnSequenceError));
        break;
      case 1:
        end->answer(psn, 0x20 | 1);  // no receive
        break;
      case 2:
        end->answer(psn, 3);  // so many receives
        break;
      case 3:
        end->notify_of_congestion();
        break;
      default:
        end->answer(psn, wire::Aeth::kCreditsInvalid);
        break;
    }
  }
}

void live_twice(uint64_t seed, uint32_t& predicted, uint32_t& longest_row) {
  SCOPED_TRACE(seed);
  SeededRandom random(seed);
  const bool recovers = random.next_below(2) == 0;
  const Look& look = kLooks[seed % 8 < 5 ? 0 : seed % 8 - 4];
  End with(true, recovers, look);
  End without(false, recovers, look);
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
      case 8: {
        // A burst: mostly a row of SENDs, the one or other of which is late, marked, solicited or too long.
        std::vector<Frame> burst(2 + random.next_below(20));
        for (uint32_t i = 0; i < burst.size(); ++i) {
          burst[i] = random.next_below(12) == 0 ? random_frame(random, with, psn + i)
                                                : with.frame_of(with.of_peer(kOnly, psn + i, 4 + 4 * random.next_below(40)));
        }
        EXPECT_EQ(with.deliver(burst), without.deliver(burst));
        break;
      }
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
  EXPECT_TRUE(look.is_common() || with.predicted == 0);
  predicted += with.predicted;
  longest_row = std::max(longest_row, with.longest_row);
}

// All that waits to be polled: messages as poll_messages() gives them, `at_once` of them at a time, and what else there is.
std::string poll_by_messages(End& end, uint32_t at_once, uint32_t& messages) {
  std::string text;
  const auto note = [&](const std::string& what, std::vector<uint8_t> payload) {
    text += (text.empty() ? "" : "; ") + what;
    end.payloads.push_back(std::move(payload));
  };
  end.payloads.clear();
  std::vector<verbs::ReceivedMessage> received(at_once);
  verbs::Completion completion;
  for (bool more = true; more;) {
    const uint32_t count = end.qp->poll_messages(received);
    for (uint32_t i = 0; i < count; ++i) {
      Chain payload(received[i].payload);
      EXPECT_LE(received[i].begun, end.now);
      end.last_solicited = false;
      note("receive 0 success", sim::bytes_of(payload));
    }
    messages += count;
    more = end.qp->poll_completion(completion);
    if (more) {
      note(std::string(to_string(completion.opcode)) + " " + std::to_string(completion.id.value()) + " " +
               to_string(completion.status),
           sim::bytes_of(completion.payload));
      end.last_solicited = completion.solicited;
    }
    more |= count > 0;
  }
  return text;
}

// Messages that wait without a Work, for bursts on end and until there is no receive work left, among completions of SENDs.
void wait_twice(uint64_t seed, uint32_t& messages) {
  SCOPED_TRACE(seed);
  SeededRandom random(seed);
  End with(true);
  End without(false);
  with.qp->post_receives(100);
  without.qp->post_receives(100);
  for (uint32_t step = 0; step < 120 && !testing::Test::HasFailure(); ++step) {
    switch (random.next_below(12)) {
      case 0:
        with.pass(Duration::us(1));
        without.pass(Duration::us(1));
        break;
      case 1:
      case 2:
        EXPECT_TRUE(with.post_send(40, step).ok() && without.post_send(40, step).ok());
        expect_same_sent(with, without);
        with.answer(with.qp->info().limit_psn.value() - 1, wire::Aeth::kCreditsInvalid);
        without.answer(without.qp->info().limit_psn.value() - 1, wire::Aeth::kCreditsInvalid);
        break;
      case 3:
        EXPECT_EQ(poll_by_messages(with, 1 + random.next_below(8), messages), without.completions());
        EXPECT_EQ(with.payloads, without.payloads);
        expect_same(with, without);
        break;
      case 4:
        expect_same(with, without);
        break;
      default: {
        Inbound inbound = with.of_peer(kOnly, with.qp->info().expected_psn.value(), 4 + 4 * (step % 40));
        inbound.solicited = random.next_below(12) == 0;
        const Frame frame = with.frame_of(inbound);
        EXPECT_EQ(with.deliver(frame), without.deliver(frame));
        EXPECT_EQ(with.discards(DropReason::kNoBuffer), without.discards(DropReason::kNoBuffer));
        break;
      }
    }
  }
  if (seed % 3 == 0) {
    return;  // what waits goes with the queue pair
  }
  if (seed % 3 == 1) {
    with.qp->close();
    without.qp->close();
  }
  expect_same(with, without);
}

TEST(HeaderPrediction, KeepsTheOrderOfWhatWaitsToBePolled) {
  uint32_t messages = 0;
  for (uint64_t seed = 0; seed < 300 && !testing::Test::HasFailure(); ++seed) {
    wait_twice(seed, messages);
  }
  EXPECT_GT(messages, 2000u);  // else nothing has been compared
}

// The receives of a shared pool go back with messages that nobody has polled.
TEST(HeaderPrediction, GivesReceivesOfAPoolBackWithMessagesThatWait) {
  ReceivePool shared;
  shared.post(5);
  LoneQpOptions options = options_of(true, true);
  options.qp.receive_pool = &shared;
  {
    End end(options);
    for (uint32_t i = 0; i < 3; ++i) {
      EXPECT_EQ(end.deliver(end.frame_of(send(kOnly, kFirstPsn + i, 40))), "taken");
    }
    EXPECT_EQ(end.predicted, 2u);
    EXPECT_EQ(shared.available(), 2u);
  }
  EXPECT_EQ(shared.available(), 5u);
}

// As many as fit are posted in one go, as one by one.
TEST(PreparedSend, PostedTogetherIsPostedOneByOne) {
  uint32_t refused = 0;
  for (uint64_t seed = 0; seed < 200 && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    SeededRandom random(seed);
    LoneQpOptions options = options_of(true, true);
    options.endpoint.send_work_max = 24;
    options.qp.send_queue_depth = 16 + random.next_below(16);
    options.qp.send_window_packets = 8;
    options.endpoint.turn_packets = 5;
    End with(options);
    options.endpoint.express = seed % 2 == 0;
    End without(options);
    for (uint32_t step = 0; step < 40; ++step) {
      std::array<verbs::PlainSend, 12> sends;
      const uint32_t count = 1 + random.next_below(12);
      const uint32_t bytes = 1 + random.next_below(300);  // a longer one takes two packets
      const bool signaled = random.next_below(2) == 0;
      const auto post = [&](End& end, bool together) {
        for (uint32_t i = 0; i < count; ++i) {
          sends[i] = {.id = verbs::WorkId(i), .payload = end.chain(random_bytes(i, bytes)).detach(), .signaled = signaled};
        }
        const std::span<verbs::PlainSend> some(sends.data(), count);
        const uint32_t posted =
            together ? end.qp->post_receives_and_sends(some) : end.qp->verbs::QueuePair::post_receives_and_sends(some);
        for (uint32_t i = posted; i < count; ++i) {
          release_buffers(sends[i].payload);
        }
        return posted;
      };
      const uint32_t posted = post(with, true);
      EXPECT_EQ(posted, post(without, false));
      refused += count - posted;
      if (random.next_below(3) == 0) {
        expect_same_sent(with, without);
      }
      expect_same(with, without);
      answer_same(random, with, without);
      expect_same(with, without);
    }
    if (seed % 4 == 0) {
      with.qp->close();
      without.qp->close();
      expect_same(with, without);
    }
  }
  EXPECT_GT(refused, 200u);
}

TEST(HeaderPrediction, ComesToTheSameAsTheGeneralPath) {
  uint32_t predicted = 0;
  uint32_t longest_row = 0;
  for (uint64_t seed = 0; seed < 400 && !testing::Test::HasFailure(); ++seed) {
    live_twice(seed, predicted, longest_row);
  }
  EXPECT_GT(predicted, 3000u);  // else nothing has been compared
  EXPECT_GT(longest_row, 8u);
}

}  // namespace
}  // namespace cw::rc::test
