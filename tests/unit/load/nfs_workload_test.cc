// NFSv3 calls as the load makes them, and its judgement of replies.
#include "apps/load/nfs/nfs_workload.h"

#include <gtest/gtest.h>

#include <cstring>

#include "base/heap_buffer_pool.h"
#include "rpcrdma/ulb/arguments.h"
#include "rpcrdma/ulb/binding.h"
#include "rpcrdma/xdr/xdr_writer.h"

namespace cw::load {
namespace {

constexpr uint32_t kFileBytes = 1 << 20;

class NfsLoad : public testing::Test {
 protected:
  NfsLoad() {
    files_.file_bytes = kFileBytes;
    files_.handles = {{1, 2, 3, 4}, {5, 6, 7, 8, 9, 10, 11, 12}};
    thresholds_.send_bytes = 4096;
    thresholds_.receive_bytes = 4096;
    slot_.result.resize(kFileBytes);
  }
  // The call's stream as the server would see it, its Read chunk in place.
  std::vector<uint8_t> built(const MixEntry& entry) {
    EXPECT_TRUE(workload_.build(entry, thresholds_, slot_, draft_));
    std::vector<uint8_t> out(static_cast<size_t>(draft_.call.message.bytes()));
    draft_.call.message.copy_to(0, out);
    for (const rpcrdma::ReadChunkSource& read : draft_.call.reads) {
      EXPECT_EQ(read.position, out.size());
      out.insert(out.end(), read.memory.begin(), read.memory.end());
    }
    return out;
  }
  // A READ's reply with these data, inline or placed.
  rpcrdma::ClientReply read_reply(Bytes data) {
    uint8_t head[256];
    rpcrdma::write_accepted_reply(std::span<uint8_t, rpcrdma::kAcceptedReplyBytes>(head, rpcrdma::kAcceptedReplyBytes), 1,
                                  rpcrdma::AcceptStatus::kSuccess);
    rpcrdma::XdrWriter body(MutableBytes(head).subspan(rpcrdma::kAcceptedReplyBytes));
    body.u32(0);
    body.boolean(false);
    body.u32(static_cast<uint32_t>(data.size()));
    body.boolean(false);
    body.u32(static_cast<uint32_t>(data.size()));
    rpcrdma::ClientReply reply;
    EXPECT_TRUE(reply.message.append_copy(pool_, Bytes(head).first(rpcrdma::kAcceptedReplyBytes + body.offset())));
    if (slot_.placed) {
      std::memcpy(slot_.result.data(), data.data(), data.size());
      reply.write_bytes[0] = static_cast<uint32_t>(data.size());
    } else {
      EXPECT_TRUE(reply.message.append_copy(pool_, data));
    }
    return reply;
  }

  HeapBufferPool pool_{256, 4096, 256};
  NfsFiles files_;
  FilePattern pattern_{kFileBytes};
  NfsWorkload workload_{files_, {}, pattern_, pool_};
  rpcrdma::InlineThresholds thresholds_;
  Slot slot_;
  CallDraft draft_;
};

TEST_F(NfsLoad, AnswersOfReadsAreComparedByteByByte) {
  for (const uint32_t bytes : {512u, 65'536u}) {
    const MixEntry entry{CallKind::kRead, bytes, 1};
    for (slot_.sequence = 0; slot_.sequence < 20; ++slot_.sequence) {
      draft_ = CallDraft();
      const std::vector<uint8_t> call = built(entry);
      EXPECT_EQ(slot_.placed, bytes > 4096);
      // The last words of a READ are its offset and count.
      const uint64_t offset = load_be64(call.data() + call.size() - 12);
      ASSERT_LE(offset + bytes, kFileBytes);
      const MutableBytes content = pattern_.at(offset, bytes);
      std::vector<uint8_t> data(content.begin(), content.end());
      EXPECT_TRUE(workload_.check(entry, read_reply(data), slot_, true));
      data[bytes / 2] ^= 1;
      EXPECT_FALSE(workload_.check(entry, read_reply(data), slot_, true));
      EXPECT_TRUE(workload_.check(entry, read_reply(data), slot_, false));
      data.resize(bytes - 4);
      EXPECT_FALSE(workload_.check(entry, read_reply(data), slot_, false));
    }
  }
}

TEST_F(NfsLoad, WritesGoInlineOrByReadChunkAndAreWholeToTheBinding) {
  for (const uint32_t bytes : {1000u, 65'536u}) {
    draft_ = CallDraft();
    const MixEntry entry{CallKind::kWrite, bytes, 1};
    const std::vector<uint8_t> call = built(entry);
    EXPECT_EQ(draft_.call.reads.size(), bytes > 4096 ? 1u : 0u);
    rpcrdma::CallContext context;
    rpcrdma::inspect_call(rpcrdma::XdrReader(Bytes(call)), context);
    EXPECT_EQ(context.header.program, rpcrdma::kNfsProgram);
    EXPECT_EQ(context.header.procedure, rpcrdma::kNfs3Write);
    rpcrdma::ReducibleItems items;
    rpcrdma::XdrReader reader{Bytes(call)};
    rpcrdma::find_eligible_arguments(reader, context.header, items);
    ASSERT_EQ(items.count, 1u);
    EXPECT_EQ(items.items[0].length, bytes);
  }
}

TEST_F(NfsLoad, GoesThroughAllFilesInOrderWhenTold) {
  NfsWorkload sequential(files_, {.sequential = true}, pattern_, pool_);
  const MixEntry entry{CallKind::kRead, kFileBytes / 4, 1};
  std::vector<uint64_t> offsets;
  for (slot_.sequence = 0; slot_.sequence < 5; ++slot_.sequence) {
    draft_ = CallDraft();
    ASSERT_TRUE(sequential.build(entry, thresholds_, slot_, draft_));
    std::vector<uint8_t> call(static_cast<size_t>(draft_.call.message.bytes()));
    draft_.call.message.copy_to(0, call);
    offsets.push_back(load_be64(call.data() + call.size() - 12));
  }
  EXPECT_EQ(offsets, (std::vector<uint64_t>{0, kFileBytes / 4, kFileBytes / 2, kFileBytes / 4 * 3, 0}));
}

TEST(FilePattern, DiffersAtDifferentPlaces) {
  FilePattern pattern(65'536);
  const MutableBytes here = pattern.at(0, 4096);
  for (const uint64_t offset : {uint64_t{4096}, uint64_t{65'536}, uint64_t{1} << 20, uint64_t{16} << 20}) {
    EXPECT_NE(std::memcmp(here.data(), pattern.at(offset, 4096).data(), 4096), 0) << offset;
  }
}

}  // namespace
}  // namespace cw::load
