#include "dataplane/dpdk/memif_handshake.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace cw::dataplane {
namespace {

constexpr uint32_t kRegionsMax = 256;     // the driver's table
constexpr uint32_t kMessagesMax = 1024;   // of the other end: all regions and rings fit
constexpr uint8_t kLog2RingMax = 14;      // the driver's largest ring, 2^14 descriptors
constexpr uint64_t kRingHeadBytes = 128;  // cookie, flags, head | tail, a cache line each
constexpr uint64_t kDescriptorBytes = 16;
constexpr uint16_t kClientToServer = 1;  // flag of ADD_RING

// Where the fields are: a message is a type of two bytes, then the packed struct of its kind.
constexpr size_t kRegionIndexAt = 2;
constexpr size_t kRegionSizeAt = 4;
constexpr size_t kRingFlagsAt = 2;
constexpr size_t kRingIndexAt = 4;
constexpr size_t kRingRegionAt = 6;
constexpr size_t kRingOffsetAt = 8;
constexpr size_t kRingLog2At = 12;
constexpr size_t kReasonAt = 6;
constexpr size_t kReasonBytesMax = 96;

template <typename Word>
Word field(Bytes message, size_t at) {
  return load_native<Word>(message.data() + at);
}

}  // namespace

uint16_t MemifHandshake::type_of(Bytes message) {
  return message.size() == kMessageBytes ? field<uint16_t>(message, 0) : uint16_t{kNone};
}

std::array<uint8_t, MemifHandshake::kMessageBytes> MemifHandshake::disconnect(const char* reason) {
  std::array<uint8_t, kMessageBytes> message{};
  store_native<uint16_t>(message.data(), kDisconnect);
  std::memcpy(message.data() + kReasonAt, reason, std::min(std::strlen(reason), kReasonBytesMax - 1));
  return message;
}

const char* MemifHandshake::from_peer(Bytes message, std::optional<uint64_t> file_bytes) {
  if (message.size() != kMessageBytes) {
    return "a message has 128 bytes";
  }
  if (++messages_ > kMessagesMax) {
    return "too many messages";
  }
  if (type_of(message) == kDisconnect) {
    return file_bytes ? "a descriptor where none belongs" : nullptr;
  }
  return server_ ? from_client(message, file_bytes) : from_server(message, file_bytes);
}

const char* MemifHandshake::from_driver(Bytes message) {
  switch (type_of(message)) {
    case kNone:
      return "a message has 128 bytes";
    case kConnect:
      connecting_ = connecting_ || !server_;
      return nullptr;
    case kConnected:
      complete_ = server_ && connecting_;
      return complete_ ? nullptr : "CONNECTED out of turn";
    default:
      return nullptr;
  }
}

const char* MemifHandshake::from_client(Bytes message, std::optional<uint64_t> file_bytes) {
  const uint16_t type = type_of(message);
  const bool carries_file = type == kAddRegion || type == kAddRing;
  if (file_bytes.has_value() != carries_file) {
    return carries_file ? "a descriptor is missing" : "a descriptor where none belongs";
  }
  if (connecting_ || greeted_ != (type != kInit)) {
    return "a message out of turn";
  }
  switch (type) {
    case kInit:
      greeted_ = true;
      return nullptr;
    case kAddRegion:
      return add_region(message, *file_bytes);
    case kAddRing:
      return add_ring(message);
    case kConnect:
      // The driver would poll a ring that nobody has given it.
      connecting_ = rings_[0] > 0 && rings_[1] > 0;
      return connecting_ ? nullptr : "CONNECT without a ring in each direction";
    default:
      return "not a client's message";
  }
}

const char* MemifHandshake::from_server(Bytes message, std::optional<uint64_t> file_bytes) {
  if (file_bytes) {
    return "a descriptor where none belongs";
  }
  switch (type_of(message)) {
    case kHello:
      return std::exchange(greeted_, true) ? "a second HELLO" : nullptr;
    case kAck:
      return greeted_ ? nullptr : "a message out of turn";
    case kConnected:
      complete_ = connecting_;
      return complete_ ? nullptr : "CONNECTED out of turn";
    default:
      return "not a server's message";
  }
}

const char* MemifHandshake::add_region(Bytes message, uint64_t file_bytes) {
  const uint64_t bytes = field<uint64_t>(message, kRegionSizeAt);
  if (region_bytes_.size() == kRegionsMax || field<uint16_t>(message, kRegionIndexAt) != region_bytes_.size()) {
    return "a region's index that is not the next";
  }
  if (bytes == 0 || bytes > file_bytes) {
    return "a region that is longer than its file";
  }
  region_bytes_.push_back(bytes);
  return nullptr;
}

const char* MemifHandshake::add_ring(Bytes message) {
  uint16_t& rings = rings_[(field<uint16_t>(message, kRingFlagsAt) & kClientToServer) != 0 ? 0 : 1];
  if (field<uint16_t>(message, kRingIndexAt) != rings) {
    return "a ring's index that is not the next";
  }
  const uint16_t region = field<uint16_t>(message, kRingRegionAt);
  const uint8_t log2 = field<uint8_t>(message, kRingLog2At);
  if (region >= region_bytes_.size() || log2 > kLog2RingMax) {
    return "a ring without region, or of too many descriptors";
  }
  const uint64_t end = field<uint32_t>(message, kRingOffsetAt) + kRingHeadBytes + (kDescriptorBytes << log2);
  if (end > region_bytes_[region]) {
    return "a ring that does not fit into its region";
  }
  ++rings;
  return nullptr;
}

}  // namespace cw::dataplane
