#include "rpcrdma/backend/bench_program.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "rocev2/base/crc32.h"
#include "rpcrdma/backend/bench_callback.h"
#include "rpcrdma/rpc/rpc_message.h"
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

bool reply_status(const CallContext& context, AcceptStatus status, BufferPool& pool, Chain& reply) {
  uint8_t head[kAcceptedReplyBytes];
  write_accepted_reply(head, context.header.xid, status);
  return reply.append_copy(pool, head);
}

// Success and up to two words of results.
template <size_t kResultBytes>
struct Head {
  uint8_t octets[kAcceptedReplyBytes + kResultBytes];
  explicit Head(const CallContext& context) {
    write_accepted_reply(std::span(octets).template first<kAcceptedReplyBytes>(), context.header.xid, AcceptStatus::kSuccess);
  }
  [[nodiscard]] uint8_t* results() { return octets + kAcceptedReplyBytes; }
};

// Gives the reply up whole.
bool give_up(Chain& reply) {
  reply.clear();
  return false;
}

// opaque<> up to the end of the arguments; nothing may follow it.
struct OpaqueArgument {
  bool ok = false;
  uint64_t offset = 0;  // of the content
  uint32_t bytes = 0;
};
OpaqueArgument last_opaque(XdrReader& reader) {
  OpaqueArgument argument;
  argument.bytes = reader.u32();
  argument.offset = reader.offset();
  argument.ok = reader.ok() && argument.bytes <= kBenchBytesMax && reader.remaining() == xdr_padded(argument.bytes);
  return argument;
}

bool echo(const CallContext& context, const Chain& message, XdrReader& reader, BufferPool& pool, Chain& reply) {
  const OpaqueArgument data = last_opaque(reader);
  if (!data.ok) {
    return reply_status(context, AcceptStatus::kGarbageArguments, pool, reply);
  }
  if (data.bytes <= BenchProgram::kEchoCopyBytesMax) {
    // Length word, content and padding look the same in arguments and results.
    Head<4 + BenchProgram::kEchoCopyBytesMax> head(context);
    const size_t count = 4 + static_cast<size_t>(xdr_padded(data.bytes));
    message.copy_to(data.offset - 4, MutableBytes(head.results(), count));
    return reply.append_copy(pool, Bytes(head.octets, kAcceptedReplyBytes + count));
  }
  Head<4> head(context);
  store_be32(head.results(), data.bytes);
  if (!reply.append_copy(pool, head.octets) || !message.share_range(data.offset, xdr_padded(data.bytes), reply)) {
    return give_up(reply);
  }
  return true;
}

// Room for so many octets. All of it before any is filled: a call that finds too little is tried again and again.
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

bool source(const CallContext& context, XdrReader& reader, BufferPool& pool, Chain& reply) {
  const uint32_t bytes = reader.u32();
  const uint64_t seed = reader.u64();
  if (!reader.ok() || reader.remaining() != 0 || bytes > kBenchBytesMax) {
    return reply_status(context, AcceptStatus::kGarbageArguments, pool, reply);
  }
  Head<12> head(context);
  store_be32(head.results() + 8, bytes);
  if (!reply.append_copy(pool, head.octets)) {
    return give_up(reply);
  }
  Buffer* first = reply.head();
  // The checksum stands in front of the data and is known after it; the pool's Buffers hold more than a reply header.
  CW_ASSERT(first->size == sizeof(head.octets));
  Chain data;
  if (!allocate(pool, bytes, data)) {
    return give_up(reply);
  }
  uint32_t crc = 0;
  uint64_t done = 0;
  for (Buffer* buffer = data.head(); buffer != nullptr; buffer = buffer->next) {
    fill_bench_pattern(seed, done, MutableBytes(buffer->data, buffer->size));
    crc = bench_checksum_more(crc, buffer->bytes());
    done += buffer->size;
  }
  if (!data.append_copy(pool, Bytes(kZeros).first(xdr_pad(bytes)))) {
    return give_up(reply);
  }
  store_be64(first->data + kAcceptedReplyBytes, crc);
  reply.append(std::move(data));
  return true;
}

bool sink(const CallContext& context, const Chain& message, XdrReader& reader, BufferPool& pool, Chain& reply) {
  const uint32_t expected = reader.u32();
  const OpaqueArgument data = last_opaque(reader);
  if (!data.ok) {
    return reply_status(context, AcceptStatus::kGarbageArguments, pool, reply);
  }
  const uint32_t crc = bench_checksum(message, data.offset, data.bytes);
  if (crc != expected) {
    return reply_status(context, AcceptStatus::kSystemError, pool, reply);
  }
  Head<8> head(context);
  store_be32(head.results(), data.bytes);
  store_be32(head.results() + 4, crc);
  return reply.append_copy(pool, head.octets);
}

}  // namespace

bool BenchProgram::call(const CallContext& context, const Chain& message, BufferPool& pool, Chain& reply) {
  XdrReader reader(message);
  reader.skip(context.header.header_bytes);
  switch (context.header.procedure) {
    case static_cast<uint32_t>(BenchProcedure::kNull): {
      const bool empty = reader.remaining() == 0;
      return reply_status(context, empty ? AcceptStatus::kSuccess : AcceptStatus::kGarbageArguments, pool, reply);
    }
    case static_cast<uint32_t>(BenchProcedure::kEcho):
      return echo(context, message, reader, pool, reply);
    case static_cast<uint32_t>(BenchProcedure::kSource):
      return source(context, reader, pool, reply);
    case static_cast<uint32_t>(BenchProcedure::kSink):
      return sink(context, message, reader, pool, reply);
    case static_cast<uint32_t>(BenchProcedure::kCallback): {
      const bool good = parse_bench_callback(context, message).ok();
      return reply_status(context, good ? AcceptStatus::kSuccess : AcceptStatus::kGarbageArguments, pool, reply);
    }
    default:
      return reply_status(context, AcceptStatus::kProcedureUnavailable, pool, reply);
  }
}

void fill_bench_pattern(uint64_t seed, uint64_t offset, MutableBytes out) {
  uint8_t* at = out.data();
  size_t left = out.size();
  uint64_t word = seed + (offset / 8 + 1) * kGolden;
  // Only the ends may lie within a word.
  if (const size_t inside = offset % 8; inside != 0 && left > 0) {
    const uint64_t octets = little_endian(word);
    const size_t take = std::min(left, 8 - inside);
    std::memcpy(at, reinterpret_cast<const uint8_t*>(&octets) + inside, take);
    at += take;
    left -= take;
    word += kGolden;
  }
  for (; left >= 8; at += 8, left -= 8, word += kGolden) {
    const uint64_t octets = little_endian(word);
    std::memcpy(at, &octets, 8);
  }
  if (left > 0) {
    const uint64_t octets = little_endian(word);
    std::memcpy(at, &octets, left);
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
