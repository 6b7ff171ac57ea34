#include "gateway/saved_connection.h"

#include <array>

#include "base/assert.h"
#include "rpcrdma/xdr/xdr_reader.h"
#include "rpcrdma/xdr/xdr_writer.h"

namespace cw::gateway {
namespace {

constexpr size_t kHeadBytesMax = 64;

}  // namespace

bool save(Connection& connection, std::vector<uint8_t>& out) {
  std::vector<uint8_t> wire;
  if (!connection.transport->save(connection.id, wire)) {
    return false;
  }
  std::array<uint8_t, kHeadBytesMax> raw;
  rpcrdma::XdrWriter head(raw);
  head.u32(connection.listener->transport);
  head.u32(connection.listener->port);
  head.fixed_opaque(connection.peer.raw);
  head.u32(connection.peer_port);
  head.u32(connection.thresholds.send_bytes);
  head.u32(connection.thresholds.receive_bytes);
  head.boolean(connection.thresholds.remote_invalidation);
  head.u32(connection.receive_bytes_max);
  head.u32(connection.server->credits_granted());
  CW_ASSERT(head.ok());
  out.assign(head.written().begin(), head.written().end());
  out.insert(out.end(), wire.begin(), wire.end());
  return true;
}

std::optional<SavedConnection> parse_saved_connection(Bytes bytes) {
  rpcrdma::XdrReader reader(bytes);
  SavedConnection saved;
  saved.transport = reader.u32();
  const uint32_t listener_port = reader.u32();
  reader.copy(saved.peer.raw);
  const uint32_t peer_port = reader.u32();
  saved.thresholds.send_bytes = reader.u32();
  saved.thresholds.receive_bytes = reader.u32();
  saved.thresholds.remote_invalidation = reader.boolean();
  saved.receive_bytes_max = reader.u32();
  saved.credits = reader.u32();
  if (!reader.ok() || listener_port > UINT16_MAX || peer_port > UINT16_MAX || saved.credits == 0) {
    return std::nullopt;
  }
  saved.listener_port = static_cast<uint16_t>(listener_port);
  saved.peer_port = static_cast<uint16_t>(peer_port);
  saved.wire = bytes.subspan(reader.offset());
  return saved;
}

}  // namespace cw::gateway
