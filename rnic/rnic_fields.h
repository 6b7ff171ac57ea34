// What status shows of a queue pair of an RNIC beside what every transport has: what the device says (ibv_query_qp), and what is
// counted here.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "rnic/rnic_host.h"
#include "verbs/queue_pair_info.h"

namespace cw::rnic {

struct RnicDetail {
  bool has_state = false;  // the device has told it
  QueuePairState state;
  std::string_view device;
  Exposure exposure = Exposure::kUnknown;
  uint16_t reads_max = 0;
  uint32_t works_queued = 0;
  uint32_t requests_out = 0;
  uint32_t reads_outstanding = 0;
  uint32_t receives_posted = 0;
  uint32_t receives_owed = 0;
  uint32_t send_pieces = 0;
  uint32_t read_pieces = 0;
  uint32_t inline_bytes = 0;
};

// Of an RnicDetail. Fields that RoCE has too have its names.
[[nodiscard]] std::span<const verbs::QueuePairField> queue_pair_fields();

}  // namespace cw::rnic
