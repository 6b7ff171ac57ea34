// What status shows of an RC queue pair: the one table of its fields. JSON, the manual page and the tests are made from it.
#pragma once

#include <span>

#include "verbs/queue_pair_info.h"

namespace cw::rc {

// Of a QueuePairInfo whose detail is an RcQpInfo, in the order in which they are shown.
[[nodiscard]] std::span<const verbs::QueuePairField> qp_fields();

}  // namespace cw::rc
