// The built-in program that load generator, quickstart and tests call: it moves bytes and proves that they are the right ones.
// Its procedures stand in ulb/binding.h (BenchProcedure). Lengths are at most kBenchBytesMax; anything else is GARBAGE_ARGS.
#pragma once

#include <cstdint>

#include "rpcrdma/backend/backend.h"

namespace cw::rpcrdma {

inline constexpr uint32_t kBenchBytesMax = 4u << 20;

class BenchProgram final : public Program {
 public:
  // ECHO copies up to this and shares the call's Buffers beyond: a view costs more than so few bytes.
  static constexpr uint32_t kEchoCopyBytesMax = 256;

  [[nodiscard]] uint32_t program() const override { return kBenchProgram; }
  [[nodiscard]] uint32_t version() const override { return kBenchVersion; }
  [[nodiscard]] bool call(const CallContext& context, const Chain& message, const ReplyPools& pools, Chain& reply) override;
};

// The bytes of SOURCE: little-endian words seed + (i + 1) * golden ratio, so that each place has a value of its own and eight
// bytes cost one addition. Writes those from `offset` on.
void fill_bench_pattern(uint64_t seed, uint64_t offset, MutableBytes out);

// CRC-32 (IEEE, as zlib) over [offset, offset + bytes) of a chain. Precondition: they are there.
[[nodiscard]] uint32_t bench_checksum(const Chain& chain, uint64_t offset, uint64_t bytes);
[[nodiscard]] uint32_t bench_checksum(Bytes bytes);
// Goes on with the checksum of what came before (0 at the start).
[[nodiscard]] uint32_t bench_checksum_more(uint32_t checksum, Bytes bytes);

}  // namespace cw::rpcrdma
