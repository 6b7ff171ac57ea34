// Messages written word by word, as RFC 8166 4.7 draws them, so that tests say what is on the wire and not what our encoder makes
// of it.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <vector>

#include "base/buffer.h"
#include "rpcrdma/backend/bench_program.h"

namespace cw::rpcrdma {

inline constexpr uint32_t kXid = 0xabcd'0001;

class Words {
 public:
  Words() = default;
  Words(std::initializer_list<uint32_t> words) { add(words); }
  Words& add(std::initializer_list<uint32_t> words) {
    for (const uint32_t word : words) {
      raw_.resize(raw_.size() + 4);
      store_be32(raw_.data() + raw_.size() - 4, word);
    }
    return *this;
  }
  // presence word, position, handle, length, offset
  Words& read(uint32_t position, uint32_t handle, uint32_t length, uint64_t offset) {
    return add({1, position}).segment(handle, length, offset);
  }
  Words& segment(uint32_t handle, uint32_t length, uint64_t offset) {
    return add({handle, length, static_cast<uint32_t>(offset >> 32), static_cast<uint32_t>(offset)});
  }
  Words& raw(Bytes more) {
    raw_.insert(raw_.end(), more.begin(), more.end());
    return *this;
  }
  Words& zeros(size_t count) {
    raw_.resize(raw_.size() + count);
    return *this;
  }
  Words& cut(size_t bytes) {
    raw_.resize(bytes);
    return *this;
  }
  [[nodiscard]] size_t size() const { return raw_.size(); }
  [[nodiscard]] const std::vector<uint8_t>& bytes() const { return raw_; }
  [[nodiscard]] std::vector<uint32_t> words() const { return words_of(raw_); }

  static std::vector<uint32_t> words_of(const std::vector<uint8_t>& raw) {
    std::vector<uint32_t> words;
    for (size_t at = 0; at + 4 <= raw.size(); at += 4) {
      words.push_back(load_be32(raw.data() + at));
    }
    return words;
  }

 private:
  std::vector<uint8_t> raw_;
};

// An RPC call header with AUTH_NONE; 40 bytes.
inline Words rpc_call(uint32_t xid, uint32_t procedure = 0, uint32_t program = kBenchProgram, uint32_t version = kBenchVersion) {
  return Words{xid, 0, 2, program, version, procedure, 0, 0, 0, 0};
}
// An accepted, successful RPC reply header; 24 bytes.
inline Words rpc_reply(uint32_t xid) {
  return Words{xid, 1, 0, 0, 0, 0};
}
// RDMA_MSG without chunks, of a client that asks for 16 credits; 28 bytes and the call.
inline Words inline_call(uint32_t xid, const Words& call) {
  return Words{xid, 1, 16, 0, 0, 0, 0}.raw(call.bytes());
}

inline std::vector<uint8_t> bytes_of(const Chain& chain) {
  std::vector<uint8_t> raw(chain.bytes());
  chain.copy_to(0, raw);
  return raw;
}
inline std::vector<uint32_t> words_of(const Chain& chain) {
  return Words::words_of(bytes_of(chain));
}

// The bytes in Buffers of at most `piece` each.
inline Chain chain_of(BufferPool& pool, Bytes bytes, size_t piece = 1024) {
  Chain chain;
  while (!bytes.empty()) {
    Buffer* buffer = pool.allocate_one();
    CW_ASSERT(buffer != nullptr);
    bytes = bytes.subspan(buffer->append(bytes.first(std::min(piece, bytes.size()))));
    chain.push_back(buffer);
  }
  return chain;
}

}  // namespace cw::rpcrdma
