// A queue pair without a transport, for tests above verbs/. Alone it records what is posted and lets the test decide how each
// work request ends; two of them in a FakeLink are a loopback connection.
//
// Its rules are those of verbs::QueuePair: work ends in the order posted, unsignaled work that goes well is silent, errors always
// complete and flush the rest.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <deque>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "base/buffer.h"
#include "tests/support/alloc_guard.h"
#include "verbs/memory_region.h"
#include "verbs/queue_pair.h"

namespace cw::test {

enum class WorkKind : uint8_t { kSend, kWrite, kRead, kCompareSwap, kFetchAdd };

struct PostedWork {
  WorkKind kind = WorkKind::kSend;
  verbs::WorkId id;
  Chain payload;
  verbs::Rkey rkey;                       // Write, Read, atomics
  uint64_t remote_address = 0;            // Write, Read, atomics
  uint32_t length = 0;                    // Read
  std::optional<verbs::Rkey> invalidate;  // Send
  bool signaled = true;
  uint64_t operand = 0;   // atomics
  uint64_t compare = 0;   // CompareSwap
  uint32_t receives = 0;  // posted at that moment
};

class FakeQueuePair final : public verbs::QueuePair {
 public:
  explicit FakeQueuePair(uint32_t send_queue_depth = 128) : depth_(send_queue_depth) {}

  [[nodiscard]] Status post_send(verbs::SendRequest&& request) override {
    return post({.kind = WorkKind::kSend,
                 .id = request.id,
                 .payload = {},
                 .invalidate = request.invalidate,
                 .signaled = request.signaled},
                request.payload);
  }
  [[nodiscard]] Status post_write(verbs::WriteRequest&& request) override {
    return post({.kind = WorkKind::kWrite,
                 .id = request.id,
                 .payload = {},
                 .rkey = request.rkey,
                 .remote_address = request.remote_address,
                 .signaled = request.signaled},
                request.payload);
  }
  [[nodiscard]] Status post_read(verbs::ReadRequest&& request) override {
    Chain none;
    return post({.kind = WorkKind::kRead,
                 .id = request.id,
                 .payload = {},
                 .rkey = request.rkey,
                 .remote_address = request.remote_address,
                 .length = request.length},
                none);
  }
  [[nodiscard]] Status post_atomic(const verbs::AtomicRequest& request) override {
    Chain none;
    const bool compares = request.operation == verbs::AtomicOperation::kCompareSwap;
    return post({.kind = compares ? WorkKind::kCompareSwap : WorkKind::kFetchAdd,
                 .id = request.id,
                 .payload = {},
                 .rkey = request.rkey,
                 .remote_address = request.remote_address,
                 .length = verbs::kAtomicBytes,
                 .operand = request.operand,
                 .compare = request.compare},
                none);
  }
  void post_receives(uint32_t count) override { receives_ += count; }
  [[nodiscard]] bool poll_completion(verbs::Completion& out) override {
    const PauseCounting pause;
    if (completions_.empty()) {
      return false;
    }
    out = std::move(completions_.front());
    completions_.pop_front();
    return true;
  }
  [[nodiscard]] uint32_t poll_messages(std::span<verbs::ReceivedMessage> out) override {
    const PauseCounting pause;
    uint32_t count = 0;
    for (; count < out.size() && !completions_.empty(); ++count) {
      verbs::Completion& first = completions_.front();
      if (first.opcode != verbs::WcOpcode::kReceive || first.status != verbs::WcStatus::kSuccess || first.invalidated ||
          first.payload.buffer_count() != 1) {
        break;
      }
      out[count] = {.payload = first.payload.detach(), .begun = first.begun};
      completions_.pop_front();
    }
    return count;
  }
  [[nodiscard]] uint32_t send_queue_room() const override {
    return in_error_ ? 0 : std::min(depth_ - works_pending(), shared_room_);
  }
  [[nodiscard]] uint32_t works_pending() const override { return static_cast<uint32_t>(posted_.size()); }
  [[nodiscard]] bool in_error() const override { return in_error_; }
  void close() override { break_with(verbs::WcStatus::kWorkRequestFlushed); }

  // What is posted and has not ended, oldest first.
  [[nodiscard]] std::deque<PostedWork>& posted() { return posted_; }
  [[nodiscard]] uint32_t receives() const { return receives_; }
  // Work requests that memory shared with other queue pairs still holds; each post takes one.
  void set_shared_room(uint32_t works) { shared_room_ = works; }
  [[nodiscard]] bool has_completions() const { return !completions_.empty(); }
  // Kinds of everything that was ever posted, in order.
  [[nodiscard]] const std::vector<WorkKind>& history() const { return history_; }

  // A message of the peer arrives, its first packet at `begun`. False when no receive is posted for it.
  [[nodiscard]] bool deliver(Chain&& message, std::optional<verbs::Rkey> invalidated = std::nullopt,
                             Instant begun = Instant::never()) {
    if (receives_ == 0 || in_error_) {
      return false;
    }
    --receives_;
    verbs::Completion completion{.opcode = verbs::WcOpcode::kReceive, .bytes = static_cast<uint32_t>(message.bytes())};
    completion.payload = std::move(message);
    completion.begun = begun;
    completion.invalidated = invalidated;
    completions_.push_back(std::move(completion));
    return true;
  }
  // Any completion at all.
  void complete_with(verbs::Completion&& completion) { completions_.push_back(std::move(completion)); }
  // The oldest work ends well; `data` is what a Read brought, `original` what an atomic found.
  void finish(Chain&& data = Chain(), uint64_t original = 0) {
    CW_ASSERT(!posted_.empty());
    PostedWork work = std::move(posted_.front());
    posted_.pop_front();
    if (!work.signaled) {
      return;
    }
    verbs::Completion completion = completion_of(work, verbs::WcStatus::kSuccess);
    completion.bytes = work.length > 0 ? work.length : static_cast<uint32_t>(work.payload.bytes());
    completion.original = original;
    completion.payload = std::move(data);
    completions_.push_back(std::move(completion));
  }
  void finish_all_sends() {
    while (!posted_.empty() && posted_.front().kind != WorkKind::kRead) {
      finish();
    }
  }
  // The oldest work ends with `status`, everything behind it is flushed, the queue pair is in Error.
  void break_with(verbs::WcStatus status) {
    for (bool first = true; !posted_.empty(); first = false) {
      completions_.push_back(completion_of(posted_.front(), first ? status : verbs::WcStatus::kWorkRequestFlushed));
      posted_.pop_front();
    }
    if (!in_error_ && receives_ > 0) {
      completions_.push_back(
          {.status = verbs::WcStatus::kWorkRequestFlushed, .opcode = verbs::WcOpcode::kReceive, .payload = {}});
    }
    in_error_ = true;
    receives_ = 0;
  }

 private:
  static verbs::Completion completion_of(const PostedWork& work, verbs::WcStatus status) {
    constexpr verbs::WcOpcode kOpcodes[] = {verbs::WcOpcode::kSend, verbs::WcOpcode::kRdmaWrite, verbs::WcOpcode::kRdmaRead,
                                            verbs::WcOpcode::kCompareSwap, verbs::WcOpcode::kFetchAdd};
    return {.id = work.id, .status = status, .opcode = kOpcodes[static_cast<size_t>(work.kind)], .payload = {}};
  }
  Status post(PostedWork&& work, Chain& payload) {
    const PauseCounting pause;
    if (in_error_) {
      return fail(Error::kBadState);
    }
    if (send_queue_room() == 0) {
      return fail(Error::kNoResources);
    }
    shared_room_ -= shared_room_ == UINT32_MAX ? 0 : 1;
    work.payload = std::move(payload);
    work.receives = receives_;
    history_.push_back(work.kind);
    posted_.push_back(std::move(work));
    return {};
  }

  std::deque<PostedWork> posted_;
  std::deque<verbs::Completion> completions_;
  std::vector<WorkKind> history_;
  uint32_t depth_;
  uint32_t shared_room_ = UINT32_MAX;
  uint32_t receives_ = 0;
  bool in_error_ = false;
};

// One end of a FakeLink: the queue pair, the memory that it shows to the other end and how it takes messages.
struct FakeEnd {
  FakeQueuePair& qp;
  verbs::MemoryTable* memory = nullptr;  // null: shows nothing
  verbs::ProtectionDomain domain;
  BufferPool* pool = nullptr;     // packet buffers
  uint32_t mtu = 1024;            // bytes per packet buffer
  uint32_t receive_bytes = 1024;  // longest message
};

// A reliable connection between two fake queue pairs. Nothing happens but by step(): the order in which a test steps the ends is
// the timing.
class FakeLink {
 public:
  FakeLink(FakeEnd a, FakeEnd b) : ends_{a, b} {}

  struct Stats {
    uint64_t receiver_not_ready = 0;  // a Send met no receive: credits were broken
    uint64_t access_errors = 0;       // a key, address or right did not hold
    uint64_t length_errors = 0;       // a message was longer than the receive
    // RPC-over-RDMA messages that each end has sent, by rdma_proc (5 stands for all others), and those of a version other than 1.
    std::array<std::array<uint64_t, 6>, 2> procedures{};
    uint64_t other_versions = 0;
    uint64_t longest_send = 0;
  };
  [[nodiscard]] const Stats& stats() const { return stats_; }

  // Carries out the oldest work of end `from`. False when there is none, or no packet buffer for it.
  [[nodiscard]] bool step(uint32_t from) {
    FakeEnd& local = ends_[from];
    FakeEnd& remote = ends_[1 - from];
    if (local.qp.posted().empty() || local.qp.in_error()) {
      return false;
    }
    if (remote.qp.in_error()) {
      local.qp.break_with(verbs::WcStatus::kRetryExceeded);
      return true;
    }
    switch (local.qp.posted().front().kind) {
      case WorkKind::kSend:
        return send(local, remote);
      case WorkKind::kWrite:
        return write(local, remote);
      case WorkKind::kRead:
        return read(local, remote);
      case WorkKind::kCompareSwap:
      case WorkKind::kFetchAdd:
        return atomic(local, remote);
    }
    return false;
  }
  // Both ends lose each other.
  void cut() {
    ends_[0].qp.break_with(verbs::WcStatus::kRetryExceeded);
    ends_[1].qp.break_with(verbs::WcStatus::kRetryExceeded);
  }

 private:
  bool send(FakeEnd& local, FakeEnd& remote) {
    PostedWork& work = local.qp.posted().front();
    if (remote.qp.receives() == 0) {
      ++stats_.receiver_not_ready;
      refuse(local, remote, verbs::WcStatus::kRnrRetryExceeded);
      return true;
    }
    if (work.payload.bytes() > remote.receive_bytes) {
      ++stats_.length_errors;
      refuse(local, remote, verbs::WcStatus::kRemoteInvalidRequest);
      return true;
    }
    if (work.invalidate && (remote.memory == nullptr || !remote.memory->invalidate(remote.domain, *work.invalidate))) {
      ++stats_.access_errors;
      refuse(local, remote, verbs::WcStatus::kRemoteAccessError);
      return true;
    }
    note_header(local, work.payload);
    Chain message;
    if (!packets(work.payload, *remote.pool, remote.mtu, message)) {
      return false;
    }
    CW_ASSERT(remote.qp.deliver(std::move(message), work.invalidate));
    local.qp.finish();
    return true;
  }
  void note_header(const FakeEnd& local, const Chain& message) {
    uint8_t words[16] = {};
    if (message.bytes() < sizeof(words)) {
      return;
    }
    message.copy_to(0, words);
    const size_t end = &local == &ends_[0] ? 0 : 1;
    ++stats_.procedures[end][std::min<uint32_t>(load_be32(words + 12), 5)];
    stats_.other_versions += load_be32(words + 4) == 1 ? 0 : 1;
    stats_.longest_send = std::max(stats_.longest_send, message.bytes());
  }
  bool write(FakeEnd& local, FakeEnd& remote) {
    PostedWork& work = local.qp.posted().front();
    const auto target = resolve(remote, work.rkey, work.remote_address, work.payload.bytes(), verbs::RemoteAccess::kWrite);
    if (!target.ok()) {
      ++stats_.access_errors;
      refuse(local, remote, verbs::WcStatus::kRemoteAccessError);
      return true;
    }
    work.payload.copy_to(0, *target);
    local.qp.finish();
    return true;
  }
  bool read(FakeEnd& local, FakeEnd& remote) {
    const PostedWork& work = local.qp.posted().front();
    const auto source = resolve(remote, work.rkey, work.remote_address, work.length, verbs::RemoteAccess::kRead);
    if (!source.ok()) {
      ++stats_.access_errors;
      refuse(local, remote, verbs::WcStatus::kRemoteAccessError);
      return true;
    }
    Chain data;
    if (!packets(*source, *local.pool, local.mtu, data)) {
      return false;
    }
    local.qp.finish(std::move(data));
    return true;
  }
  bool atomic(FakeEnd& local, FakeEnd& remote) {
    const PostedWork& work = local.qp.posted().front();
    const auto target = resolve(remote, work.rkey, work.remote_address, verbs::kAtomicBytes, verbs::RemoteAccess::kAtomic);
    if (!target.ok()) {
      ++stats_.access_errors;
      refuse(local, remote, verbs::WcStatus::kRemoteAccessError);
      return true;
    }
    uint64_t original = 0;
    std::memcpy(&original, target->data(), sizeof(original));
    const bool compares = work.kind == WorkKind::kCompareSwap;
    if (!compares || original == work.compare) {
      const uint64_t changed = compares ? work.operand : original + work.operand;
      std::memcpy(target->data(), &changed, sizeof(changed));
    }
    local.qp.finish(Chain(), original);
    return true;
  }

  static Result<MutableBytes, verbs::MemoryFault> resolve(const FakeEnd& end, verbs::Rkey key, uint64_t address, uint64_t length,
                                                          verbs::RemoteAccess access) {
    if (end.memory == nullptr) {
      return fail(verbs::MemoryFault::kUnknownKey);
    }
    return end.memory->resolve(end.domain, key, address, length, access);
  }
  // A NAK: the initiator's work fails, both queue pairs end up in Error.
  static void refuse(FakeEnd& local, FakeEnd& remote, verbs::WcStatus status) {
    local.qp.break_with(status);
    remote.qp.break_with(verbs::WcStatus::kWorkRequestFlushed);
  }
  static bool packets(Bytes bytes, BufferPool& pool, uint32_t mtu, Chain& out) {
    const size_t per_buffer = std::min(mtu, pool.buffer_bytes());
    while (!bytes.empty()) {
      Buffer* buffer = pool.allocate_one();
      if (buffer == nullptr) {
        out.clear();
        return false;
      }
      bytes = bytes.subspan(buffer->append(bytes.first(std::min(per_buffer, bytes.size()))));
      out.push_back(buffer);
    }
    return true;
  }
  static bool packets(const Chain& chain, BufferPool& pool, uint32_t mtu, Chain& out) {
    std::vector<uint8_t> raw(chain.bytes());
    chain.copy_to(0, raw);
    return packets(Bytes(raw), pool, mtu, out);
  }

  FakeEnd ends_[2];
  Stats stats_;
};

}  // namespace cw::test
