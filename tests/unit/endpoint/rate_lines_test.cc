// Who goes next of those that wait for a rate, without an endpoint: the test plays those.
#include "rpcrdma/endpoint/rate_lines.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <deque>
#include <string>

namespace cw::rpcrdma {
namespace {

constexpr uint32_t kListeners = 2;
constexpr uint32_t kSections = 3;

class RateLinesTest : public testing::Test {
 protected:
  // An endpoint that has calls without end, each of so many bytes.
  struct Client {
    Client(RateLine& stands_in, uint64_t bytes) : line(stands_in), call_bytes(bytes) {}
    RateLine& line;
    uint64_t call_bytes;
    uint64_t calls = 0;
    RateWaiter waiter{};
  };

  RateLinesTest() {
    for (size_t i = 0; i < limiters.size(); i += 2) {
      SharedRates& own = i / 2 < kListeners ? of_listeners[i / 2] : of_sections[i / 2 - kListeners];
      own = {.calls = &limiters[i], .bytes = &limiters[i + 1]};
    }
  }
  ~RateLinesTest() override {
    for (Client& client : clients) {
      client.line.leave(client.waiter);
    }
  }

  Client& add(uint32_t listener, std::optional<uint32_t> section, uint64_t call_bytes = 100) {
    return add_on(lines, listener, section, call_bytes);
  }
  Client& add_on(RateLines& core, uint32_t listener, std::optional<uint32_t> section, uint64_t call_bytes = 100) {
    Client& client = clients.emplace_back(core.line(listener, section), call_bytes);
    client.waiter.owner = clients.size() - 1;
    client.line.stand_in(client.waiter);
    return client;
  }
  // Who goes now, and wants to go again; nullptr: nobody.
  Client* go() { return go_on(lines); }
  Client* go_on(RateLines& core) {
    const std::optional<uint64_t> owner = core.next(now);
    if (!owner) {
      return nullptr;
    }
    Client& client = clients[*owner];
    EXPECT_FALSE(client.waiter.is_linked());
    client.line.charge(now, client.call_bytes);
    ++client.calls;
    client.line.stand_in(client.waiter);
    return &client;
  }
  // In time order, as the owner does.
  void run(uint64_t calls) {
    for (uint64_t done = 0; done < calls;) {
      done += go() != nullptr ? 1 : 0;
      now = std::max(now, lines.next_deadline());
    }
  }
  // On both cores; the first is always the quicker one.
  void run_both(uint64_t calls) {
    for (uint64_t done = 0; done < calls;) {
      done += go_on(lines) != nullptr ? 1 : 0;
      done += go_on(other_core) != nullptr ? 1 : 0;
      now = std::max(now, earlier(lines.next_deadline(), other_core.next_deadline()));
    }
  }
  void forget() {
    for (Client& client : clients) {
      client.calls = 0;
    }
  }

  std::array<LocalRateLimiter, size_t{2} * (kListeners + kSections)> limiters;
  std::array<SharedRates, kListeners> of_listeners;
  std::array<SharedRates, kSections> of_sections;
  LocalRateShares shares{kListeners, kSections + 1};
  RateLines lines{of_listeners, of_sections, shares};
  RateLines other_core{of_listeners, of_sections, shares};
  std::deque<Client> clients;
  Instant now = Instant::from_ns(5'000'000'000);
};

TEST_F(RateLinesTest, WithoutARateNothingIsOnAndEverythingPasses) {
  RateLine& line = lines.line(0, 1);
  EXPECT_FALSE(line.are_on());
  for (int i = 0; i < 100; ++i) {
    EXPECT_TRUE(line.may_pass(now));
    line.charge(now, 1'000'000);
  }
  EXPECT_TRUE(lines.next_deadline().is_never());
  EXPECT_EQ(lines.next(now), std::nullopt);
}

TEST_F(RateLinesTest, ACallKeepsToTheRatesOfItsListenerAndOfItsSection) {
  RateLine& of_none = lines.line(0, std::nullopt);
  RateLine& of_section = lines.line(0, 1);
  RateLine& elsewhere = lines.line(1, 1);
  of_sections[1].calls->set(1000);
  of_listeners[0].bytes->set(1'000'000);
  lines.reconfigure();
  EXPECT_TRUE(of_none.are_on());
  EXPECT_TRUE(elsewhere.are_on());
  EXPECT_FALSE(lines.line(1, std::nullopt).are_on());
  of_none.charge(now, 100'000);
  EXPECT_FALSE(of_none.may_pass(now)) << "the listener's";
  EXPECT_FALSE(of_section.may_pass(now));
  EXPECT_TRUE(elsewhere.may_pass(now));
  elsewhere.charge(now, 100);
  for (int i = 0; i < 10; ++i) {
    elsewhere.charge(now, 100);
  }
  EXPECT_FALSE(elsewhere.may_pass(now)) << "the section's";
}

TEST_F(RateLinesTest, WhoComesLaterDoesNotPassThoseWhoWait) {
  of_listeners[0].calls->set(1000);
  RateLine& line = lines.line(0, std::nullopt);
  lines.reconfigure();
  ASSERT_TRUE(line.may_pass(now));
  Client& first = add(0, std::nullopt);
  EXPECT_FALSE(line.may_pass(now));
  EXPECT_FALSE(lines.line(0, 2).may_pass(now)) << "of another section, for the same rate";
  EXPECT_TRUE(lines.line(1, 2).may_pass(now));
  EXPECT_EQ(go(), &first);
}

TEST_F(RateLinesTest, ConnectionsOfASectionTakeTurns) {
  of_sections[0].calls->set(1000);
  for (int i = 0; i < 5; ++i) {
    add(0, 0);
  }
  run(100);
  for (const Client& client : clients) {
    EXPECT_EQ(client.calls, 20u);
  }
}

TEST_F(RateLinesTest, SectionsShareAListenersRateByTheirWeights) {
  of_listeners[0].calls->set(10'000);
  lines.set_weight(1, 3);
  lines.reconfigure();
  for (int i = 0; i < 20; ++i) {
    add(0, 0);  // connections do not make a section heavier
  }
  Client& heavy = add(0, 1);
  Client& of_none = add(0, std::nullopt);
  run(1000);
  EXPECT_NEAR(static_cast<double>(heavy.calls), 600, 5);
  EXPECT_NEAR(static_cast<double>(of_none.calls), 200, 5);
}

TEST_F(RateLinesTest, SharesOfARateOfBytesAreOfBytes) {
  of_listeners[0].bytes->set(100'000'000);
  lines.reconfigure();
  Client& large = add(0, 0, 1'000'000);
  Client& small = add(0, 1, 10'000);
  run(1010);
  EXPECT_NEAR(static_cast<double>(large.calls), 10, 2);
  EXPECT_NEAR(static_cast<double>(small.calls), 1000, 2);
}

TEST_F(RateLinesTest, AShareThatWasNotAskedForIsNotSavedUp) {
  of_listeners[0].calls->set(10'000);
  lines.reconfigure();
  Client& always = add(0, 0);
  run(1000);
  EXPECT_EQ(always.calls, 1000u) << "all of it, while nobody else wants any";
  forget();
  Client& late = add(0, 1);
  run(100);
  EXPECT_NEAR(static_cast<double>(late.calls), 50, 1);
  EXPECT_NEAR(static_cast<double>(always.calls), 50, 1);
}

// Who asks for less than his share waits for one call of another and no longer.
TEST_F(RateLinesTest, TheNextTurnIsTheOneWhoHasHadLeast) {
  of_listeners[0].calls->set(10'000);
  lines.reconfigure();
  for (int i = 0; i < 50; ++i) {
    add(0, 0);
  }
  Client& victim = add(0, 1);
  run(200);
  for (int i = 0; i < 20; ++i) {
    victim.line.leave(victim.waiter);
    run(7);
    victim.line.stand_in(victim.waiter);
    now = lines.next_deadline();
    EXPECT_EQ(go(), &victim);
  }
}

TEST_F(RateLinesTest, ALineWhoseSectionHasToWaitIsPassedBy) {
  of_listeners[0].calls->set(10'000);
  of_sections[0].calls->set(10);
  lines.reconfigure();
  Client& slow = add(0, 0);
  Client& other = add(0, 1);
  const Instant begun = now;
  run(10'000);
  EXPECT_NEAR((now - begun).to_seconds(), 1, 0.02);
  EXPECT_NEAR(static_cast<double>(slow.calls), 10, 1);
  EXPECT_EQ(other.calls, 10'000 - slow.calls);
}

TEST_F(RateLinesTest, ListenersTakeTurnsForASectionsRate) {
  of_sections[0].calls->set(1000);
  lines.reconfigure();
  Client& here = add(0, 0);
  Client& there = add(1, 0);
  run(100);
  EXPECT_EQ(here.calls, 50u);
  EXPECT_EQ(there.calls, 50u);
}

// Room that was offered and not filled: neither the rate nor the section's share is charged for it.
TEST_F(RateLinesTest, WhatIsSettledForLessIsGivenBack) {
  of_listeners[0].bytes->set(1'000'000);
  lines.reconfigure();
  Client& modest = add(0, 0, 500'000);
  Client& other = add(0, 1, 10'000);
  for (int i = 0; i < 100; ++i) {
    Client* gone = nullptr;
    while (gone == nullptr) {
      now = std::max(now, lines.next_deadline());
      gone = go();
    }
    if (gone == &modest) {
      modest.line.settle(now, 500'000, 10'000);
    }
  }
  EXPECT_NEAR(static_cast<double>(modest.calls), 50, 1);
  EXPECT_NEAR(static_cast<double>(other.calls), 50, 1);
}

TEST_F(RateLinesTest, AReloadForgetsWhatWasOwed) {
  of_listeners[0].bytes->set(1);
  lines.reconfigure();
  Client& first = add(0, 0, 1'000'000);
  EXPECT_EQ(go(), &first);
  Client& second = add(0, 1, 100);
  EXPECT_EQ(go(), nullptr);
  EXPECT_EQ(lines.next_deadline(), now + RateLines::kLook) << "due in days, but somebody may correct it";
  of_listeners[0].bytes->set(1'000'000);
  lines.reconfigure();
  first.call_bytes = 100;
  forget();
  run(100);
  EXPECT_NEAR(static_cast<double>(first.calls), 50, 1);
  EXPECT_NEAR(static_cast<double>(second.calls), 50, 1);
}

TEST_F(RateLinesTest, WhoLeavesIsNotCalled) {
  of_listeners[0].calls->set(1000);
  lines.reconfigure();
  Client& first = add(0, 0);
  Client& second = add(0, 0);
  first.line.stand_in(first.waiter);  // it stands there
  first.line.leave(first.waiter);
  first.line.leave(first.waiter);
  EXPECT_EQ(go(), &second);
  second.line.leave(second.waiter);
  EXPECT_EQ(lines.next(now), std::nullopt);
  EXPECT_TRUE(lines.next_deadline().is_never());
  EXPECT_TRUE(first.line.may_pass(now));
}

TEST_F(RateLinesTest, CallsThatWaitAreCountedByListener) {
  lines.line(1, 0).count_postponed();
  lines.line(1, std::nullopt).count_postponed();
  EXPECT_EQ(lines.calls_postponed(0), 0u);
  EXPECT_EQ(lines.calls_postponed(1), 2u);
}

TEST_F(RateLinesTest, SectionsOnDifferentCoresShareByTheirWeights) {
  of_listeners[0].calls->set(10'000);
  for (RateLines* core : {&lines, &other_core}) {
    core->set_weight(1, 3);
    core->reconfigure();
  }
  for (int i = 0; i < 20; ++i) {
    add(0, 0);
  }
  Client& heavy = add_on(other_core, 0, 1);
  run_both(200);
  forget();
  const Instant begun = now;
  run_both(1000);
  EXPECT_NEAR(static_cast<double>(heavy.calls), 750, 2);
  EXPECT_NEAR((now - begun).to_seconds(), 0.1, 0.01) << "nothing is left over";
}

TEST_F(RateLinesTest, ASectionOnTwoCoresHasNoMoreThanOneOnOne) {
  of_listeners[0].bytes->set(100'000'000);
  lines.reconfigure();
  other_core.reconfigure();
  add(0, 0, 1'000'000);
  add_on(other_core, 0, 0, 1'000'000);
  Client& on_one = add_on(other_core, 0, 1, 10'000);
  run_both(1010);
  EXPECT_NEAR(static_cast<double>(on_one.calls), 1000, 3);
}

// Who asks for less than his share waits for one call of the other core and no longer.
TEST_F(RateLinesTest, TheNextTurnIsTheOneWhoHasHadLeastOnAnyCore) {
  of_listeners[0].calls->set(10'000);
  lines.reconfigure();
  other_core.reconfigure();
  for (int i = 0; i < 50; ++i) {
    add(0, 0);
  }
  Client& victim = add_on(other_core, 0, 1);
  run_both(200);
  for (int i = 0; i < 20; ++i) {
    victim.line.leave(victim.waiter);
    run(7);
    EXPECT_FALSE(victim.line.may_pass(lines.next_deadline())) << "others wait, where it is not to be seen";
    victim.line.stand_in(victim.waiter);
    now = lines.next_deadline();
    EXPECT_EQ(go(), nullptr);
    EXPECT_EQ(lines.next_deadline(), now + RateLines::kGlance);
    EXPECT_EQ(go_on(other_core), &victim);
  }
}

TEST_F(RateLinesTest, ACoreThatStandsStillHoldsUpTheOthersForAMomentOnly) {
  of_listeners[0].calls->set(10'000);
  lines.reconfigure();
  other_core.reconfigure();
  Client& lively = add(0, 0);
  run(100);
  add_on(other_core, 0, 1);  // and is never asked
  const Instant begun = now;
  run(1000);
  EXPECT_EQ(lively.calls, 1100u);
  EXPECT_LE(now - begun, Duration::ms(100) + RateLines::kGiveWay + RateLines::kGlance) << "it is behind once";
}

TEST_F(RateLinesTest, ALineElsewhereWhoseSectionHasToWaitIsPassedBy) {
  of_listeners[0].calls->set(10'000);
  of_sections[1].calls->set(10);
  lines.reconfigure();
  other_core.reconfigure();
  Client& here = add(0, 0);
  Client& slow = add_on(other_core, 0, 1);
  const Instant begun = now;
  run_both(10'000);
  EXPECT_NEAR((now - begun).to_seconds(), 1, 0.02);
  EXPECT_NEAR(static_cast<double>(slow.calls), 10, 1);
  EXPECT_EQ(here.calls, 10'000 - slow.calls);
}

TEST_F(RateLinesTest, WithoutARateOfItsListenerALineGivesNoWay) {
  of_sections[0].calls->set(10);
  of_sections[1].calls->set(10'000);
  lines.reconfigure();
  other_core.reconfigure();
  add(0, 0);
  Client& quick = add_on(other_core, 0, 1);
  run_both(100);
  EXPECT_GE(quick.calls, 98u);
}

}  // namespace
}  // namespace cw::rpcrdma
