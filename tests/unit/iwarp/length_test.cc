// How long messages may be, and that their length is what their segments add up to.
#include <iterator>

#include "tests/unit/iwarp/taken_over.h"

namespace cw::iwarp::test {
namespace {

// A stream without TCP, whose bytes the test looks at where they lie.
struct BareStream {
  static constexpr uint32_t kPieceBytes = 64u << 20;

  BareStream() { EXPECT_NE(storage, nullptr); }
  ~BareStream() { pool.release(storage); }
  BareStream(const BareStream&) = delete;
  BareStream& operator=(const BareStream&) = delete;

  // So many bytes, all of them in the same place.
  [[nodiscard]] Chain views(uint64_t bytes) {
    storage->size = kPieceBytes;
    Chain chain;
    while (chain.bytes() < bytes) {
      Buffer* view = pool.share(*storage, 0, static_cast<uint32_t>(std::min<uint64_t>(kPieceBytes, bytes - chain.bytes())));
      EXPECT_NE(view, nullptr);
      chain.push_back(view);
    }
    return chain;
  }

  HeapBufferPool pool{1, kPieceBytes, 256};
  SeededRandom random{1};
  StreamCore core{{}, pool, random, nullptr};
  ByteOutput output{core.batches};
  Buffer* storage = pool.allocate_one();
  RdmapStream stream{{.ord = 1, .crc = false, .ulpdu_bytes_max = kUlpduBytesMax}, core, output};
};

// Bytes that lie in many pieces, from the first to the last.
class PieceCursor {
 public:
  explicit PieceCursor(std::span<const Bytes> pieces) : pieces_(pieces) {}

  [[nodiscard]] bool at_end() const { return pieces_.empty(); }
  void skip(uint64_t count) { move(count, nullptr); }
  void read(MutableBytes out) { move(out.size(), out.data()); }

 private:
  void move(uint64_t count, uint8_t* out) {
    while (count > 0) {
      ASSERT_FALSE(pieces_.empty());
      const uint64_t now = std::min<uint64_t>(count, pieces_.front().size() - at_);
      if (out != nullptr) {
        out = std::copy_n(pieces_.front().begin() + static_cast<ptrdiff_t>(at_), now, out);
      }
      at_ += now;
      count -= now;
      if (at_ == pieces_.front().size()) {
        pieces_ = pieces_.subspan(1);
        at_ = 0;
      }
    }
  }

  std::span<const Bytes> pieces_;
  uint64_t at_ = 0;
};

// Takes everything that the stream has to say, which is one message: its bytes, as its segments count them.
template <typename Bare>
uint64_t bytes_of_one_message(Bare& bare, uint64_t begin) {
  uint64_t bytes = 0;
  bool last = false;
  while (true) {
    EXPECT_TRUE(bare.stream.fill());
    std::array<Bytes, SendBatch::kPiecesMax> pieces;
    const uint32_t count = bare.output.pieces(pieces);
    if (count == 0 || ::testing::Test::HasFailure()) {
      EXPECT_TRUE(last);
      return bytes;
    }
    uint64_t batch_bytes = 0;
    PieceCursor cursor(std::span<const Bytes>(pieces).first(count));
    while (!cursor.at_end() && !::testing::Test::HasFailure()) {
      EXPECT_FALSE(last) << "bytes behind the last segment";
      std::array<uint8_t, kFpduLengthBytes + kUntaggedHeaderBytes> front{};
      cursor.read(MutableBytes(front).first(kFpduLengthBytes));
      const uint32_t ulpdu_bytes = load_be16(front.data());
      const bool tagged = [&] {
        cursor.read(MutableBytes(front).subspan(kFpduLengthBytes, kTaggedHeaderBytes));
        return parse_control(front[2], front[3]).tagged;
      }();
      if (!tagged) {
        cursor.read(MutableBytes(front).subspan(kFpduLengthBytes + kTaggedHeaderBytes));
      }
      const auto header = parse_segment_header(Bytes(front).subspan(kFpduLengthBytes));
      EXPECT_TRUE(header.ok());
      EXPECT_EQ(tagged ? header->tagged_offset : header->message_offset, begin + bytes);
      bytes += ulpdu_bytes - header->bytes();
      last = header->control.last;
      cursor.skip(fpdu_bytes(ulpdu_bytes) - kFpduLengthBytes - header->bytes());
      batch_bytes += fpdu_bytes(ulpdu_bytes);
    }
    bare.output.sent(batch_bytes);
    bare.stream.on_sent();
  }
}

// A pool of small buffers: what is sent lies in many pieces.
struct SmallPieces {
  HeapBufferPool pool{1024, 64, 0};
  SeededRandom random{1};
  verbs::MemoryTable memory{4, random};
  StreamCore core{{}, pool, random, &memory};
  ByteOutput output{core.batches};
  verbs::ProtectionDomain domain{3};
  RdmapStream stream{
      {.ird = 1, .crc = false, .ulpdu_bytes_max = kUlpduBytesMax, .exposes_memory = true, .domain = domain}, core, output};
};

// An FPDU is as long as it says, also where its payload takes more pieces than one may have.
TEST(IwarpLength, AnAnswerInSmallBuffersIsCutIntoFpdusThatAreWhole) {
  SmallPieces small;
  std::vector<uint8_t> memory = pattern(20'000);
  const auto key = small.memory.register_region(small.domain, memory, verbs::RemoteAccess::kRead);
  ASSERT_TRUE(key.ok());
  const ReadRequestHeader request{.bytes = 20'000, .source_stag = key->value(), .source_offset = small.memory.address_of(*key)};
  Chain input;
  ASSERT_TRUE(input.append_copy(small.pool, fpdu(read_request_segment(1, request))));
  ASSERT_EQ(small.stream.take(Instant(), input), RdmapStream::Taken::kAll);
  EXPECT_EQ(bytes_of_one_message(small, 0), 20'000u);
  EXPECT_EQ(small.pool.in_use(), 0u);
}

// The payload is never looked at, so four gigabytes take no longer than their headers.
// Proves RDMAP-1.1-1, RDMAP-1.1-3
TEST(IwarpLength, AMessageMayBeAsLongAs32BitsCanSayAndNoLonger) {
  BareStream bare;
  for (const Status& too_long : {bare.stream.post_send({.payload = bare.views(uint64_t{1} << 32)}),
                                 bare.stream.post_write({.payload = bare.views(uint64_t{1} << 32), .rkey = kKey})}) {
    ASSERT_FALSE(too_long.ok());
    EXPECT_EQ(too_long.error(), Error::kLimit);
  }
  ASSERT_TRUE(bare.stream.post_send({.payload = bare.views(UINT32_MAX)}).ok());
  EXPECT_EQ(bytes_of_one_message(bare, 0), UINT32_MAX);
  ASSERT_TRUE(bare.stream.post_write({.payload = bare.views(UINT32_MAX), .rkey = kKey, .remote_address = 7}).ok());
  EXPECT_EQ(bytes_of_one_message(bare, 7), UINT32_MAX);
  for (const verbs::WcOpcode opcode : {verbs::WcOpcode::kSend, verbs::WcOpcode::kRdmaWrite}) {
    verbs::Completion completion;
    ASSERT_TRUE(bare.stream.poll_completion(completion));
    EXPECT_EQ(completion.opcode, opcode);
    EXPECT_EQ(completion.status, verbs::WcStatus::kSuccess);
    EXPECT_EQ(completion.bytes, UINT32_MAX);
  }
}

// Bytes of the messages in what was heard, one number for each.
std::vector<uint32_t> message_lengths(const std::vector<Heard>& heard) {
  std::vector<uint32_t> lengths;
  bool begins = true;
  for (const Heard& each : heard) {
    if (begins) {
      lengths.push_back(0);
    }
    lengths.back() += static_cast<uint32_t>(each.payload().size());
    begins = each.header.control.last;
  }
  EXPECT_TRUE(begins);
  return lengths;
}

// All eight opcodes, both ways: the segments add up to what was posted, and who receives learns what the segments add up to.
// Proves RDMAP-4-3, RDMAP-4.1-24
TEST(IwarpLength, EveryMessageIsAsLongAsItsSenderSaysBothWays) {
  for (const uint32_t bytes : {0u, 1u, 1441u, 1442u, 4096u}) {
    SCOPED_TRACE(bytes);
    // Of our passive end: SENDs, a WRITE, a READ request.
    TakenOver passive(Ours::kPassive);
    const ByteVector message = pattern(bytes);
    for (const bool invalidates : {false, true}) {
      for (const bool solicited : {false, true}) {
        const auto key = invalidates ? std::optional(kKey) : std::nullopt;
        ASSERT_TRUE(passive.qp().post_send({.payload = passive.chain(message), .invalidate = key, .solicited = solicited}).ok());
      }
    }
    ASSERT_TRUE(passive.qp().post_write({.payload = passive.chain(message), .rkey = kKey}).ok());
    ASSERT_TRUE(passive.qp().post_read({.id = verbs::WorkId(9), .rkey = kKey, .length = bytes}).ok());
    const auto heard = passive.hear();
    EXPECT_EQ(message_lengths(heard), (std::vector<uint32_t>{bytes, bytes, bytes, bytes, bytes, kReadRequestBytes}));
    const ReadRequestHeader asked = parse_read_request(heard.back().payload());
    EXPECT_EQ(asked.bytes, bytes);
    passive.end().completions.clear();
    EXPECT_TRUE(passive.say(fpdu(tagged(0xc1, 0x42, asked.sink_stag, 0, message))).empty());
    ASSERT_EQ(passive.end().completions.size(), 1u);
    EXPECT_EQ(passive.end().completions[0].bytes, bytes);
    passive.end().completions.clear();

    // Of its peer, in segments of 1000 bytes at most.
    TakenOver active;
    std::vector<uint8_t> memory = pattern(bytes + 1, 2);
    const verbs::Rkey key = active.expose(memory, verbs::RemoteAccess::kReadWrite);
    const uint64_t address = active.address_of(key);
    uint32_t number = 1;
    for (const uint8_t opcode : {uint8_t{0x43}, uint8_t{0x45}, uint8_t{0x44}, uint8_t{0x46}}) {
      std::vector<uint8_t> withdrawn(8);
      const bool invalidates = opcode == 0x44 || opcode == 0x46;
      const uint32_t stag = invalidates ? active.expose(withdrawn, verbs::RemoteAccess::kRead).value() : 0;
      for (uint32_t at = 0; at == 0 || at < bytes; at += 1000) {
        const uint32_t end = std::min(bytes, at + 1000);
        const ByteVector part(message.begin() + at, message.begin() + end);
        EXPECT_TRUE(active.say(fpdu(untagged(end == bytes ? 0x41 : 0x01, opcode, stag, 0, number, at, part))).empty());
      }
      ASSERT_EQ(active.end().completions.size(), number++);
      EXPECT_EQ(active.end().completions.back().bytes, bytes);
      EXPECT_EQ(active.end().completions.back().payload.bytes(), bytes);
    }
    const ReadRequestHeader request{.sink_stag = 5, .bytes = bytes, .source_stag = key.value(), .source_offset = address};
    EXPECT_EQ(message_lengths(active.say(fpdu(read_request_segment(1, request)))), std::vector<uint32_t>{bytes});
    const uint8_t behind = memory.back();
    EXPECT_TRUE(active.say(fpdu(tagged(0xc1, 0x40, key.value(), address, message))).empty());
    EXPECT_EQ(ByteVector(memory.begin(), memory.end() - 1), message);
    EXPECT_EQ(memory.back(), behind);
    // A Terminate of either end is as long as what it has to say: four bytes, or the headers with them.
    const auto last = active.say(fpdu(send_segment(99, message)));
    EXPECT_EQ(message_lengths(last), std::vector<uint32_t>{kTerminateControlBytes + 2 + kUntaggedHeaderBytes});
    (void)passive.say(fpdu(untagged(0x41, 0x47, 0, 2, 1, 0, {0x02, 0x07, 0x00, 0x00})));
    EXPECT_EQ(passive.error().terminate, TerminateCause::kOperationCatastrophicStream);
  }
}

}  // namespace
}  // namespace cw::iwarp::test
