// What is left of a frame in a capture, against a model that says of each byte whether it may be shown: headers without memory
// keys; the first 16 bytes of an RPC-over-RDMA message; datagrams of the connection manager; ARP and neighbour discovery. The
// model reads the headers on its own, by the tables of the InfiniBand specification (volume 1, 9.2 and 9.3; Annex A17).
//
// Input: a frame (frame_of.h).
#include <algorithm>
#include <cstdint>
#include <vector>

#include "control/capture/roce_frame.h"
#include "tests/fuzz/frame_of.h"
#include "tests/fuzz/fuzz_target.h"

namespace {

using Frame = std::vector<uint8_t>;

constexpr size_t kInputBytesMax = 1024;

enum class Byte : uint8_t { kHidden, kShown, kBlank };  // kBlank: shown as zero

uint32_t be16(const Frame& frame, size_t at) {
  return at + 1 < frame.size() ? frame[at] * 256u + frame[at + 1] : 0;
}

class Model {
 public:
  // `bytes` is used again, so that an input costs no memory.
  Model(const Frame& frame, std::vector<Byte>& bytes) : frame_(frame), bytes_(bytes) {
    bytes_.assign(frame.size(), Byte::kHidden);
    read_link();
  }
  [[nodiscard]] Byte at(size_t index) const { return bytes_[index]; }

 private:
  void mark(size_t begin, size_t count, Byte how) {
    for (size_t at = begin; at < std::min(begin + count, bytes_.size()); ++at) {
      bytes_[at] = how;
    }
  }
  void show_all() { mark(0, bytes_.size(), Byte::kShown); }

  void read_link() {
    mark(0, 14, Byte::kShown);
    if (frame_.size() < 14) {
      return;
    }
    size_t at = 14;
    uint32_t type = be16(frame_, 12);
    if (type == 0x0806) {
      return show_all();
    }
    if (type == 0x8100) {
      type = be16(frame_, 16);
      at = 18;
    }
    if (at < frame_.size() && type == 0x0800 && frame_[at] >> 4 == 4) {
      const size_t header = (frame_[at] & 15u) * 4u;
      if (header >= 20 && at + header <= frame_.size()) {
        mark(0, at + header, Byte::kShown);
        read_transport(at + header, frame_[at + 9], (be16(frame_, at + 6) & 0x1fff) != 0);
      }
    } else if (at < frame_.size() && type == 0x86dd && frame_[at] >> 4 == 6 && at + 40 <= frame_.size()) {
      mark(0, at + 40, Byte::kShown);
      const size_t icmp = at + 40;
      if (frame_[at + 6] == 58 && icmp < frame_.size() && frame_[icmp] >= 133 && frame_[icmp] <= 137) {
        return show_all();
      }
      read_transport(icmp, frame_[at + 6], false);
    }
  }

  void read_transport(size_t at, uint8_t protocol, bool is_later_fragment) {
    if (is_later_fragment) {
      return;
    }
    mark(at, 8, Byte::kShown);
    if (protocol == 17 && be16(frame_, at + 2) == 4791 && at + 20 <= frame_.size()) {
      read_bth(at + 8);
    }
  }

  void read_bth(size_t at) {
    mark(at, 12, Byte::kShown);
    const uint8_t opcode = frame_[at];
    size_t next = at + 12;
    if (opcode == 0x64 || opcode == 0x65) {
      return show_all();
    }
    const auto extension = [&](size_t bytes) {
      mark(next, bytes, Byte::kShown);
      next += bytes;
    };
    const auto address_and_key = [&](size_t bytes) {
      mark(next, bytes, Byte::kShown);
      mark(next + 8, 4, Byte::kBlank);
      next += bytes;
    };
    switch (opcode) {  // reliable connections; others have no extensions that are known here
      case 0x03:       // SEND last with immediate
      case 0x09:       // WRITE last with immediate
      case 0x0d:       // READ response first
      case 0x0f:       // last
      case 0x10:       // only
      case 0x11:       // acknowledge
      case 0xd1:       // gap report, between two Causeways
        extension(4);
        break;
      case 0x05:  // SEND only with immediate
        extension(4);
        extension(16);
        break;
      case 0x00:  // SEND first
      case 0x04:  // only
        extension(16);
        break;
      case 0x06:  // WRITE first
      case 0x0a:  // only
      case 0x0c:  // READ request
        address_and_key(16);
        break;
      case 0x0b:  // WRITE only with immediate
        address_and_key(16);
        extension(4);
        break;
      case 0x12:  // atomic acknowledge
        extension(12);
        break;
      case 0x13:  // compare and swap
      case 0x14:  // fetch and add
        address_and_key(28);
        break;
      case 0x16:  // SEND last with invalidate
        mark(next, 4, Byte::kBlank);
        break;
      case 0x17:  // SEND only with invalidate
        mark(next, 4, Byte::kBlank);
        next += 4;
        extension(16);
        break;
      default:
        break;
    }
  }

  const Frame& frame_;
  std::vector<Byte>& bytes_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > kInputBytesMax) {
    return 0;
  }
  static Frame frame;
  static std::vector<Byte> bytes;
  cw::fuzz::frame_of({data, size}, 3, frame);
  Frame redacted = frame;  // no byte longer, so that AddressSanitizer sees what lies behind it
  const uint32_t left = cw::control::capture::redact(redacted);
  FUZZ_CHECK(left <= frame.size());
  const Model model(frame, bytes);
  for (size_t at = 0; at < left; ++at) {
    FUZZ_CHECK(model.at(at) != Byte::kHidden);
    FUZZ_CHECK(redacted[at] == (model.at(at) == Byte::kBlank ? 0 : frame[at]));
  }
  // And no more is cut than has to be.
  FUZZ_CHECK(left == frame.size() || model.at(left) == Byte::kHidden);
  return 0;
}
