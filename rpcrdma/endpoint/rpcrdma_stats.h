// Counters of all RPC-over-RDMA connections of one core: plain integers, bumped by the owner, folded at scrape time.
#pragma once

#include <array>
#include <cstdint>

#include "rpcrdma/wire/transport_header.h"

namespace cw::rpcrdma {

enum class ChunkKind : uint8_t { kRead, kWrite, kReply, kCount };
enum class MessageKind : uint8_t { kMsg, kNomsg, kError, kOther, kCount };

// What was moved by RDMA; chunks that were offered and not used do not count.
struct ChunkStats {
  uint64_t chunks = 0;
  uint64_t segments = 0;
  uint64_t bytes = 0;
};

struct RpcRdmaStats {
  std::array<uint64_t, static_cast<size_t>(MessageKind::kCount)> messages_in{};
  std::array<uint64_t, static_cast<size_t>(MessageKind::kCount)> messages_out{};
  std::array<ChunkStats, static_cast<size_t>(ChunkKind::kCount)> chunks{};
  std::array<uint64_t, static_cast<size_t>(HeaderError::kCount)> malformed{};
  uint64_t errors_in_version = 0;
  uint64_t errors_in_chunk = 0;
  uint64_t errors_out_version = 0;
  uint64_t errors_out_chunk = 0;
  uint64_t short_messages = 0;        // under the fixed header: dropped
  uint64_t unknown_xid = 0;           // replies that nobody waits for: dropped
  uint64_t xid_mismatch = 0;          // header and RPC message disagree
  uint64_t credit_violations = 0;     // more calls in flight than granted
  uint64_t credit_stalls = 0;         // client role: a call had to wait for a credit
  uint64_t read_stalls = 0;           // a call had to wait for pull_units_max, or its client's share of it, before it was pulled
  uint64_t remote_invalidations = 0;  // SENDs with Invalidate
  uint64_t pullups = 0;               // small copies made to keep pieces few
  uint64_t no_buffer = 0;             // a pool was empty when a message had to be built
  uint64_t no_send_work = 0;          // the work requests that a core's queue pairs share were used up
  uint64_t call_timeouts = 0;         // server role: of the owner's answers; client role: of the server's
  uint64_t read_timeouts = 0;         // server role: an RDMA Read brought nothing for read_timeout: the connection ended
  uint64_t slow_reads = 0;            // server role: slow RDMA Reads held units that others waited for: the connection ended
  uint64_t reply_stalls = 0;          // server role: a call waited because its client had too many replies to acknowledge
  uint64_t gss_window_stalls = 0;     // server role: a call waited because the owner had one a sequence window older
  uint64_t reply_timeouts = 0;        // server role: a reply was not acknowledged for reply_timeout: the connection ended
  uint64_t wait_timeouts = 0;         // server role: something shared was not to be had for wait_timeout: the connection ended
  uint64_t calls_cancelled = 0;       // client role: by their owner, before they were answered
  uint64_t bad_replies = 0;           // client role: replies with a faulty header or other chunks than offered
  uint64_t ddp_violations = 0;        // reduced what is not eligible, or not what has to be (RFC 8166 6.1)
  uint64_t reverse_dropped = 0;       // messages of the reverse direction that nobody is there for
  uint64_t reverse_calls = 0;         // RFC 8167: server role: sent; client role: received
  uint64_t reverse_replies = 0;       // server role: received; client role: sent
  uint64_t refused_again = 0;         // server role: calls that broke the client's last connection: ERR_CHUNK
  uint64_t late_replies = 0;          // server role: answers to calls that were gone: dropped
  uint64_t credits_granted = 0;       // gauge: sum over live connections
  uint64_t credits_in_use = 0;        // gauge: calls received and not yet answered
  uint64_t reverse_credits_granted = 0;  // gauge, server role: by the clients, over connections with an open reverse direction
  uint64_t reverse_credits_in_use = 0;   // gauge, server role: reverse calls sent and not yet answered
};

}  // namespace cw::rpcrdma
