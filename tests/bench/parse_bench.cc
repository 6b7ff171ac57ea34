// What one packet costs on its way in (parse, iCRC) and out (build). Argument: bytes of payload; 0 is an ACK.
#include <benchmark/benchmark.h>

#include <vector>

#include "base/heap_buffer_pool.h"
#include "rocev2/wire/packet_builder.h"
#include "rocev2/wire/packet_view.h"

namespace cw::wire {
namespace {

Path path_of(bool ipv6) {
  Path path;
  path.local_mac = MacAddress{{0x52, 0x54, 0, 0, 0, 1}};
  path.remote_mac = MacAddress{{0x52, 0x54, 0, 0, 0, 2}};
  path.local = ipv6 ? *parse_ip("fd09::1") : *parse_ip("10.9.0.1");
  path.remote = ipv6 ? *parse_ip("fd09::2") : *parse_ip("10.9.0.2");
  path.udp_source_port = 0xc123;
  return path;
}

Bth bth_for(int64_t payload_bytes) {
  Bth bth;
  bth.opcode = payload_bytes == 0 ? Opcode::kRcAcknowledge : Opcode::kRcSendOnly;
  bth.destination = verbs::Qpn(0x123456);
  bth.psn = Psn(0x654321);
  return bth;
}

std::vector<uint8_t> frame_of(bool ipv6, int64_t payload_bytes) {
  HeapBufferPool pool(1, 9216, 0);
  TxBatch batch(pool);
  TxPacket& packet = *batch.add();
  const std::vector<uint8_t> payload(static_cast<size_t>(payload_bytes), 0x5a);
  build_packet(packet, PathHeader(path_of(ipv6)), 1, bth_for(payload_bytes), Extensions{}, Bytes(payload));
  return {packet.head->data, packet.head->data + packet.head->size};
}

void BM_Parse(benchmark::State& state, bool ipv6, bool verify) {
  const std::vector<uint8_t> frame = frame_of(ipv6, state.range(0));
  for (auto _ : state) {
    const Result<PacketView, DropReason> view = PacketView::parse(frame);
    bool good = view.ok();
    if (verify) {
      good = good && verify_icrc(*view);
    }
    if (!good) {
      state.SkipWithError("the frame is bad");
      break;
    }
    benchmark::DoNotOptimize(view->payload.data());
  }
  state.SetItemsProcessed(state.iterations());
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(frame.size()));
}

// From a Chain: attached from kAttachThresholdBytes on, else copied.
void BM_BuildFromChain(benchmark::State& state) {
  HeapBufferPool pool(2, 9216, 0);
  const PathHeader path(path_of(false));
  const Bth bth = bth_for(state.range(0));
  const std::vector<uint8_t> payload(static_cast<size_t>(state.range(0)), 0x5a);
  Chain chain;
  if (!chain.append_copy(pool, payload)) {
    state.SkipWithError("the pool is empty");
  }
  TxPacket packet;
  packet.head = pool.allocate_one();
  uint16_t identification = 0;
  for (auto _ : state) {
    packet.head->size = 0;
    packet.piece_count = 0;
    build_packet(packet, path, ++identification, bth, Extensions{},
                 PayloadCursor{chain.head(), 0, static_cast<uint32_t>(payload.size())});
    benchmark::DoNotOptimize(packet.head->data);
    benchmark::ClobberMemory();
  }
  release_buffers(packet.head);
  state.SetItemsProcessed(state.iterations());
}

// From plain memory: always copied.
void BM_BuildFromMemory(benchmark::State& state) {
  HeapBufferPool pool(1, 9216, 0);
  const PathHeader path(path_of(false));
  const Bth bth = bth_for(state.range(0));
  const std::vector<uint8_t> payload(static_cast<size_t>(state.range(0)), 0x5a);
  TxPacket packet;
  packet.head = pool.allocate_one();
  uint16_t identification = 0;
  for (auto _ : state) {
    packet.head->size = 0;
    build_packet(packet, path, ++identification, bth, Extensions{}, Bytes(payload));
    benchmark::DoNotOptimize(packet.head->data);
    benchmark::ClobberMemory();
  }
  release_buffers(packet.head);
  state.SetItemsProcessed(state.iterations());
}

BENCHMARK_CAPTURE(BM_Parse, ipv4, false, false)->Arg(0)->Arg(1024);
BENCHMARK_CAPTURE(BM_Parse, ipv6, true, false)->Arg(0);
BENCHMARK_CAPTURE(BM_Parse, ipv4_and_icrc, false, true)->Arg(0)->Arg(128)->Arg(1024)->Arg(4096);
BENCHMARK_CAPTURE(BM_Parse, ipv6_and_icrc, true, true)->Arg(0)->Arg(1024)->Arg(4096);
BENCHMARK(BM_BuildFromChain)->Arg(0)->Arg(128)->Arg(1024)->Arg(4096);
BENCHMARK(BM_BuildFromMemory)->Arg(0)->Arg(128)->Arg(1024)->Arg(4096);

}  // namespace
}  // namespace cw::wire

BENCHMARK_MAIN();
