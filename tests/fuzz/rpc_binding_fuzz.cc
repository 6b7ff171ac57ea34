// RPC calls and replies and what the upper-layer bindings find in them. The first byte says how the message is cut into Buffers;
// the rest is taken as a call and as a reply to each kind of call. Items lie within the message, in order and apart, wherever it
// is cut.
#include <algorithm>
#include <array>

#include "base/heap_buffer_pool.h"
#include "rpcrdma/ulb/binding.h"
#include "rpcrdma/xdr/xdr_reader.h"
#include "tests/fuzz/fuzz_target.h"

namespace cw::rpcrdma {
namespace {

constexpr size_t kMessageBytesMax = 4096;

struct Kind {
  Binding binding;
  uint32_t procedure;
};
constexpr std::array kKinds = {Kind{Binding::kNone, 0},
                               Kind{Binding::kNfs3, kNfs3Read},
                               Kind{Binding::kNfs3, kNfs3Readlink},
                               Kind{Binding::kNfs4, kNfs4Compound},
                               Kind{Binding::kBench, 1},
                               Kind{Binding::kBench, 2}};

Chain chain_of(BufferPool& pool, Bytes message, size_t piece_bytes) {
  Chain chain;
  while (!message.empty()) {
    Buffer* buffer = pool.allocate_one();
    FUZZ_CHECK(buffer != nullptr);
    message = message.subspan(buffer->append(message.first(std::min(piece_bytes, message.size()))));
    chain.push_back(buffer);
  }
  return chain;
}

void check_items(const ReducibleItems& items, size_t message_bytes) {
  uint64_t end = 0;
  FUZZ_CHECK(items.count <= kReducibleItemsMax);
  for (uint32_t i = 0; i < items.count; ++i) {
    const ReducibleItem& item = items.items[i];
    FUZZ_CHECK(item.offset >= end && item.offset % 4 == 0);
    end = item.offset + xdr_padded(item.length);
    FUZZ_CHECK(end <= message_bytes);
  }
}

void check(Bytes message, size_t piece_bytes) {
  static HeapBufferPool pool(2 * kMessageBytesMax, 64, 1);
  const Chain cut = chain_of(pool, message, piece_bytes);
  const Chain whole = chain_of(pool, message, 64);
  const CallContext call = inspect_call(cut);
  FUZZ_CHECK(call.header.header_bytes <= message.size());
  FUZZ_CHECK(call.binding == inspect_call(whole).binding);
  const auto reply = parse_rpc_reply(cut);
  FUZZ_CHECK(!reply.ok() || reply->header_bytes <= message.size());
  for (const Kind& kind : kKinds) {
    CallContext context{.binding = kind.binding};
    context.header.procedure = kind.procedure;
    const ReducibleItems items = find_reducible(context, cut);
    const ReducibleItems same = find_reducible(context, whole);
    check_items(items, message.size());
    FUZZ_CHECK(items.count == same.count);
    for (uint32_t i = 0; i < items.count; ++i) {
      FUZZ_CHECK(items.items[i].offset == same.items[i].offset && items.items[i].length == same.items[i].length);
    }
  }
}

}  // namespace
}  // namespace cw::rpcrdma

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 0 && size <= cw::rpcrdma::kMessageBytesMax) {
    cw::rpcrdma::check(cw::Bytes(data + 1, size - 1), 1 + data[0] % 64);
  }
  return 0;
}
