// NFSv4 COMPOUND replies of any kind against Write lists and Reply chunks of any kind: several READs, errors half-way, READ_PLUS,
// operations that nobody knows, counts that lie. Whatever is moved and wherever, the client can put the reply together again to
// the last byte; or it gets an error, and not one byte was written for it.
#include <algorithm>
#include <vector>

#include "base/random.h"
#include "tests/unit/endpoint/server_fixture.h"
#include "tests/unit/rpcrdma/compound_generator.h"

namespace cw::rpcrdma {
namespace {

using test::ByteVector;
using test::CompoundGenerator;
using test::WorkKind;

constexpr uint32_t kWriteKey = 0x100;  // and the chunk's number
constexpr uint32_t kReplyKey = 0x999;

struct Offer {
  Words lists;
  std::vector<uint32_t> capacity;   // of each Write chunk
  std::vector<bool> empty;          // has no segments
  uint32_t reply_capacity = 0;      // of the Reply chunk
  uint32_t reply_header_bytes = 0;  // of a reply that returns the lists
};

class CompoundReplies : public ServerFixture {
 protected:
  // Segments that add up to `bytes`, the n-th byte of the chunk at remote address n.
  void add_chunk(Offer& offer, uint32_t key, uint32_t bytes, uint32_t segments) {
    offer.lists.add({1, segments});
    for (uint32_t i = 0; i < segments; ++i) {
      const uint32_t begin = bytes * i / segments;
      offer.lists.segment(key, bytes * (i + 1) / segments - begin, begin);
    }
    offer.reply_header_bytes += 8 + 16 * segments;
  }
  Offer make_offer() {
    Offer offer;
    offer.lists.add({0});
    offer.reply_header_bytes = 28;
    for (uint32_t chunks = random.next_below(6); chunks > 0; --chunks) {
      const bool empty = random.next_below(6) == 0;
      const uint32_t bytes = empty ? 0 : 1 + random.next_below(200);
      add_chunk(offer, kWriteKey + static_cast<uint32_t>(offer.capacity.size()), bytes, empty ? 0 : 1 + random.next_below(3));
      offer.capacity.push_back(bytes);
      offer.empty.push_back(empty);
    }
    offer.lists.add({0});
    if (random.next_below(2) == 0) {
      offer.reply_capacity = 1 + random.next_below(8000);
      add_chunk(offer, kReplyKey, offer.reply_capacity, 1 + random.next_below(3));
      offer.reply_header_bytes -= 4;  // its presence word counts already
    } else {
      offer.lists.add({0});
    }
    return offer;
  }
  // What the server wrote under `key`, in one piece without gaps.
  ByteVector written(uint32_t key) {
    ByteVector out;
    for (const test::PostedWork& work : qp->posted()) {
      if (work.kind == WorkKind::kWrite && work.rkey == verbs::Rkey(key)) {
        EXPECT_EQ(work.remote_address, out.size());
        const ByteVector raw = bytes_of(work.payload);
        out.insert(out.end(), raw.begin(), raw.end());
      }
    }
    return out;
  }
  // Sends `reply` back over `offer` and judges what happened. True when it arrived, false when it was an error.
  bool reply_over(const Offer& offer, const ByteVector& reply, const std::vector<ReducibleItem>& items, bool exact);

  SeededRandom random{17};
};

bool CompoundReplies::reply_over(const Offer& offer, const ByteVector& reply, const std::vector<ReducibleItem>& items,
                                 bool exact) {
  send(Words{kXid, 1, 16, 0}.raw(offer.lists.bytes()).raw(rpc_call(kXid, 1, 100'003, 4).add({0, 1, 0}).bytes()));
  const auto id = take();
  EXPECT_TRUE(id.has_value());
  held.clear();
  server->reply(now, id.value_or(CallId()), chain_of(*pool, reply, 700));
  EXPECT_EQ(qp->posted().back().kind, WorkKind::kSend);
  const std::vector<uint8_t> message = bytes_of(qp->posted().back().payload);
  const uint32_t proc = load_be32(message.data() + 12);

  // Which items have been taken out, as the pairing rule says, if all that are eligible are found.
  size_t removed = 0;
  bool too_long = false;
  for (size_t i = 0; i < items.size() && i < offer.capacity.size() && i < kReducibleItemsMax; ++i) {
    too_long = too_long || (!offer.empty[i] && items[i].length > offer.capacity[i]);
    removed += offer.empty[i] ? 0 : xdr_padded(items[i].length);
  }
  const size_t rest = reply.size() - removed;
  if (proc == 4) {
    EXPECT_EQ(Words::words_of(message), (std::vector<uint32_t>{kXid, 1, options.credits, 4, 2}));
    EXPECT_EQ(qp->posted().size(), 1u) << "nothing is written for a reply that does not come";
    if (exact) {
      EXPECT_TRUE(too_long || (offer.reply_header_bytes + rest > thresholds.send_bytes && rest > offer.reply_capacity));
    }
    qp->finish_all_sends();
    server->on_completions(now);
    return false;
  }
  ChunkList lists;
  const auto decoded = decode_chunks(message, ChunkLimits{}, lists);
  EXPECT_TRUE(decoded.ok());
  ByteVector stream = proc == 0 ? ByteVector(message.begin() + decoded->header_bytes, message.end()) : written(kReplyKey);
  // The client's work: each chunk that was used goes back where its item was.
  for (uint32_t i = 0; i < lists.write_count && i < items.size(); ++i) {
    const ByteVector raw = written(kWriteKey + i);
    EXPECT_EQ(raw.size(), lists.write[i].capacity_bytes) << "what the header says";
    if (raw.empty()) {
      continue;
    }
    EXPECT_EQ(raw.size(), items[i].length);
    EXPECT_LE(items[i].offset, stream.size());
    ByteVector padded = raw;
    padded.resize(xdr_padded(padded.size()));
    stream.insert(stream.begin() + static_cast<ptrdiff_t>(items[i].offset), padded.begin(), padded.end());
  }
  for (uint32_t i = static_cast<uint32_t>(items.size()); i < lists.write_count; ++i) {
    EXPECT_EQ(lists.write[i].capacity_bytes, 0u) << "a chunk without an item";
  }
  EXPECT_EQ(stream, reply);
  if (exact) {
    EXPECT_FALSE(too_long);
  }
  qp->finish_all_sends();
  server->on_completions(now);
  return true;
}

TEST_F(CompoundReplies, AnyReplyOverAnyChunksCanBePutTogetherAgain) {
  uint32_t arrived = 0;
  for (uint64_t seed = 0; seed < 4'000; ++seed) {
    SCOPED_TRACE(seed);
    CompoundGenerator generator(seed);
    generator.make(random.next_below(14));
    generator.set_xid(kXid);
    arrived += reply_over(make_offer(), generator.reply(), generator.items(), true) ? 1 : 0;
    ASSERT_FALSE(HasFailure());
    expect_idle();
  }
  EXPECT_GT(arrived, 1'000u);
  EXPECT_LT(arrived, 3'900u) << "some offers are too small";
}

TEST_F(CompoundReplies, RepliesThatNoServerMayGiveAreCarriedWholeAllTheSame) {
  uint32_t arrived = 0;
  for (uint64_t seed = 0; seed < 4'000; ++seed) {
    SCOPED_TRACE(seed);
    CompoundGenerator generator(seed);
    generator.make_hostile(1 + random.next_below(12));
    generator.set_xid(kXid);
    arrived += reply_over(make_offer(), generator.reply(), generator.items(), false) ? 1 : 0;
    ASSERT_FALSE(HasFailure());
    expect_idle();
  }
  EXPECT_GT(arrived, 1'000u);
}

}  // namespace
}  // namespace cw::rpcrdma
