#include "dataplane/handed_over.h"

#include <numeric>

#include "base/assert.h"
#include "rpcrdma/xdr/xdr_reader.h"
#include "rpcrdma/xdr/xdr_writer.h"

namespace cw::dataplane {
namespace {

constexpr uint32_t kMagic = 0x43574c47;  // "CWLG"
constexpr uint32_t kConnectionBytesMax = 4096;
constexpr uint32_t kCoresMax = 256;

constexpr size_t kHeadBytes = 20;  // magic, format, key, cores
constexpr size_t kCountBytes = 4;

size_t bytes_of(const HandedOver& handed_over) {
  size_t bytes = kHeadBytes;
  for (const auto& core : handed_over.cores) {
    bytes += kCountBytes;
    for (const std::vector<uint8_t>& connection : core) {
      bytes += kCountBytes + connection.size();
    }
  }
  return bytes;
}

}  // namespace

size_t HandedOver::connections() const {
  return std::accumulate(cores.begin(), cores.end(), size_t{0}, [](size_t sum, const auto& core) { return sum + core.size(); });
}

std::vector<uint8_t> to_bytes(const HandedOver& handed_over) {
  std::vector<uint8_t> out(bytes_of(handed_over));
  rpcrdma::XdrWriter writer(out);
  writer.u32(kMagic);
  writer.u32(kHandOverFormat);
  writer.u64(handed_over.qpn_key);
  writer.u32(static_cast<uint32_t>(handed_over.cores.size()));
  for (const auto& core : handed_over.cores) {
    writer.u32(static_cast<uint32_t>(core.size()));
    for (const std::vector<uint8_t>& connection : core) {
      writer.u32(static_cast<uint32_t>(connection.size()));
      writer.raw(connection);
    }
  }
  CW_ASSERT(writer.ok() && writer.offset() == out.size());
  return out;
}

std::optional<HandedOver> parse_handed_over(Bytes bytes) {
  rpcrdma::XdrReader reader(bytes);
  const bool is_ours = reader.u32() == kMagic && reader.u32() == kHandOverFormat;
  HandedOver out;
  out.qpn_key = reader.u64();
  const uint32_t cores = reader.u32();
  if (!is_ours || !reader.ok() || cores > kCoresMax) {
    return std::nullopt;
  }
  out.cores.resize(cores);
  for (auto& core : out.cores) {
    for (uint32_t left = reader.u32(); left > 0; --left) {
      const uint32_t length = reader.u32();
      if (!reader.ok() || length > kConnectionBytesMax || length > reader.remaining()) {
        return std::nullopt;
      }
      std::vector<uint8_t>& connection = core.emplace_back(length);
      reader.copy(connection);
    }
  }
  return reader.ok() && reader.remaining() == 0 ? std::optional(std::move(out)) : std::nullopt;
}

}  // namespace cw::dataplane
