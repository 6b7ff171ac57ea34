// What the gateway and the workers that own backend sockets say to each other. Values only: they cross a ring between threads,
// and the simulation stands in for the workers by answering them.
#pragma once

#include <cstdint>

#include "base/buffer.h"
#include "base/ip_address.h"
#include "base/strong_id.h"
#include "rpcrdma/endpoint/server_endpoint.h"
#include "rpcrdma/ulb/binding.h"

namespace cw::gateway {

// Generation (32 bits), core (8), lane (5) and slot (19) of the RDMA connection that the backend connection belongs to
// (docs/architecture.md, "One backend connection per RDMA connection"). A connection has
// one backend connection per backend that its listener routes calls to; the lane tells them apart.
struct LinkIdTag {};
using LinkId = StrongId<LinkIdTag, uint64_t>;
inline constexpr uint32_t kLinkSlotBits = 19;
inline constexpr uint32_t kLinkLaneBits = 5;
inline constexpr uint32_t kLinkCoreShift = kLinkSlotBits + kLinkLaneBits;
[[nodiscard]] constexpr LinkId link_id(uint32_t generation, uint32_t core, uint32_t lane, uint32_t slot) {
  return LinkId((uint64_t{generation} << 32) | (uint64_t{core} << kLinkCoreShift) | (uint64_t{lane} << kLinkSlotBits) | slot);
}
[[nodiscard]] inline uint32_t slot_of(LinkId link) {
  return static_cast<uint32_t>(link.value()) & ((1u << kLinkSlotBits) - 1);
}
[[nodiscard]] constexpr uint32_t core_of(LinkId link) {
  return static_cast<uint32_t>(link.value() >> kLinkCoreShift) & 0xff;
}
[[nodiscard]] constexpr uint32_t lane_of(LinkId link) {
  return static_cast<uint32_t>(link.value() >> kLinkSlotBits) & ((1u << kLinkLaneBits) - 1);
}

struct BackendRequest {
  enum class Kind : uint8_t {
    kOpen,   // connect to `server` of `backend` on behalf of `client`; answered by kOpened or kFailed
    kSend,   // one RPC message; the worker adds the record mark
    kClose,  // forget the link; nothing is answered
    kRun,    // run a built-in program for `call`; answered by kRan
  };
  Kind kind = Kind::kClose;
  LinkId link;
  uint32_t backend = 0;
  uint32_t server = 0;  // kOpen: which one of the backend's, by number
  IpAddress client;
  uint16_t source_port = 0;  // kOpen: where to connect from (SourcePorts); 0 = any
  rpcrdma::CallId call;
  Chain message;
};

struct BackendEvent {
  enum class Kind : uint8_t {
    kOpened,
    kFailed,    // could not connect
    kPortBusy,  // kOpened or kFailed comes later: it waits for its source port, which a connection before may still have
    kMessage,   // one RPC message, record mark removed: a reply or a call in reverse direction
    kClosed,    // the backend closed, or the stream broke. As with kFailed the worker has forgotten the link: no kClose follows
    kRan,       // `message` is the whole reply; empty when there was no memory for it
  };
  Kind kind = Kind::kClosed;
  LinkId link;
  uint32_t backend = 0;  // as in the request
  rpcrdma::CallId call;
  Chain message;
};

}  // namespace cw::gateway
