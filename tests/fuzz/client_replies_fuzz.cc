// What a server may answer a client: replies, errors, calls of its own, keys that it invalidates, right and wrong, while calls
// with chunks of every kind come and go, time out and are cancelled. Each call has exactly one outcome; memory of a call that is
// over is out of reach; in the end nothing is registered and nothing is in use.
//
// Input: [start] and records of [what][a][b][c]. Of `start` bit 0: the reverse direction.
#include <array>
#include <cstring>
#include <optional>
#include <vector>

#include "base/heap_buffer_pool.h"
#include "base/random.h"
#include "rpcrdma/endpoint/client_endpoint.h"
#include "rpcrdma/wire/transport_header.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/support/fake_queue_pair.h"

namespace cw::rpcrdma {
namespace {

constexpr verbs::ProtectionDomain kDomain(5);
constexpr uint32_t kFirstXid = 100;
constexpr size_t kInputBytesMax = 512;
constexpr uint32_t kRoom = 512;

HeapBufferPool& pool() {
  static HeapBufferPool one(48, 1024, 16);
  return one;
}

class Target {
 public:
  explicit Target(uint8_t start) : memory_(32, random_) {
    options_.credits_wanted = 4;
    options_.reverse_credits = (start & 1) != 0 ? 2 : 0;
    client_.emplace(qp_, memory_, kDomain, pool(), options_, InlineThresholds{.send_bytes = 1024, .receive_bytes = 1024},
                    kFirstXid, stats_);
    client_->start();
  }

  void act(const std::array<uint8_t, 4>& r) {
    switch (r[0] & 7) {
      case 0:
      case 1:
        submit(r[1]);
        break;
      case 2:
      case 3:
      case 4:
        answer(r[0], r[1], r[2], r[3]);
        break;
      case 5:
        now_ = now_ + Duration::ms(int64_t{r[1]} * 500);
        client_->on_deadline(now_);
        break;
      case 6:
        if (r[1] < 0x80) {
          (void)client_->cancel(kFirstXid + r[2] % 64);
        } else if (r[1] < 0xf8) {
          qp_.finish_all_sends();
          client_->on_completions(now_);
        } else {
          qp_.break_with(verbs::WcStatus::kRetryExceeded);
          client_->on_completions(now_);
        }
        break;
      default:
        reverse(r[1], r[2]);
        break;
    }
    ClientReply reply;
    while (client_->poll_reply(reply)) {
      ++outcomes_;
      FUZZ_CHECK(reply.status == CallStatus::kReplied || reply.message.empty());
      reply.message.clear();
    }
    FUZZ_CHECK(outcomes_ <= submitted_);
    FUZZ_CHECK(!client_->failed() || outcomes_ == submitted_);
    FUZZ_CHECK(!client_->failed() || memory_.region_count() == 0);
  }

  void end() {
    client_->fail();
    ClientReply reply;
    while (client_->poll_reply(reply)) {
      ++outcomes_;
    }
    reply.message.clear();
    FUZZ_CHECK(outcomes_ == submitted_ && memory_.region_count() == 0);
    client_.reset();
    while (!qp_.posted().empty()) {
      qp_.finish();
    }
    verbs::Completion completion;
    while (qp_.poll_completion(completion)) {
      completion.payload.clear();
    }
    completion.payload.clear();
    FUZZ_CHECK(pool().in_use() == 0);
  }

 private:
  // A call of the bench program: with Write chunk, Reply chunk, Read chunk or none.
  void submit(uint8_t kind) {
    std::array<uint8_t, 64> raw{};
    const uint32_t procedure = (kind & 4) != 0 ? 1 : (kind & 3) != 0 ? 2 : 0;
    const std::array<uint32_t, 10> words{0, 0, 2, kBenchProgram, kBenchVersion, procedure, 0, 0, 0, 0};
    for (size_t i = 0; i < words.size(); ++i) {
      store_be32(raw.data() + 4 * i, words[i]);
    }
    size_t size = 4 * words.size() + (procedure == 2 ? 12 : 0);
    ClientCall call;
    const MutableBytes sink(sink_);
    const std::array<MutableBytes, 1> writes{sink.first(kRoom)};
    const std::array<ReadChunkSource, 1> reads{ReadChunkSource{.position = 44, .memory = sink.first(kRoom)}};
    if ((kind & 1) != 0) {
      call.writes = writes;
    }
    if ((kind & 2) != 0) {
      call.reply_memory = sink.subspan(kRoom, kRoom);
    }
    if ((kind & 4) != 0) {
      store_be32(raw.data() + size, kRoom);
      size += 4;
      call.reads = reads;
    }
    Chain message;
    if (!message.append_copy(pool(), Bytes(raw).first(size))) {
      return;
    }
    call.message = std::move(message);
    if (client_->submit(now_, std::move(call)).ok()) {
      ++submitted_;
      note_chunks();
    }
  }
  // The header that has just been sent, so that answers can give its chunks back.
  void note_chunks() {
    const Chain& sent = qp_.posted().back().payload;
    std::array<uint8_t, 1024> raw{};
    const size_t bytes = std::min<size_t>(sent.bytes(), raw.size());
    sent.copy_to(0, MutableBytes(raw).first(bytes));
    if (sent_.size() == kSentMax) {
      sent_.erase(sent_.begin());
    }
    Sent& one = sent_.emplace_back();
    one.xid = load_be32(raw.data());
    FUZZ_CHECK(decode_chunks(Bytes(raw).first(bytes), ChunkLimits{}, one.chunks).ok());
  }

  void answer(uint8_t what, uint8_t a, uint8_t b, uint8_t c) {
    if (sent_.empty()) {
      return;
    }
    const Sent& call = sent_[a % sent_.size()];
    const uint32_t xid = b == 0xff ? call.xid + 1000 : call.xid;
    std::array<uint8_t, 1024> raw{};
    size_t size = 0;
    const bool error = (what & 0x08) != 0 && (what & 0x10) != 0;
    const bool long_reply = (what & 0x18) == 0x08 && call.chunks.has_reply;
    if (error) {
      size = *write_chunk_error(raw, xid, c);
      raw[19] = b;
    } else {
      std::array<uint32_t, kPlainSegmentsMax> lengths{};
      for (uint32_t i = 0; i < call.chunks.segment_count; ++i) {
        lengths[i] = (i + 1 == call.chunks.segment_count && long_reply) || (what & 0x20) != 0 ? uint32_t{c} * 3 : 0;
      }
      const FixedHeader fixed{.xid = xid,
                              .version = c == 0xfe ? 2u : 1u,
                              .credit = c,
                              .proc = static_cast<uint32_t>(long_reply ? RdmaProc::kNomsg : RdmaProc::kMsg)};
      size = *write_reply_header(raw, fixed, call.chunks, {lengths.data(), call.chunks.segment_count});
      if (long_reply) {
        store_be32(sink_.data() + kRoom, b == 0xfe ? xid + 1 : xid);
        store_be32(sink_.data() + kRoom + 4, b == 0xfd ? 0 : 1);
      } else {
        for (const uint32_t word : {b == 0xfe ? xid + 1 : xid, b == 0xfd ? 0u : b == 0xfc ? 7u : 1u, 0u, 0u, 0u, 0u, 0u, 0u}) {
          store_be32(raw.data() + size, word);
          size += 4;
        }
        store_be32(raw.data() + size, (what & 0x20) != 0 ? uint32_t{c} * 3 : 0);
        size += 4;
      }
    }
    if ((what & 0x40) != 0) {
      size = std::min<size_t>(size, c);
      raw[b % raw.size()] ^= a;
    }
    std::optional<verbs::Rkey> invalidated;
    if ((what & 0x80) != 0) {
      const Sent& other = sent_[c % sent_.size()];
      if (other.chunks.segment_count > 0) {
        invalidated = other.chunks.segments[0].handle;
        if (!memory_.invalidate(kDomain, *invalidated)) {
          invalidated.reset();  // the transport refuses a key that is not there
        }
      }
    }
    deliver(Bytes(raw).first(size), invalidated);
  }

  void reverse(uint8_t a, uint8_t b) {
    std::array<uint8_t, 128> raw{};
    const std::array<uint32_t, 13> words{b, 1, 1, a == 1 ? 1u : 0u, a == 2 ? 1u : 0u, 0, 0, a == 3 ? b + 1u : b, 0, 2, 1, 1, 1};
    for (size_t i = 0; i < words.size(); ++i) {
      store_be32(raw.data() + 4 * i, words[i]);
    }
    deliver(Bytes(raw).first(72), std::nullopt);
    ReverseCall call;
    while (a % 2 == 0 && client_->poll_reverse_call(call)) {
      call.message.clear();
      Chain answer;
      std::array<uint8_t, 24> reply{};
      store_be32(reply.data(), a == 4 ? b + 1u : b);
      store_be32(reply.data() + 4, 1);
      if (answer.append_copy(pool(), reply)) {
        client_->reply_reverse(now_, b, std::move(answer));
      }
    }
  }

  void deliver(Bytes message, std::optional<verbs::Rkey> invalidated) {
    Chain chain;
    if (message.empty() || !chain.append_copy(pool(), message)) {
      return;
    }
    if (!client_->failed() && qp_.deliver(std::move(chain), invalidated)) {
      client_->on_completions(now_);
    }
  }

  static constexpr size_t kSentMax = 8;
  struct Sent {
    uint32_t xid = 0;
    ChunkList chunks;
  };
  SeededRandom random_{11};
  verbs::MemoryTable memory_;
  RpcRdmaStats stats_;
  ClientOptions options_;
  test::FakeQueuePair qp_{12};
  std::optional<ClientEndpoint> client_;
  std::array<uint8_t, size_t{2} * kRoom> sink_{};
  std::vector<Sent> sent_;
  Instant now_ = Instant::from_ns(1'000'000'000);
  uint64_t submitted_ = 0;
  uint64_t outcomes_ = 0;
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
