// How many packet buffers there are to receive into, as the shell sees it.
#pragma once

#include <cstdint>

namespace cw {

// The last buffers are those by which others come back: acknowledgements come in and answers leave.
enum class BufferWatermark : uint8_t {
  kPlenty,
  kLow,   // no new message is taken: its sender is told to wait (RNR NAK). Those under way, and Read responses, are
  kLast,  // nothing is taken that would be held: as if it had been lost
};

}  // namespace cw
