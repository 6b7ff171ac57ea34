// One call of the bench program as a client makes it: with the memory it needs and the verdict on its reply.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/random.h"
#include "rpcrdma/backend/bench_client.h"
#include "rpcrdma/endpoint/client_endpoint.h"

namespace cw::rpcrdma {

inline std::vector<uint8_t> bench_pattern(size_t bytes, uint64_t seed) {
  std::vector<uint8_t> raw(bytes);
  fill_bench_pattern(seed, 0, raw);
  return raw;
}

// One call of the bench program with all memory it needs, and the verdict on its reply.
struct BenchCall {
  BenchProcedure procedure = BenchProcedure::kNull;
  uint64_t seed = 0;
  uint32_t bytes = 0;
  bool read_chunk = false;  // data of ECHO, SINK by Read chunk
  bool long_call = false;
  bool write_chunk = false;  // data of ECHO, SOURCE by Write chunk
  uint32_t write_room = 0;   // its size; 0 = as long as the data
  uint32_t reply_room = 0;   // Reply chunk; 0 = none

  std::vector<uint8_t> data;
  std::vector<uint8_t> write_memory;
  std::vector<uint8_t> reply_memory;
  std::vector<uint8_t> long_call_memory;
  ReadChunkSource read;
  MutableBytes write;

  void prepare(BufferPool& pool, ClientCall& call) {
    data = bench_pattern(bytes, seed);
    const BenchData where = read_chunk ? BenchData::kReduced : BenchData::kInStream;
    switch (procedure) {
      case BenchProcedure::kNull:
        ASSERT_TRUE(build_bench_null(pool, call.message));
        break;
      case BenchProcedure::kEcho:
        ASSERT_TRUE(build_bench_echo(pool, data, where, call.message));
        break;
      case BenchProcedure::kSource:
        ASSERT_TRUE(build_bench_source(pool, bytes, seed, call.message));
        break;
      case BenchProcedure::kSink:
        ASSERT_TRUE(build_bench_sink(pool, data, where, call.message));
        break;
      case BenchProcedure::kCallback:
        ASSERT_TRUE(build_bench_callback(pool, bytes, seed, call.message));
        break;
    }
    if (read_chunk) {
      read = {.position = procedure == BenchProcedure::kEcho ? kBenchEchoPosition : kBenchSinkPosition, .memory = data};
      call.reads = {&read, 1};
    }
    if (long_call) {
      long_call_memory.resize(call.message.bytes());
      call.long_call = true;
      call.long_call_memory = long_call_memory;
    }
    if (write_chunk) {
      write_memory.assign(write_room == 0 ? bytes : write_room, 0xee);
      write = write_memory;
      call.writes = {&write, 1};
    }
    reply_memory.assign(reply_room, 0xee);
    call.reply_memory = reply_memory;
  }

  [[nodiscard]] bool check(const ClientReply& reply) const {
    const BenchReply parts{.message = &reply.message,
                           .long_reply = Bytes(reply_memory).first(reply.reply_chunk_bytes),
                           .placed = write_chunk && !write_memory.empty(),
                           .placed_data = Bytes(write_memory).first(reply.write_bytes[0])};
    // Nothing beyond what was returned has been touched (RPCRDMA-3.4.6.2-2: no roundup is written).
    const auto untouched = [](const std::vector<uint8_t>& memory, uint32_t used) {
      return std::all_of(memory.begin() + used, memory.end(), [](uint8_t byte) { return byte == 0xee; });
    };
    if (!untouched(write_memory, reply.write_bytes[0]) || !untouched(reply_memory, reply.reply_chunk_bytes)) {
      return false;
    }
    switch (procedure) {
      case BenchProcedure::kNull:
        return check_bench_null(parts);
      case BenchProcedure::kEcho:
        return check_bench_echo(parts, data);
      case BenchProcedure::kSource:
        return check_bench_source(parts, bytes, seed);
      case BenchProcedure::kSink:
        return check_bench_sink(parts, data);
      case BenchProcedure::kCallback:
        return check_bench_null(parts);
    }
    return false;
  }
};

// Any procedure, length and choice of chunks.
inline BenchCall random_bench_call(SeededRandom& random) {
  constexpr uint32_t kSizes[] = {0, 1, 3, 100, 700, 1400, 4096, 9001, 65'537};
  BenchCall bench;
  bench.procedure = static_cast<BenchProcedure>(random.next_below(4));
  bench.seed = random.next_u64();
  const bool has_data = bench.procedure != BenchProcedure::kNull;
  bench.bytes = has_data ? kSizes[random.next_below(9)] + random.next_below(8) : 0;
  const bool sends = bench.procedure == BenchProcedure::kEcho || bench.procedure == BenchProcedure::kSink;
  const bool takes = bench.procedure == BenchProcedure::kEcho || bench.procedure == BenchProcedure::kSource;
  bench.read_chunk = sends && bench.bytes > 0 && (bench.bytes > 600 || random.next_below(2) == 0);
  bench.long_call = random.next_below(4) == 0;
  if (bench.long_call && random.next_below(2) == 0) {
    bench.read_chunk = false;
  }
  bench.write_chunk = takes && bench.bytes > 0 && random.next_below(2) == 0;
  bench.write_room = bench.write_chunk ? bench.bytes + random.next_below(2) * random.next_below(500) : 0;
  bench.reply_room = random.next_below(3) != 0 ? bench.bytes + 100 : 0;
  return bench;
}

}  // namespace cw::rpcrdma
