#include "tests/peers/perftest_traffic.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "tests/peers/perftest_wire.h"

namespace cw::peers {
namespace {

constexpr uint64_t kAtomicWords = 16;                // gone round by our own atomics, within perftest's cycle buffer
constexpr uint64_t kBytesInFlightMax = 32ull << 20;  // shared payload takes a view per buffer

class Requester final : public PerftestTraffic {
 public:
  Requester(const PerftestOptions& options, uint64_t bytes, std::span<PerftestLane> lanes, const PatternSource& source)
      : options_(options), bytes_(bytes), lanes_(lanes), source_(source) {
    const uint64_t affordable = kBytesInFlightMax / std::max<uint64_t>(1, bytes * lanes.size());
    depth_ = is_latency(options.operation) ? 1 : std::clamp<uint64_t>(affordable, 1, options.depth);
  }

  bool advance() override {
    bool complete = true;
    for (PerftestLane& lane : lanes_) {
      collect(lane);
      while (failure().empty() && lane.posted < options_.iterations && lane.posted - lane.completed < depth_ &&
             has_credit(lane)) {
        if (!post(lane)) {
          break;
        }
      }
      complete = complete && lane.completed == options_.iterations;
    }
    return complete;
  }

 private:
  void collect(PerftestLane& lane) {
    verbs::Completion done;
    while (failure().empty() && lane.qp->poll_completion(done)) {
      if (!is_good(done)) {
        return;
      }
      if (is_read(options_.operation)) {
        check_read(done);
      } else if (is_atomic(options_.operation)) {
        check_atomic(lane, done);
      }
      ++lane.completed;
    }
  }

  void check_read(const verbs::Completion& done) {
    if (done.payload.bytes() != bytes_) {
      fail("a READ of " + std::to_string(bytes_) + " bytes brought " + std::to_string(done.payload.bytes()));
    } else if (options_.verify && !is_pattern(done.payload)) {
      fail("a READ brought other bytes than the server's memory has");
    }
  }

  // Our words are counters that nobody else touches: what each held before says how often it was added to.
  void check_atomic(const PerftestLane& lane, const verbs::Completion& done) {
    if (options_.verify && done.original != lane.completed / kAtomicWords) {
      fail("fetch-and-add number " + std::to_string(lane.completed) + " found " + std::to_string(done.original));
    }
  }

  // The other side's receives are as many as it has said, and those that it began with.
  [[nodiscard]] bool has_credit(const PerftestLane& lane) const {
    if (!options_.uses_credits()) {
      return true;
    }
    uint32_t taken = 0;
    std::memcpy(&taken, lane.memory.data(), sizeof taken);
    return static_cast<uint32_t>(lane.posted) + 1 - taken < options_.receive_depth();
  }

  [[nodiscard]] bool post(PerftestLane& lane) {
    const bool posted = is_send(options_.operation)    ? send(lane)
                        : is_write(options_.operation) ? write(lane)
                        : is_read(options_.operation)  ? read(lane)
                                                       : add(lane);
    lane.posted += posted ? 1 : 0;
    return posted;
  }
  [[nodiscard]] bool send(PerftestLane& lane) {
    verbs::SendRequest request;
    return source_.share(bytes_, request.payload) && was_taken(lane.qp->post_send(std::move(request)));
  }
  [[nodiscard]] bool write(PerftestLane& lane) {
    verbs::WriteRequest request;
    request.rkey = lane.remote_key;
    request.remote_address = lane.remote_address;
    return source_.share(bytes_, request.payload) && was_taken(lane.qp->post_write(std::move(request)));
  }
  [[nodiscard]] bool read(PerftestLane& lane) {
    verbs::ReadRequest request;
    request.rkey = lane.remote_key;
    request.remote_address = lane.remote_address;
    request.length = static_cast<uint32_t>(bytes_);
    // NOLINTNEXTLINE(performance-move-const-arg): what is posted is given away, of whatever it consists
    return was_taken(lane.qp->post_read(std::move(request)));
  }

  [[nodiscard]] bool add(PerftestLane& lane) {
    verbs::AtomicRequest request;
    request.operation = verbs::AtomicOperation::kFetchAdd;
    request.rkey = lane.remote_key;
    request.remote_address = lane.remote_address + lane.posted % kAtomicWords * verbs::kAtomicBytes;
    request.operand = 1;
    return was_taken(lane.qp->post_atomic(request));
  }

  const PerftestOptions& options_;
  uint64_t bytes_;
  std::span<PerftestLane> lanes_;
  const PatternSource& source_;
  uint64_t depth_ = 1;
};

// Takes messages: the server of send_bw, and half of send_lat.
class Receiver {
 public:
  Receiver(const PerftestOptions& options, uint64_t bytes) : options_(options), bytes_(bytes) {}

  // Receives for the whole run are posted in the course of it, and no more: the next size has its own.
  void post(PerftestLane& lane) const {
    const uint64_t goal = std::min(options_.iterations, lane.received + options_.receive_depth());
    if (goal > lane.receives_posted) {
      lane.qp->post_receives(static_cast<uint32_t>(goal - lane.receives_posted));
      lane.receives_posted = goal;
    }
  }
  // Empty when the message is what it has to be.
  [[nodiscard]] std::string take(PerftestLane& lane, const verbs::Completion& done) const {
    ++lane.received;
    post(lane);
    if (done.payload.bytes() != bytes_) {
      return "a message of " + std::to_string(done.payload.bytes()) + " bytes instead of " + std::to_string(bytes_);
    }
    return options_.verify && !is_pattern(done.payload) ? "a message arrived changed" : "";
  }

 private:
  const PerftestOptions& options_;
  uint64_t bytes_;
};

class SendSink final : public PerftestTraffic {
 public:
  SendSink(const PerftestOptions& options, uint64_t bytes, std::span<PerftestLane> lanes, BufferPool& pool)
      : options_(options), lanes_(lanes), receiver_(options, bytes), pool_(pool) {}
  void prepare() override {
    for (PerftestLane& lane : lanes_) {
      receiver_.post(lane);
    }
  }
  bool advance() override {
    bool complete = true;
    for (PerftestLane& lane : lanes_) {
      verbs::Completion done;
      while (failure().empty() && lane.qp->poll_completion(done)) {
        if (!is_good(done)) {
          return false;
        }
        if (done.opcode == verbs::WcOpcode::kReceive) {
          fail(receiver_.take(lane, done));
          lane.credit_due = lane.credit_due || is_credit_due(lane);
        } else {
          ++lane.completed;
        }
      }
      if (failure().empty() && lane.credit_due && grant(lane)) {
        lane.credit_due = false;
        ++lane.posted;
      }
      complete = complete && lane.received == options_.iterations && !lane.credit_due && lane.completed == lane.posted;
    }
    return complete;
  }

 private:
  // As perftest counts it: in each round of its receives after every third part of them.
  [[nodiscard]] bool is_credit_due(const PerftestLane& lane) const {
    const uint64_t depth = options_.receive_depth();
    return options_.uses_credits() && lane.received % depth % std::max<uint64_t>(1, depth / 3) == 0;
  }
  [[nodiscard]] bool grant(PerftestLane& lane) {
    const auto taken = static_cast<uint32_t>(lane.received);
    std::array<uint8_t, kPerftestCreditBytes> raw{};
    std::memcpy(raw.data(), &taken, raw.size());
    verbs::WriteRequest request;
    request.rkey = lane.remote_key;
    request.remote_address = lane.remote_address;
    return request.payload.append_copy(pool_, raw) && was_taken(lane.qp->post_write(std::move(request)));
  }

  const PerftestOptions& options_;
  std::span<PerftestLane> lanes_;
  Receiver receiver_;
  BufferPool& pool_;
};

// Latency tests, one queue pair: each side sends its n-th message when it has seen the other's (n-th, or n-1st for who begins).
class PingPong : public PerftestTraffic {
 public:
  [[nodiscard]] bool is_complete_but_for_acknowledgement() const override {
    return lane_.posted == options_.iterations && lane_.received == options_.iterations;
  }

 protected:
  PingPong(const PerftestOptions& options, uint64_t bytes, PerftestLane& lane, const PatternSource& source, bool begins)
      : options_(options), bytes_(bytes), lane_(lane), source_(source), begins_(begins) {}
  [[nodiscard]] bool is_our_turn() const {
    return lane_.posted < options_.iterations && (begins_ ? lane_.posted <= lane_.received : lane_.posted < lane_.received) &&
           lane_.completed == lane_.posted;
  }
  [[nodiscard]] bool is_complete() const {
    return is_complete_but_for_acknowledgement() && lane_.completed == options_.iterations;
  }

  const PerftestOptions& options_;
  uint64_t bytes_;
  PerftestLane& lane_;
  const PatternSource& source_;
  bool begins_;
};

class SendPingPong final : public PingPong {
 public:
  SendPingPong(const PerftestOptions& options, uint64_t bytes, PerftestLane& lane, const PatternSource& source)
      : PingPong(options, bytes, lane, source, options.role == PerftestRole::kClient), receiver_(options, bytes) {}
  void prepare() override { receiver_.post(lane_); }
  bool advance() override {
    verbs::Completion done;
    while (failure().empty() && lane_.qp->poll_completion(done)) {
      if (!is_good(done)) {
        return false;
      }
      if (done.opcode == verbs::WcOpcode::kReceive) {
        fail(receiver_.take(lane_, done));
      } else {
        ++lane_.completed;
      }
    }
    if (failure().empty() && is_our_turn()) {
      verbs::SendRequest request;
      if (source_.share(bytes_, request.payload) && was_taken(lane_.qp->post_send(std::move(request)))) {
        ++lane_.posted;
      }
    }
    return is_complete();
  }

 private:
  Receiver receiver_;
};

class WritePingPong final : public PingPong {
 public:
  WritePingPong(const PerftestOptions& options, uint64_t bytes, PerftestLane& lane, const PatternSource& source, BufferPool& pool)
      : PingPong(options, bytes, lane, source, options.role == PerftestRole::kServer), pool_(pool) {}
  bool advance() override {
    verbs::Completion done;
    while (failure().empty() && lane_.qp->poll_completion(done)) {
      lane_.completed += is_good(done) ? 1 : 0;
    }
    if (failure().empty() && lane_.received < options_.iterations && may_look() &&
        lane_.memory[bytes_ - 1] == static_cast<uint8_t>(lane_.received + 1)) {
      ++lane_.received;
      if (options_.verify && !is_pattern(lane_.memory.first(bytes_ - 1), 0)) {
        fail("a WRITE whose last byte is there has other bytes in front of it");
      }
    }
    if (failure().empty() && is_our_turn() && post()) {
      ++lane_.posted;
    }
    return is_complete();
  }

 private:
  // The byte of the other side's next message cannot be there before ours has gone out.
  [[nodiscard]] bool may_look() const { return begins_ ? lane_.received < lane_.posted : lane_.received == lane_.posted; }
  [[nodiscard]] bool post() {
    verbs::WriteRequest request;
    const uint8_t last = static_cast<uint8_t>(lane_.posted + 1);
    if (!source_.share(bytes_ - 1, request.payload) || !request.payload.append_copy(pool_, Bytes(&last, 1))) {
      return false;
    }
    request.rkey = lane_.remote_key;
    request.remote_address = lane_.remote_address;
    return was_taken(lane_.qp->post_write(std::move(request)));
  }
  BufferPool& pool_;
};

}  // namespace

bool PerftestTraffic::is_good(const verbs::Completion& done) {
  if (done.status == verbs::WcStatus::kSuccess) {
    return true;
  }
  fail(std::string(to_string(done.opcode)) + " completed with " + to_string(done.status));
  return false;
}

bool PerftestTraffic::was_taken(const Status& posted) {
  if (!posted.ok() && posted.error() != Error::kNoResources) {
    fail(std::string("a post was refused: ") + to_string(posted.error()));
  }
  return posted.ok();
}

std::unique_ptr<PerftestTraffic> make_perftest_traffic(const PerftestOptions& options, uint64_t message_bytes,
                                                       std::span<PerftestLane> lanes, const PatternSource& source,
                                                       BufferPool& pool) {
  for (PerftestLane& lane : lanes) {
    lane.posted = lane.completed = lane.received = lane.receives_posted = 0;
    lane.credit_due = false;
    if (options.uses_credits()) {
      std::ranges::fill(lane.memory, uint8_t{0});
    }
  }
  switch (options.operation) {
    case PerftestOperation::kSendLat:
      return std::make_unique<SendPingPong>(options, message_bytes, lanes.front(), source);
    case PerftestOperation::kWriteLat:
      return std::make_unique<WritePingPong>(options, message_bytes, lanes.front(), source, pool);
    case PerftestOperation::kSendBw:
      if (options.role == PerftestRole::kServer) {
        return std::make_unique<SendSink>(options, message_bytes, lanes, pool);
      }
      break;
    default:
      break;
  }
  return std::make_unique<Requester>(options, message_bytes, lanes, source);
}

}  // namespace cw::peers
