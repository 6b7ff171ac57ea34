#include "rpcrdma/backend/bench_callback.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "rpcrdma/backend/bench_program.h"
#include "rpcrdma/rpc/rpc_message.h"
#include "rpcrdma/xdr/xdr_reader.h"
#include "rpcrdma/xdr/xdr_writer.h"

namespace cw::rpcrdma {
namespace {

constexpr size_t kPieceBytes = 512;  // pattern made at a time

// Calls `use` with the pattern's bytes, piece by piece, the last one with its XDR padding. False as soon as `use` says so.
template <typename Use>
bool each_piece(const BenchCallback& callback, Use&& use) {
  std::array<uint8_t, kPieceBytes> piece;
  for (uint32_t done = 0; done < callback.bytes;) {
    const uint32_t take = std::min<uint32_t>(kPieceBytes, callback.bytes - done);
    const uint32_t padded = static_cast<uint32_t>(xdr_padded(take));  // kPieceBytes is a multiple of 4: only the last has any
    fill_bench_pattern(callback.seed, done, MutableBytes(piece).first(take));
    std::fill(piece.begin() + take, piece.begin() + padded, uint8_t{0});
    if (!use(Bytes(piece).first(padded))) {
      return false;
    }
    done += take;
  }
  return true;
}

}  // namespace

Result<BenchCallback> parse_bench_callback(const CallContext& context, const Chain& call) {
  XdrReader reader(call);
  reader.skip(context.header.header_bytes);
  BenchCallback callback;
  callback.bytes = reader.u32();
  callback.seed = reader.u64();
  if (!reader.ok() || reader.remaining() != 0 || callback.bytes > kBenchCallbackBytesMax) {
    return fail(Error::kBadValue);
  }
  return callback;
}

bool build_bench_reverse_call(BufferPool& pool, uint32_t xid, const BenchCallback& callback, Chain& message) {
  std::array<uint8_t, 44> head{};
  XdrWriter writer(head);
  writer.u32(xid);
  writer.u32(static_cast<uint32_t>(RpcMessageType::kCall));
  writer.u32(kRpcVersion);
  writer.u32(kBenchProgram);
  writer.u32(kBenchVersion);
  writer.u32(static_cast<uint32_t>(BenchProcedure::kEcho));
  writer.zeros(16);  // AUTH_NONE twice
  writer.u32(callback.bytes);
  const bool built = message.append_copy(pool, writer.written()) &&
                     each_piece(callback, [&](Bytes piece) { return message.append_copy(pool, piece); });
  if (!built) {
    message.clear();
  }
  return built;
}

bool check_bench_reverse_reply(const Chain& reply, const BenchCallback& callback) {
  XdrReader reader(reply);
  const auto header = read_rpc_reply(reader);
  if (!header.ok() || !header->success() || reader.u32() != callback.bytes || !reader.ok()) {
    return false;
  }
  const bool same = each_piece(callback, [&](Bytes piece) {
    std::array<uint8_t, kPieceBytes> actual;
    reader.copy(MutableBytes(actual).first(piece.size()));
    return reader.ok() && std::memcmp(actual.data(), piece.data(), piece.size()) == 0;
  });
  return same && reader.remaining() == 0;
}

}  // namespace cw::rpcrdma
