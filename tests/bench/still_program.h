// The bench program's SOURCE and SINK without the work of a program: what is sent lies ready, what comes is not looked at. So
// that a bench of payload measures the gateway and not what makes up its data.
#pragma once

#include <algorithm>
#include <array>

#include "base/heap_buffer_pool.h"
#include "rpcrdma/backend/backend.h"
#include "rpcrdma/backend/bench_program.h"
#include "rpcrdma/rpc/rpc_message.h"
#include "rpcrdma/xdr/xdr_reader.h"

namespace cw::bench {

class StillProgram final : public rpcrdma::Program {
 public:
  // Serves SOURCE up to so many bytes.
  explicit StillProgram(uint32_t bytes_max) : memory_(bytes_max / kBufferBytes + 1, kBufferBytes, kViews) {
    for (uint32_t done = 0; done < bytes_max;) {
      Buffer* buffer = memory_.allocate_one();
      CW_ASSERT(buffer != nullptr);
      buffer->size = std::min(bytes_max - done, kBufferBytes);
      std::fill_n(buffer->data, buffer->size, uint8_t{0x5a});
      done += buffer->size;
      data_.push_back(buffer);
    }
  }

  [[nodiscard]] uint32_t program() const override { return rpcrdma::kBenchProgram; }
  [[nodiscard]] uint32_t version() const override { return rpcrdma::kBenchVersion; }
  [[nodiscard]] bool call(const rpcrdma::CallContext& context, const Chain& message, const rpcrdma::ReplyPools& pools,
                          Chain& reply) override {
    XdrReader reader(message);
    reader.skip(context.header.header_bytes);
    const uint32_t first = reader.u32();
    const bool source = context.header.procedure == static_cast<uint32_t>(rpcrdma::BenchProcedure::kSource);
    const uint32_t bytes = source ? first : reader.u32();
    std::array<uint8_t, rpcrdma::kAcceptedReplyBytes + 12> head{};
    uint8_t* results = head.data() + rpcrdma::kAcceptedReplyBytes;
    rpcrdma::write_accepted_reply(std::span(head).first<rpcrdma::kAcceptedReplyBytes>(), context.header.xid,
                                  rpcrdma::AcceptStatus::kSuccess);
    if (source) {
      store_be32(results + 8, bytes);  // behind a checksum that nobody asks for
      return reply.append_copy(pools.packets, head) && data_.share_range(0, bytes, reply);
    }
    store_be32(results, bytes);
    store_be32(results + 4, first);  // the checksum that was expected
    return reply.append_copy(pools.packets, Bytes(head).first(head.size() - 4));
  }

 private:
  using XdrReader = rpcrdma::XdrReader;
  static constexpr uint32_t kBufferBytes = 65536;
  static constexpr uint32_t kViews = 65536;
  HeapBufferPool memory_;
  Chain data_;
};

}  // namespace cw::bench
