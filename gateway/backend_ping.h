// One NULL call to a backend over the way that clients' calls go: poll core, worker, socket, backend and back, timed by stage. It
// has a backend connection of its own, which no client shares. Sans-I/O: requests out, events in.
#pragma once

#include <array>
#include <cstdint>

#include "base/buffer.h"
#include "base/time.h"
#include "gateway/backend_link.h"

namespace cw::gateway {

struct PingOrder {
  uint32_t backend = 0;
  uint32_t server = 0;  // of the backend's
  bool builtin = false;
  uint32_t program = 0;
  uint32_t version = 0;
  Duration timeout = Duration::seconds(3);
};

// A NULL call without credentials, as XDR.
inline constexpr uint32_t kNullCallBytes = 40;
[[nodiscard]] std::array<uint8_t, kNullCallBytes> null_call(uint32_t xid, uint32_t program, uint32_t version);

enum class PingOutcome : uint8_t {
  kSuccess,
  kProgramUnavailable,  // a reply, and so a living server, which does not know the program
  kVersionMismatch,     // likewise
  kRefusedCall,         // likewise: another error, or denied
  kNotReached,          // no connection
  kClosed,              // the backend closed the connection in place of a reply
  kNoReply,             // within the time
  kNonsense,            // what came is no reply to the call
  kNoMemory,
};
[[nodiscard]] const char* to_string(PingOutcome outcome) noexcept;
// Something that speaks RPC answered.
[[nodiscard]] constexpr bool is_alive(PingOutcome outcome) {
  return outcome <= PingOutcome::kRefusedCall;
}

struct PingResult {
  PingOutcome outcome = PingOutcome::kNoReply;
  Duration connect;  // to the worker, a connection made, and back; 0 for built-in programs
  Duration call;     // to the worker, the backend's answer, and back
};

class BackendPing {
 public:
  // `core`: this core's index, since events come back by it. `pool` serves the call and outlives the ping.
  BackendPing(uint32_t core, BufferPool& pool) : core_(core), pool_(pool) {}

  // Not while one is under way.
  void start(Instant now, const PingOrder& order);
  [[nodiscard]] bool is_under_way() const { return state_ != State::kIdle; }
  // Towards the workers; false when there is nothing.
  [[nodiscard]] bool poll_request(BackendRequest& out);
  // Whether an event is an answer to some ping, this one or one before.
  [[nodiscard]] static bool owns(LinkId link) { return (link.value() & kSlot) == kSlot; }
  void on_event(Instant now, BackendEvent&& event);
  void on_deadline(Instant now);
  // Takes the result, once.
  [[nodiscard]] bool poll_result(PingResult& out);

 private:
  enum class State : uint8_t { kIdle, kConnecting, kCalling };
  static constexpr uint32_t kSlot = (1u << kLinkSlotBits) - 1;  // of no connection

  void call(Instant now);
  void end(PingOutcome outcome);
  [[nodiscard]] PingOutcome judge(const Chain& reply) const;

  uint32_t core_;
  BufferPool& pool_;
  State state_ = State::kIdle;
  PingOrder order_;
  PingResult result_;
  bool has_result_ = false;
  bool has_request_ = false;
  bool closes_ = false;  // a connection is to be closed, behind the request
  BackendRequest request_;
  LinkId link_;
  uint32_t generation_ = 0;
  Instant since_;  // of the stage
  Instant deadline_;
};

}  // namespace cw::gateway
