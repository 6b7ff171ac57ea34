// Bytes that came from TCP and were not taken yet: at most one FPDU that is not complete and what was read behind it. TCP writes
// into the buffers that messages are made of, so that payload is not copied.
//
// A read is offered the rest of the input's last buffer and the core's spare buffers. What the read does not fill stays with the
// core: a connection that waits holds no buffer.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "base/buffer.h"
#include "base/bytes.h"

namespace cw::iwarp {

// Empty buffers for the next read of any connection.
class SpareBuffers {
 public:
  // The longest FPDU and what a connection may read behind it, in buffers of 2 KiB: one read() takes it.
  static constexpr uint32_t kCount = 40;

  explicit SpareBuffers(BufferPool& pool) : pool_(pool) {}
  ~SpareBuffers();
  SpareBuffers(const SpareBuffers&) = delete;
  SpareBuffers& operator=(const SpareBuffers&) = delete;

  [[nodiscard]] BufferPool& pool() const { return pool_; }
  [[nodiscard]] uint32_t count() const { return count_; }
  // Room for the next read, as far as `out` and the pool reach. Returns how many pieces.
  [[nodiscard]] uint32_t offer(std::span<MutableBytes> out);
  // The first of those offered. Precondition: there is one.
  [[nodiscard]] Buffer* take();

 private:
  BufferPool& pool_;
  std::array<Buffer*, kCount> buffers_{};  // the last is offered first
  uint32_t count_ = 0;
};

class ByteInput {
 public:
  // Where TCP's next bytes go. 0 pieces: the pool is empty.
  [[nodiscard]] uint32_t space(SpareBuffers& spares, std::span<MutableBytes> out);
  // `count` bytes were written to what space() offered last, in its order.
  void received(SpareBuffers& spares, uint32_t count);

  [[nodiscard]] Chain& bytes() { return bytes_; }
  [[nodiscard]] const Chain& bytes() const { return bytes_; }

 private:
  // The last buffer is worth writing to.
  [[nodiscard]] bool has_tailroom() const { return !bytes_.empty() && !bytes_.tail_room().empty(); }

  Chain bytes_;
};

}  // namespace cw::iwarp
