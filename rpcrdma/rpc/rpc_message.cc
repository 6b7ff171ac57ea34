#include "rpcrdma/rpc/rpc_message.h"

#include <algorithm>

namespace cw::rpcrdma {
namespace {

// RFC 2203 5.3.1, version 1: version, procedure, sequence number, service, context handle. Reads inside a credential of `bytes`
// bytes and leaves the rest of it to the caller. A version that we do not know may protect the body: it counts as privacy.
constexpr uint32_t kGssVersion = 1;
constexpr uint32_t kGssFixedBytes = 16;
constexpr uint32_t kGssServicePrivacy = 3;
constexpr uint32_t kGssHandleOffset = kGssFixedBytes + 4;

// FNV-1a over words. A client that makes its own contexts collide only makes its own calls wait.
uint32_t hash_handle(XdrReader& reader, uint32_t bytes) {
  constexpr uint32_t kPrime = 16'777'619;
  uint32_t hash = 0;
  for (uint64_t left = xdr_padded(bytes); left > 0; left -= 4) {
    hash = (hash ^ reader.u32()) * kPrime;
  }
  return hash;
}

void read_gss(XdrReader& reader, uint32_t bytes, RpcCallHeader& header) {
  const uint64_t start = reader.offset();
  header.gss_service = kGssServicePrivacy;
  if (bytes >= kGssFixedBytes && reader.u32() == kGssVersion) {
    header.gss_procedure = reader.u32();
    header.gss_sequence = reader.u32();
    header.gss_service = reader.u32();
    if (bytes >= kGssHandleOffset) {
      const uint32_t handle_bytes = reader.u32();
      header.gss_context = hash_handle(reader, std::min(handle_bytes, bytes - kGssHandleOffset));
    }
  }
  reader.skip(xdr_padded(bytes) - (reader.offset() - start));
}

// opaque_auth: flavor, then a body that is at most kAuthBodyBytesMax long.
Status skip_verifier(XdrReader& reader) {
  uint8_t scratch[8];
  const uint32_t bytes = load_be32(reader.view(scratch) + 4);
  if (bytes > kAuthBodyBytesMax) {
    return fail(Error::kBadValue);
  }
  reader.skip(xdr_padded(bytes));
  if (!reader.ok()) {
    return fail(Error::kTruncated);
  }
  return {};
}

// The body, flavor and length having been read.
Status read_credential(XdrReader& reader, uint32_t flavor, uint32_t bytes, RpcCallHeader& header) {
  if (bytes > kAuthBodyBytesMax) {
    return fail(Error::kBadValue);
  }
  if (xdr_padded(bytes) > reader.remaining()) {
    return fail(Error::kTruncated);
  }
  header.flavor = flavor;
  if (flavor == static_cast<uint32_t>(AuthFlavor::kRpcsecGss)) {
    read_gss(reader, bytes, header);
  } else {
    reader.skip(xdr_padded(bytes));
  }
  return {};
}

}  // namespace

Status read_rpc_call(XdrReader& reader, RpcCallHeader& header) {
  // xid, CALL, RPC version | program, version, procedure | flavor and length of the credential
  constexpr size_t kFixedBytes = 32;
  const uint64_t present = reader.remaining();
  uint8_t scratch[kFixedBytes];
  const uint8_t* words = reader.view(scratch);
  header = {};
  header.xid = load_be32(words);
  if (present < 12) {
    return fail(Error::kTruncated);
  }
  if (load_be32(words + 4) != static_cast<uint32_t>(RpcMessageType::kCall)) {
    return fail(Error::kBadValue);
  }
  if (load_be32(words + 8) != kRpcVersion) {
    return fail(Error::kUnsupported);
  }
  header.program = load_be32(words + 12);
  header.version = load_be32(words + 16);
  header.procedure = load_be32(words + 20);
  if (!reader.ok()) {
    return fail(Error::kTruncated);
  }
  const Status credential = read_credential(reader, load_be32(words + 24), load_be32(words + 28), header);
  if (!credential.ok()) {
    return credential;
  }
  if (const Status verifier = skip_verifier(reader); !verifier.ok()) {
    return verifier;
  }
  header.header_bytes = static_cast<uint32_t>(reader.offset());
  return {};
}

Result<RpcCallHeader> parse_rpc_call(const Chain& message) {
  XdrReader reader(message);
  RpcCallHeader header;
  if (const Status status = read_rpc_call(reader, header); !status.ok()) {
    return fail(status.error());
  }
  return header;
}

Result<RpcReplyHeader> read_rpc_reply(XdrReader& reader) {
  RpcReplyHeader header;
  header.xid = reader.u32();
  const uint32_t type = reader.u32();
  const uint32_t reply_status = reader.u32();
  if (!reader.ok()) {
    return fail(Error::kTruncated);
  }
  if (type != static_cast<uint32_t>(RpcMessageType::kReply) || reply_status > static_cast<uint32_t>(ReplyStatus::kDenied)) {
    return fail(Error::kBadValue);
  }
  header.accepted = reply_status == static_cast<uint32_t>(ReplyStatus::kAccepted);
  if (header.accepted) {
    if (const Status verifier = skip_verifier(reader); !verifier.ok()) {
      return fail(verifier.error());
    }
  }
  header.status = reader.u32();
  if (!reader.ok()) {
    return fail(Error::kTruncated);
  }
  header.header_bytes = static_cast<uint32_t>(reader.offset());
  return header;
}

Result<RpcReplyHeader> parse_rpc_reply(const Chain& message) {
  XdrReader reader(message);
  return read_rpc_reply(reader);
}

void write_accepted_reply(std::span<uint8_t, kAcceptedReplyBytes> out, uint32_t xid, AcceptStatus status) {
  FixedWriter<kAcceptedReplyBytes> writer(out);
  writer.be32<0>(xid);
  writer.be32<4>(static_cast<uint32_t>(RpcMessageType::kReply));
  writer.be32<8>(static_cast<uint32_t>(ReplyStatus::kAccepted));
  writer.be32<12>(static_cast<uint32_t>(AuthFlavor::kNone));
  writer.be32<20>(static_cast<uint32_t>(status));
}

}  // namespace cw::rpcrdma
