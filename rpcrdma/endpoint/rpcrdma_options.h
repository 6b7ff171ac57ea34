// What one RPC-over-RDMA connection may cost and what was negotiated for it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/intrusive_list.h"
#include "base/time.h"
#include "rpcrdma/wire/chunk_list.h"
#include "rpcrdma/wire/private_data.h"  // InlineThresholds: the outcome of RFC 8797

namespace cw::rpcrdma {

// What several endpoints of one thread may have together, and what they have.
struct SharedBudget {
  uint64_t bytes_max = UINT64_MAX;  // bytes of chunks in flight; one call is always admitted
  uint64_t bytes_in_use = 0;
  uint64_t calls_postponed = 0;  // that had to wait for others to be over, or for the rates
  uint64_t credits_granted = 0;  // as RpcRdmaStats has them
  uint64_t credits_in_use = 0;
};

class RateLine;
class ServerEndpoint;
struct ShareTag {};    // endpoints that wait for their turn among those of their client
struct BackendTag {};  // endpoints that wait for their turn among those whose calls go to the same backend

// An endpoint whose oldest message waits for a slot, in the line of its client, of a backend or of all.
struct SlotTag {};
struct SlotWaiter : ListNode<SlotTag> {};
using SlotWaiters = IntrusiveList<SlotWaiter, SlotTag>;  // longest waiting first

// What the calls that the owner passes on to one backend hold together of what all calls of a core share.
struct BackendShare {
  uint32_t slots = 0;                              // of ServerShared::calls
  uint64_t pulled_units = 0;                       // of ServerShared::pulled_units
  IntrusiveList<ServerEndpoint, BackendTag> line;  // for units: longest waiting first
  uint64_t reply_bytes = 0;                        // of ServerShared::reply_bytes: what its calls offer room for
  SlotWaiters slot_line;
};

// Whose slots the calls of a connection take, by their program.
struct BackendShares {
  struct Program {
    uint32_t program = 0;
    BackendShare* share = nullptr;
  };
  BackendShare* others = nullptr;  // of programs that are not in the list
  // Of calls that do not tell their program before their chunks are read. Not looked at without a list.
  BackendShare* unread = nullptr;
  std::vector<Program> programs;

  [[nodiscard]] BackendShare* of(uint32_t program) const {
    const auto found = std::ranges::find(programs, program, &Program::program);
    return found == programs.end() ? others : found->share;
  }
};

// What the connections of one client hold together of what all clients of a core share. Zero when it holds nothing.
struct ClientShare {
  uint32_t slots = 0;                            // of ServerShared::calls
  uint64_t pulled_units = 0;                     // of ServerShared::pulled_units
  uint64_t unread_units = 0;                     // of these, for calls whose RDMA Reads are not all answered
  IntrusiveList<ServerEndpoint, ShareTag> line;  // for units: the client's connections take turns, longest waiting first
  uint64_t reply_bytes = 0;                      // of ServerShared::reply_bytes
  SlotWaiters slot_line;
  bool is_slow = false;  // with its RDMA Reads: ServerShared::slow_units counts its unread units
  Instant slow_until;    // unless one of its connections is found slow again
};

// Each connection has its own, and every call looks at the first six.
struct ServerOptions {
  uint64_t call_bytes_max = (4ULL << 20) + (64ULL << 10);  // longest rebuilt call: 4 MiB of data and the call around it
  uint64_t reply_bytes_max = 8ULL << 20;                   // longest reply that the backend may give
  // The owner keeps a call for so long: the connection is given up, and the client reconnects. Counts from poll_call(): what a
  // call waited for before costs it nothing.
  Duration call_timeout = Duration::seconds(120);
  // A call that has chunks waits, before its data is pulled, until its share of these is free: what it reads, and the room that
  // it offers for results. nullptr: no budget. Outlives the endpoint.
  SharedBudget* budget = nullptr;
  // Every call waits for its turn and until the rates allow it, before its data is pulled. nullptr: no rates. Outlives the
  // endpoint.
  RateLine* rates = nullptr;
  // Of the backends that its calls go to; outlives the endpoint. nullptr: its calls take any slot.
  const BackendShares* backends = nullptr;

  uint64_t connection = 0;  // the owner's number for the endpoint: RateWaiter::owner
  uint32_t client = 0;      // the owner's number for who calls: CallDone::client
  uint32_t credits = 64;    // receives really posted per connection and granted in every reply; 1..1024
  // Calls to the client that may be in flight (RFC 8167) if it grants as many; 0 = no reverse direction, 1..256. One receive is
  // posted on top for each of them.
  uint32_t reverse_credits = 0;
  Duration reverse_patience = Duration::seconds(10);  // a reverse call that has found no credit by then is given up
  uint32_t reads_in_flight_max = 16;  // RDMA Reads posted at once per connection; the QP holds back what the peer cannot take
  uint32_t read_unit_bytes = 4096;    // bytes of Read data per receive buffer: the path MTU
  // Bytes of RDMA Reads posted at once per connection, but always one Read. A SEND behind Reads in the queue pair leaves when
  // the last of them has been asked for, so this is what a reply may have to wait for; less than the queue pair asks for at once
  // (RcOptions::read_window_packets) would leave the line idle.
  uint64_t read_bytes_in_flight_max = uint64_t{384} * 4096;
  // No RDMA Read of the connection is answered for so long while some are under way: the client is taken for dead, and what its
  // calls hold goes back to the others.
  Duration read_timeout = Duration::seconds(10);
  // The client acknowledges what was sent to it within this, else it is taken for dead: it is found out after one to two of them.
  Duration reply_timeout = Duration::seconds(30);
  // A call waits for so long for what all share (a slot, units to pull into, Buffers, its turn at the owner): the connection
  // ends. Others are bounded by the time-outs above, so that this is a last resort.
  Duration wait_timeout = Duration::seconds(300);
  // Of the client that this connection belongs to; outlives the endpoint. nullptr: the connection is a client of its own.
  ClientShare* share = nullptr;
  ChunkLimits limits;
};

struct ClientOptions {
  uint32_t credits_wanted = 64;  // asked for in every call
  // Calls of the server that are served at once (RFC 8167), and receives posted for them; 0 = none are accepted.
  uint32_t reverse_credits = 0;
  Duration call_timeout = Duration::seconds(60);
  // Longest segment of a chunk, in bytes; memory of a chunk is cut into as many as it takes. 0 = one segment however long.
  uint32_t segment_bytes_max = 0;
  ChunkLimits limits;
};

}  // namespace cw::rpcrdma
