// What Linux 6.1 really sends: every header decodes and comes out again byte for byte, every call's Positions check, and the
// reducible items found in a reply are those that knfsd moved. A few messages are committed here; with the full captures at hand,
// all of them.
#include <gtest/gtest.h>

#include <map>

#include "base/heap_buffer_pool.h"
#include "rpcrdma/ulb/arguments.h"
#include "rpcrdma/ulb/binding.h"
#include "rpcrdma/ulb/nfsv4.h"
#include "rpcrdma/wire/splice_plan.h"
#include "rpcrdma/wire/transport_header.h"
#include "tests/support/pcap_reader.h"
#include "tests/unit/rpcrdma/captured_traffic.h"

namespace cw::rpcrdma {
namespace {

using test::ByteVector;
using test::CapturedTraffic;

// Frames of nfs-rdma-linux61.pcap, RC SEND payloads.
// 193: NFSv4.1 WRITE of 9009 bytes, data in a Read chunk, GETATTR behind it.
constexpr std::string_view kWriteCall =
    "ae7a85ab00000001000000800000000000000001000000b400000b2d00002331ae7a85ab84da2000000000000000000000000000ae7a85ab000000000000"
    "0002"
    "000186a30000000400000001000000010000001c0000000000000006286e6f6e65290000000000000000000000000000000000000000000000000000"
    "000000010000000400000035ec0c006b6de9d43c01000000000000000000001100000000000000000000000000000016000000140100010100000000"
    "f1f3b6de03000000000000000000002600000000ec0c006b6de9d43c0200000000000000000000000000000200002331000000090000000200000018"
    "00302000";
// 324, 329: NFSv4.1 READ of an odd-sized file, one Write chunk of 12288, 9009 used.
constexpr std::string_view kReadCall =
    "b97a85ab00000001000000800000000000000000000000010000000100000b3300003000b97a85ab84daa0000000000000000000b97a85ab000000000000"
    "0002"
    "000186a30000000400000001000000010000001c0000000000000006286e6f6e65290000000000000000000000000000000000000000000000000000"
    "000000010000000300000035ec0c006b6de9d43c01000000000000000000001a00000000000000000000000000000016000000140100010100000000"
    "f1f3b6de03000000000000000000001900000000ec0c006b6de9d43c04000000000000000000000000003000";
constexpr std::string_view kReadReply =
    "b97a85ab00000001000000400000000000000000000000010000000100000b3300002331b97a85ab84daa0000000000000000000b97a85ab000000010000"
    "0000"
    "0000000000000000000000000000000000000000000000030000003500000000ec0c006b6de9d43c01000000000000000000001a000000000000001d"
    "0000001d00000000000000160000000000000019000000000000000100002331";
// 1821, 1827: NFSv3 READ of 16384.
constexpr std::string_view kRead3Call =
    "dfa827fd000000010000008000000000000000000000000100000001000018ba00004000dfa827fd84dd10000000000000000000dfa827fd000000000000"
    "0002"
    "000186a30000000300000006000000010000001c0000000000000006286e6f6e65290000000000000000000000000000000000000000000000000000"
    "0000001401000101000000006fc85fb00200000000000000000000000000000000004000";
constexpr std::string_view kRead3Reply =
    "dfa827fd000000010000004000000000000000000000000100000001000018ba00004000dfa827fd84dd10000000000000000000dfa827fd000000010000"
    "0000"
    "000000000000000000000000000000000000000100000001000001a4000000010000000000000000000000000004000000000000000400000000000000"
    "000000000000000000000000000000000000026b000cf42d0a61706b000cf428fcc8726b000cf428fcc872000040000000000000004000";
// 376, 380: READDIR with a Reply chunk of three segments, 104 + 776 bytes used, answered by RDMA_NOMSG.
constexpr std::string_view kReaddirReply =
    "c47a85ab0000000100000040000000010000000000000000000000010000000300000b3600000068c47a85ab858a600000000a2e00000308c47a85abafd7"
    "2058"
    "000009d100000000c47a85ab858a6068";

ChunkList decode(const ByteVector& message, uint32_t& header) {
  ChunkList chunks;
  const auto decoded = decode_chunks(message, ChunkLimits{}, chunks);
  EXPECT_TRUE(decoded.ok());
  header = decoded.ok() ? decoded->header_bytes : 0;
  return chunks;
}

ByteVector behind(const ByteVector& message, uint32_t header) {
  return {message.begin() + header, message.end()};
}

void expect_reencodes(const ByteVector& message) {
  uint32_t header = 0;
  const ChunkList chunks = decode(message, header);
  ByteVector again(header);
  const FixedHeader fixed = FixedHeader::parse(message).value();
  EXPECT_EQ(write_call_header(again, fixed, chunks).value(), header);
  EXPECT_TRUE(std::equal(again.begin(), again.end(), message.begin()));
  EXPECT_EQ(header_bytes(chunks), header);
  if (chunks.read_count == 0) {
    ByteVector reply(header);
    std::vector<uint32_t> lengths;
    for (uint32_t i = 0; i < chunks.segment_count; ++i) {
      lengths.push_back(chunks.segments[i].length);
    }
    EXPECT_EQ(write_reply_header(reply, fixed, chunks, lengths).value(), header);
    EXPECT_EQ(reply, again);
  }
}

CallContext context_of(const ByteVector& call) {
  uint32_t header = 0;
  (void)decode(call, header);
  HeapBufferPool pool(64, 4096, 1);
  return inspect_call(test::chain_of(pool, behind(call, header), 4096));
}

ReducibleItems find(const CallContext& context, const ByteVector& stream) {
  HeapBufferPool pool(512, 4096, 1);
  return find_reducible(context, test::chain_of(pool, stream, 4096));
}

// The reply's XDR stream before knfsd reduced it. Where its walk finds the items is where the Write chunks' bytes belong; until
// they are back in, zeros at the end stand for them. `placed` = contents per Write chunk.
ByteVector restore(const CallContext& context, const ByteVector& reduced, const std::vector<ByteVector>& placed,
                   ReducibleItems& items) {
  ByteVector stream = reduced;
  uint64_t missing = 0;
  for (const ByteVector& content : placed) {
    missing += xdr_padded(content.size());
  }
  for (uint32_t i = 0; i < placed.size(); ++i) {
    if (placed[i].empty()) {
      continue;
    }
    ByteVector padded = stream;
    padded.resize(stream.size() + missing);
    items = find(context, padded);
    EXPECT_GT(items.count, i);
    if (items.count <= i) {
      return stream;
    }
    EXPECT_EQ(items.items[i].length, placed[i].size());
    ByteVector content = placed[i];
    content.resize(xdr_padded(content.size()));
    stream.insert(stream.begin() + static_cast<ptrdiff_t>(items.items[i].offset), content.begin(), content.end());
    missing -= content.size();
  }
  items = find(context, stream);
  return stream;
}

// Proves RPCRDMA-4-2, RPCRDMA-7-1.
TEST(CapturedMessages, CommittedOnesReencodeToTheSameBytes) {
  for (const std::string_view message : {kWriteCall, kReadCall, kReadReply, kRead3Call, kRead3Reply, kReaddirReply}) {
    expect_reencodes(test::hex(message));
  }
}

// Proves RPCRDMA-3.4.5-4, RPCRDMA-3.4.5.2-3, RPCRDMA-3.4.4.4-2, RPCRDMA-4.4.2-1: the kernel's client leaves the roundup out of
// the chunk and of the inline stream; the length word before the Position says 9009
TEST(CapturedMessages, WriteOfOddLengthIsRebuiltWithItsRoundup) {
  const ByteVector message = test::hex(kWriteCall);
  uint32_t header = 0;
  const ChunkList chunks = decode(message, header);
  const ByteVector body = behind(message, header);
  ASSERT_EQ(chunks.read_count, 1u);
  EXPECT_EQ(chunks.read[0].position, 180u);
  EXPECT_EQ(chunks.read_bytes, 9009u);
  EXPECT_EQ(load_be32(body.data() + 176), 9009u);
  EXPECT_EQ(load_be32(body.data() + 180), 9u);  // GETATTR at once
  SplicePlan plan;
  EXPECT_EQ(plan_splice(RdmaProc::kMsg, chunks, body.size(), plan).value(), body.size() + 9012);
  ASSERT_EQ(plan.count, 4u);
  EXPECT_EQ(plan.list[2].kind, SplicePiece::Kind::kPad);
  EXPECT_EQ(plan.list[2].bytes, 3u);
  HeapBufferPool pool(64, 4096, 1);
  const Chain reduced = test::chain_of(pool, body, 4096);
  Reduction moved(Reduction::Kind::kArguments);
  moved.add_read_chunk(180, 9009);
  EXPECT_TRUE(reduces_eligible_arguments(inspect_call(reduced), XdrReader(reduced), moved)) << "valid under the binding";
}

void expect_one_item(std::string_view call, std::string_view reply, Binding binding) {
  const CallContext context = context_of(test::hex(call));
  EXPECT_EQ(context.binding, binding);
  const ByteVector message = test::hex(reply);
  uint32_t header = 0;
  const ChunkList chunks = decode(message, header);
  ASSERT_EQ(chunks.write_count, 1u);
  const ByteVector body = behind(message, header);
  ReducibleItems items;
  const ByteVector stream = restore(context, body, {ByteVector(chunks.write[0].capacity_bytes, 0x77)}, items);
  ASSERT_EQ(items.count, 1u);
  EXPECT_EQ(items.items[0].length, chunks.write[0].capacity_bytes);
  // The data are the last thing in both replies.
  EXPECT_EQ(items.items[0].offset, body.size());
  EXPECT_EQ(stream.size(), body.size() + xdr_padded(items.items[0].length));
}

TEST(CapturedMessages, ReducedReadRepliesPairWithTheirWriteChunk) {
  expect_one_item(kReadCall, kReadReply, Binding::kNfs4);
  expect_one_item(kRead3Call, kRead3Reply, Binding::kNfs3);
}

// Proves RPCRDMA-4.3.3-7.
TEST(CapturedMessages, LongReplySaysWhatItUsedOfEachSegment) {
  uint32_t header = 0;
  const ChunkList chunks = decode(test::hex(kReaddirReply), header);
  ASSERT_TRUE(chunks.has_reply);
  const auto segments = chunks.segments_of(chunks.reply);
  ASSERT_EQ(segments.size(), 3u);
  EXPECT_EQ(segments[0].length, 104u);
  EXPECT_EQ(segments[1].length, 776u);
  EXPECT_EQ(segments[2].length, 0u);
  EXPECT_EQ(chunks.reply.capacity_bytes, 880u);
}

// All captures of NFS over RoCE.
class FullCapture : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto directory = test::full_captures_dir();
    if (!directory || !std::filesystem::exists(*directory / "nfs-rdma-linux61.pcap")) {
      GTEST_SKIP() << "full captures are not at hand";
    }
    traffic = test::read_traffic(*directory / "nfs-rdma-linux61.pcap");
  }

  struct Parsed {
    FixedHeader fixed;
    ChunkList chunks;
    ByteVector body;
    bool is_call = false;
  };
  // NOMSG in these captures is always a reply.
  static Parsed parse(const ByteVector& message) {
    Parsed parsed;
    uint32_t header = 0;
    parsed.fixed = FixedHeader::parse(message).value();
    parsed.chunks = decode(message, header);
    parsed.body = behind(message, header);
    parsed.is_call = parsed.fixed.proc == 0 && load_be32(parsed.body.data() + 4) == 0;
    return parsed;
  }
  std::optional<ByteVector> placed_in(const ChunkList& chunks, const PlainChunk& chunk) const {
    ByteVector content;
    for (const Segment& segment : chunks.segments_of(chunk)) {
      const auto written = traffic.written_to(segment, segment.length);
      if (!written) {
        return std::nullopt;
      }
      test::add(content, *written);
    }
    return content;
  }

  CapturedTraffic traffic;
};

TEST_F(FullCapture, EveryHeaderReencodesToTheSameBytes) {
  EXPECT_GT(traffic.messages.size(), 700u);
  for (const ByteVector& message : traffic.messages) {
    expect_reencodes(message);
    EXPECT_EQ(FixedHeader::parse(message)->version, 1u);
  }
}

TEST_F(FullCapture, EveryCallsPositionsCheckAndChunksHoldTheItemWithoutRoundup) {
  uint32_t with_reads = 0;
  uint32_t compounds = 0;
  for (const ByteVector& message : traffic.messages) {
    const Parsed call = parse(message);
    if (!call.is_call) {
      continue;
    }
    const auto length = check_positions(RdmaProc::kMsg, call.chunks, call.body.size());
    ASSERT_TRUE(length.ok());
    EXPECT_EQ(*length, call.body.size() + xdr_padded(call.chunks.read_bytes));
    HeapBufferPool pool(64, 4096, 1);
    const Chain reduced = test::chain_of(pool, call.body, 4096);
    const CallContext context = inspect_call(reduced);
    Reduction moved(Reduction::Kind::kArguments);
    if (call.chunks.read_count > 0) {
      moved.add_read_chunk(call.chunks.read[0].position, call.chunks.read_bytes);
    }
    EXPECT_TRUE(reduces_eligible_arguments(context, XdrReader(reduced), moved));
    if (context.binding == Binding::kNfs4) {
      ReducibleItems found;
      Reduction same(Reduction::Kind::kArguments);
      found.reduction = &same;
      if (call.chunks.read_count > 0) {
        same.add_read_chunk(call.chunks.read[0].position, call.chunks.read_bytes);
      }
      XdrReader reader(reduced);
      find_eligible_arguments(reader, context.header, found);
      EXPECT_TRUE(reader.ok());
      EXPECT_EQ(reader.remaining(), 0u) << "the walk has to end with the call";
      ++compounds;
    }
    if (call.chunks.read_count > 0) {
      ++with_reads;
      EXPECT_EQ(load_be32(call.body.data() + call.chunks.read[0].position - 4), call.chunks.read_bytes);
    }
  }
  EXPECT_GE(with_reads, 5u);
  EXPECT_GT(compounds, 100u);
}

// The whole reply stream, put together from the SEND and the RDMA Writes, is walked to its last byte, and the items found are
// the bytes that went to the Write chunks.
TEST_F(FullCapture, EveryReplyIsWalkedWholeAndItsItemsAreThoseThatWereMoved) {
  std::map<uint32_t, CallContext> calls;
  uint32_t walked = 0;
  uint32_t reduced = 0;
  uint32_t inline_items = 0;
  for (const ByteVector& message : traffic.messages) {
    const Parsed parsed = parse(message);
    if (parsed.is_call) {
      calls[parsed.fixed.xid] = context_of(message);
      continue;
    }
    const auto call = calls.find(parsed.fixed.xid);
    if (call == calls.end()) {
      continue;
    }
    ByteVector base = parsed.body;
    if (parsed.fixed.proc == static_cast<uint32_t>(RdmaProc::kNomsg)) {
      const auto long_reply = placed_in(parsed.chunks, parsed.chunks.reply);
      ASSERT_TRUE(long_reply.has_value());
      base = *long_reply;
    }
    ASSERT_EQ(load_be32(base.data()), parsed.fixed.xid);
    std::vector<ByteVector> placed;
    for (const PlainChunk& chunk : parsed.chunks.writes()) {
      const auto content = placed_in(parsed.chunks, chunk);
      ASSERT_TRUE(content.has_value());
      placed.push_back(*content);
    }
    ReducibleItems items;
    const ByteVector stream = restore(call->second, base, placed, items);
    for (uint32_t i = 0; i < placed.size(); ++i) {
      ASSERT_LT(i, items.count);
      const Bytes found = Bytes(stream).subspan(items.items[i].offset, items.items[i].length);
      EXPECT_TRUE(std::equal(found.begin(), found.end(), placed[i].begin(), placed[i].end()));
      ++reduced;
    }
    inline_items += placed.empty() ? items.count : 0;
    if (call->second.binding == Binding::kNfs4) {
      XdrReader reader{Bytes(stream)};
      ASSERT_TRUE(read_rpc_reply(reader).ok());
      const uint64_t results = reader.offset();
      ReducibleItems again;
      find_in_compound(reader, again);
      EXPECT_TRUE(reader.ok());
      const bool succeeded = load_be32(stream.data() + results) == 0;
      EXPECT_TRUE(!succeeded || reader.remaining() == 0);
      walked += succeeded ? 1 : 0;
    }
  }
  EXPECT_GT(walked, 250u);
  EXPECT_GE(reduced, 15u);
  EXPECT_GE(inline_items, 1u);  // READLINK came in a Reply chunk
}

}  // namespace
}  // namespace cw::rpcrdma
