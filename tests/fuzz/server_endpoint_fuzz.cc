// The server endpoint over its whole life: messages of a client, replies of the backend, completions in order, errors, pools that
// run dry, slots that are used again and again, the clock. Two connections share everything, so that what one leaves behind shows
// at the other. After each step both are consistent; in the end nothing is in use, and no unit, credit or byte is counted.
//
// Input: [start] and records of [what][a][b][c]. Of `start` bit 0: credentials of RPCSEC_GSS; bit 1: remote invalidation; bit 2:
// the reverse direction; bit 3: few buffers; bit 4: few units to pull into; bit 5: one client has both connections.
#include <array>
#include <cstring>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "base/heap_buffer_pool.h"
#include "rpcrdma/endpoint/server_endpoint.h"
#include "rpcrdma/wire/transport_header.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/support/fake_queue_pair.h"

namespace cw::rpcrdma {
namespace {

constexpr size_t kInputBytesMax = 512;
constexpr uint32_t kCredits = 4;
constexpr uint32_t kSlots = 3;  // fewer than both connections' credits
constexpr uint32_t kBufferBytes = 512;

// Made once, since what an input costs should be what it does; but each input starts with slots that nobody has used.
struct Core {
  explicit Core(uint32_t buffers, uint32_t views) : pool(buffers, kBufferBytes, views), shared(kSlots, pool) {}
  HeapBufferPool pool;
  ServerShared shared;
};
Core& core_for(bool tight) {
  static Core roomy(64, 64);
  static Core scarce(14, 6);
  return tight ? scarce : roomy;
}

class Writer {
 public:
  Writer& word(uint32_t value) {
    store_be32(raw_.data() + size_, value);
    size_ += 4;
    return *this;
  }
  Writer& segment(uint32_t handle, uint32_t length, uint64_t offset) {
    return word(handle).word(length).word(static_cast<uint32_t>(offset >> 32)).word(static_cast<uint32_t>(offset));
  }
  Writer& zeros(size_t count) {
    std::memset(raw_.data() + size_, 0, count);
    size_ += count;
    return *this;
  }
  [[nodiscard]] size_t size() const { return size_; }
  [[nodiscard]] Bytes bytes() const { return Bytes(raw_).first(size_); }

 private:
  std::array<uint8_t, 8192> raw_;
  size_t size_ = 0;
};

bool fill(BufferPool& pool, Bytes bytes, size_t piece, Chain& out) {
  while (!bytes.empty()) {
    Buffer* buffer = pool.allocate_one();
    if (buffer == nullptr) {
      out.clear();
      return false;
    }
    bytes = bytes.subspan(buffer->append(bytes.first(std::min(piece, bytes.size()))));
    out.push_back(buffer);
  }
  return true;
}

class Target {
 public:
  explicit Target(uint8_t start)
      : pool_(core_for((start & 8) != 0).pool), shared_(core_for((start & 8) != 0).shared), flavor_((start & 1) != 0 ? 6 : 1) {
    shared_.calls = std::make_unique<ServerCallTable>(kSlots);
    shared_.pull_units_max = (start & 16) != 0 ? 6 : 64;
    shared_.reply_bytes_max = 16384;
    shared_.stats = RpcRdmaStats();
    while (!shared_.done.empty()) {
      (void)shared_.done.pop();
    }
    options_.credits = kCredits;
    options_.reverse_credits = (start & 4) != 0 ? 2 : 0;
    options_.read_unit_bytes = kBufferBytes;
    options_.reads_in_flight_max = 3;
    options_.read_bytes_in_flight_max = 4096;
    options_.call_bytes_max = 4096;
    options_.reply_bytes_max = 4096;
    options_.share = (start & 32) != 0 ? &share_ : nullptr;
    thresholds_ = {.send_bytes = 1024, .receive_bytes = 1024, .remote_invalidation = (start & 2) != 0};
    for (Side& side : sides_) {
      open(side);
    }
  }

  void act(const std::array<uint8_t, 4>& r) {
    Side& side = sides_[r[0] >> 7];
    switch (r[0] & 15) {
      case 0:
      case 1:
      case 2:
      case 3:
        message(side, r[1], r[2], r[3]);
        break;
      case 4:
      case 5:
        poll(side);
        break;
      case 6:
      case 7:
      case 8:
        reply(side, r[1], r[2], r[3]);
        break;
      case 9:
      case 10:
        complete(side, r[1], r[2]);
        break;
      case 11:
        now_ = now_ + Duration::us(int64_t{1} << (r[1] % 29));
        on_time();
        break;
      case 12:
        side.qp->set_shared_room(r[1] % 4 == 0 ? UINT32_MAX : r[1] % 4 - 1);
        break;
      case 13:
        reverse(side, r[1]);
        break;
      case 14:
        side.server->set_grant(1 + r[1] % kCredits);
        break;
      default:
        disturb(side, r[1], r[2]);
        break;
    }
    check();
  }

  void end() {
    for (Side& side : sides_) {
      close(side);
    }
    hoard_.clear();
    FUZZ_CHECK(shared_.calls->in_use() == 0 && shared_.pulled_units == 0 && shared_.pull_line.empty());
    FUZZ_CHECK(shared_.reply_bytes == 0);
    FUZZ_CHECK(share_.pulled_units == 0 && share_.unread_units == 0 && share_.reply_bytes == 0);
    FUZZ_CHECK(shared_.stats.credits_granted == 0 && shared_.stats.credits_in_use == 0);
    FUZZ_CHECK(shared_.stats.reverse_credits_granted == 0 && shared_.stats.reverse_credits_in_use == 0);
    FUZZ_CHECK(pool_.in_use() == 0);
  }

 private:
  struct Side {
    std::optional<test::FakeQueuePair> qp;
    std::optional<ServerEndpoint> server;
    std::deque<std::pair<CallId, uint32_t>> taken;
    Chain kept;  // what the owner still has of calls
  };

  void open(Side& side) {
    side.qp.emplace(12);
    side.server.emplace(shared_, *side.qp, options_, thresholds_);
    side.server->start();
    if (options_.reverse_credits > 0) {
      side.server->enable_reverse();
    }
  }
  void close(Side& side) {
    side.server.reset();
    side.qp.reset();
    side.taken.clear();
    side.kept.clear();
  }

  // A message of the client. `kind`: how it is made; `a`, `b`: sizes.
  void message(Side& side, uint8_t kind, uint8_t a, uint8_t b) {
    Writer call;
    const uint32_t xid = next_xid_++ % 64;
    call.word(xid).word((kind & 0x40) != 0 && a == 0xff ? 1 : 0).word(2).word(kBenchProgram).word(kBenchVersion).word(kind % 4);
    if (flavor_ == 6) {
      call.word(6).word(24).word(1).word(0).word(xid).word(1).word(4).word(0x4444'4444).word(0).word(0);
    } else {
      call.word(1).word(0).word(0).word(0);
    }
    const uint32_t head = static_cast<uint32_t>(call.size());
    Writer out;
    const bool wrong_version = (kind & 0xf0) == 0xf0;
    const bool nomsg = (kind & 0x30) == 0x30;
    const uint32_t proc = (kind & 0xe0) == 0xe0 ? a % 6 : nomsg ? 1 : 0;
    out.word((kind & 0xe0) == 0xc0 && b == 0xff ? xid + 1 : xid).word(wrong_version ? 2 : 1).word(16).word(proc);
    uint32_t inline_bytes = 0;
    // Read list
    if (nomsg) {
      out.word(1).word(0).segment(0x21, 4u * (a % 64), 0x1000);
    } else if ((kind & 0x08) != 0) {
      const uint32_t count = 1 + a % 3;
      for (uint32_t i = 0; i < count; ++i) {
        out.word(1).word(head + 4).segment(0x22 + i, (uint32_t{b} * (i + 1) * 5) % 1500, uint64_t{0x1000} * (i + 1));
      }
      inline_bytes = 4;
    }
    out.word(0);
    // Write list and Reply chunk
    if ((kind & 0x04) != 0) {
      const uint32_t chunks = 1 + b % 2;
      for (uint32_t i = 0; i < chunks; ++i) {
        out.word(1).word(1 + a % 2);
        for (uint32_t j = 0; j < 1u + a % 2; ++j) {
          out.segment(0x31 + i, uint32_t{a} * 12 * (j + 1), 0x4000);
        }
      }
    }
    out.word(0);
    if ((kind & 0x80) != 0) {
      out.word(1).word(1).segment(0x41, uint32_t{b} * 16, 0x8000);
    } else {
      out.word((kind & 0xe0) == 0x60 && a == 0xfe ? 2 : 0);
    }
    Chain chain;
    if (!nomsg) {
      inline_bytes += (kind & 0x03) == 1 ? a % 128 : 16;
      std::array<uint8_t, 8192> whole;
      std::memcpy(whole.data(), out.bytes().data(), out.size());
      std::memcpy(whole.data() + out.size(), call.bytes().data(), call.size());
      std::memset(whole.data() + out.size() + call.size(), b, inline_bytes);
      const size_t bytes = out.size() + call.size() + inline_bytes;
      const size_t cut = b == 0xfd ? a % bytes : bytes;
      if (!fill(pool_, Bytes(whole).first(cut), a % 2 == 0 ? kBufferBytes : 200, chain)) {
        return;
      }
    } else if (!fill(pool_, out.bytes(), kBufferBytes, chain)) {
      return;
    }
    if (!side.server->failed() && side.qp->deliver(std::move(chain), std::nullopt, now_)) {
      side.server->on_completions(now_);
    }
  }

  void poll(Side& side) {
    Call call;
    if (side.server->poll_call(now_, call)) {
      FUZZ_CHECK(!side.server->failed() && call.context != nullptr && call.message.bytes() >= 4);
      side.taken.emplace_back(call.id, first_word(call.message));
      side.kept.append(std::move(call.message));
      if (side.kept.buffer_count() > 8) {
        side.kept.clear();
      }
    }
  }

  // The backend's answer to a call: right, of another call, too short, too long, or to one that is gone.
  void reply(Side& side, uint8_t which, uint8_t kind, uint8_t size) {
    if (side.taken.empty()) {
      return;
    }
    const auto at = side.taken.begin() + which % static_cast<ptrdiff_t>(side.taken.size());
    const auto [id, xid] = *at;
    side.taken.erase(at);
    Writer out;
    out.word((kind & 0x10) != 0 ? xid + 1 : xid).word(1);
    if ((kind & 0x20) == 0) {
      const uint32_t length = uint32_t{size} * ((kind & 0x40) != 0 ? 16 : 3);
      out.word(0).word(0).word(0).word(0);
      if ((kind & 3) == 2) {
        out.word(0).word(0x5555'5555);
      }
      out.word(length).zeros((length + 3) & ~3u);
      if ((kind & 0x08) != 0) {
        out.zeros(size);
      }
    }
    Chain chain;
    if (fill(pool_, out.bytes(), kBufferBytes - 128, chain)) {
      side.server->reply(now_, id, std::move(chain));
      if ((kind & 0x80) != 0) {
        Chain twice;
        if (fill(pool_, out.bytes(), kBufferBytes, twice)) {
          side.server->reply(now_, id, std::move(twice));
        }
      }
    }
  }

  // The oldest works end: well, or, rarely, with what the peer may do to them.
  void complete(Side& side, uint8_t count, uint8_t how) {
    for (uint32_t i = 0; i < 1u + count % 8 && !side.qp->posted().empty(); ++i) {
      const test::PostedWork& work = side.qp->posted().front();
      if (how >= 0xfc) {
        side.qp->break_with(how == 0xfc ? verbs::WcStatus::kRemoteAccessError : verbs::WcStatus::kRetryExceeded);
        break;
      }
      Chain data;
      if (work.kind == test::WorkKind::kRead) {
        std::array<uint8_t, 4096> raw{};
        store_be32(raw.data(), how % 64);
        const uint32_t bytes = how == 0xfb && work.length > 0 ? work.length - 1 : work.length;
        if (!fill(pool_, Bytes(raw).first(std::min<size_t>(bytes, raw.size())), kBufferBytes, data)) {
          break;
        }
      } else {
        FUZZ_CHECK(work.payload.bytes() > 0);
      }
      side.qp->finish(std::move(data));
    }
    side.server->on_completions(now_);
  }

  void reverse(Side& side, uint8_t kind) {
    Writer out;
    const uint32_t xid = kind % 16;
    if ((kind & 0x80) == 0) {
      out.word(xid).word(0).word(2).word(1).word(1).word(1).word(0).word(0).word(0).word(0);
      Chain chain;
      if (fill(pool_, out.bytes(), kBufferBytes, chain)) {
        (void)side.server->submit_reverse(now_, std::move(chain));
      }
      return;
    }
    out.word(xid).word(1).word(1 + kind % 3).word((kind & 0x40) != 0 ? 4 : 0);
    if ((kind & 0x40) != 0) {
      out.word(2);
    } else {
      out.word(0).word(0).word(0).word(xid).word((kind & 0x20) != 0 ? 0 : 1).word(0).word(0);
    }
    Chain chain;
    if (fill(pool_, out.bytes(), kBufferBytes, chain) && side.qp->deliver(std::move(chain), std::nullopt, now_)) {
      side.server->on_completions(now_);
    }
    ReverseOutcome outcome;
    while (side.server->poll_reverse(outcome)) {
      outcome.message.clear();
    }
  }

  // Somebody else takes Buffers and gives them back; the owner gives the connection up; a client comes back.
  void disturb(Side& side, uint8_t what, uint8_t count) {
    if (what < 0x60) {
      for (uint32_t i = 0; i < 1u + count % 16; ++i) {
        if (Buffer* buffer = pool_.allocate_one(); buffer != nullptr) {
          hoard_.push_back(buffer);
        }
      }
    } else if (what < 0xe0) {
      hoard_.clear();
    } else if (what < 0xe8) {
      side.server->fail();
    } else {
      close(side);
      open(side);
    }
  }

  void on_time() {
    for (Side& side : sides_) {
      for (uint32_t i = 0; i < 4 && side.server->next_deadline() <= now_; ++i) {
        side.server->on_deadline(now_);
      }
    }
  }

  void check() {
    uint64_t slots = 0;
    for (Side& side : sides_) {
      FUZZ_CHECK(side.server->is_consistent());
      FUZZ_CHECK(side.server->failed() == (side.server->failure() != EndpointFailure::kNone));
      slots += side.server->failed() ? 0 : side.server->calls_in_flight();
    }
    FUZZ_CHECK(shared_.calls->in_use() <= slots);
    FUZZ_CHECK(shared_.stats.credits_in_use == slots);
  }

  static uint32_t first_word(const Chain& chain) {
    uint8_t word[4];
    chain.copy_to(0, word);
    return load_be32(word);
  }

  HeapBufferPool& pool_;
  ServerShared& shared_;
  uint32_t flavor_;
  ClientShare share_;
  ServerOptions options_;
  InlineThresholds thresholds_;
  Instant now_ = Instant::from_ns(1'000'000'000);
  std::array<Side, 2> sides_;
  Chain hoard_;
  uint32_t next_xid_ = 0;
};

}  // namespace
}  // namespace cw::rpcrdma

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0 || size > cw::rpcrdma::kInputBytesMax) {
    return 0;
  }
  cw::rpcrdma::Target target(data[0]);
  std::array<uint8_t, 4> record{};
  for (size_t at = 1; at + record.size() <= size; at += record.size()) {
    std::memcpy(record.data(), data + at, record.size());
    target.act(record);
  }
  target.end();
  return 0;
}
