// What travels on an iWARP stream, header by header: what is parsed is written as the same bytes, reserved bits aside, and says
// what the bytes say when they are read by hand; nothing is read behind what is there. A Terminate means the same in the form of
// the RFC and in siw's. An FPDU's length, pad and CRC are what RFC 5044 says, the CRC by a second computation.
//
// Input: [which][...]
#include <algorithm>
#include <array>
#include <vector>

#include "base/crc32c.h"
#include "iwarp/wire/ddp_header.h"
#include "iwarp/wire/fpdu.h"
#include "iwarp/wire/read_request.h"
#include "iwarp/wire/terminate.h"
#include "tests/fuzz/fuzz_target.h"

namespace cw::iwarp {
namespace {

constexpr size_t kInputBytesMax = 160;
constexpr uint8_t kUntouched = 0xc5;

bool same(Bytes a, Bytes b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

uint64_t number(Bytes bytes, size_t at, size_t size) {
  uint64_t value = 0;
  for (size_t i = 0; i < size; ++i) {
    value = value << 8 | bytes[at + i];
  }
  return value;
}

// Writes `header` and expects the bytes that it was parsed from, and no others.
template <typename Header>
void check_written(const Header& header, Bytes raw, uint32_t bytes) {
  std::array<uint8_t, 2 * kUntaggedHeaderBytes> written;
  written.fill(kUntouched);
  write(header, written);
  std::vector<uint8_t> expected(raw.begin(), raw.begin() + bytes);
  expected[0] &= 0xc3;
  expected[1] &= 0xcf;
  FUZZ_CHECK(same(Bytes(written).first(bytes), expected));
  FUZZ_CHECK(std::all_of(written.begin() + bytes, written.end(), [](uint8_t each) { return each == kUntouched; }));
}

void check_segment_header(Bytes raw) {
  const auto parsed = parse_segment_header(raw);
  const bool tagged = !raw.empty() && (raw[0] & 0x80) != 0;
  const uint32_t bytes = tagged ? kTaggedHeaderBytes : kUntaggedHeaderBytes;
  FUZZ_CHECK(parsed.ok() == (raw.size() >= bytes));
  if (!parsed.ok()) {
    FUZZ_CHECK(parsed.error() == Error::kTruncated);
    return;
  }
  const SegmentControl& control = parsed->control;
  FUZZ_CHECK(parsed->bytes() == bytes && control.tagged == tagged && control.last == ((raw[0] & 0x40) != 0));
  FUZZ_CHECK(control.ddp_version == raw[0] % 4 && control.rdmap_version == raw[1] / 64);
  FUZZ_CHECK(static_cast<uint8_t>(control.opcode) == raw[1] % 16);
  if (tagged) {
    FUZZ_CHECK(parsed->stag == number(raw, 2, 4) && parsed->tagged_offset == number(raw, 6, 8));
    check_written(TaggedHeader{.control = control, .stag = parsed->stag, .offset = parsed->tagged_offset}, raw, bytes);
    return;
  }
  FUZZ_CHECK(parsed->invalidate_stag == number(raw, 2, 4) && parsed->queue == number(raw, 6, 4));
  FUZZ_CHECK(parsed->message == number(raw, 10, 4) && parsed->message_offset == number(raw, 14, 4));
  check_written(UntaggedHeader{.control = control,
                               .invalidate_stag = parsed->invalidate_stag,
                               .queue = static_cast<QueueNumber>(parsed->queue),
                               .message = parsed->message,
                               .offset = parsed->message_offset},
                raw, bytes);
}

void check_read_request(Bytes raw) {
  if (raw.size() < kReadRequestBytes) {
    return;
  }
  const ReadRequestHeader header = parse_read_request(raw);
  FUZZ_CHECK(header.sink_stag == number(raw, 0, 4) && header.sink_offset == number(raw, 4, 8));
  FUZZ_CHECK(header.bytes == number(raw, 12, 4) && header.source_stag == number(raw, 16, 4));
  FUZZ_CHECK(header.source_offset == number(raw, 20, 8));
  std::array<uint8_t, kReadRequestBytes> written{};
  write(header, written);
  FUZZ_CHECK(same(written, raw.first(kReadRequestBytes)));
}

// RFC 5040 4.8, read by hand: what of a Terminate is there.
struct Expected {
  uint16_t cause = 0xffff;
  uint16_t segment_bytes = 0;
  Bytes ddp_header;
  Bytes read_header;
  bool is_whole = false;  // whatever the control word announces
};

Expected read_terminate(Bytes raw) {
  Expected said;
  if (raw.size() < 4) {
    return said;
  }
  const bool siws_mpa = raw[0] == 2 && raw[1] >= 1 && raw[1] <= 4;
  const bool siw = (raw[2] & 0xe0) == 0 && ((raw[2] & 7) != 0 || siws_mpa);
  const auto bit = [&](int place) { return (raw[2] >> (siw ? place : 7 - place) & 1) != 0; };
  const uint8_t first = siw ? static_cast<uint8_t>(raw[0] % 16 * 16 + raw[0] / 16) : raw[0];
  said.cause = static_cast<uint16_t>(first * 256 + raw[1]);
  size_t at = 4;
  if (bit(0) || bit(1)) {
    if (raw.size() < at + 2) {
      return said;
    }
    said.segment_bytes = bit(0) ? static_cast<uint16_t>(number(raw, at, 2)) : uint16_t{0};
    at += 2;
  }
  if (bit(1)) {
    const size_t bytes = raw.size() > at && (raw[at] & 0x80) != 0 ? 14 : 18;
    if (raw.size() < at + bytes) {
      return said;
    }
    said.ddp_header = raw.subspan(at, bytes);
    at += bytes;
  }
  if (bit(2)) {
    if (raw.size() < at + 28) {
      return said;
    }
    said.read_header = raw.subspan(at, 28);
  }
  said.is_whole = true;
  return said;
}

bool is_view_of(Bytes part, Bytes expected) {
  return part.size() == expected.size() && (part.empty() || part.data() == expected.data());
}

void check_cause(TerminateCause cause) {
  const uint32_t index = index_of(cause);
  FUZZ_CHECK(index < kTerminateCauseCount && !to_string(cause).empty());
  FUZZ_CHECK(index == kTerminateCauses.size() || kTerminateCauses[index] == cause);
  FUZZ_CHECK((to_string(cause) == "other") == (index == kTerminateCauses.size() && cause != TerminateCause::kNone));
}

void check_parsed(Bytes raw) {
  const TerminateMessage parsed = parse_terminate(raw);
  const Expected expected = read_terminate(raw);
  FUZZ_CHECK(static_cast<uint16_t>(parsed.cause) == expected.cause && parsed.segment_bytes == expected.segment_bytes);
  FUZZ_CHECK(is_view_of(parsed.ddp_header, expected.ddp_header) && is_view_of(parsed.read_header, expected.read_header));
  check_cause(parsed.cause);
  // One that we could have written.
  const bool is_ours = expected.is_whole && number(raw, 0, 2) == expected.cause && (raw[2] & 0x1f) == 0 && raw[3] == 0 &&
                       (raw[2] & 0xc0) != 0x80 && (raw[2] & 0xc0) != 0x40;
  if (is_ours) {
    std::array<uint8_t, kTerminateBytesMax> written{};
    const uint32_t size = write(parsed, written);
    FUZZ_CHECK(size <= raw.size() && same(Bytes(written).first(size), raw.first(size)));
  }
}

// [cause, 2][segment bytes, 2][what goes along][headers...]
void check_terminate_built(Bytes input) {
  if (input.size() < 5 + kUntaggedHeaderBytes + kReadRequestBytes) {
    return;
  }
  TerminateMessage message;
  message.cause = static_cast<TerminateCause>(number(input, 0, 2));
  if (number(input, 0, 2) >= 0x0201 && number(input, 0, 2) <= 0x0204) {
    return;  // no code of the RFC: siw's way to write one of MPA
  }
  const bool has_ddp_header = (input[4] & 1) != 0;
  const bool has_read_header = (input[4] & 2) != 0;
  std::vector<uint8_t> ddp(input.begin() + 5, input.begin() + 5 + kUntaggedHeaderBytes);
  ddp.resize((ddp[0] & 0x80) != 0 ? kTaggedHeaderBytes : kUntaggedHeaderBytes);
  if (has_ddp_header) {
    message.segment_bytes = static_cast<uint16_t>(number(input, 2, 2));
    message.ddp_header = ddp;
  }
  if (has_read_header) {
    message.read_header = input.subspan(5 + kUntaggedHeaderBytes, kReadRequestBytes);
  }
  std::array<uint8_t, kTerminateBytesMax> written;
  written.fill(kUntouched);
  const uint32_t size = write(message, written);
  FUZZ_CHECK(size == 4 + (has_ddp_header ? 2 + ddp.size() : 0) + (has_read_header ? 28 : 0));
  FUZZ_CHECK(std::all_of(written.begin() + size, written.end(), [](uint8_t each) { return each == kUntouched; }));
  // As siw would have sent it, it means the same.
  std::array<uint8_t, kTerminateBytesMax> siw = written;
  siw[0] = static_cast<uint8_t>(written[0] << 4 | written[0] >> 4);
  siw[2] = static_cast<uint8_t>((has_ddp_header ? 3 : 0) | (has_read_header ? 4 : 0));
  const bool has_flags = has_ddp_header || has_read_header;
  for (const Bytes form : {Bytes(written), has_flags ? Bytes(siw) : Bytes(written)}) {
    const TerminateMessage again = parse_terminate(form.first(size));
    FUZZ_CHECK(again.cause == message.cause && again.segment_bytes == message.segment_bytes);
    FUZZ_CHECK(same(again.ddp_header, message.ddp_header) && same(again.read_header, message.read_header));
    // Cut short, it says what is there.
    check_parsed(form.first(input[4] >> 2 < size ? input[4] >> 2 : size));
  }
}

// [ULPDU bytes, 2][bytes of a TCP segment, 4]
void check_lengths(Bytes input) {
  if (input.size() < 6) {
    return;
  }
  const auto ulpdu = static_cast<uint32_t>(number(input, 0, 2));
  uint32_t whole = 2 + ulpdu;
  whole += whole % 4 == 0 ? 0 : 4 - whole % 4;
  FUZZ_CHECK(fpdu_pad_bytes(ulpdu) == whole - 2 - ulpdu && fpdu_bytes(ulpdu) == whole + 4);
  const auto segment = static_cast<uint32_t>(number(input, 2, 4)) >> (input[0] % 2 * 16);
  const uint32_t most = ulpdu_bytes_max(segment);
  FUZZ_CHECK(most <= kUlpduBytesMax && (most == 0 || fpdu_bytes(most) <= segment));
  FUZZ_CHECK(most == kUlpduBytesMax || fpdu_bytes(most + 1) > segment);
}

// Bit by bit.
uint32_t crc_of(Bytes bytes) {
  uint32_t crc = 0xffff'ffff;
  for (const uint8_t byte : bytes) {
    crc ^= byte;
    for (int bit = 0; bit < 8; ++bit) {
      crc = crc >> 1 ^ ((crc & 1) != 0 ? 0x82f6'3b78u : 0u);
    }
  }
  return ~crc;
}

// [pieces][bytes...]
void check_crc(Bytes input) {
  if (input.size() < 2) {
    return;
  }
  const size_t piece = 1 + input[0] % 32;
  const Bytes covered = input.subspan(1);
  Crc32c crc;
  for (size_t at = 0; at < covered.size(); at += piece) {
    crc.add(covered.subspan(at, std::min(piece, covered.size() - at)));
  }
  FUZZ_CHECK(crc.value() == crc_of(covered));
  std::array<uint8_t, kFpduCrcBytes> trailer{};
  store_fpdu_crc(trailer.data(), crc.value());
  FUZZ_CHECK(load_fpdu_crc(trailer.data()) == crc.value());
  // RFC 3385: what a receiver computes over all of it, if the least significant byte travels first.
  crc.add(trailer);
  FUZZ_CHECK(crc.value() == 0x4867'4bc7);
  // A bit that has changed shows.
  std::vector<uint8_t> changed(covered.begin(), covered.end());
  const size_t bit = size_t{input[0]} * 7 % (changed.size() * 8);
  changed[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
  Crc32c other;
  other.add(changed);
  FUZZ_CHECK(other.value() != load_fpdu_crc(trailer.data()));
}

constexpr std::array kChecks = {check_segment_header, check_parsed,  check_terminate_built,
                                check_read_request,   check_lengths, check_crc};

}  // namespace
}  // namespace cw::iwarp

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 0 && size <= cw::iwarp::kInputBytesMax) {
    // Memory of its own, so that nobody reads behind it unseen.
    const std::vector<uint8_t> rest(data + 1, data + size);
    cw::iwarp::kChecks[data[0] % cw::iwarp::kChecks.size()](rest);
  }
  return 0;
}
