// One iWARP connection from TCP's accept or connect to its end, and a peer that sends whatever it likes: bytes, FPDUs with right
// CRCs around any headers, in between posts, completions, time, a pool that runs dry, a socket that takes a byte at a time,
// FIN and reset. Every work that was posted ends in exactly one completion; memory beside the registered region is never
// touched, none at all on the passive side; what is sent is whole FPDUs, and nothing behind a Terminate.
//
// Input: [start] and records of [what][a][b][c][d]. Of `start` the top bit says that we connect, the next that CRCs are wanted.
#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/crc32c.h"
#include "base/heap_buffer_pool.h"
#include "iwarp/transport.h"
#include "iwarp/wire/fpdu.h"
#include "tests/fuzz/fuzz_target.h"

namespace cw::iwarp {
namespace {

constexpr uint16_t kPort = 20049;
constexpr uint32_t kRegion = 1024;
constexpr uint32_t kGuard = 256;
constexpr uint8_t kCanary = 0xc5;
constexpr size_t kInputBytesMax = 1024;
constexpr uint32_t kBufferBytes = 512;
constexpr uint32_t kReceiveBytesMax = 1000;
using Kind = verbs::ConnectionEvent::Kind;

HeapBufferPool& pool() {
  static HeapBufferPool one(96, kBufferBytes, 96);
  return one;
}

// Looks at everything that we send.
class Listener {
 public:
  void take(Bytes bytes) {
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
    if (!setup_over_) {
      FUZZ_CHECK(bytes_.size() < 16 || std::equal(bytes_.begin(), bytes_.begin() + 7, "MPA ID "));
      const size_t frame = bytes_.size() < 20 ? 0 : 20 + size_t{load_be16(bytes_.data() + 18)};
      if (frame == 0 || bytes_.size() < frame) {
        return;
      }
      bytes_.erase(bytes_.begin(), bytes_.begin() + static_cast<ptrdiff_t>(frame));
      setup_over_ = true;
    }
    while (bytes_.size() >= 2) {
      const uint32_t ulpdu = load_be16(bytes_.data());
      const uint32_t whole = fpdu_bytes(ulpdu);
      if (bytes_.size() < whole) {
        return;
      }
      FUZZ_CHECK(!terminated_);
      const auto header = parse_segment_header(Bytes(bytes_).subspan(2, ulpdu));
      FUZZ_CHECK(header.ok() && header->control.ddp_version == 1 && header->control.rdmap_version == 1);
      terminated_ = header->control.opcode == Opcode::kTerminate;
      if (header->control.opcode == Opcode::kReadRequest) {
        tags_.push_back(parse_read_request(Bytes(bytes_).subspan(2 + kUntaggedHeaderBytes, kReadRequestBytes)).sink_stag);
      }
      bytes_.erase(bytes_.begin(), bytes_.begin() + whole);
    }
  }
  [[nodiscard]] bool is_between_fpdus() const { return bytes_.empty(); }
  [[nodiscard]] uint32_t last_tag() const { return tags_.empty() ? 0 : tags_.back(); }

 private:
  std::vector<uint8_t> bytes_;
  bool setup_over_ = false;
  bool terminated_ = false;
  std::vector<uint32_t> tags_;
};

class Host final : public StreamHost {
 public:
  Status listen(uint16_t /*port*/) override { return {}; }
  void unlisten(uint16_t /*port*/) override {}
  Status connect(StreamId stream, const IpAddress& /*server*/, uint16_t /*port*/) override {
    stream_ = stream;
    return {};
  }
  void finish(StreamId stream) override { FUZZ_CHECK(stream_ == stream && !std::exchange(finished_, true)); }
  void release(StreamId stream, ReleaseKind /*kind*/) override {
    FUZZ_CHECK(stream_ == stream);
    stream_.reset();
  }

  std::optional<StreamId> stream_;
  bool finished_ = false;
};

class Target {
 public:
  explicit Target(uint8_t start)
      : active_((start & 0x80) != 0),
        random_(7),
        memory_(2, random_),
        transport_({.connections_max = 1,
                    .half_open_max = 2,
                    .parting_max = 2,
                    .crc = (start & 0x40) != 0,
                    .ird = 2,
                    .ord = 2,
                    .send_queue_depth = 8,
                    .send_work_max = 16,
                    .receive_work_max = 8},
                   host_, pool(), random_, active_ ? &memory_ : nullptr) {
    guarded_.fill(kCanary);
    const MutableBytes region(guarded_.data() + kGuard, kRegion);
    key_ = *memory_.register_region(verbs::ProtectionDomain(7), region, verbs::RemoteAccess::kReadWrite);
    if (active_) {
      user_ = transport_
                  .connect(now_, IpAddress::v4(1), kPort,
                           {.context = 1, .receive_bytes_max = kReceiveBytesMax, .domain = verbs::ProtectionDomain(7)})
                  .value();
      transport_.on_connected(now_, *host_.stream_, 600);
    } else {
      FUZZ_CHECK(transport_.listen(kPort).ok());
      host_.stream_ = transport_.on_accepted(now_, IpAddress::v4(1), 1000, kPort, 600);
    }
  }
  ~Target() {
    for (Buffer* held : held_) {
      pool().release(held);
    }
    if (user_) {
      transport_.disconnect(now_, *user_);
      transport_.destroy(*user_);
    }
    for (int i = 0; i < 10; ++i) {
      turn(4096);
      now_ = now_ + Duration::seconds(2);
      transport_.on_deadline(now_);
    }
    FUZZ_CHECK(transport_.live_count() == 0);
    FUZZ_CHECK(transport_.half_open_count() == 0);
    FUZZ_CHECK(pool().in_use() <= SpareBuffers::kCount);
    check_memory();
  }

  void step(uint8_t what, Bytes a) {
    switch (what % 16) {
      case 0:
        arrive(a);
        break;
      case 1:
        arrive_setup(a);
        break;
      case 2:
      case 3:
      case 4:
      case 5:
        arrive_fpdu(what, a);
        break;
      case 6:
        post(a);
        break;
      case 7:
        if (qp_ != nullptr) {
          qp_->post_receives(a[0] % 3);
        }
        break;
      case 8:
        now_ = now_ + Duration::ms(int64_t{a[0]} * 40);
        transport_.on_deadline(now_);
        break;
      case 9:
        while (held_.size() < 96u * a[0] / 255) {
          Buffer* one = pool().allocate_one();
          if (one == nullptr) {
            break;
          }
          held_.push_back(one);
        }
        break;
      case 10:
        for (Buffer* held : held_) {
          pool().release(held);
        }
        held_.clear();
        break;
      case 11:
        if (host_.stream_ && !fin_) {
          fin_ = true;
          transport_.on_end_of_stream(now_, *host_.stream_);
        }
        break;
      case 12:
        if (host_.stream_) {
          transport_.on_lost(now_, *std::exchange(host_.stream_, std::nullopt), StreamErrorCause::kTcpReset);
        }
        break;
      case 13:
        if (user_ && a[0] % 4 == 0) {
          transport_.disconnect(now_, *user_);
        } else if (qp_ != nullptr && a[0] % 4 == 1) {
          qp_->close();
        }
        break;
      default:
        turn(1 + uint32_t{a[0]} * 8);
        break;
    }
    turn(what % 16 < 14 ? 64 : 0);
  }

 private:
  // Several times in each step, so not byte by byte.
  void check_memory() const {
    FUZZ_CHECK(is_untouched(guarded_.data(), kGuard));
    FUZZ_CHECK(is_untouched(guarded_.data() + kGuard + kRegion, kGuard));
    FUZZ_CHECK(active_ || is_untouched(guarded_.data() + kGuard, kRegion));
  }
  static bool is_untouched(const uint8_t* memory, size_t size) {
    return memory[0] == kCanary && std::memcmp(memory, memory + 1, size - 1) == 0;
  }

  void arrive(Bytes bytes) {
    while (!bytes.empty() && host_.stream_ && !fin_) {
      std::array<MutableBytes, 4> space;
      const uint32_t pieces = transport_.receive_space(now_, *host_.stream_, space);
      if (pieces == 0) {
        return;
      }
      uint32_t count = 0;
      for (uint32_t i = 0; i < pieces && count < bytes.size(); ++i) {
        const size_t size = std::min(space[i].size(), bytes.size() - count);
        std::copy_n(bytes.begin() + count, size, space[i].begin());
        count += static_cast<uint32_t>(size);
      }
      transport_.on_received(now_, *host_.stream_, count);
      bytes = bytes.subspan(count);
    }
  }

  void arrive_setup(Bytes a) {
    std::array<uint8_t, kMpaFrameBytesMax> frame{};
    const MpaHeader header{.kind = active_ ? MpaFrameKind::kReply : MpaFrameKind::kRequest,
                           .crc = (a[0] & 0x40) != 0,
                           .reject = (a[0] & 0x20) != 0 && a[3] > 200,
                           .enhanced = (a[0] & 0x10) != 0,
                           .revision = static_cast<uint8_t>(1 + (a[0] & 1)),
                           .private_data_bytes = static_cast<uint16_t>(4 + a[1] % 16)};
    write(header, frame);
    write(IrdOrd{.peer_to_peer = (a[2] & 1) != 0,
                 .send = (a[2] & 2) != 0,
                 .write = (a[2] & 4) != 0,
                 .read = (a[2] & 8) != 0,
                 .ird = 2,
                 .ord = 2},
          MutableBytes(frame).subspan(kMpaHeaderBytes));
    arrive(Bytes(frame).first(kMpaHeaderBytes + header.private_data_bytes));
  }

  // Headers near what is right.
  void arrive_fpdu(uint8_t what, Bytes a) {
    std::vector<uint8_t> bytes(2);
    SegmentControl control;
    control.opcode = static_cast<Opcode>(a[0] & 0xf);
    control.last = (a[0] & 0x10) != 0;
    control.ddp_version = (a[0] & 0xe0) == 0xe0 ? 2 : 1;
    const bool tagged = control.opcode == Opcode::kWrite || control.opcode == Opcode::kReadResponse;
    control.tagged = tagged != ((a[0] & 0xe0) == 0x60);
    const uint32_t size = control.opcode == Opcode::kReadRequest ? kReadRequestBytes : uint32_t{a[1]} * (1 + what / 64);
    if (control.tagged) {
      bytes.resize(2 + kTaggedHeaderBytes);
      const bool response = control.opcode == Opcode::kReadResponse;
      write(TaggedHeader{.control = control,
                         .stag = (a[2] & 0xf) == 0xf ? a[2] : (response ? listener_.last_tag() : key_.value()),
                         .offset = response ? response_offset_ + a[3] % 2 : memory_.address_of(key_) + uint64_t{a[3]} * 8},
            MutableBytes(bytes).subspan(2));
      response_offset_ = response && !control.last ? response_offset_ + size : 0;
    } else {
      bytes.resize(2 + kUntaggedHeaderBytes);
      const uint32_t queue = control.opcode == Opcode::kReadRequest ? 1 : (control.opcode == Opcode::kTerminate ? 2 : 0);
      uint32_t& message = queue == 1 ? read_message_ : send_message_;
      UntaggedHeader header;
      header.control = control;
      header.invalidate_stag = key_.value() ^ (a[2] & 1);
      header.queue = static_cast<QueueNumber>((a[2] & 0x70) == 0x70 ? a[2] : queue);
      header.message = queue == 2 ? 1 : message + (a[3] > 250 ? 1 : 0);
      header.offset = queue == 0 ? send_offset_ : 0;
      if (queue == 0) {
        send_offset_ = control.last ? 0 : send_offset_ + size;
      }
      message += queue != 2 && control.last ? 1 : 0;
      write(header, MutableBytes(bytes).subspan(2));
    }
    const size_t at = bytes.size();
    bytes.resize(at + size, a[3]);
    if (control.opcode == Opcode::kReadRequest) {
      write(ReadRequestHeader{.sink_stag = 5,
                              .sink_offset = 6,
                              .bytes = uint32_t{a[1]} * 4,
                              .source_stag = key_.value() ^ (a[2] & 1),
                              .source_offset = memory_.address_of(key_) + a[3]},
            MutableBytes(bytes).subspan(at));
    }
    const auto ulpdu = static_cast<uint32_t>(bytes.size() - 2);
    store_be16(bytes.data(), static_cast<uint16_t>(ulpdu));
    bytes.resize(fpdu_bytes(ulpdu));
    Crc32c crc;
    crc.add(Bytes(bytes).first(bytes.size() - 4));
    store_fpdu_crc(bytes.data() + bytes.size() - 4, crc.value() ^ (what > 250 ? 1 : 0));
    arrive(bytes);
  }

  void post(Bytes a) {
    if (qp_ == nullptr) {
      return;
    }
    const verbs::WorkId id(next_id_++);
    Status posted = cw::fail(Error::kBadState);
    const bool fence = (a[0] & 0x20) != 0;
    if (a[0] % 3 == 0) {
      posted = qp_->post_read({.id = id, .rkey = verbs::Rkey(a[1]), .length = uint32_t{a[2]} * 4, .fence = fence});
    } else {
      Chain payload;
      const std::vector<uint8_t> bytes(size_t{a[2]} * 6, a[3]);
      if (!payload.append_copy(pool(), bytes)) {
        return;
      }
      posted = a[0] % 3 == 1
                   ? qp_->post_send({.id = id,
                                     .payload = std::move(payload),
                                     .invalidate = (a[1] & 1) != 0 ? std::optional(verbs::Rkey(9)) : std::nullopt,
                                     .fence = fence})
                   : qp_->post_write({.id = id, .payload = std::move(payload), .rkey = verbs::Rkey(a[1]), .fence = fence});
    }
    if (posted.ok()) {
      pending_.insert(id.value());
    }
  }

  // The socket takes up to `bytes`.
  void turn(uint32_t bytes) {
    verbs::ConnectionEvent event;
    while (transport_.poll_event(now_, event)) {
      switch (event.kind) {
        case Kind::kConnectRequest: {
          user_ = event.connection;
          const auto accepted = transport_.accept(now_, event.connection, {.context = 1, .receive_bytes_max = kReceiveBytesMax});
          if (accepted.ok()) {
            qp_ = accepted->queue_pair;
          } else {
            transport_.reject(now_, event.connection, verbs::RejectReason::kNoResources, {});
            user_.reset();
          }
          break;
        }
        case Kind::kConnectResponse:
          qp_ = event.queue_pair;
          transport_.establish(now_, event.connection);
          break;
        default:
          break;
      }
    }
    verbs::ReadyQueuePair ready;
    while (transport_.poll_ready(ready)) {
      verbs::Completion completion;
      while (ready.queue_pair->poll_completion(completion)) {
        if (verbs::is_receive(completion.opcode)) {
          FUZZ_CHECK(completion.payload.bytes() <= kReceiveBytesMax);
        } else {
          FUZZ_CHECK(pending_.erase(completion.id.value()) == 1);
        }
      }
      FUZZ_CHECK(!ready.queue_pair->in_error() || pending_.empty());
    }
    StreamId stream;
    while (transport_.poll_sendable(now_, stream)) {
    }
    while (bytes > 0 && host_.stream_) {
      std::array<Bytes, 3> pieces;
      const uint32_t count = transport_.send_pieces(*host_.stream_, pieces);
      uint64_t written = 0;
      for (uint32_t i = 0; i < count && written < bytes; ++i) {
        const size_t size = std::min<size_t>(pieces[i].size(), bytes - written);
        listener_.take(pieces[i].first(size));
        written += size;
      }
      if (written == 0) {
        break;
      }
      FUZZ_CHECK(!host_.finished_);
      transport_.on_written(now_, *host_.stream_, written);
      bytes -= static_cast<uint32_t>(written);
      while (transport_.poll_sendable(now_, stream)) {
      }
    }
    FUZZ_CHECK(!host_.finished_ || listener_.is_between_fpdus());
    check_memory();
  }

  bool active_;
  SeededRandom random_;
  verbs::MemoryTable memory_;
  std::array<uint8_t, kGuard + kRegion + kGuard> guarded_{};
  verbs::Rkey key_;
  Host host_;
  Instant now_ = Instant::from_ns(1'000'000'000);
  IwarpTransport transport_;
  Listener listener_;
  std::optional<verbs::ConnectionId> user_;
  verbs::QueuePair* qp_ = nullptr;
  std::set<uint64_t> pending_;
  std::vector<Buffer*> held_;
  uint64_t next_id_ = 1;
  uint32_t send_message_ = 1;
  uint32_t read_message_ = 1;
  uint32_t send_offset_ = 0;
  uint64_t response_offset_ = 0;
  bool fin_ = false;
};

void run(Bytes input) {
  Target target(input[0]);
  constexpr size_t kRecord = 5;
  for (size_t at = 1; at + kRecord <= input.size(); at += kRecord) {
    target.step(input[at], input.subspan(at + 1, kRecord - 1));
  }
}

}  // namespace
}  // namespace cw::iwarp

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 0 && size <= cw::iwarp::kInputBytesMax) {
    cw::iwarp::run({data, size});
  }
  return 0;
}
