// What can be posted to a queue pair. Payload is a Chain: the queue pair owns it from post until the completion, sends from it
// without copying, and releases it when the peer has acknowledged it.
#pragma once

#include <cstdint>
#include <optional>

#include "base/buffer.h"
#include "verbs/ids.h"

namespace cw::verbs {

// SEND; with `invalidate`, SEND with Invalidate of one of the peer's rkeys; with `immediate`, SEND with Immediate (not both).
struct SendRequest {
  WorkId id;
  Chain payload;
  std::optional<Rkey> invalidate;
  std::optional<uint32_t> immediate;
  bool solicited = false;
  bool fence = false;    // wait until earlier RDMA Reads of this queue pair are complete
  bool signaled = true;  // a completion is wanted on success; errors always complete
};

// SEND of one Buffer and nothing but payload.
struct PlainSend {
  WorkId id;
  Buffer* payload = nullptr;  // unlinked
  bool signaled = true;
};

// RDMA WRITE of the whole payload to [remote_address, remote_address + payload.bytes()) under `rkey`.
struct WriteRequest {
  WorkId id;
  Chain payload;
  Rkey rkey;
  uint64_t remote_address = 0;
  std::optional<uint32_t> immediate;
  bool solicited = false;
  bool fence = false;
  bool signaled = true;
};

// RDMA READ of [remote_address, remote_address + length) under `rkey`. The data arrive as the completion's payload, in the very
// buffers they were received in. A zero length is legal and reads nothing.
struct ReadRequest {
  WorkId id;
  Rkey rkey;
  uint64_t remote_address = 0;
  uint32_t length = 0;  // bytes, up to 2^31
  bool fence = false;
};

enum class AtomicOperation : uint8_t {
  kCompareSwap,  // when the memory holds `compare`, store `operand`
  kFetchAdd,     // add `operand`, modulo 2^64
};

// An atomic operation on the eight bytes at `remote_address`, a multiple of 8, under `rkey`. Either way the completion says what
// the memory held before. Counts against the same depth as RDMA Reads.
struct AtomicRequest {
  WorkId id;
  AtomicOperation operation = AtomicOperation::kFetchAdd;
  Rkey rkey;
  uint64_t remote_address = 0;
  uint64_t operand = 0;
  uint64_t compare = 0;  // kCompareSwap only
  bool fence = false;
};
inline constexpr uint32_t kAtomicBytes = 8;

}  // namespace cw::verbs
