// RFC 5531 message headers, as far as a gateway has to look: enough to route a call, to measure it and to find reducible items.
#pragma once

#include <cstdint>
#include <span>

#include "base/buffer.h"
#include "base/result.h"
#include "rpcrdma/xdr/xdr_reader.h"

namespace cw::rpcrdma {

enum class RpcMessageType : uint32_t { kCall = 0, kReply = 1 };

// RFC 5531 8.2 and RFC 2203. Any other number is legal and passed through.
enum class AuthFlavor : uint32_t { kNone = 0, kSys = 1, kShort = 2, kDh = 3, kRpcsecGss = 6, kTls = 7 };

inline constexpr uint32_t kRpcVersion = 2;
inline constexpr uint32_t kXidBytes = 4;            // every message begins with its XID
inline constexpr uint32_t kAuthBodyBytesMax = 400;  // RFC 5531 8.2: credentials and verifiers

// RFC 2203 5.3.1: anything but kData carries a context token in place of arguments and results.
inline constexpr uint32_t kGssProcedureData = 0;
inline constexpr uint32_t kGssServiceNone = 1;

struct RpcCallHeader {
  uint32_t xid = 0;
  uint32_t program = 0;
  uint32_t version = 0;
  uint32_t procedure = 0;
  uint32_t flavor = 0;
  uint32_t gss_service = 0;    // RFC 2203: 1 none, 2 integrity, 3 privacy; 0 when the flavor is not RPCSEC_GSS
  uint32_t gss_procedure = 0;  // RFC 2203 gss_proc; kGssProcedureData also when the flavor is not RPCSEC_GSS
  uint32_t gss_sequence = 0;   // RFC 2203 seq_num; 0 when the flavor is not RPCSEC_GSS
  uint32_t gss_context = 0;    // hash of the context handle: calls of one context have the same; 0 when the handle is empty
  uint32_t header_bytes = 0;   // offset of the arguments; 0 until the whole header has been read
};

// Fills `header` in the order of the message and stops at the first fault, so that what was read before it can be used;
// afterwards `reader` stands at the arguments. Errors as parse_rpc_call.
[[nodiscard]] Status read_rpc_call(XdrReader& reader, RpcCallHeader& header);

// Fails with kTruncated, kBadValue (not a CALL, credentials over 400 bytes) or kUnsupported (RPC version not 2: the caller may
// still forward it; xid is then unknown to the caller).
[[nodiscard]] Result<RpcCallHeader> parse_rpc_call(const Chain& message);

struct RpcReplyHeader {
  uint32_t xid = 0;
  bool accepted = false;      // MSG_ACCEPTED
  uint32_t status = 0;        // accept_stat, or reject_stat when denied
  uint32_t header_bytes = 0;  // offset of the results, when accepted with SUCCESS
  [[nodiscard]] bool success() const { return accepted && status == 0; }
};
// Fails with kTruncated or kBadValue (not a REPLY, neither accepted nor denied, verifier over 400 bytes).
[[nodiscard]] Result<RpcReplyHeader> parse_rpc_reply(const Chain& message);
// The same; on success `reader` stands behind the status word.
[[nodiscard]] Result<RpcReplyHeader> read_rpc_reply(XdrReader& reader);

// RFC 5531 accept_stat.
enum class AcceptStatus : uint32_t {
  kSuccess = 0,
  kProgramUnavailable = 1,
  kProgramMismatch = 2,
  kProcedureUnavailable = 3,
  kGarbageArguments = 4,
  kSystemError = 5
};
enum class ReplyStatus : uint32_t { kAccepted = 0, kDenied = 1 };

// Bytes of an accepted reply header with AUTH_NONE verifier: xid, REPLY, MSG_ACCEPTED, flavor, length, accept_stat.
inline constexpr uint32_t kAcceptedReplyBytes = 24;
void write_accepted_reply(std::span<uint8_t, kAcceptedReplyBytes> out, uint32_t xid, AcceptStatus status);

}  // namespace cw::rpcrdma
