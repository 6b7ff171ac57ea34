// What the other end of a memif link may say before the link is up.
//
// DPDK's driver (22.11) believes what it is told on its control socket: the index of a region that does not exist, a ring that
// lies outside its region or is longer than the file, more rings than it has queues, all make it read and write where it should
// not.
// So the relay shows each message to this class first. It is pure: bytes in, a verdict out.
//
// Messages are those of memif 2.0: 128 bytes, integers in the host's byte order, packed.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/bytes.h"

namespace cw::dataplane {

class MemifHandshake {
 public:
  static constexpr size_t kMessageBytes = 128;
  enum Type : uint16_t {
    kNone = 0,
    kAck = 1,
    kHello = 2,
    kInit = 3,
    kAddRegion = 4,
    kAddRing = 5,
    kConnect = 6,
    kConnected = 7,
    kDisconnect = 8,
  };

  // server: the driver behind us has the server role.
  explicit MemifHandshake(bool server) : server_(server) {}

  // A message of the other end. file_bytes: the size of the file that came with it; absent: none came. nullptr: pass it on; else
  // why it is refused, in a few words for the other end and for the log. Nothing is to be passed on behind a refused message.
  [[nodiscard]] const char* from_peer(Bytes message, std::optional<uint64_t> file_bytes);
  // The same for a message of our driver. It is trusted, but what it has said decides what the other end may say.
  [[nodiscard]] const char* from_driver(Bytes message);
  // CONNECTED has passed: both ends have the rings mapped.
  [[nodiscard]] bool is_complete() const { return complete_; }

  [[nodiscard]] static uint16_t type_of(Bytes message);
  // A DISCONNECT message with this reason.
  [[nodiscard]] static std::array<uint8_t, kMessageBytes> disconnect(const char* reason);

 private:
  [[nodiscard]] const char* from_client(Bytes message, std::optional<uint64_t> file_bytes);
  [[nodiscard]] const char* from_server(Bytes message, std::optional<uint64_t> file_bytes);
  [[nodiscard]] const char* add_region(Bytes message, uint64_t file_bytes);
  [[nodiscard]] const char* add_ring(Bytes message);

  bool server_;
  bool greeted_ = false;     // INIT or HELLO of the other end has passed
  bool connecting_ = false;  // CONNECT of the client's end has passed
  bool complete_ = false;
  uint32_t messages_ = 0;               // of the other end
  std::array<uint16_t, 2> rings_{};     // client to server, server to client
  std::vector<uint64_t> region_bytes_;  // as the other end says, and no more than its files hold
};

}  // namespace cw::dataplane
