// What answers calls: a built-in program (here) or the TCP proxy (dataplane/sockets around rpc/record_mark.h).
#pragma once

#include <cstdint>

#include "base/buffer.h"
#include "base/time.h"
#include "rpcrdma/ulb/binding.h"

namespace cw::rpcrdma {

// Where replies get their Buffers. One pool may be both.
struct ReplyPools {
  ReplyPools(BufferPool& one) : packets(one), large(one) {}  // NOLINT(google-explicit-constructor)
  ReplyPools(BufferPool& packet_pool, BufferPool& large_pool, Chain* own_message = nullptr)
      : packets(packet_pool), large(large_pool), message(own_message) {}
  // A run of so many bytes: one Buffer as short as may be, which stays with the connection until the client has it.
  [[nodiscard]] BufferPool& of(uint64_t bytes) const { return bytes <= packets.buffer_bytes() ? packets : large; }
  BufferPool& packets;  // Buffers as long as a frame
  BufferPool& large;
  // The call's message, when nobody reads it behind the program or has a view of it: its Buffer may become the reply's, and it is
  // empty then. That takes headroom (Buffer::headroom_bytes), and costs neither a Buffer nor lines that are in no cache.
  Chain* message = nullptr;
};

// An RPC program inside the gateway. call() computes and returns; it neither blocks nor keeps anything of the call. It may run on
// a poll core or on a worker, on several at once: implementations have no mutable state, or keep it per core.
class Program {
 public:
  virtual ~Program() = default;
  [[nodiscard]] virtual uint32_t program() const = 0;
  [[nodiscard]] virtual uint32_t version() const = 0;
  // Appends the whole RPC reply message to `reply` (empty on entry), in Buffers of `pools`. False when a pool is empty: the
  // caller tries again or gives the call up; `reply` is then empty.
  [[nodiscard]] virtual bool call(const CallContext& context, const Chain& message, const ReplyPools& pools, Chain& reply) = 0;
};

// Answers what no program takes: PROG_UNAVAIL, PROG_MISMATCH, RPC_MISMATCH, GARBAGE_ARGS as RFC 5531 9 says.
// dispatch() finds the program by number and version; with none it builds the error reply itself. Same result as Program::call.
class ProgramRegistry {
 public:
  static constexpr uint32_t kProgramsMax = 8;
  [[nodiscard]] bool add(Program& program);  // false when full or taken
  // nullptr: there is none, and dispatch() says so to the caller.
  [[nodiscard]] Program* find(uint32_t program, uint32_t version);
  [[nodiscard]] bool dispatch(const CallContext& context, const Chain& message, const ReplyPools& pools, Chain& reply);

 private:
  struct Entry {
    uint32_t program = 0;  // of `answers`, so that no call needs to ask it
    uint32_t version = 0;
    Program* answers = nullptr;
  };
  Entry entries_[kProgramsMax];
  uint32_t count_ = 0;
};

}  // namespace cw::rpcrdma
