// The server's part of the bench program's CALLBACK: the call in reverse direction that it asks for, and what its reply must say.
#pragma once

#include <cstdint>

#include "base/buffer.h"
#include "rpcrdma/ulb/binding.h"

namespace cw::rpcrdma {

// What fits the longest inline message; a shorter inline threshold refuses the reverse call, not the CALLBACK.
inline constexpr uint32_t kBenchCallbackBytesMax = 65536;

struct BenchCallback {
  uint32_t bytes = 0;
  uint64_t seed = 0;
};

// Of each call that a built-in program answers: most are told by their procedure.
[[nodiscard]] inline bool is_bench_callback(const CallContext& context) {
  const RpcCallHeader& header = context.header;
  return header.procedure == static_cast<uint32_t>(BenchProcedure::kCallback) && header.program == kBenchProgram &&
         header.version == kBenchVersion && header.header_bytes > 0;
}
// The arguments. kBadValue: not as the program says. Precondition: is_bench_callback().
[[nodiscard]] Result<BenchCallback> parse_bench_callback(const CallContext& context, const Chain& call);
// Appends the ECHO call to `message` (empty on entry). False, and `message` empty, when the pool is.
[[nodiscard]] bool build_bench_reverse_call(BufferPool& pool, uint32_t xid, const BenchCallback& callback, Chain& message);
// The reply is a success and holds the data to the last byte.
[[nodiscard]] bool check_bench_reverse_reply(const Chain& reply, const BenchCallback& callback);

}  // namespace cw::rpcrdma
