// iCRC throughput beside its two bounds: the bare CRC of ISA-L and memcpy. Sizes are bytes from the IP header on: an ACK, a
// small call, a call of 256 bytes, packets of 1 KiB and 4 KiB. The working set stays in the nearest cache.
#include <benchmark/benchmark.h>
#include <isa-l/crc.h>

#include <cstring>
#include <vector>

#include "rocev2/wire/icrc.h"

namespace cw::wire {
namespace {

std::vector<uint8_t> packet_of(int64_t size) {
  std::vector<uint8_t> packet(static_cast<size_t>(size));
  for (size_t i = 0; i < packet.size(); ++i) {
    packet[i] = static_cast<uint8_t>(i * 31);
  }
  packet[0] = 0x45;
  return packet;
}

void report(benchmark::State& state) {
  state.SetBytesProcessed(state.iterations() * state.range(0));
}

void BM_Icrc(benchmark::State& state) {
  const std::vector<uint8_t> packet = packet_of(state.range(0));
  for (auto _ : state) {
    benchmark::DoNotOptimize(Icrc(packet).value());
  }
  report(state);
}

// Headers in the head, payload in a piece of its own: how attached payload is summed.
void BM_IcrcOfTwoPieces(benchmark::State& state) {
  const std::vector<uint8_t> packet = packet_of(state.range(0));
  for (auto _ : state) {
    Icrc icrc(Bytes(packet).first(40));
    icrc.update(Bytes(packet).subspan(40));
    benchmark::DoNotOptimize(icrc.value());
  }
  report(state);
}

void BM_BareCrc(benchmark::State& state) {
  const std::vector<uint8_t> packet = packet_of(state.range(0));
  for (auto _ : state) {
    benchmark::DoNotOptimize(crc32_gzip_refl(0, packet.data(), packet.size()));
  }
  report(state);
}

void BM_Memcpy(benchmark::State& state) {
  const std::vector<uint8_t> packet = packet_of(state.range(0));
  std::vector<uint8_t> copy(packet.size());
  for (auto _ : state) {
    std::memcpy(copy.data(), packet.data(), packet.size());
    benchmark::DoNotOptimize(copy.data());
    benchmark::ClobberMemory();
  }
  report(state);
}

void sizes(benchmark::internal::Benchmark* bench) {
  for (const int64_t size : {52, 116, 308, 1084, 4156}) {
    bench->Arg(size);
  }
}

BENCHMARK(BM_Icrc)->Apply(sizes);
BENCHMARK(BM_IcrcOfTwoPieces)->Apply(sizes);
BENCHMARK(BM_BareCrc)->Apply(sizes);
BENCHMARK(BM_Memcpy)->Apply(sizes);

}  // namespace
}  // namespace cw::wire

BENCHMARK_MAIN();
