// What lies in the middle of a response to a READ comes to the same predicted as parsed.
#include <algorithm>
#include <deque>
#include <utility>

#include "tests/unit/rc/twin_ends.h"

namespace cw::rc::test {
namespace {

constexpr uint32_t kMtuBytes = 256;

struct Response {
  Opcode opcode = kResponseOnly;
  uint32_t psn = 0;
  uint32_t bytes = 0;
};

struct Twins {
  explicit Twins(bool recovers = true, const Look& look = kCommon) : with(true, recovers, look), without(false, recovers, look) {
    // From now on there is something to predict by.
    both([](End& end) {
      end.qp->post_receives(4);
      EXPECT_EQ(end.deliver(end.frame_of(end.of_peer(kOnly, kFirstPsn, 40))), "taken");
      (void)end.completions();
    });
  }
  template <typename Work>
  void both(Work&& work) {
    work(with);
    work(without);
  }

  // What both send now is the same. The peer answers the READ requests among it.
  void exchange() {
    expect_same_sent(with, without);
    for (const Frame& raw : with.frames) {
      const auto view = wire::PacketView::parse(raw);
      if (view->bth.opcode != kReadRequest) {
        continue;
      }
      const uint32_t bytes = view->reth().length;
      const uint32_t count = std::max((bytes + kMtuBytes - 1) / kMtuBytes, 1u);
      for (uint32_t i = 0; i < count; ++i) {
        const bool first = i == 0;
        const bool last = i + 1 == count;
        responses.push_back({.opcode = first  ? (last ? kResponseOnly : kResponseFirst)
                                       : last ? kResponseLast
                                              : kResponseMiddle,
                             .psn = (view->bth.psn.value() + i) % kPsnCount,
                             .bytes = last ? bytes - i * kMtuBytes : kMtuBytes});
      }
    }
  }
  Inbound made_of(const Response& response) const {
    Inbound inbound = with.of_peer(response.opcode, response.psn, response.bytes);
    inbound.ack_request = false;
    if (response.opcode != kResponseMiddle) {
      inbound.extensions.aeth = wire::Aeth{wire::Aeth::kCreditsInvalid, 0};
    }
    return inbound;
  }
  // The next ones, so many at most.
  std::vector<Frame> take_responses(size_t most) {
    std::vector<Frame> burst;
    for (; !responses.empty() && burst.size() < most; responses.pop_front()) {
      burst.push_back(with.frame_of(made_of(responses.front())));
    }
    return burst;
  }
  void deliver(const std::vector<Frame>& burst) { EXPECT_EQ(with.deliver(burst), without.deliver(burst)); }

  static constexpr uint32_t kPsnCount = 1u << 24;
  End with;
  End without;
  std::deque<Response> responses;
};

TEST(PredictedMiddles, AreTakenInARow) {
  Twins twins;
  twins.both([](End& end) { EXPECT_TRUE(end.post_read(20 * kMtuBytes + 4, 9).ok()); });
  twins.exchange();
  ASSERT_EQ(twins.responses.size(), 21u);
  std::vector<uint8_t> all;
  for (const Response& response : twins.responses) {
    const std::vector<uint8_t> part = random_bytes(response.psn, response.bytes);
    all.insert(all.end(), part.begin(), part.end());
  }
  twins.deliver(twins.take_responses(21));
  EXPECT_EQ(twins.with.predicted, 19u);  // neither the First nor the Last
  EXPECT_EQ(twins.with.longest_row, 19u);
  expect_same(twins.with, twins.without);
  ASSERT_EQ(twins.with.payloads.size(), 1u);
  EXPECT_EQ(twins.with.payloads.front(), all);
}

TEST(PredictedMiddles, NeedNothingOutOfTheOrdinary) {
  struct Case {
    const char* what;
    uint32_t predicted;
    void (*change)(Twins& twins, std::vector<Frame>& burst);
  };
  const Case cases[] = {
      {"as it is", 8, [](Twins& /*twins*/, std::vector<Frame>& /*burst*/) {}},
      {"one is lost", 3, [](Twins& /*twins*/, std::vector<Frame>& burst) { burst.erase(burst.begin() + 4); }},
      {"one comes twice", 8, [](Twins& /*twins*/, std::vector<Frame>& burst) { burst.insert(burst.begin() + 4, burst[4]); }},
      {"one is overtaken", 6, [](Twins& /*twins*/, std::vector<Frame>& burst) { std::swap(burst[4], burst[5]); }},
      {"one is marked", 7, [](Twins& /*twins*/, std::vector<Frame>& burst) { mark(burst[4]); }},
      {"one is broken", 3, [](Twins& /*twins*/, std::vector<Frame>& burst) { burst[4].back() ^= 1; }},
      {"one is short", 3,
       [](Twins& twins, std::vector<Frame>& burst) {
         Response response{.opcode = kResponseMiddle, .psn = Psn(1004).value(), .bytes = kMtuBytes - 4};
         burst[4] = twins.with.frame_of(twins.made_of(response));
       }},
      {"one comes from another port", 7,
       [](Twins& twins, std::vector<Frame>& burst) {
         Inbound inbound = twins.made_of({.opcode = kResponseMiddle, .psn = Psn(1004).value(), .bytes = kMtuBytes});
         inbound.path.udp_source_port = 50'000;
         burst[4] = twins.with.frame_of(inbound);
       }},
      {"a Last comes early", 3,
       [](Twins& twins, std::vector<Frame>& burst) {
         burst[4] = twins.with.frame_of(twins.made_of({.opcode = kResponseLast, .psn = Psn(1004).value(), .bytes = kMtuBytes}));
       }},
      {"the pool is low", 0,
       [](Twins& twins, std::vector<Frame>& /*burst*/) {
         twins.both([](End& end) { end.endpoint->set_watermark(BufferWatermark::kLow); });
       }},
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(one.what);
    Twins twins;
    twins.both([](End& end) { EXPECT_TRUE(end.post_read(10 * kMtuBytes, 9).ok()); });
    twins.exchange();
    std::vector<Frame> burst = twins.take_responses(10);
    one.change(twins, burst);
    twins.deliver(burst);
    EXPECT_EQ(twins.with.predicted, one.predicted);
    twins.exchange();
    expect_same(twins.with, twins.without);
    twins.both([](End& end) { end.pass(Duration::ms(2)); });
    twins.exchange();
    expect_same(twins.with, twins.without);
  }
}

// The round trip of a packet behind the READ is sampled while responses come, and what waits without a Work gets one.
TEST(PredictedMiddles, ComeBetweenWhatElseThereIs) {
  uint32_t predicted = 0;
  uint32_t longest_row = 0;
  for (uint64_t seed = 0; seed < 600 && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    SeededRandom random(seed);
    const Look& look = kLooks[seed % 8 < 6 ? 0 : seed % 8 - 5];
    Twins twins(random.next_below(2) == 0, look);
    const bool orderly = random.next_below(2) == 0;
    for (uint32_t step = 0; step < 150 && !testing::Test::HasFailure(); ++step) {
      switch (random.next_below(12)) {
        case 0:
        case 1: {
          const uint32_t bytes = 1 + random.next_below(60 * kMtuBytes);
          twins.both([&](End& end) { (void)end.post_read(bytes, step); });
          break;
        }
        case 2: {
          const uint32_t bytes = random.next_below(200);
          twins.both([&](End& end) { (void)end.post_send(bytes, step); });
          break;
        }
        case 3: {
          const Duration time = Duration::us(random.next_below(20) == 0 ? 3000 : 1 + random.next_below(30));
          twins.exchange();
          twins.both([&](End& end) { end.pass(time); });
          break;
        }
        case 4:
          expect_same(twins.with, twins.without);
          break;
        case 5: {
          const RcQpInfo info = twins.with.qp->info();
          const uint32_t psn = info.una.value() + random.next_below(info.packets_in_flight + 1);
          const uint32_t kind = random.next_below(12);
          const uint8_t syndrome = kind == 0 ? 0x21 : kind == 1 ? 0x60 : kind == 2 ? 3 : wire::Aeth::kCreditsInvalid;
          twins.both([&](End& end) { end.answer(psn % Twins::kPsnCount, syndrome); });
          break;
        }
        case 6: {
          const bool plenty = random.next_below(4) != 0;
          const auto watermark = plenty ? BufferWatermark::kPlenty : static_cast<BufferWatermark>(random.next_below(3));
          twins.both([&](End& end) { end.endpoint->set_watermark(watermark); });
          break;
        }
        case 7: {
          const uint32_t psn = twins.with.qp->info().expected_psn.value();
          twins.both([](End& end) { end.qp->post_receives(2); });
          twins.deliver({twins.with.frame_of(twins.with.of_peer(kOnly, psn, 4 + 4 * random.next_below(40)))});
          break;
        }
        default: {
          twins.exchange();
          if (twins.with.pool.in_use() > 400) {
            expect_same(twins.with, twins.without);  // which polls what is complete
          }
          std::vector<Frame> burst = twins.take_responses(1 + random.next_below(24));
          if (!orderly && !burst.empty() && random.next_below(3) == 0) {
            const size_t at = random.next_below(static_cast<uint32_t>(burst.size()));
            switch (random.next_below(5)) {
              case 0:
                burst.erase(burst.begin() + static_cast<ptrdiff_t>(at));
                break;
              case 1:
                burst.push_back(burst[at]);
                break;
              case 2:
                std::swap(burst[at], burst.back());
                break;
              case 3:
                mark(burst[at]);
                break;
              default:
                burst[at][random.next_below(60)] ^= static_cast<uint8_t>(1u << random.next_below(8));
                if (random.next_below(2) == 0) {
                  close_frame(burst[at]);
                }
                break;
            }
          }
          twins.deliver(burst);
          break;
        }
      }
    }
    twins.exchange();
    expect_same(twins.with, twins.without);
    EXPECT_EQ(twins.without.predicted, 0u);
    EXPECT_TRUE(look.is_common() || twins.with.predicted == 0);
    predicted += twins.with.predicted;
    longest_row = std::max(longest_row, twins.with.longest_row);
  }
  EXPECT_GT(predicted, 20'000u);  // else nothing has been compared
  EXPECT_GT(longest_row, 16u);
}

}  // namespace
}  // namespace cw::rc::test
