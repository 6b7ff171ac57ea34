// What no binding lets anybody reduce travels in the chunks of whole payloads: Position Zero Read chunks and Reply chunks (RFC
// 8166 3.5.3 and 6.1). In a chunk of its own the same item is a violation.
#include "tests/unit/endpoint/server_fixture.h"

namespace cw::rpcrdma {
namespace {

constexpr uint32_t kItemBytes = 8192;
constexpr uint32_t kNfs = 100'003;
constexpr uint32_t kMountProgram = 100'005;  // has no binding, hence nothing that may be reduced
constexpr uint32_t kReaddir3 = 16;

class IneligibleItems : public ServerFixture {
 protected:
  static std::vector<uint8_t> item() {
    std::vector<uint8_t> raw(kItemBytes);
    for (size_t i = 0; i < raw.size(); ++i) {
      raw[i] = static_cast<uint8_t>(i * 7);
    }
    return raw;
  }
};

// Proves RPCRDMA-3.5.3-11, RPCRDMA-6.1-6: 8 KiB that are no eligible argument, in the call's Position Zero chunk.
TEST_F(IneligibleItems, ALongCallMayCarryThemInItsPositionZeroChunk) {
  const std::vector<uint8_t> stream = rpc_call(kXid, 1, kMountProgram, 3).add({kItemBytes}).raw(item()).bytes();
  const uint32_t bytes = static_cast<uint32_t>(stream.size());
  send(Words{kXid, 1, 1, 1}.read(0, 0x71, bytes, 0x4000).add({0, 0, 0}));
  finish_read(stream);
  const auto id = take();
  ASSERT_TRUE(id.has_value());
  EXPECT_EQ(bytes_of(held), stream);
  EXPECT_EQ(stats().ddp_violations, 0u);
  answer(*id, rpc_reply(kXid));
  EXPECT_EQ(sent()[3], 0u) << "a reply, and no RDMA_ERROR";

  // The same item in a chunk of its own is refused, so that the binding was asked at all.
  send(Words{kXid, 1, 1, 0}
           .read(44, 0x72, kItemBytes, 0x4000)
           .add({0, 0, 0})
           .raw(rpc_call(kXid, 1, kMountProgram, 3).add({kItemBytes}).bytes()));
  finish_read(item());
  EXPECT_FALSE(take().has_value());
  EXPECT_EQ(stats().ddp_violations, 1u);
  EXPECT_EQ(sent().back(), 4u) << "GARBAGE_ARGS";
}

// Proves RPCRDMA-3.5.3-11, RPCRDMA-6.1-6: a READDIR result of 20 KiB, of which nothing is eligible. The Write chunk that came too
// is returned unused.
TEST_F(IneligibleItems, ALongReplyMayCarryThemInItsReplyChunk) {
  const Words results = rpc_reply(kXid).add({0, 0}).zeros(20 * 1024);
  const uint32_t bytes = static_cast<uint32_t>(results.size());
  send(Words{kXid, 1, 1, 0, 0, 1, 1}
           .segment(0x11, 30'000, 0x1000)
           .add({0, 1, 1})
           .segment(0x22, 30'000, 0x9000)
           .raw(rpc_call(kXid, kReaddir3, kNfs, 3).add({4, 7, 0, 0, 0, 0, 20'480}).bytes()));
  const auto id = take();
  ASSERT_TRUE(id.has_value());
  answer(*id, results);
  ASSERT_EQ(qp->posted().size(), 2u);
  const test::PostedWork& write = qp->posted().front();
  EXPECT_EQ(write.kind, test::WorkKind::kWrite);
  EXPECT_EQ(write.rkey, verbs::Rkey(0x22));
  EXPECT_EQ(write.remote_address, 0x9000u);
  EXPECT_EQ(bytes_of(write.payload), results.bytes());
  qp->finish();
  EXPECT_EQ(sent(), Words({kXid, 1, 8, 1, 0, 1, 1}).segment(0x11, 0, 0x1000).add({0, 1, 1}).segment(0x22, bytes, 0x9000).words());
  EXPECT_EQ(stats().ddp_violations, 0u);
}

}  // namespace
}  // namespace cw::rpcrdma
