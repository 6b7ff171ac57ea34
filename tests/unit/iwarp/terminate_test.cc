// The Terminate byte by byte (RFC 5040 4.8, RFC 5041 8, RFC 5044 8): which one each error gets, and what those that come mean.
#include <set>

#include "tests/unit/iwarp/hex.h"
#include "tests/unit/iwarp/taken_over.h"

namespace cw::iwarp::test {
namespace {

// Its DDP header is always this one: the last of queue 2, whose only message it is.
constexpr std::string_view kTerminateHeader = "4147 00000000 00000002 00000001 00000000";

struct WrongUlpdu {
  TerminateCause cause;
  const char* name;
  // {R}, {W} and {O} are keys of memory that may be read, may be written, is another connection's; {r}, {w}, {o} its addresses.
  std::string_view said;
  std::string_view answer;  // behind kTerminateHeader
};

// clang-format off
const std::vector<WrongUlpdu> kWrongUlpdus = {
    {TerminateCause::kProtectionInvalidStag, "a READ of a key that nobody has",
     "4141 00000000 00000001 00000001 00000000 0000abcd 0000000000000003 00000064 00000007 {r}",
     "0100e000 002e 4141 00000000 00000001 00000001 00000000 0000abcd 0000000000000003 00000064 00000007 {r}"},
    {TerminateCause::kProtectionBounds, "a READ behind the end",
     "4141 00000000 00000001 00000001 00000000 0000abcd 0000000000000003 00000065 {R} {r}",
     "0101e000 002e 4141 00000000 00000001 00000001 00000000 0000abcd 0000000000000003 00000065 {R} {r}"},
    {TerminateCause::kProtectionAccess, "a READ of what may be written only",
     "4141 00000000 00000001 00000001 00000000 0000abcd 0000000000000003 00000064 {W} {w}",
     "0102e000 002e 4141 00000000 00000001 00000001 00000000 0000abcd 0000000000000003 00000064 {W} {w}"},
    {TerminateCause::kProtectionOtherStream, "a READ of another connection's memory",
     "4141 00000000 00000001 00000001 00000000 0000abcd 0000000000000003 00000064 {O} {o}",
     "0103e000 002e 4141 00000000 00000001 00000001 00000000 0000abcd 0000000000000003 00000064 {O} {o}"},
    {TerminateCause::kProtectionWrap, "a READ beyond 2^64",
     "4141 00000000 00000001 00000001 00000000 0000abcd 0000000000000003 00000064 {R} fffffffffffffffb",
     "0104e000 002e 4141 00000000 00000001 00000001 00000000 0000abcd 0000000000000003 00000064 {R} fffffffffffffffb"},
    {TerminateCause::kProtectionNotInvalidated, "an invalidation of another connection's key",
     "4144 {O} 00000000 00000001 00000000 aabbccdd",
     "0109c000 0016 4144 {O} 00000000 00000001 00000000"},
    {TerminateCause::kOperationVersion, "RDMAP version 2",
     "4183 00000000 00000000 00000001 00000000 aabbccdd",
     "0205c000 0016 4183 00000000 00000000 00000001 00000000"},
    {TerminateCause::kOperationOpcode, "a Terminate among the SENDs",
     "4147 00000000 00000000 00000001 00000000 aabbccdd",
     "0206c000 0016 4147 00000000 00000000 00000001 00000000"},
    {TerminateCause::kOperationUnspecified, "a READ request that is cut short",
     "4141 00000000 00000001 00000001 00000000 aabbccdd",
     "02ffc000 0016 4141 00000000 00000001 00000001 00000000"},
    {TerminateCause::kTaggedInvalidStag, "a WRITE to a key that nobody has",
     "c140 00000007 {w} aabbccdd",
     "1100c000 0012 c140 00000007 {w}"},
    {TerminateCause::kTaggedBounds, "a WRITE in front of the beginning",
     "c140 {W} 0000000000000001 aabbccdd",
     "1101c000 0012 c140 {W} 0000000000000001"},
    {TerminateCause::kTaggedOtherStream, "a WRITE to another connection's memory",
     "c140 {O} {o} aabbccdd",
     "1102c000 0012 c140 {O} {o}"},
    {TerminateCause::kTaggedWrap, "a WRITE beyond 2^64",
     "c140 {W} fffffffffffffffe aabbccdd",
     "1103c000 0012 c140 {W} fffffffffffffffe"},
    {TerminateCause::kTaggedVersion, "DDP version 2, tagged",
     "c240 {W} {w} aabbccdd",
     "1104c000 0012 c240 {W} {w}"},
    {TerminateCause::kUntaggedQueue, "queue 3",
     "4143 00000000 00000003 00000001 00000000 aabbccdd",
     "1201c000 0016 4143 00000000 00000003 00000001 00000000"},
    {TerminateCause::kUntaggedNoBuffer, "a SEND without a receive",
     "4143 00000000 00000000 00000009 00000000 aabbccdd",
     "1202c000 0016 4143 00000000 00000000 00000009 00000000"},
    {TerminateCause::kUntaggedMessage, "MSN 3 instead of 1",
     "4143 00000000 00000000 00000003 00000000 aabbccdd",
     "1203c000 0016 4143 00000000 00000000 00000003 00000000"},
    {TerminateCause::kUntaggedOffset, "MO 4 at the beginning of a message",
     "4143 00000000 00000000 00000001 00000004 aabbccdd",
     "1204c000 0016 4143 00000000 00000000 00000001 00000004"},
    {TerminateCause::kUntaggedTooLong, "a READ request of 32 bytes",
     "4141 00000000 00000001 00000001 00000000 0000abcd 0000000000000003 00000064 {R} {r} aabbccdd",
     "1205c000 0032 4141 00000000 00000001 00000001 00000000"},
    {TerminateCause::kUntaggedVersion, "DDP version 2, untagged",
     "4243 00000000 00000000 00000001 00000000 aabbccdd",
     "1206c000 0016 4243 00000000 00000000 00000001 00000000"},
    {TerminateCause::kMpaLength, "a ULPDU that ends within its header",
     "4143 00000000 00000000 0000",
     "20030000"},
    {TerminateCause::kMpaCrc, "a CRC with one bit wrong",
     "4143 00000000 00000000 00000001 00000000 aabbccdd",
     "20020000"},
};
// clang-format on

// We say none of these: what they tell of ends TCP here, or has a cause that says more. A peer that says one is understood.
const std::set<TerminateCause> kOnlyRead = {TerminateCause::kRdmapLocalCatastrophic,
                                            TerminateCause::kProtectionUnspecified,
                                            TerminateCause::kOperationCatastrophicStream,
                                            TerminateCause::kOperationCatastrophicGlobal,
                                            TerminateCause::kOperationNotInvalidated,
                                            TerminateCause::kDdpLocalCatastrophic,
                                            TerminateCause::kMpaClosed,
                                            TerminateCause::kMpaFrame,
                                            TerminateCause::kMpaLocalCatastrophic,
                                            TerminateCause::kMpaNoReadyToReceive};

struct Told {
  TerminateCause cause;
  std::string_view control;
  std::string_view siws;  // empty: the same bytes
};

// clang-format off
const std::vector<Told> kTold = {
    {TerminateCause::kRdmapLocalCatastrophic, "00 00 00 00", ""},
    {TerminateCause::kProtectionInvalidStag, "01 00 e0 00", "10 00 07 00"},
    {TerminateCause::kProtectionBounds, "01 01 e0 00", "10 01 07 00"},
    {TerminateCause::kProtectionAccess, "01 02 e0 00", "10 02 07 00"},
    {TerminateCause::kProtectionOtherStream, "01 03 e0 00", "10 03 07 00"},
    {TerminateCause::kProtectionWrap, "01 04 e0 00", "10 04 07 00"},
    {TerminateCause::kProtectionNotInvalidated, "01 09 c0 00", "10 09 03 00"},
    {TerminateCause::kProtectionUnspecified, "01 ff c0 00", "10 ff 03 00"},
    {TerminateCause::kOperationVersion, "02 05 c0 00", "20 05 03 00"},
    {TerminateCause::kOperationOpcode, "02 06 c0 00", "20 06 03 00"},
    {TerminateCause::kOperationCatastrophicStream, "02 07 c0 00", "20 07 03 00"},
    {TerminateCause::kOperationCatastrophicGlobal, "02 08 c0 00", "20 08 03 00"},
    {TerminateCause::kOperationNotInvalidated, "02 09 c0 00", "20 09 03 00"},
    {TerminateCause::kOperationUnspecified, "02 ff c0 00", "20 ff 03 00"},
    {TerminateCause::kDdpLocalCatastrophic, "10 00 00 00", ""},
    {TerminateCause::kTaggedInvalidStag, "11 00 c0 00", "11 00 03 00"},
    {TerminateCause::kTaggedBounds, "11 01 c0 00", "11 01 03 00"},
    {TerminateCause::kTaggedOtherStream, "11 02 c0 00", "11 02 03 00"},
    {TerminateCause::kTaggedWrap, "11 03 c0 00", "11 03 03 00"},
    {TerminateCause::kTaggedVersion, "11 04 c0 00", "11 04 03 00"},
    {TerminateCause::kUntaggedQueue, "12 01 c0 00", "21 01 03 00"},
    {TerminateCause::kUntaggedNoBuffer, "12 02 c0 00", "21 02 03 00"},
    {TerminateCause::kUntaggedMessage, "12 03 c0 00", "21 03 03 00"},
    {TerminateCause::kUntaggedOffset, "12 04 c0 00", "21 04 03 00"},
    {TerminateCause::kUntaggedTooLong, "12 05 c0 00", "21 05 03 00"},
    {TerminateCause::kUntaggedVersion, "12 06 c0 00", "21 06 03 00"},
    {TerminateCause::kMpaClosed, "20 01 00 00", "02 01 00 00"},
    {TerminateCause::kMpaCrc, "20 02 00 00", "02 02 00 00"},
    {TerminateCause::kMpaLength, "20 03 00 00", "02 03 00 00"},
    {TerminateCause::kMpaFrame, "20 04 00 00", "02 04 00 00"},
    {TerminateCause::kMpaLocalCatastrophic, "20 05 00 00", ""},
    {TerminateCause::kMpaInsufficientIrd, "20 06 00 00", ""},
    {TerminateCause::kMpaNoReadyToReceive, "20 07 00 00", ""},
};
// clang-format on

std::string replaced(std::string text, std::string_view what, std::string_view with) {
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what)) {
    text.replace(at, what.size(), with);
  }
  return text;
}

// Our active end with memory of three kinds.
struct ThreeRegions {
  ThreeRegions() {
    const auto add = [&](verbs::ProtectionDomain domain, verbs::RemoteAccess access, const char* key_name, const char* name) {
      const auto key = t.t.client.memory.register_region(domain, memory, access);
      names.emplace_back(key_name, to_hex(be32(key->value())));
      names.emplace_back(name, to_hex(be64(t.address_of(*key))));
    };
    add(TwoEnds::kDomain, verbs::RemoteAccess::kRead, "{R}", "{r}");
    add(TwoEnds::kDomain, verbs::RemoteAccess::kWrite, "{W}", "{w}");
    add(verbs::ProtectionDomain(8), verbs::RemoteAccess::kReadWrite, "{O}", "{o}");
  }
  [[nodiscard]] ByteVector bytes_of_text(std::string_view text) const {
    std::string made(text);
    for (const auto& [name, value] : names) {
      made = replaced(std::move(made), name, value);
    }
    return from_hex(made);
  }

  TakenOver t;
  ByteVector memory = ByteVector(100, 0x55);
  std::vector<std::pair<std::string, std::string>> names;
};

TEST(IwarpTerminate, EachErrorIsToldByteByByte) {
  std::set<TerminateCause> told{TerminateCause::kMpaInsufficientIrd};  // in the set-up: setup_test.cc
  for (const WrongUlpdu& wrong : kWrongUlpdus) {
    SCOPED_TRACE(wrong.name);
    ThreeRegions scene;
    uint32_t received = 0;
    if (wrong.cause == TerminateCause::kUntaggedNoBuffer) {
      for (received = 0; received < 8; ++received) {
        EXPECT_TRUE(scene.t.say(fpdu(send_segment(1 + received, kPayload))).empty());
      }
    }
    ByteVector said = fpdu(scene.bytes_of_text(wrong.said));
    said.back() = static_cast<uint8_t>(said.back() ^ (wrong.cause == TerminateCause::kMpaCrc ? 1 : 0));
    const auto heard = scene.t.say(said);
    ASSERT_EQ(heard.size(), 1u);
    EXPECT_EQ(to_hex(heard[0].ulpdu), to_hex(joined({from_hex(kTerminateHeader), scene.bytes_of_text(wrong.answer)})));
    EXPECT_EQ(scene.t.error().cause, StreamErrorCause::kViolation);
    EXPECT_EQ(scene.t.error().terminate, wrong.cause);
    EXPECT_EQ(scene.t.end().completions.size(), received);
    EXPECT_EQ(scene.memory, ByteVector(100, 0x55));
    EXPECT_EQ(scene.t.end().memory.region_count(), 3u);
    told.insert(wrong.cause);
  }
  for (const TerminateCause cause : kTerminateCauses) {
    EXPECT_NE(told.contains(cause), kOnlyRead.contains(cause)) << to_string(cause);
  }
}

// As the RFC has it, and as siw lays the bits out.
TEST(IwarpTerminate, EachOneThatComesIsUnderstoodByteByByte) {
  ASSERT_EQ(kTold.size(), kTerminateCauses.size());
  // What an empty SEND and a READ request of ours looked like.
  const ByteVector send = from_hex("0012 4143 00000000 00000000 00000001 00000000");
  const ByteVector read =
      from_hex("002e 4141 00000000 00000001 00000001 00000000 0000abcd 0000000000000003 00000065 00000007 0000000000000000");
  for (size_t i = 0; i < kTold.size(); ++i) {
    const Told& told = kTold[i];
    SCOPED_TRACE(to_string(told.cause));
    EXPECT_EQ(told.cause, kTerminateCauses[i]);
    for (const std::string_view form : {told.control, told.siws}) {
      if (form.empty()) {
        continue;
      }
      const ByteVector control = from_hex(form);
      const bool has_header = control[2] != 0;
      const bool has_read_header = control[2] == 0xe0 || control[2] == 0x07;
      const ByteVector payload = joined({control, !has_header ? ByteVector() : has_read_header ? read : send});
      const TerminateMessage parsed = parse_terminate(payload);
      EXPECT_EQ(parsed.cause, told.cause);
      EXPECT_EQ(parsed.ddp_header.size(), has_header ? kUntaggedHeaderBytes : 0);
      EXPECT_EQ(parsed.read_header.size(), has_read_header ? kReadRequestBytes : 0);
      EXPECT_EQ(parsed.segment_bytes, !has_header ? 0 : has_read_header ? 46 : 18);
      if (form == told.control) {
        std::array<uint8_t, kTerminateBytesMax> again{};
        const uint32_t size = write(parsed, again);
        EXPECT_EQ(to_hex({again.begin(), again.begin() + size}), to_hex(payload));
      }
      TakenOver t(Ours::kPassive);
      EXPECT_TRUE(t.say(fpdu(joined({from_hex(kTerminateHeader), payload}))).empty());
      EXPECT_EQ(t.error().cause, StreamErrorCause::kTerminated);
      EXPECT_EQ(t.error().terminate, told.cause);
      EXPECT_EQ(t.end().transport.stream_stats().terminates_received[i], 1u);
    }
  }
}

// A READ of which a part has left: the header says what is still to come (RFC 5040 4.8).
// Proves RDMAP-4.8-42, RDMAP-4.8-43, RDMAP-4.8-44, RDMAP-4.8-45
TEST(IwarpTerminate, AReadThatFailsHalfwaySaysHowFarItHasCome) {
  for (const bool begun : {true, false}) {
    TakenOver t;
    std::vector<uint8_t> memory = pattern(1'000'000);
    std::vector<uint8_t> other = pattern(100);
    const verbs::Rkey key = t.expose(memory, verbs::RemoteAccess::kRead);
    const verbs::Rkey other_key = t.expose(other, verbs::RemoteAccess::kRead);
    const ReadRequestHeader first{.sink_stag = 1, .bytes = 4, .source_stag = key.value(), .source_offset = t.address_of(key)};
    const ReadRequestHeader second{.sink_stag = 0xabcd,
                                   .sink_offset = 0x7000'0000'0003,
                                   .bytes = 900'001,
                                   .source_stag = key.value(),
                                   .source_offset = t.address_of(key) + 77};
    const ReadRequestHeader third{.sink_stag = 3,
                                  .sink_offset = 5,
                                  .bytes = 100,
                                  .source_stag = other_key.value(),
                                  .source_offset = t.address_of(other_key)};
    t.t.net.buffer_bytes_max = 3000;
    const auto segment = [](uint32_t message, const ReadRequestHeader& request) {
      return fpdu(read_request_segment(message, request));
    };
    t.write(joined({segment(1, first), segment(2, second), segment(3, third)}));
    const uint32_t answering = t.stream().reads_answering();
    EXPECT_EQ(answering, 2u);
    EXPECT_TRUE(t.end().memory.invalidate(TwoEnds::kDomain, begun ? key : other_key));
    const auto heard = t.hear_all();
    uint32_t sent = 0;
    for (size_t i = 1; i + 1 < heard.size(); ++i) {
      ASSERT_EQ(heard[i].header.stag, 0xabcdu);
      sent += static_cast<uint32_t>(heard[i].payload().size());
    }
    ReadRequestHeader rest = third;
    if (begun) {
      EXPECT_GT(sent, 0u);
      EXPECT_LT(sent, 900'001u);
      rest = second;
      rest.sink_offset += sent;
      rest.bytes -= sent;
      rest.source_offset += sent;
    } else {
      EXPECT_EQ(sent, 900'001u);
    }
    ByteVector header(kReadRequestBytes);
    write(rest, header);
    const std::string request = begun ? "4141 00000000 00000001 00000002 00000000" : "4141 00000000 00000001 00000003 00000000";
    EXPECT_EQ(to_hex(heard.back().ulpdu),
              to_hex(joined({from_hex(kTerminateHeader), from_hex("0100 e000 002e" + request), header})));
    EXPECT_EQ(t.error().cause, StreamErrorCause::kViolation);
    EXPECT_EQ(t.error().terminate, TerminateCause::kProtectionInvalidStag);
    EXPECT_EQ(t.error().message, begun ? 2u : 3u);
  }
}

// Of reserved opcodes nothing is read but that they are: neither the queue nor the payload matters.
// Proves RDMAP-4.2-3
TEST(IwarpTerminate, ReservedOpcodesAreRefusedWhateverTheyCarry) {
  for (uint32_t opcode = 8; opcode < 16; ++opcode) {
    const auto rdmap = static_cast<uint8_t>(0x40 | opcode);
    for (const uint32_t bytes : {0u, 1u, kReadRequestBytes, 300u}) {
      for (const uint32_t queue : {0u, 1u, 2u, 99u}) {
        SCOPED_TRACE(std::to_string(opcode) + " in queue " + std::to_string(queue) + " with " + std::to_string(bytes));
        TakenOver t;
        const ByteVector segment = queue == 99 ? tagged(0xc1, rdmap, 1, 0, pattern(bytes, opcode))
                                               : untagged(0x41, rdmap, 0, queue, 1, 0, pattern(bytes, opcode));
        const auto heard = t.say(fpdu(segment));
        ASSERT_EQ(heard.size(), 1u);
        EXPECT_EQ(parse_terminate(heard[0].payload()).cause, TerminateCause::kOperationOpcode);
        EXPECT_TRUE(t.end().completions.empty());
      }
    }
  }
}

}  // namespace
}  // namespace cw::iwarp::test
