// What the gateways of a process's poll cores say to each other about clients, whose connections may lie on several of them, and
// about backends. Values only: they cross a ring between threads.
#pragma once

#include <cstdint>

#include "base/ip_address.h"
#include "gateway/backend_link.h"

namespace cw::gateway {

struct CoreMessage {
  enum class Kind : uint32_t {
    kFence,        // tell `link` (kFenceDone, to its core) when the calls that `client` has at `index`, a backend, are answered
    kFenceDone,    // that is so
    kBrokenCall,   // call `xid` of `client` at `index`, a listener, has broken its connection: see BrokenCalls
    kBackendUp,    // backend `index` has taken a connection (`value` 1) or not (0), where it had not or had before
    kServerState,  // server number `server` of backend `index` is in the control::ServerState `value`
  };
  Kind kind = Kind::kFence;
  uint32_t index = 0;
  LinkId link;
  IpAddress client;
  uint32_t xid = 0;
  uint32_t value = 0;  // kFenceDone: 1 = there were calls
  uint32_t server = 0;
  uint32_t reserved = 0;
};

}  // namespace cw::gateway
