#include "apps/nfs/call.h"

#include "base/assert.h"
#include "rpcrdma/rpc/rpc_message.h"

namespace cw::nfs {
namespace {

constexpr uint32_t kOpaqueMax = 4u << 20;

}  // namespace

void write_call_header(rpcrdma::XdrWriter& out, uint32_t program, uint32_t version, uint32_t procedure) {
  out.u32(0);
  out.u32(static_cast<uint32_t>(rpcrdma::RpcMessageType::kCall));
  out.u32(rpcrdma::kRpcVersion);
  out.u32(program);
  out.u32(version);
  out.u32(procedure);
  // RFC 5531 appendix A: stamp, machine name, uid, gid, further groups.
  out.u32(static_cast<uint32_t>(rpcrdma::AuthFlavor::kSys));
  static constexpr char kMachine[] = "causeway";
  out.u32(4 + 4 + 8 + 12);
  out.u32(0);
  out.u32(8);
  out.raw(Bytes(reinterpret_cast<const uint8_t*>(kMachine), 8));
  out.zeros(12);
  out.zeros(8);  // verifier: AUTH_NONE
}

Call::Call(uint32_t program, uint32_t version, uint32_t procedure, size_t arguments_max)
    : raw_(std::make_unique<uint8_t[]>(kCallHeaderBytes + arguments_max)),
      writer_(MutableBytes(raw_.get(), kCallHeaderBytes + arguments_max)) {
  write_call_header(writer_, program, version, procedure);
}

void Call::text(const std::string& value) {
  writer_.opaque(Bytes(reinterpret_cast<const uint8_t*>(value.data()), value.size()));
}

Bytes Call::stream() const {
  CW_ASSERT(writer_.ok());
  return writer_.written();
}

ByteVector Results::opaque() {
  const uint32_t length = reader_.u32();
  if (!reader_.ok() || length > kOpaqueMax || length > reader_.remaining()) {
    reader_.set_failed();
    return {};
  }
  ByteVector out(length);
  reader_.copy(out);
  reader_.skip(rpcrdma::xdr_pad(length));
  return out;
}

std::string Results::text() {
  const ByteVector raw = opaque();
  return {raw.begin(), raw.end()};
}

ByteVector Results::data() {
  const size_t chunk = next_chunk_++;
  if (chunk >= reply_.placed.size() || !reply_.offered[chunk]) {
    return opaque();
  }
  const uint32_t length = reader_.u32();
  if (length != reply_.placed[chunk].size()) {
    reader_.set_failed();
    return {};
  }
  return reply_.placed[chunk];
}

bool Results::done() {
  for (size_t chunk = next_chunk_; chunk < reply_.placed.size(); ++chunk) {
    if (!reply_.placed[chunk].empty()) {
      return false;
    }
  }
  return reader_.ok() && reader_.remaining() == 0;
}

}  // namespace cw::nfs
