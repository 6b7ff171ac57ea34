// What the calls of a load are made of: the seam between LoadDriver, which decides when a call goes over which connection, and a
// program, whose calls are built and judged here.
#pragma once

#include <cstdint>
#include <vector>

#include "apps/load/call_mix.h"
#include "base/buffer.h"
#include "rpcrdma/endpoint/client_endpoint.h"

namespace cw::load {

// A place for one call in flight, with memory of its own.
struct Slot {
  uint32_t lane = 0;
  uint32_t number = 0;
  uint64_t sequence = 0;  // of the call; the same when it is sent again
  uint32_t xid = 0;
  uint32_t entry = 0;           // of the mix
  bool drawn = false;           // sequence and entry are set, but there was no room for the call yet
  Instant due;                  // from when its latency counts
  bool resend = false;          // lost with its connection: goes first on the next one, under its XID
  bool placed = false;          // a Write chunk was offered
  std::vector<uint8_t> data;    // what is sent
  std::vector<uint8_t> result;  // where results are placed
};

// A call being built. `read` and `write` are the memory that `call` points to: it does not move.
struct CallDraft {
  rpcrdma::ClientCall call;
  rpcrdma::ReadChunkSource read;
  MutableBytes write;
};

class Workload {
 public:
  virtual ~Workload() = default;
  // Once per slot, before its first call.
  virtual void prepare(Slot& slot, const CallMix& mix) = 0;
  // Fills in message and chunks, and slot.placed. The shape follows from the size, as a real client would choose: inline when
  // call or result fits the connection's threshold, else by Read and Write chunk. False: the pool is empty.
  [[nodiscard]] virtual bool build(const MixEntry& entry, const rpcrdma::InlineThresholds& thresholds, Slot& slot,
                                   CallDraft& draft) = 0;
  // The reply is a success and says what it must; `in_full`: to the last byte, else by status and length.
  [[nodiscard]] virtual bool check(const MixEntry& entry, const rpcrdma::ClientReply& reply, const Slot& slot, bool in_full) = 0;
};

// RPC-over-RDMA header: 28 bytes without chunks; one Read or Write chunk of one segment adds up to 24.
inline constexpr uint32_t kHeaderRoom = 28 + 24;

}  // namespace cw::load
