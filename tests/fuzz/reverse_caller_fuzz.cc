// Calls in reverse direction and whatever a client may send for answers: submitted, sent, answered, refused, expired, in any
// order, with XIDs that meet, pools that run dry, work requests that run out. Each submitted call has at most one outcome, and
// one that was not sent in time has it; credits and receives agree all the time; in the end nothing is in use.
//
// Input: records of [what][a][b].
#include <array>
#include <cstring>
#include <optional>

#include "base/heap_buffer_pool.h"
#include "rpcrdma/endpoint/reverse_caller.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/support/fake_queue_pair.h"

namespace cw::rpcrdma {
namespace {

constexpr size_t kInputBytesMax = 512;
constexpr uint32_t kCredits = 4;

HeapBufferPool& pool() {
  static HeapBufferPool one(24, 512, 8);
  return one;
}

class Target {
 public:
  Target() {
    options_.reverse_credits = kCredits;
    caller_.emplace(qp_, window_, pool(), stats_, options_, 1024);
  }

  void act(uint8_t what, uint8_t a, uint8_t b) {
    switch (what % 8) {
      case 0:
      case 1:
        submit(a, b);
        break;
      case 2:
      case 3:
      case 4:
        answer(what, a, b);
        break;
      case 5:
        now_ = now_ + Duration::ms(a * 20);
        if (caller_->next_deadline() <= now_) {
          caller_->on_deadline(now_);
        }
        break;
      case 6:
        qp_.finish_all_sends();
        qp_.set_shared_room(a % 4 == 0 ? UINT32_MAX : a % 4 - 1u);
        break;
      default:
        disturb(a);
        break;
    }
    if (!lost_) {
      lost_ = caller_->advance() == ReverseCaller::Progress::kFailed;
    }
    ReverseOutcome outcome;
    while (b % 2 == 0 && caller_->poll_outcome(outcome)) {
      FUZZ_CHECK(outcome.status == ReverseStatus::kReplied || outcome.message.empty());
      ++outcomes_;
      outcome.message.clear();
    }
    FUZZ_CHECK(outcomes_ <= submitted_);
    FUZZ_CHECK(caller_->credits_granted() >= 1 && caller_->credits_granted() <= kCredits);
    FUZZ_CHECK(caller_->in_flight() <= kCredits);
    FUZZ_CHECK(stats_.reverse_credits_in_use == caller_->in_flight());
    FUZZ_CHECK(qp_.in_error() || qp_.receives() + receives_used_ >= caller_->in_flight());
  }

  void end() {
    caller_.reset();
    hoard_.clear();
    while (!qp_.posted().empty()) {
      qp_.finish();
    }
    verbs::Completion completion;
    while (qp_.poll_completion(completion)) {
      completion.payload.clear();
    }
    FUZZ_CHECK(stats_.reverse_credits_granted == 0 && stats_.reverse_credits_in_use == 0);
    FUZZ_CHECK(pool().in_use() == 0);
  }

 private:
  Chain words(std::initializer_list<uint32_t> list, size_t zeros, size_t cut) {
    std::array<uint8_t, 2048> raw{};
    size_t size = 0;
    for (const uint32_t word : list) {
      store_be32(raw.data() + size, word);
      size += 4;
    }
    Chain chain;
    if (!chain.append_copy(pool(), Bytes(raw).first(std::min(size + zeros, cut)))) {
      chain.clear();
    }
    return chain;
  }
  void submit(uint8_t a, uint8_t b) {
    Chain call = words({a % 16u, (b & 0x80) != 0 ? 1u : 0u, 2, 1, 1, 1}, b * 6u, a == 0xff ? b % 16 : 2048);
    if (!call.empty() && caller_->submit(now_, std::move(call)).ok()) {
      ++submitted_;
    }
  }
  void answer(uint8_t what, uint8_t a, uint8_t b) {
    const uint32_t xid = a % 16;
    const bool error = (what & 0x40) != 0;
    const size_t cut = (what & 0x80) != 0 ? b : 2048;
    Chain message = error ? words({xid, 1u + b % 2, a, 4, 1u + b % 3, 1, 1}, 0, cut)
                          : words({xid, b == 1 ? 2u : 1u, b, b == 2 ? 1u : 0u, b == 3 ? 1u : 0u, 0, 0, b == 4 ? xid + 1 : xid,
                                   b == 5 ? 0u : 1u, 0, 0},
                                  b, cut);
    if (message.empty() || caller_->in_flight() == 0) {
      return;
    }
    const uint32_t before = caller_->in_flight();
    if (caller_->take(view_, message)) {
      FUZZ_CHECK(caller_->in_flight() == before - 1);
      ++receives_used_;
    } else {
      FUZZ_CHECK(caller_->in_flight() == before);
    }
  }
  void disturb(uint8_t a) {
    if (a < 0x80) {
      for (uint32_t i = 0; i < a % 32u; ++i) {
        if (Buffer* buffer = pool().allocate_one(); buffer != nullptr) {
          hoard_.push_back(buffer);
        }
      }
    } else if (a < 0xfe) {
      hoard_.clear();
    } else {
      qp_.break_with(verbs::WcStatus::kRetryExceeded);
    }
  }

  ServerOptions options_;
  RpcRdmaStats stats_;
  test::FakeQueuePair qp_{6};
  SendWindow window_{qp_};
  HeaderView view_;
  Instant now_ = Instant::from_ns(1'000'000'000);
  std::optional<ReverseCaller> caller_;
  Chain hoard_;
  uint64_t submitted_ = 0;
  uint64_t outcomes_ = 0;
  uint32_t receives_used_ = 0;
  bool lost_ = false;
};

}  // namespace
}  // namespace cw::rpcrdma

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > cw::rpcrdma::kInputBytesMax) {
    return 0;
  }
  cw::rpcrdma::Target target;
  for (size_t at = 0; at + 3 <= size; at += 3) {
    target.act(data[at], data[at + 1], data[at + 2]);
  }
  target.end();
  return 0;
}
