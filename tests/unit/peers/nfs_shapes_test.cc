// What causeway-nfs-client builds and understands, without a server: the binding has to find the same data in its calls.
#include <gtest/gtest.h>

#include <algorithm>

#include "apps/nfs/operation.h"
#include "apps/nfs/pattern.h"
#include "rpcrdma/rpc/rpc_message.h"
#include "rpcrdma/ulb/arguments.h"

namespace cw::nfs {
namespace {

std::vector<ByteVector> eligible_arguments(const Call& call) {
  rpcrdma::CallContext context;
  rpcrdma::inspect_call(rpcrdma::XdrReader(call.stream()), context);
  rpcrdma::XdrReader reader(call.stream());
  rpcrdma::ReducibleItems items;
  rpcrdma::find_eligible_arguments(reader, context.header, items);
  EXPECT_TRUE(reader.ok());
  EXPECT_TRUE(items.count == 0 || reader.remaining() == 0);  // a call that cannot have any is not walked over
  std::vector<ByteVector> found;
  for (uint32_t i = 0; i < items.count; ++i) {
    const Bytes data = call.stream().subspan(static_cast<size_t>(items.items[i].offset), items.items[i].length);
    found.emplace_back(data.begin(), data.end());
  }
  return found;
}

ByteVector pattern(size_t bytes) {
  ByteVector raw(bytes);
  peers::fill_pattern(raw, bytes);
  return raw;
}

Handle some_file() {
  return {.raw = pattern(28), .stateid = {}};
}

TEST(NfsShapes, TheBindingFindsTheDataOfEachCall) {
  const Handle file = some_file();
  for (const auto& version : {make_nfs3(pattern(20)), make_nfs41("owner")}) {
    for (const size_t bytes : {1u, 2u, 3u, 4u, 5001u}) {
      const ByteVector data = pattern(bytes);
      for (const Kind kind : {Kind::kWrite, Kind::kSymlink}) {
        const Operation operation{.kind = kind, .on = &file, .name = "name", .data = data};
        EXPECT_EQ(eligible_arguments(version->build({&operation, 1})), std::vector<ByteVector>{data}) << version->name() << bytes;
      }
    }
  }
}

TEST(NfsShapes, OtherCallsHaveNoEligibleArguments) {
  const Handle file = some_file();
  for (const auto& version : {make_nfs3(pattern(20)), make_nfs41("owner")}) {
    for (const Kind kind : {Kind::kGetattr, Kind::kLookup, Kind::kReadlink, Kind::kRead, Kind::kCreate, Kind::kMakeDirectory,
                            Kind::kRemove, Kind::kRemoveDirectory, Kind::kReaddir}) {
      const Operation operation{.kind = kind, .on = &file, .name = "name", .count = 100};
      const Call call = version->build({&operation, 1});
      EXPECT_TRUE(eligible_arguments(call).empty()) << version->name();
      rpcrdma::CallContext context;
      rpcrdma::inspect_call(rpcrdma::XdrReader(call.stream()), context);
      EXPECT_EQ(context.header.program, rpcrdma::kNfsProgram);
    }
  }
}

TEST(NfsShapes, ACompoundCarriesTheDataOfEachOfItsOperations) {
  const Handle file = some_file();
  const ByteVector one = pattern(5);
  const ByteVector two = pattern(4099);
  const Operation operations[] = {{.kind = Kind::kWrite, .on = &file, .data = one},
                                  {.kind = Kind::kRead, .on = &file, .count = 9},
                                  {.kind = Kind::kWrite, .on = &file, .data = two}};
  EXPECT_EQ(eligible_arguments(make_nfs41("owner")->build(operations)), (std::vector<ByteVector>{one, two}));
}

// A reply to READ (RFC 1813 3.3.6), its data in the stream or not.
Reply read_reply(const ByteVector& data, bool in_stream) {
  Reply reply;
  reply.status = rpcrdma::CallStatus::kReplied;
  reply.stream.resize(8192);
  rpcrdma::write_accepted_reply(
      std::span<uint8_t, rpcrdma::kAcceptedReplyBytes>(reply.stream.data(), rpcrdma::kAcceptedReplyBytes), 7,
      rpcrdma::AcceptStatus::kSuccess);
  rpcrdma::XdrWriter out(MutableBytes(reply.stream).subspan(rpcrdma::kAcceptedReplyBytes));
  out.u32(0);
  out.boolean(false);  // no attributes
  out.u32(static_cast<uint32_t>(data.size()));
  out.boolean(true);
  if (in_stream) {
    out.opaque(data);
  } else {
    out.u32(static_cast<uint32_t>(data.size()));
  }
  reply.stream.resize(rpcrdma::kAcceptedReplyBytes + static_cast<size_t>(out.offset()));
  return reply;
}

std::vector<Outcome> decode_read(const Reply& reply, std::string& problem) {
  const Operation operation{.kind = Kind::kRead, .count = 9};
  return make_nfs3(pattern(20))->decode({&operation, 1}, reply, 0, problem);
}

TEST(NfsShapes, ReadsResultsWhereverTheyAre) {
  for (const size_t bytes : {0u, 1u, 2u, 3u, 4u, 4001u}) {
    const ByteVector data = pattern(bytes);
    std::string problem;
    EXPECT_EQ(decode_read(read_reply(data, true), problem).at(0).data, data);
    Reply placed = read_reply(data, false);
    placed.placed = {data};
    placed.offered = {true};
    EXPECT_EQ(decode_read(placed, problem).at(0).data, data);
    Reply beside_an_empty_chunk = read_reply(data, true);
    beside_an_empty_chunk.placed = {{}};
    beside_an_empty_chunk.offered = {false};
    EXPECT_EQ(decode_read(beside_an_empty_chunk, problem).at(0).data, data);
    EXPECT_EQ(problem, "");
  }
}

TEST(NfsShapes, SeesWhatDoesNotBelongThere) {
  const ByteVector data = pattern(9);
  std::string problem;
  Reply shorter = read_reply(data, false);
  shorter.placed = {pattern(8)};
  shorter.offered = {true};
  EXPECT_TRUE(decode_read(shorter, problem).empty());
  EXPECT_NE(problem, "");
  problem.clear();
  Reply longer = read_reply(data, true);
  longer.stream.resize(longer.stream.size() + 4);
  EXPECT_TRUE(decode_read(longer, problem).empty());
  EXPECT_NE(problem, "");
  problem.clear();
  Reply twice = read_reply(data, true);
  twice.placed = {{}, data};
  twice.offered = {false, true};
  EXPECT_TRUE(decode_read(twice, problem).empty());
  EXPECT_NE(problem, "");
}

TEST(NfsShapes, SurvivesRepliesOfEveryLength) {
  const Reply whole = read_reply(pattern(9), true);
  for (size_t bytes = 0; bytes < whole.stream.size(); ++bytes) {
    Reply cut = whole;
    cut.stream.resize(bytes);
    std::string problem;
    EXPECT_TRUE(decode_read(cut, problem).empty()) << bytes;
    EXPECT_NE(problem, "");
  }
}

}  // namespace
}  // namespace cw::nfs
