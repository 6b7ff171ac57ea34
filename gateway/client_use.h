// What a client, or all clients of a section together, has asked for and got.
#pragma once

#include <cstdint>

namespace cw::gateway {

// Counters, ever since.
struct ClientUse {
  uint64_t calls = 0;        // taken from its connections
  uint64_t replies = 0;      // to these
  uint64_t errors = 0;       // replies that refuse the call (RFC 5531 9), and calls that were lost with their connection
  uint64_t call_bytes = 0;   // of the calls, chunks included
  uint64_t reply_bytes = 0;  // of the replies, chunks included
};

}  // namespace cw::gateway
