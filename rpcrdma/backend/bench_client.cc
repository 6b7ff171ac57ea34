#include "rpcrdma/backend/bench_client.h"

#include <algorithm>
#include <cstring>

#include "rpcrdma/xdr/xdr_reader.h"
#include "rpcrdma/xdr/xdr_writer.h"

namespace cw::rpcrdma {
namespace {

constexpr size_t kArgumentBytesMax = 16;
constexpr size_t kCompareBytes = 512;  // pattern made and compared at a time

// A call's header, written on the stack; the arguments follow.
class CallHead {
 public:
  explicit CallHead(BenchProcedure procedure) : writer_(raw_) {
    writer_.u32(0);
    writer_.u32(static_cast<uint32_t>(RpcMessageType::kCall));
    writer_.u32(kRpcVersion);
    writer_.u32(kBenchProgram);
    writer_.u32(kBenchVersion);
    writer_.u32(static_cast<uint32_t>(procedure));
    writer_.zeros(16);  // AUTH_NONE twice
  }
  [[nodiscard]] XdrWriter& arguments() { return writer_; }
  [[nodiscard]] bool append_to(BufferPool& pool, Chain& message) const {
    CW_DASSERT(writer_.ok());
    return message.append_copy(pool, writer_.written());
  }

 private:
  uint8_t raw_[kBenchCallHeaderBytes + kArgumentBytesMax] = {};
  XdrWriter writer_;
};

bool append_data(BufferPool& pool, Bytes data, BenchData where, Chain& message) {
  static constexpr uint8_t kZeros[4] = {};
  if (where == BenchData::kReduced) {
    return true;
  }
  return message.append_copy(pool, data) && message.append_copy(pool, Bytes(kZeros).first(xdr_pad(data.size())));
}

bool finish(bool built, Chain& message) {
  if (!built) {
    message.clear();
  }
  return built;
}

XdrReader reader_of(const BenchReply& reply) {
  return reply.long_reply.empty() && reply.message != nullptr ? XdrReader(*reply.message) : XdrReader(reply.long_reply);
}

bool read_head(XdrReader& reader) {
  const auto header = read_rpc_reply(reader);
  return header.ok() && header->success();
}

// Where a reply's data are, once its length word has been read: in the stream or placed. False when neither is right.
bool data_in_stream(const XdrReader& reader, const BenchReply& reply, uint32_t bytes, bool& in_stream) {
  if (reply.placed && bytes > 0) {
    in_stream = false;
    return reader.remaining() == 0 && reply.placed_data.size() == bytes;
  }
  in_stream = true;
  return reader.remaining() == xdr_padded(bytes) && reply.placed_data.empty();
}

bool padding_is_zero(XdrReader& reader) {
  uint8_t pad[4] = {};
  const size_t count = static_cast<size_t>(reader.remaining());
  reader.copy(MutableBytes(pad).first(count));
  return reader.ok() && std::all_of(std::begin(pad), std::end(pad), [](uint8_t byte) { return byte == 0; });
}

// Compares `bytes` bytes of the stream or of the Write chunk with what `expect(offset, out)` makes of them.
template <typename Expect>
bool same_data(XdrReader& reader, const BenchReply& reply, uint32_t bytes, Expect&& expect) {
  bool in_stream = false;
  if (!data_in_stream(reader, reply, bytes, in_stream)) {
    return false;
  }
  uint8_t expected[kCompareBytes];
  uint8_t copied[kCompareBytes];
  for (size_t done = 0; done < bytes;) {
    const size_t take = std::min(kCompareBytes, bytes - done);
    expect(done, MutableBytes(expected).first(take));
    const uint8_t* actual = copied;
    if (in_stream) {
      reader.copy(MutableBytes(copied).first(take));
    } else {
      actual = reply.placed_data.data() + done;
    }
    if (!reader.ok() || std::memcmp(expected, actual, take) != 0) {
      return false;
    }
    done += take;
  }
  return !in_stream || padding_is_zero(reader);
}

}  // namespace

bool build_bench_null(BufferPool& pool, Chain& message) {
  return finish(CallHead(BenchProcedure::kNull).append_to(pool, message), message);
}

bool build_bench_echo(BufferPool& pool, Bytes data, BenchData where, Chain& message) {
  CallHead head(BenchProcedure::kEcho);
  head.arguments().u32(static_cast<uint32_t>(data.size()));
  return finish(head.append_to(pool, message) && append_data(pool, data, where, message), message);
}

bool build_bench_source(BufferPool& pool, uint32_t bytes, uint64_t seed, Chain& message) {
  CallHead head(BenchProcedure::kSource);
  head.arguments().u32(bytes);
  head.arguments().u64(seed);
  return finish(head.append_to(pool, message), message);
}

bool build_bench_sink(BufferPool& pool, Bytes data, BenchData where, Chain& message) {
  CallHead head(BenchProcedure::kSink);
  head.arguments().u32(bench_checksum(data));
  head.arguments().u32(static_cast<uint32_t>(data.size()));
  return finish(head.append_to(pool, message) && append_data(pool, data, where, message), message);
}

bool build_bench_callback(BufferPool& pool, uint32_t bytes, uint64_t seed, Chain& message) {
  CallHead head(BenchProcedure::kCallback);
  head.arguments().u32(bytes);
  head.arguments().u64(seed);
  return finish(head.append_to(pool, message), message);
}

bool check_bench_null(const BenchReply& reply) {
  XdrReader reader = reader_of(reply);
  return read_head(reader) && reader.remaining() == 0;
}

bool check_bench_echo(const BenchReply& reply, Bytes data) {
  XdrReader reader = reader_of(reply);
  if (!read_head(reader) || reader.u32() != data.size() || !reader.ok()) {
    return false;
  }
  return same_data(reader, reply, static_cast<uint32_t>(data.size()),
                   [data](size_t offset, MutableBytes out) { std::memcpy(out.data(), data.data() + offset, out.size()); });
}

bool check_bench_source(const BenchReply& reply, uint32_t bytes, uint64_t seed) {
  XdrReader reader = reader_of(reply);
  if (!read_head(reader)) {
    return false;
  }
  const uint64_t checksum = reader.u64();
  if (reader.u32() != bytes || !reader.ok()) {
    return false;
  }
  // Against the pattern byte by byte, and the sum as a proof that both ends make the same pattern.
  uint32_t crc = 0;
  const bool same = same_data(reader, reply, bytes, [&](size_t offset, MutableBytes out) {
    fill_bench_pattern(seed, offset, out);
    crc = bench_checksum_more(crc, out);
  });
  return same && crc == checksum;
}

bool check_bench_sink(const BenchReply& reply, Bytes data) {
  XdrReader reader = reader_of(reply);
  return read_head(reader) && reader.u32() == data.size() && reader.u32() == bench_checksum(data) && reader.ok() &&
         reader.remaining() == 0;
}

Result<AcceptStatus> bench_status(const BenchReply& reply) {
  XdrReader reader = reader_of(reply);
  const auto header = read_rpc_reply(reader);
  if (!header.ok() || !header->accepted) {
    return fail(Error::kBadValue);
  }
  return static_cast<AcceptStatus>(header->status);
}

}  // namespace cw::rpcrdma
