// Packets on their way out: what a protocol object fills and the shell sends.
//
// A frame lies in one of three ways.
//   Copied: all of it in a head Buffer (link, IP, UDP, BTH, extension headers, payload, padding, iCRC). Short payloads, and those
//   whose memory has no owner (registered client memory).
//   Attached: headers in the head, then pieces that point into Buffers which stay owned by the queue pair until the peer has
//   acknowledged them, then a trailer (padding and iCRC). Large payloads; the shell attaches the pieces without copying.
//   In place: no head; the one piece is the frame, built around its payload in the message's own Buffer, which stays owned by
//   the queue pair. The shell refers to it or copies it; nobody writes there again before the shell has let go of it.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "base/buffer.h"

namespace cw::wire {

struct TxPiece {
  const Buffer* owner = nullptr;  // keeps the bytes alive: the shell takes a reference of its own while the NIC may read
  const uint8_t* data = nullptr;
  uint32_t size = 0;
};

struct TxPacket {
  static constexpr uint32_t kPiecesMax = 4;
  static constexpr uint32_t kTrailerMax = 3 + 4;
  Buffer* head = nullptr;  // nullptr: in place
  std::array<TxPiece, kPiecesMax> pieces;
  uint32_t piece_count = 0;
  std::array<uint8_t, kTrailerMax> trailer;
  uint32_t trailer_bytes = 0;
  uint16_t port = 0;  // index of the port to leave by

  [[nodiscard]] bool is_in_place() const { return head == nullptr; }
  [[nodiscard]] uint32_t frame_bytes() const {
    uint32_t total = 0;
    for_each_run([&total](Bytes run) { total += static_cast<uint32_t>(run.size()); });
    return total;
  }
  // The bytes that the frame begins with: its link header at least.
  [[nodiscard]] Bytes front() const { return is_in_place() ? Bytes(pieces[0].data, pieces[0].size) : head->bytes(); }
  // The frame's bytes in the order of the wire.
  template <typename Visit>
  void for_each_run(Visit&& visit) const {
    if (head != nullptr) {
      visit(head->bytes());
    }
    for (uint32_t i = 0; i < piece_count; ++i) {
      visit(Bytes(pieces[i].data, pieces[i].size));
    }
    visit(Bytes(trailer.data(), trailer_bytes));
  }
  [[nodiscard]] std::vector<uint8_t> raw() const {
    std::vector<uint8_t> frame;
    frame.reserve(frame_bytes());
    for_each_run([&frame](Bytes run) { frame.insert(frame.end(), run.begin(), run.end()); });
    return frame;
  }
};

// A bounded burst. Heads come from `pool`; whoever drains the batch owns them.
class TxBatch {
 public:
  static constexpr uint32_t kCapacity = 64;
  explicit TxBatch(BufferPool& pool) : pool_(pool) {}
  TxBatch(const TxBatch&) = delete;
  TxBatch& operator=(const TxBatch&) = delete;
  ~TxBatch() {
    clear();
    if (spare_count_ > 0) {
      for (uint32_t i = 0; i < spare_count_; ++i) {
        release_buffers(spare_[i]);
      }
    }
  }

  [[nodiscard]] bool full() const { return count_ == kCapacity; }
  [[nodiscard]] bool empty() const { return count_ == 0; }
  [[nodiscard]] uint32_t size() const { return count_; }
  [[nodiscard]] uint32_t room() const { return kCapacity - count_; }
  // A new packet with an empty head, or nullptr when the batch is full or the pool is empty. Stays in the batch; drop_last()
  // takes it out again.
  [[nodiscard]] TxPacket* add() {
    if (full()) {
      return nullptr;
    }
    if (spare_count_ == 0) {
      // In bulk: one virtual call for several packets; one at a time when the pool runs low.
      if (pool_.allocate(std::span<Buffer*>(spare_.data(), kRefill))) {
        spare_count_ = kRefill;
      } else {
        spare_[0] = pool_.allocate_one();
        if (spare_[0] == nullptr) {
          return nullptr;
        }
        spare_count_ = 1;
      }
    }
    return fresh(spare_[--spare_count_]);
  }
  // A new packet for a frame that is built in place. Precondition: !full().
  [[nodiscard]] TxPacket* add_in_place() { return fresh(nullptr); }
  void drop_last() {
    --count_;
    release_buffers(packets_[count_].head);
  }
  [[nodiscard]] std::span<TxPacket> packets() { return {packets_.data(), count_}; }
  // The shell has taken the heads.
  void reset() { count_ = 0; }
  // Nobody has taken the heads: give them back.
  void clear() {
    for (uint32_t i = 0; i < count_; ++i) {
      release_buffers(packets_[i].head);
    }
    count_ = 0;
  }

 private:
  static constexpr uint32_t kRefill = 16;

  [[nodiscard]] TxPacket* fresh(Buffer* head) {
    TxPacket& packet = packets_[count_++];
    packet.head = head;
    packet.piece_count = 0;
    packet.trailer_bytes = 0;
    packet.port = 0;
    return &packet;
  }

  BufferPool& pool_;
  std::array<TxPacket, kCapacity> packets_;
  uint32_t count_ = 0;
  std::array<Buffer*, kRefill> spare_{};
  uint32_t spare_count_ = 0;
};

}  // namespace cw::wire
