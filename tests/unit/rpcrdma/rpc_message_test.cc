#include "rpcrdma/rpc/rpc_message.h"

#include <gtest/gtest.h>

#include "base/heap_buffer_pool.h"
#include "rpcrdma/ulb/binding.h"
#include "tests/unit/rpcrdma/bytes.h"

namespace cw::rpcrdma {
namespace {

using test::ByteVector;

class RpcMessageTest : public ::testing::Test {
 protected:
  HeapBufferPool pool{2048, 1024, 8};
  Chain chain(const ByteVector& raw, size_t piece = 1024) { return test::chain_of(pool, raw, piece); }
};

ByteVector call_with(uint32_t flavor, const ByteVector& credential, const ByteVector& verifier = {}) {
  ByteVector call = test::words({0xDEADBEEF, 0, 2, 100003, 4, 1, flavor});
  test::add_opaque(call, credential);
  test::add_word(call, 0);
  test::add_opaque(call, verifier);
  return call;
}

ByteVector gss_credential(uint32_t procedure, uint32_t service) {
  ByteVector credential = test::words({1, procedure, 77, service});
  test::add_opaque(credential, test::hex("0102030405"));
  return credential;
}

TEST_F(RpcMessageTest, CallHeaderEndsWhereTheArgumentsBegin) {
  for (size_t credential = 0; credential <= 9; ++credential) {
    ByteVector call = call_with(1, ByteVector(credential, 0x11), ByteVector(3, 0x22));
    const size_t header = call.size();
    test::add_word(call, 0xA0A0A0A0);
    for (const size_t piece : {1, 3, 4, 7, 1024}) {
      const auto parsed = parse_rpc_call(chain(call, piece));
      ASSERT_TRUE(parsed.ok());
      EXPECT_EQ(parsed->xid, 0xDEADBEEFu);
      EXPECT_EQ(parsed->program, 100003u);
      EXPECT_EQ(parsed->version, 4u);
      EXPECT_EQ(parsed->procedure, 1u);
      EXPECT_EQ(parsed->flavor, 1u);
      EXPECT_EQ(parsed->gss_service, 0u);
      EXPECT_EQ(parsed->header_bytes, header);
    }
  }
}

TEST_F(RpcMessageTest, GssServiceIsRead) {
  for (const uint32_t service : {1u, 2u, 3u}) {
    const ByteVector call = call_with(6, gss_credential(0, service), ByteVector(28, 0x33));
    const auto parsed = parse_rpc_call(chain(call, 5));
    ASSERT_TRUE(parsed.ok());
    EXPECT_EQ(parsed->gss_service, service);
    EXPECT_EQ(parsed->gss_procedure, 0u);
    EXPECT_EQ(parsed->header_bytes, call.size());
  }
}

TEST_F(RpcMessageTest, GssSequenceNumberAndContextAreRead) {
  const auto context_of = [&](const std::string& handle) {
    ByteVector credential = test::words({1, 0, 77, 2});
    test::add_opaque(credential, test::hex(handle));
    const ByteVector call = call_with(6, credential);
    const auto parsed = parse_rpc_call(chain(call, 7));
    EXPECT_EQ(parsed->gss_sequence, 77u);
    EXPECT_EQ(parsed->header_bytes, call.size());
    return parsed->gss_context;
  };
  EXPECT_EQ(context_of("0102030405060708"), context_of("0102030405060708"));
  EXPECT_NE(context_of("0102030405060708"), context_of("0102030405060709"));
  EXPECT_NE(context_of("0102030405"), context_of("0102030406"));
  EXPECT_EQ(context_of(""), 0u);
}

// A handle that claims to be longer than its credential is read as far as the credential goes.
TEST_F(RpcMessageTest, GssHandleLongerThanItsCredentialIsNotFollowed) {
  for (const uint32_t length : {1u, 9u, 400u, UINT32_MAX}) {
    const ByteVector call = call_with(6, test::words({1, 0, 77, 1, length, 5}), ByteVector(8, 0x22));
    const auto parsed = parse_rpc_call(chain(call));
    ASSERT_TRUE(parsed.ok()) << length;
    EXPECT_EQ(parsed->header_bytes, call.size());
  }
}

TEST_F(RpcMessageTest, GssContextCallIsToldFromData) {
  const auto parsed = parse_rpc_call(chain(call_with(6, gss_credential(1, 1))));
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(parsed->gss_procedure, 1u);
}

TEST_F(RpcMessageTest, UnknownOrShortGssCredentialCountsAsPrivacy) {
  ByteVector credential = gss_credential(0, 1);
  credential[3] = 2;
  const ByteVector unknown = call_with(6, credential);
  EXPECT_EQ(parse_rpc_call(chain(unknown))->gss_service, 3u);
  EXPECT_EQ(parse_rpc_call(chain(unknown))->header_bytes, unknown.size());
  for (size_t length = 0; length < 16; ++length) {
    const ByteVector call = call_with(6, ByteVector(length, 0));
    const auto parsed = parse_rpc_call(chain(call));
    ASSERT_TRUE(parsed.ok());
    EXPECT_EQ(parsed->gss_service, 3u);
    EXPECT_EQ(parsed->header_bytes, call.size());
  }
}

TEST_F(RpcMessageTest, CredentialAndVerifierMayHave400Bytes) {
  EXPECT_TRUE(parse_rpc_call(chain(call_with(1, ByteVector(399, 1)))).ok());
  EXPECT_TRUE(parse_rpc_call(chain(call_with(1, ByteVector(400, 1), ByteVector(400, 1)))).ok());
  EXPECT_EQ(parse_rpc_call(chain(call_with(1, ByteVector(401, 1)))).error(), Error::kBadValue);
  EXPECT_EQ(parse_rpc_call(chain(call_with(1, {}, ByteVector(401, 1)))).error(), Error::kBadValue);
}

TEST_F(RpcMessageTest, HugeCredentialLengthIsRefusedNotFollowed) {
  ByteVector call = test::words({1, 0, 2, 100003, 3, 6, 1, UINT32_MAX});
  EXPECT_EQ(parse_rpc_call(chain(call)).error(), Error::kBadValue);
}

// Linux' sunrpc followed a null pointer for a checksum of no bytes (CVE-2025-40129): credentials and verifiers of RPCSEC_GSS, in
// calls and replies, of no bytes, of all that a length can say, and of what does not fit.
TEST_F(RpcMessageTest, B6_GssCredentialsAndVerifiersOfAnyLength) {
  const auto call = [](uint32_t credential_bytes, uint32_t verifier_bytes) {
    return test::words({1, 0, 2, 100003, 3, 6, 6, credential_bytes, 6, verifier_bytes});
  };
  // No bytes: the call is whole, and nobody looks for a service in a credential that has none.
  const auto empty = parse_rpc_call(chain(call(0, 0)));
  ASSERT_TRUE(empty.ok());
  EXPECT_EQ(empty->header_bytes, 40u);
  EXPECT_FALSE(is_plain(*empty)) << "counts as protected: nothing of it is moved";
  for (const uint32_t length : {401u, 404u, 0x7fff'ffffu, 0x8000'0000u, 0xffff'fffcu, UINT32_MAX}) {
    EXPECT_FALSE(parse_rpc_call(chain(call(length, 0))).ok()) << length;
    EXPECT_FALSE(parse_rpc_call(chain(call(0, length))).ok()) << length;
    EXPECT_FALSE(parse_rpc_reply(chain(test::words({1, 1, 0, 6, length, 0}))).ok()) << length;
  }
  for (const uint32_t length : {1u, 4u, 399u, 400u}) {  // legal, and not there
    EXPECT_EQ(parse_rpc_call(chain(call(0, length))).error(), Error::kTruncated) << length;
    EXPECT_EQ(parse_rpc_reply(chain(test::words({1, 1, 0, 6, length}))).error(), Error::kTruncated) << length;
  }
  const auto reply = parse_rpc_reply(chain(test::words({1, 1, 0, 6, 0, 0})));
  ASSERT_TRUE(reply.ok());
  EXPECT_TRUE(reply->success());
}

TEST_F(RpcMessageTest, CallTruncatedAtEveryLength) {
  const ByteVector call = call_with(6, gss_credential(0, 1), ByteVector(7, 0x22));
  for (size_t length = 0; length < call.size(); ++length) {
    const auto parsed = parse_rpc_call(chain(ByteVector(call.begin(), call.begin() + static_cast<ptrdiff_t>(length)), 9));
    ASSERT_FALSE(parsed.ok()) << length;
    EXPECT_EQ(parsed.error(), Error::kTruncated) << length;
  }
}

// RPCRDMA-2.2.2-1
TEST_F(RpcMessageTest, ReplyOrUnknownTypeIsNotACall) {
  for (const uint32_t type : {1u, 2u, UINT32_MAX}) {
    EXPECT_EQ(parse_rpc_call(chain(test::words({1, type, 2, 100003, 3, 0, 0, 0, 0, 0}))).error(), Error::kBadValue);
  }
}

TEST_F(RpcMessageTest, OtherRpcVersionIsUnsupported) {
  EXPECT_EQ(parse_rpc_call(chain(test::words({1, 0, 3, 100003, 3, 0, 0, 0, 0, 0}))).error(), Error::kUnsupported);
}

TEST_F(RpcMessageTest, ReadCallLeavesWhatItSawBeforeTheFault) {
  const Chain call = chain(test::words({0x55, 0, 2, 100003, 3, 6, 1, 401}));
  XdrReader reader(call);
  RpcCallHeader header;
  EXPECT_FALSE(read_rpc_call(reader, header).ok());
  EXPECT_EQ(header.xid, 0x55u);
  EXPECT_EQ(header.procedure, 6u);
  EXPECT_EQ(header.header_bytes, 0u);
}

ByteVector accepted_reply(uint32_t status, const ByteVector& verifier) {
  ByteVector reply = test::words({0xDEADBEEF, 1, 0, 6});
  test::add_opaque(reply, verifier);
  test::add_word(reply, status);
  return reply;
}

TEST_F(RpcMessageTest, AcceptedReplyHeaderEndsWhereTheResultsBegin) {
  for (size_t verifier = 0; verifier <= 9; ++verifier) {
    const ByteVector reply = accepted_reply(0, ByteVector(verifier, 0x11));
    const auto parsed = parse_rpc_reply(chain(reply, 3));
    ASSERT_TRUE(parsed.ok());
    EXPECT_TRUE(parsed->success());
    EXPECT_EQ(parsed->xid, 0xDEADBEEFu);
    EXPECT_EQ(parsed->header_bytes, reply.size());
  }
}

TEST_F(RpcMessageTest, EveryOtherStatusIsNoSuccess) {
  for (const uint32_t status : {1u, 2u, 3u, 4u, 5u, 6u}) {
    const auto parsed = parse_rpc_reply(chain(accepted_reply(status, {})));
    ASSERT_TRUE(parsed.ok());
    EXPECT_TRUE(parsed->accepted);
    EXPECT_FALSE(parsed->success());
    EXPECT_EQ(parsed->status, status);
  }
  const auto denied = parse_rpc_reply(chain(test::words({7, 1, 1, 0, 2, 2})));
  ASSERT_TRUE(denied.ok());
  EXPECT_FALSE(denied->accepted);
  EXPECT_FALSE(denied->success());
}

TEST_F(RpcMessageTest, ReplyTruncatedAtEveryLength) {
  const ByteVector reply = accepted_reply(0, ByteVector(5, 0x11));
  for (size_t length = 0; length < reply.size(); ++length) {
    const auto parsed = parse_rpc_reply(chain(ByteVector(reply.begin(), reply.begin() + static_cast<ptrdiff_t>(length))));
    ASSERT_FALSE(parsed.ok()) << length;
    EXPECT_EQ(parsed.error(), Error::kTruncated) << length;
  }
}

TEST_F(RpcMessageTest, BadReplyIsRefused) {
  EXPECT_EQ(parse_rpc_reply(chain(test::words({1, 0, 0, 0, 0, 0}))).error(), Error::kBadValue);
  EXPECT_EQ(parse_rpc_reply(chain(test::words({1, 1, 2, 0, 0, 0}))).error(), Error::kBadValue);
  EXPECT_EQ(parse_rpc_reply(chain(accepted_reply(0, ByteVector(404, 1)))).error(), Error::kBadValue);
}

TEST_F(RpcMessageTest, WrittenReplyIsWhatRfc5531Says) {
  uint8_t out[kAcceptedReplyBytes];
  std::fill(std::begin(out), std::end(out), uint8_t{0xEE});
  write_accepted_reply(out, 0x01020304, AcceptStatus::kGarbageArguments);
  EXPECT_EQ(ByteVector(std::begin(out), std::end(out)), test::words({0x01020304, 1, 0, 0, 0, 4}));
}

}  // namespace
}  // namespace cw::rpcrdma
