// What status shows of an iWARP connection beside what every transport has.
#pragma once

#include <cstdint>
#include <span>

#include "iwarp/stream/stream.h"
#include "iwarp/stream_host.h"
#include "verbs/queue_pair_info.h"

namespace cw::iwarp {

struct IwarpDetail {
  bool is_established = false;
  bool crc = false;
  uint16_t ird = 0;
  uint16_t ord = 0;
  uint32_t ulpdu_bytes_max = 0;
  uint32_t reads_outstanding = 0;
  uint32_t reads_answering = 0;
  uint32_t works_queued = 0;
  uint32_t receives_posted = 0;
  uint64_t unsent_bytes = 0;  // made and not taken by TCP
  uint64_t input_bytes = 0;   // of an FPDU that is not complete
  StreamCounters counters;
  StreamError error;
  TcpPath path;
};

// Of an IwarpDetail. Fields that RoCE has too have its names.
[[nodiscard]] std::span<const verbs::QueuePairField> stream_fields();

}  // namespace cw::iwarp
