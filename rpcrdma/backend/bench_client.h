// The other side of the bench program: builds its calls and judges its replies. For causeway-load and the tests.
//
// A call with data is built whole (inline, or for a Position-Zero chunk) or reduced: then the message ends behind the length word
// and the data is to be offered as a Read chunk at `position`. A reply is judged wherever its parts are: inline, in the Reply
// chunk, its data in a Write chunk or not.
#pragma once

#include <cstdint>

#include "base/buffer.h"
#include "rpcrdma/backend/bench_program.h"
#include "rpcrdma/rpc/rpc_message.h"

namespace cw::rpcrdma {

// Bytes of a call header with AUTH_NONE: xid, CALL, rpcvers, prog, vers, proc, credential and verifier of 8 each.
inline constexpr uint32_t kBenchCallHeaderBytes = 40;
// Where the data of ECHO and SINK stand in the call stream: the Position of their Read chunk.
inline constexpr uint32_t kBenchEchoPosition = kBenchCallHeaderBytes + 4;
inline constexpr uint32_t kBenchSinkPosition = kBenchCallHeaderBytes + 8;
// Bytes of a reply without its data: what is still inline when the data went into a Write chunk.
inline constexpr uint32_t kBenchEchoReplyBytes = kAcceptedReplyBytes + 4;
inline constexpr uint32_t kBenchSourceReplyBytes = kAcceptedReplyBytes + 12;
inline constexpr uint32_t kBenchSinkReplyBytes = kAcceptedReplyBytes + 8;

enum class BenchData : bool { kReduced, kInStream };

// Append the call to `message` (empty on entry). The XID word is 0: ClientEndpoint sets it. False, and `message` empty, when the
// pool is.
[[nodiscard]] bool build_bench_null(BufferPool& pool, Chain& message);
[[nodiscard]] bool build_bench_echo(BufferPool& pool, Bytes data, BenchData where, Chain& message);
[[nodiscard]] bool build_bench_source(BufferPool& pool, uint32_t bytes, uint64_t seed, Chain& message);
[[nodiscard]] bool build_bench_sink(BufferPool& pool, Bytes data, BenchData where, Chain& message);
[[nodiscard]] bool build_bench_callback(BufferPool& pool, uint32_t bytes, uint64_t seed, Chain& message);

// A reply as ClientReply gives it.
struct BenchReply {
  const Chain* message = nullptr;  // inline part; used when `long_reply` is empty
  Bytes long_reply;                // what the Reply chunk holds
  bool placed = false;             // a Write chunk was offered for the data
  Bytes placed_data;               // what was written to it
};

// The reply is a success and says what it must, to the last byte and nothing behind it. Data that could have been placed
// must be (RFC 8166 6.1): `placed` with data in the stream is false, unless the data are empty.
[[nodiscard]] bool check_bench_null(const BenchReply& reply);  // of CALLBACK too
[[nodiscard]] bool check_bench_echo(const BenchReply& reply, Bytes data);
[[nodiscard]] bool check_bench_source(const BenchReply& reply, uint32_t bytes, uint64_t seed);
[[nodiscard]] bool check_bench_sink(const BenchReply& reply, Bytes data);
// accept_stat of a reply, or nothing when it was denied or cannot be read.
[[nodiscard]] Result<AcceptStatus> bench_status(const BenchReply& reply);

}  // namespace cw::rpcrdma
