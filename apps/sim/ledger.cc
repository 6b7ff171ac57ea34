#include "apps/sim/ledger.h"

namespace cw::sim {
namespace {

constexpr uint32_t kMagic = 0x6361'7573;
constexpr uint32_t kCheck = 0x9e37'79b9;
constexpr uint64_t kXidBytes = 4;

std::string of(uint32_t attempt) {
  return "attempt " + std::to_string(attempt);
}

}  // namespace

uint32_t Ledger::begin() {
  entries_.emplace_back();
  return static_cast<uint32_t>(entries_.size() - 1);
}

void Ledger::sent(uint32_t attempt, uint32_t digest) {
  entries_[attempt].digest = digest;
  entries_[attempt].sent = true;
}

void Ledger::take_back(uint32_t attempt) {
  entries_[attempt] = Entry{};
}

void Ledger::write_tag(std::span<uint8_t, kTagBytes> out, uint32_t attempt) {
  store_be32(out.data(), kMagic);
  store_be32(out.data() + 4, attempt);
  store_be32(out.data() + 8, attempt * kCheck);
}

Ledger::Sight Ledger::look_at(const Chain& message) {
  Sight call;
  call.may_be_tagged = message.bytes() >= kTaggedHeaderBytes;
  if (call.may_be_tagged) {
    message.copy_to(kTagOffset, call.tag);
    call.digest = rpcrdma::bench_checksum(message, kXidBytes, message.bytes() - kXidBytes);
  }
  return call;
}

void Ledger::executed(const Sight& call) {
  const std::array<uint8_t, kTagBytes>& tag = call.tag;
  if (strangers_ && load_be32(tag.data()) != kMagic) {
    return;
  }
  ++executions_;
  if (!call.may_be_tagged) {
    verdict_.fail(Oracle::kPayload, "a call was executed that is shorter than any that was sent");
    return;
  }
  const uint32_t attempt = load_be32(tag.data() + 4);
  if (load_be32(tag.data()) != kMagic || load_be32(tag.data() + 8) != attempt * kCheck || attempt >= entries_.size() ||
      !entries_[attempt].sent) {
    verdict_.fail(Oracle::kPayload, "a call was executed that nobody sent");
    return;
  }
  Entry& entry = entries_[attempt];
  if (++entry.executed > 1) {
    verdict_.fail(Oracle::kExecutedOnce, of(attempt) + " was executed " + std::to_string(entry.executed) + " times");
  }
  if (call.digest != entry.digest) {
    verdict_.fail(Oracle::kPayload, of(attempt) + " was executed with other bytes than were sent");
  }
}

void Ledger::ended(uint32_t attempt, Outcome outcome) {
  Entry& entry = entries_[attempt];
  if (entry.outcome != Outcome::kNone) {
    verdict_.fail(Oracle::kAnsweredOnce, of(attempt) + " has a second outcome");
    return;
  }
  entry.outcome = outcome;
  ++outcomes_[static_cast<size_t>(outcome)];
  if (outcome == Outcome::kAnswered && entry.executed != 1) {
    verdict_.fail(Oracle::kExecutedOnce, of(attempt) + " was answered and executed " + std::to_string(entry.executed) + " times");
  }
}

void Ledger::check_end() {
  for (size_t i = 0; i < entries_.size(); ++i) {
    if (entries_[i].sent && entries_[i].outcome == Outcome::kNone) {
      verdict_.fail(Oracle::kAnsweredOnce, of(static_cast<uint32_t>(i)) + " has no outcome");
    }
  }
}

}  // namespace cw::sim
