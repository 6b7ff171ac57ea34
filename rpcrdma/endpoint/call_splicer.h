// Puts a call's XDR stream together from its inline part and what was read (RFC 8166 3.4.5, 3.5.3), by moving Buffers.
#pragma once

#include "base/buffer.h"
#include "rpcrdma/endpoint/server_call.h"

namespace cw::rpcrdma {

// Afterwards `call.message` is the rebuilt stream. False when a pool had no Buffer or view left: call again later, it goes on
// from there. Precondition: check_positions() accepted the call; every non-empty read segment has arrived, whole and in order.
[[nodiscard]] bool splice(ServerCall& call, BufferPool& pool);

}  // namespace cw::rpcrdma
