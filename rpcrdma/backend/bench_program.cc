#include "rpcrdma/backend/bench_program.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/crc32.h"
#include "rpcrdma/backend/bench_callback.h"
#include "rpcrdma/rpc/rpc_message.h"
#include "rpcrdma/xdr/peek_word.h"
#include "rpcrdma/xdr/xdr_reader.h"

namespace cw::rpcrdma {
namespace {

constexpr uint64_t kGolden = 0x9e37'79b9'7f4a'7c15ULL;
constexpr uint8_t kZeros[4] = {};

uint64_t little_endian(uint64_t word) {
  if constexpr (std::endian::native == std::endian::big) {
    return __builtin_bswap64(word);
  }
  return word;
}

// Where `result_bytes` of results are to be written, behind the head of a reply that begins with them; nullptr without a Buffer.
uint8_t* start_reply(const CallContext& context, AcceptStatus status, uint32_t result_bytes, const ReplyPools& pools,
                     Chain& reply) {
  const uint32_t bytes = kAcceptedReplyBytes + result_bytes;
  Buffer* head = pools.of(bytes).allocate_one();
  if (head == nullptr) {
    return nullptr;
  }
  CW_DASSERT(bytes <= head->capacity_bytes);
  head->size = bytes;
  write_accepted_reply(std::span<uint8_t, kAcceptedReplyBytes>(head->data, kAcceptedReplyBytes), context.header.xid, status);
  reply.push_back(head);
  return head->data + kAcceptedReplyBytes;
}

// The call's own Buffer, when the reply may be made in it (ReplyPools::message) and the call lies in it whole; else nullptr.
Buffer* own_buffer(const CallContext& context, const ReplyPools& pools) {
  if (pools.message == nullptr || pools.message->buffer_count() != 1) {
    return nullptr;
  }
  Buffer* only = pools.message->head();
  const bool has_room = only->headroom_bytes > 0 && context.header.header_bytes >= kAcceptedReplyBytes;
  return has_room && only->pool == &pools.packets && only->size >= context.header.header_bytes ? only : nullptr;
}

// The reply takes the call's Buffer. Its results are the arguments as they stand, and its head is put in front of them, where the
// call's longer header was.
bool reply_in_place(const CallContext& context, Buffer& only, const ReplyPools& pools, Chain& reply) {
  (void)pools.message->detach();
  only.give_up_front(context.header.header_bytes - kAcceptedReplyBytes);
  write_accepted_reply(std::span<uint8_t, kAcceptedReplyBytes>(only.data, kAcceptedReplyBytes), context.header.xid,
                       AcceptStatus::kSuccess);
  reply.push_back(&only);
  return true;
}

bool reply_status(const CallContext& context, AcceptStatus status, const ReplyPools& pools, Chain& reply) {
  return start_reply(context, status, 0, pools, reply) != nullptr;
}

// Gives the reply up whole.
bool give_up(Chain& reply) {
  reply.clear();
  return false;
}

// opaque<> from `at` up to the end of the arguments; nothing may follow it.
struct OpaqueArgument {
  bool ok = false;
  uint64_t offset = 0;  // of the content
  uint32_t bytes = 0;
};
OpaqueArgument last_opaque(const Chain& message, uint64_t at) {
  OpaqueArgument argument{.offset = at + 4};
  if (const auto bytes = peek_word(message, at / 4); bytes.ok()) {
    argument.bytes = *bytes;
    argument.ok = argument.bytes <= kBenchBytesMax && message.bytes() - argument.offset == xdr_padded(argument.bytes);
  }
  return argument;
}

bool echo(const CallContext& context, const Chain& message, const ReplyPools& pools, Chain& reply) {
  const OpaqueArgument data = last_opaque(message, context.header.header_bytes);
  if (!data.ok) {
    return reply_status(context, AcceptStatus::kGarbageArguments, pools, reply);
  }
  if (data.bytes <= BenchProgram::kEchoCopyBytesMax) {
    const uint32_t count = 4 + static_cast<uint32_t>(xdr_padded(data.bytes));
    uint8_t* results = start_reply(context, AcceptStatus::kSuccess, count, pools, reply);
    if (results == nullptr) {
      return false;
    }
    message.copy_to(data.offset - 4, MutableBytes(results, count));
    return true;
  }
  uint8_t* results = start_reply(context, AcceptStatus::kSuccess, 4, pools, reply);
  if (results == nullptr) {
    return false;
  }
  store_be32(results, data.bytes);
  return message.share_range(data.offset, xdr_padded(data.bytes), reply) || give_up(reply);
}

// Room for so many bytes. All of it before any is filled: a call that finds too little is tried again and again.
bool allocate(BufferPool& pool, uint64_t bytes, Chain& out) {
  for (uint64_t done = 0; done < bytes;) {
    Buffer* buffer = pool.allocate_one();
    if (buffer == nullptr) {
      return false;
    }
    buffer->size = static_cast<uint32_t>(std::min<uint64_t>(bytes - done, buffer->tailroom().size()));
    done += buffer->size;
    out.push_back(buffer);
  }
  return true;
}

bool source(const CallContext& context, const Chain& message, const ReplyPools& pools, Chain& reply) {
  XdrReader reader(message);
  reader.skip(context.header.header_bytes);
  const uint32_t bytes = reader.u32();
  const uint64_t seed = reader.u64();
  if (!reader.ok() || reader.remaining() != 0 || bytes > kBenchBytesMax) {
    return reply_status(context, AcceptStatus::kGarbageArguments, pools, reply);
  }
  uint8_t* results = start_reply(context, AcceptStatus::kSuccess, 12, pools, reply);
  if (results == nullptr) {
    return false;
  }
  store_be32(results + 8, bytes);
  Chain data;
  if (!allocate(pools.of(bytes), bytes, data)) {
    return give_up(reply);
  }
  uint32_t crc = 0;
  uint64_t done = 0;
  for (Buffer* buffer = data.head(); buffer != nullptr; buffer = buffer->next) {
    fill_bench_pattern(seed, done, MutableBytes(buffer->data, buffer->size));
    crc = bench_checksum_more(crc, buffer->bytes());
    done += buffer->size;
  }
  if (!data.append_copy(pools.packets, Bytes(kZeros).first(xdr_pad(bytes)))) {
    return give_up(reply);
  }
  store_be64(results, crc);  // stands in front of the data and is known after it
  reply.append(std::move(data));
  return true;
}

bool sink(const CallContext& context, const Chain& message, const ReplyPools& pools, Chain& reply) {
  XdrReader reader(message);
  reader.skip(context.header.header_bytes);
  const uint32_t expected = reader.u32();
  const OpaqueArgument data = last_opaque(message, reader.offset());
  if (!data.ok) {
    return reply_status(context, AcceptStatus::kGarbageArguments, pools, reply);
  }
  const uint32_t crc = bench_checksum(message, data.offset, data.bytes);
  if (crc != expected) {
    return reply_status(context, AcceptStatus::kSystemError, pools, reply);
  }
  uint8_t* results = start_reply(context, AcceptStatus::kSuccess, 8, pools, reply);
  if (results == nullptr) {
    return false;
  }
  store_be32(results, data.bytes);
  store_be32(results + 4, crc);
  return true;
}

// With a reply in Buffers of its own.
[[gnu::noinline]] bool call_elsewhere(const CallContext& context, const Chain& message, const ReplyPools& pools, Chain& reply) {
  switch (context.header.procedure) {
    case static_cast<uint32_t>(BenchProcedure::kNull): {
      const bool empty = message.bytes() == context.header.header_bytes;
      return reply_status(context, empty ? AcceptStatus::kSuccess : AcceptStatus::kGarbageArguments, pools, reply);
    }
    case static_cast<uint32_t>(BenchProcedure::kEcho):
      return echo(context, message, pools, reply);
    case static_cast<uint32_t>(BenchProcedure::kSource):
      return source(context, message, pools, reply);
    case static_cast<uint32_t>(BenchProcedure::kSink):
      return sink(context, message, pools, reply);
    case static_cast<uint32_t>(BenchProcedure::kCallback): {
      const bool good = parse_bench_callback(context, message).ok();
      return reply_status(context, good ? AcceptStatus::kSuccess : AcceptStatus::kGarbageArguments, pools, reply);
    }
    default:
      return reply_status(context, AcceptStatus::kProcedureUnavailable, pools, reply);
  }
}

}  // namespace

bool BenchProgram::call(const CallContext& context, const Chain& message, const ReplyPools& pools, Chain& reply) {
  if (Buffer* only = own_buffer(context, pools); only != nullptr) [[likely]] {
    const uint32_t argument_bytes = only->size - context.header.header_bytes;
    if (context.header.procedure == static_cast<uint32_t>(BenchProcedure::kNull) && argument_bytes == 0) {
      return reply_in_place(context, *only, pools, reply);
    }
    if (context.header.procedure == static_cast<uint32_t>(BenchProcedure::kEcho) && argument_bytes >= 4) {
      const uint32_t data_bytes = load_be32(only->data + context.header.header_bytes);
      // Length word, content and padding look the same in arguments and results.
      if (data_bytes <= kEchoCopyBytesMax && argument_bytes == 4 + xdr_padded(data_bytes)) {
        return reply_in_place(context, *only, pools, reply);
      }
    }
  }
  return call_elsewhere(context, message, pools, reply);
}

void fill_bench_pattern(uint64_t seed, uint64_t offset, MutableBytes out) {
  uint8_t* at = out.data();
  size_t left = out.size();
  uint64_t word = seed + (offset / 8 + 1) * kGolden;
  // Only the ends may lie within a word.
  if (const size_t inside = offset % 8; inside != 0 && left > 0) {
    const uint64_t raw = little_endian(word);
    const size_t take = std::min(left, 8 - inside);
    std::memcpy(at, reinterpret_cast<const uint8_t*>(&raw) + inside, take);
    at += take;
    left -= take;
    word += kGolden;
  }
  for (; left >= 8; at += 8, left -= 8, word += kGolden) {
    const uint64_t raw = little_endian(word);
    std::memcpy(at, &raw, 8);
  }
  if (left > 0) {
    const uint64_t raw = little_endian(word);
    std::memcpy(at, &raw, left);
  }
}

uint32_t bench_checksum(const Chain& chain, uint64_t offset, uint64_t bytes) {
  CW_DASSERT(offset + bytes <= chain.bytes());
  uint32_t crc = 0;
  for (const Buffer* at = chain.head(); bytes > 0; at = at->next) {
    if (offset >= at->size) {
      offset -= at->size;
      continue;
    }
    const size_t take = static_cast<size_t>(std::min<uint64_t>(bytes, at->size - offset));
    crc = bench_checksum_more(crc, at->bytes().subspan(static_cast<size_t>(offset), take));
    bytes -= take;
    offset = 0;
  }
  return crc;
}

uint32_t bench_checksum_more(uint32_t checksum, Bytes bytes) {
  return crc32(checksum, bytes.data(), bytes.size());
}

uint32_t bench_checksum(Bytes bytes) {
  return bench_checksum_more(0, bytes);
}

}  // namespace cw::rpcrdma
