#include "gateway/backend_ping.h"

#include <gtest/gtest.h>

#include <array>
#include <optional>

#include "apps/sim/sim_backend.h"
#include "base/heap_buffer_pool.h"
#include "rpcrdma/backend/bench_program.h"
#include "rpcrdma/ulb/binding.h"

namespace cw::gateway {
namespace {

class BackendPingTest : public testing::Test {
 protected:
  PingOrder order(uint32_t program = rpcrdma::kBenchProgram, uint32_t version = rpcrdma::kBenchVersion) const {
    return {.backend = 0, .builtin = false, .program = program, .version = version, .timeout = Duration::seconds(3)};
  }
  // Runs the ping against the backend until it has a result.
  std::optional<PingResult> run() {
    for (int turn = 0; turn < 10'000; ++turn) {
      BackendRequest request;
      while (ping_.poll_request(request)) {
        backend_.on_request(now_, std::move(request));
      }
      BackendEvent event;
      while (backend_.poll(now_, event)) {
        EXPECT_TRUE(BackendPing::owns(event.link));
        ping_.on_event(now_, std::move(event));
      }
      ping_.on_deadline(now_);
      PingResult result;
      if (ping_.poll_result(result)) {
        while (ping_.poll_request(request)) {
          backend_.on_request(now_, std::move(request));
        }
        return result;
      }
      now_ = now_ + Duration::ms(1);
    }
    return std::nullopt;
  }

  HeapBufferPool pool_{64, 8192, 64};
  rpcrdma::BenchProgram bench_;
  sim::SimBackend backend_{pool_, bench_, {.buffers = 64}};
  BackendPing ping_{3, pool_};
  Instant now_ = Instant::from_ns(1'000'000'000);
};

TEST_F(BackendPingTest, TimesConnectionAndCall) {
  backend_.open_delay = Duration::ms(5);
  backend_.call_delay = Duration::ms(7);
  ping_.start(now_, order());
  const auto result = run();
  ASSERT_TRUE(result);
  EXPECT_EQ(result->outcome, PingOutcome::kSuccess);
  EXPECT_EQ(result->connect, Duration::ms(5));
  EXPECT_GE(result->call, Duration::ms(7));
  EXPECT_LE(result->call, Duration::ms(8)) << "a turn of this test lasts 1 ms";
  EXPECT_EQ(backend_.open_count(), 0u) << "its connection is closed";
  EXPECT_EQ(pool_.in_use(), 0u);
}

TEST_F(BackendPingTest, AServerThatRefusesTheCallIsAlive) {
  ping_.start(now_, order(4711));
  const auto unknown = run();
  ASSERT_TRUE(unknown);
  EXPECT_EQ(unknown->outcome, PingOutcome::kProgramUnavailable);
  EXPECT_TRUE(is_alive(unknown->outcome));
  ping_.start(now_, order(rpcrdma::kBenchProgram, 99));
  EXPECT_EQ(run()->outcome, PingOutcome::kVersionMismatch);
}

TEST_F(BackendPingTest, SaysWhatWentWrong) {
  backend_.refuses = true;
  ping_.start(now_, order());
  EXPECT_EQ(run()->outcome, PingOutcome::kNotReached);
  backend_.refuses = false;
  backend_.silent = true;
  ping_.start(now_, order());
  const auto silent = run();
  EXPECT_FALSE(is_alive(silent->outcome));
  EXPECT_EQ(pool_.in_use(), 0u);
}

TEST_F(BackendPingTest, ABackendThatClosesIsNotAskedToCloseAgain) {
  ping_.start(now_, order());
  BackendRequest request;
  ASSERT_TRUE(ping_.poll_request(request));
  BackendEvent event;
  event.link = request.link;
  event.kind = BackendEvent::Kind::kOpened;
  ping_.on_event(now_, std::move(event));
  ASSERT_TRUE(ping_.poll_request(request));
  event = BackendEvent{};
  event.link = request.link;
  event.kind = BackendEvent::Kind::kClosed;
  ping_.on_event(now_, std::move(event));
  PingResult result;
  ASSERT_TRUE(ping_.poll_result(result));
  EXPECT_EQ(result.outcome, PingOutcome::kClosed);
  EXPECT_FALSE(ping_.poll_request(request));
}

TEST_F(BackendPingTest, AnAnswerThatComesTooLateIsDropped) {
  backend_.call_delay = Duration::seconds(5);
  ping_.start(now_, order());
  EXPECT_EQ(run()->outcome, PingOutcome::kNoReply);
  backend_.call_delay = Duration::ms(1);
  ping_.start(now_, order());
  EXPECT_EQ(run()->outcome, PingOutcome::kSuccess);
  EXPECT_FALSE(ping_.is_under_way());
}

TEST_F(BackendPingTest, ItsLinkIsNoConnections) {
  EXPECT_FALSE(BackendPing::owns(link_id(1, 3, 0, 16'383)));
  ping_.start(now_, order());
  BackendRequest request;
  ASSERT_TRUE(ping_.poll_request(request));
  EXPECT_TRUE(BackendPing::owns(request.link));
  EXPECT_EQ(core_of(request.link), 3u);
}

}  // namespace
}  // namespace cw::gateway
