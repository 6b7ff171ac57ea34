// What passes in the handshake of a memif link, against a model of DPDK's driver (22.11), which checks little: whatever the other
// end says, the model never looks at a region that is not there, or beyond a file's end, and has no more rings than were given.
//
// Input: the role of our driver (one byte), then records: who speaks and what comes with it (one byte), the size of the file
// (four bytes, if one comes), the type and the fields (14 bytes).
#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "dataplane/dpdk/memif_handshake.h"
#include "tests/fuzz/fuzz_target.h"

namespace {

using cw::Bytes;
using cw::dataplane::MemifHandshake;
using Message = std::array<uint8_t, MemifHandshake::kMessageBytes>;

constexpr size_t kInputBytesMax = 512;
constexpr size_t kFieldBytes = 14;
constexpr uint32_t kDriversRegions = 256;

template <typename Word>
Word field(const Message& message, size_t at) {
  return cw::load_native<Word>(message.data() + at);
}

// The driver's part, in its own words: memif_socket.c and memif_connect().
class Driver {
 public:
  explicit Driver(bool server) : server_(server) {}

  void receive(const Message& message, std::optional<uint64_t> file_bytes) {
    FUZZ_CHECK(!closed_);
    switch (field<uint16_t>(message, 0)) {
      case MemifHandshake::kAck:
        FUZZ_CHECK(!server_ && greeted_);
        break;
      case MemifHandshake::kHello:
        FUZZ_CHECK(!server_ && !greeted_);  // it makes its regions then: twice is once too often
        greeted_ = true;
        break;
      case MemifHandshake::kInit:
        FUZZ_CHECK(server_ && !greeted_);
        greeted_ = true;
        break;
      case MemifHandshake::kAddRegion:
        FUZZ_CHECK(server_ && greeted_ && file_bytes.has_value());
        FUZZ_CHECK(regions_.size() < kDriversRegions && field<uint16_t>(message, 2) == regions_.size());
        regions_.push_back({field<uint64_t>(message, 4), *file_bytes});
        break;
      case MemifHandshake::kAddRing:
        FUZZ_CHECK(server_ && greeted_ && file_bytes.has_value());
        add_ring(message);
        break;
      case MemifHandshake::kConnect:
        FUZZ_CHECK(server_ && greeted_);
        look_at_rings();
        closed_ = true;  // the next that comes ends the link
        break;
      case MemifHandshake::kConnected:
        FUZZ_CHECK(!server_ && asked_);
        closed_ = true;
        break;
      default:
        FUZZ_CHECK(field<uint16_t>(message, 0) == MemifHandshake::kDisconnect);
        break;
    }
    const bool takes_file =
        field<uint16_t>(message, 0) == MemifHandshake::kAddRegion || field<uint16_t>(message, 0) == MemifHandshake::kAddRing;
    FUZZ_CHECK(takes_file || !file_bytes.has_value());  // it would never be closed
  }
  void says(uint16_t type) { asked_ |= type == MemifHandshake::kConnect && !server_; }
  void may_hear_disconnect() { closed_ = false; }

 private:
  struct Region {
    uint64_t bytes;
    uint64_t file_bytes;
  };
  struct Ring {
    uint16_t region;
    uint32_t offset;
    uint8_t log2;
  };

  void add_ring(const Message& message) {
    std::vector<Ring>& rings = rings_[field<uint16_t>(message, 2) & 1];
    // It counts the rings that it is given, and looks at as many of its queues.
    FUZZ_CHECK(field<uint16_t>(message, 4) == rings.size());
    rings.push_back({field<uint16_t>(message, 6), field<uint32_t>(message, 8), message[12]});
    look_at(rings.back());
  }
  void look_at(const Ring& ring) const {
    FUZZ_CHECK(ring.region < regions_.size() && ring.log2 < 16);
    const Region& region = regions_[ring.region];
    const uint64_t end = uint64_t{ring.offset} + 128 + (uint64_t{16} << ring.log2);
    FUZZ_CHECK(end <= region.bytes && region.bytes <= region.file_bytes);
  }
  void look_at_rings() const {
    for (const std::vector<Ring>& rings : rings_) {
      FUZZ_CHECK(!rings.empty());
    }
  }

  bool server_;
  bool greeted_ = false;
  bool asked_ = false;
  bool closed_ = false;
  std::vector<Region> regions_;
  std::array<std::vector<Ring>, 2> rings_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1 || size > kInputBytesMax) {
    return 0;
  }
  const bool server = (data[0] & 1) != 0;
  MemifHandshake handshake(server);
  Driver driver(server);
  Bytes input(data + 1, size - 1);
  while (!input.empty() && !handshake.is_complete()) {
    const uint8_t how = input[0];
    const bool is_drivers = (how & 1) != 0;
    const bool has_file = (how & 2) != 0;
    const bool is_short = (how & 4) != 0;
    input = input.subspan(1);
    std::optional<uint64_t> file_bytes;
    if (has_file && input.size() >= 4) {
      file_bytes = cw::load_native<uint32_t>(input.data());
      input = input.subspan(4);
    }
    Message message{};
    const size_t given = std::min(input.size(), kFieldBytes);
    std::copy_n(input.begin(), given, message.begin());
    input = input.subspan(given);
    const Bytes whole(message);
    const Bytes bytes = is_short ? whole.first(how % MemifHandshake::kMessageBytes) : whole;
    if (is_drivers) {
      if (handshake.from_driver(bytes) != nullptr) {
        return 0;
      }
      driver.says(MemifHandshake::type_of(bytes));
    } else {
      if (handshake.from_peer(bytes, file_bytes) != nullptr) {
        return 0;  // the relay ends the link
      }
      FUZZ_CHECK(!is_short);
      if (MemifHandshake::type_of(bytes) == MemifHandshake::kDisconnect) {
        driver.may_hear_disconnect();
      }
      driver.receive(message, file_bytes);
    }
  }
  return 0;
}
