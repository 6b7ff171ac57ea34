#include "iwarp/wire/ddp_header.h"

#include "base/assert.h"

namespace cw::iwarp {
namespace {

void write_control(const SegmentControl& control, uint8_t* out) {
  out[0] = static_cast<uint8_t>((control.tagged ? 0x80 : 0) | (control.last ? 0x40 : 0) | control.ddp_version);
  out[1] = static_cast<uint8_t>(control.rdmap_version << 6 | static_cast<uint8_t>(control.opcode));
}

}  // namespace

Result<SegmentHeader> parse_segment_header(Bytes segment) {
  if (segment.size() < kTaggedHeaderBytes) {
    return fail(Error::kTruncated);
  }
  SegmentHeader header;
  const uint8_t* p = segment.data();
  header.control = parse_control(p[0], p[1]);
  if (header.control.tagged) {
    header.stag = load_be32(p + 2);
    header.tagged_offset = load_be64(p + 6);
    return header;
  }
  if (segment.size() < kUntaggedHeaderBytes) {
    return fail(Error::kTruncated);
  }
  header.invalidate_stag = load_be32(p + 2);
  header.queue = load_be32(p + 6);
  header.message = load_be32(p + 10);
  header.message_offset = load_be32(p + 14);
  return header;
}

void write(const TaggedHeader& header, MutableBytes out) {
  CW_DASSERT(out.size() >= kTaggedHeaderBytes && header.control.tagged);
  write_control(header.control, out.data());
  store_be32(out.data() + 2, header.stag);
  store_be64(out.data() + 6, header.offset);
}

void write(const UntaggedHeader& header, MutableBytes out) {
  CW_DASSERT(out.size() >= kUntaggedHeaderBytes && !header.control.tagged);
  write_control(header.control, out.data());
  store_be32(out.data() + 2, header.invalidate_stag);
  store_be32(out.data() + 6, static_cast<uint32_t>(header.queue));
  store_be32(out.data() + 10, header.message);
  store_be32(out.data() + 14, header.offset);
}

}  // namespace cw::iwarp
