#include "rpcrdma/endpoint/stage_durations.h"

namespace cw::rpcrdma {

const char* to_string(Stage stage) noexcept {
  switch (stage) {
    case Stage::kRx:
      return "rx";
    case Stage::kRdmaRead:
      return "rdma_read";
    case Stage::kBackend:
      return "backend";
    case Stage::kRdmaWrite:
      return "rdma_write";
    case Stage::kReplyAck:
      return "reply_ack";
    case Stage::kCount:
      break;
  }
  return "unknown";
}

}  // namespace cw::rpcrdma
