#include "dataplane/outbox.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <thread>
#include <vector>

namespace cw::dataplane {
namespace {

class Mail {
 public:
  explicit Mail(uint32_t capacity) : ring("test", capacity, RingProducers::kOne), outbox(ring, wakeup) {}
  void put(uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) {
      outbox.put(next_++);
    }
  }
  uint32_t put_while_there_is_room() {
    uint32_t count = 0;
    for (; outbox.has_room(); ++count) {
      put(1);
      EXPECT_LT(outbox.waiting().size(), Outbox<uint32_t>::kBatch);
    }
    return count;
  }
  // Up to `most`, which continue where the last ones ended.
  uint32_t take(uint32_t most) {
    std::vector<uint32_t> out(most);
    const uint32_t count = ring.pop(out);
    for (uint32_t i = 0; i < count; ++i) {
      EXPECT_EQ(out[i], taken_++);
    }
    return count;
  }

  ValueRing<uint32_t> ring;
  Wakeup wakeup;
  Outbox<uint32_t> outbox;

 private:
  uint32_t next_ = 0;
  uint32_t taken_ = 0;
};

TEST(Outbox, CollectsUntilItIsTold) {
  Mail mail(63);
  mail.put(5);
  EXPECT_TRUE(mail.ring.empty());
  EXPECT_EQ(mail.outbox.waiting().size(), 5u);
  EXPECT_EQ(mail.outbox.waiting().front(), 0u);
  EXPECT_TRUE(mail.outbox.publish());
  EXPECT_TRUE(mail.outbox.waiting().empty());
  EXPECT_EQ(mail.take(63), 5u);
}

TEST(Outbox, LetsAFullBatchGoAtOnce) {
  Mail mail(63);
  mail.put(Outbox<uint32_t>::kBatch);
  EXPECT_TRUE(mail.outbox.waiting().empty());
  mail.put(1);
  EXPECT_EQ(mail.take(63), Outbox<uint32_t>::kBatch);
}

// To the last place of the ring, with values in hand and without.
TEST(Outbox, HasRoomForWhatTheRingCanTakeAndNoMore) {
  for (const uint32_t capacity : {1u, 7u, 31u, 63u, 127u}) {
    Mail mail(capacity);
    EXPECT_EQ(mail.put_while_there_is_room(), capacity);
    EXPECT_TRUE(mail.outbox.publish());
    EXPECT_FALSE(mail.outbox.has_room());
    for (uint32_t freed = 1; freed <= capacity; freed += 3) {
      EXPECT_EQ(mail.take(freed), freed);
      EXPECT_EQ(mail.put_while_there_is_room(), freed);
      EXPECT_TRUE(mail.outbox.publish());
    }
    EXPECT_EQ(mail.take(capacity + 1), capacity);
  }
}

TEST(Outbox, KeepsWhatTheRingCannotTakeBeforeWhatIsNewer) {
  Mail mail(7);
  mail.put(10);
  EXPECT_FALSE(mail.outbox.publish());
  EXPECT_EQ(mail.outbox.waiting().size(), 3u);
  EXPECT_FALSE(mail.outbox.publish());
  mail.put(50);
  EXPECT_EQ(mail.outbox.waiting().size(), 53u);
  EXPECT_EQ(mail.take(2), 2u);
  EXPECT_FALSE(mail.outbox.publish());
  EXPECT_EQ(mail.outbox.waiting().size(), 51u);
  uint32_t taken = 2;
  while (!mail.outbox.publish()) {
    taken += mail.take(7);
  }
  taken += mail.take(7);
  EXPECT_EQ(taken, 60u);
}

TEST(Outbox, WakesASleeperOncePerBurst) {
  Mail mail(7);
  const auto times_woken = [&mail] {
    uint64_t count = 0;
    return read(mail.wakeup.fd(), &count, sizeof(count)) == sizeof(count) ? count : 0;
  };
  mail.wakeup.prepare();
  mail.put(3);
  EXPECT_EQ(times_woken(), 0u);
  EXPECT_TRUE(mail.outbox.publish());
  EXPECT_EQ(times_woken(), 1u);
  EXPECT_TRUE(mail.outbox.publish());  // nothing
  EXPECT_EQ(times_woken(), 0u);
  mail.put(5);
  EXPECT_FALSE(mail.outbox.publish());
  EXPECT_EQ(times_woken(), 1u);
  EXPECT_FALSE(mail.outbox.publish());  // no room: who is asleep has been woken for what is there
  EXPECT_EQ(times_woken(), 0u);
  mail.wakeup.awake(true);
}

// One side promises room and the other drains; both at full speed.
TEST(Outbox, KeepsItsPromiseBetweenTwoThreads) {
  constexpr uint32_t kValues = 200'000;
  Mail mail(63);
  std::thread sender([&] {
    for (uint32_t sent = 0; sent < kValues;) {
      const uint32_t burst = 1 + sent % 40;
      for (uint32_t i = 0; i < burst && sent < kValues && mail.outbox.has_room(); ++i) {
        mail.put(1);
        ++sent;
      }
      if (!mail.outbox.publish()) {
        ADD_FAILURE() << "no room at " << sent;
        return;
      }
      if (!mail.outbox.has_room()) {
        std::this_thread::yield();
      }
    }
  });
  for (uint32_t taken = 0; taken < kValues;) {
    const uint32_t count = mail.take(17);
    taken += count;
    if (count == 0) {
      std::this_thread::yield();
    }
  }
  sender.join();
}

}  // namespace
}  // namespace cw::dataplane
