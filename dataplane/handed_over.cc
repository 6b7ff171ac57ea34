#include "dataplane/handed_over.h"

#include <array>
#include <numeric>

#include "base/core_share.h"
#include "rpcrdma/xdr/xdr_reader.h"

namespace cw::dataplane {
namespace {

constexpr uint32_t kMagic = 0x43574c47;  // "CWLG"
constexpr uint32_t kConnectionBytesMax = 4096;
constexpr uint32_t kCoresMax = 256;

void put_u32(std::vector<uint8_t>& out, uint32_t value) {
  std::array<uint8_t, 4> raw{};
  store_be32(raw.data(), value);
  out.insert(out.end(), raw.begin(), raw.end());
}

}  // namespace

size_t HandedOver::connections() const {
  return std::accumulate(cores.begin(), cores.end(), size_t{0}, [](size_t sum, const auto& core) { return sum + core.size(); });
}

std::vector<uint8_t> to_bytes(const HandedOver& handed_over) {
  std::vector<uint8_t> out;
  put_u32(out, kMagic);
  put_u32(out, kHandOverFormat);
  put_u32(out, static_cast<uint32_t>(handed_over.qpn_key >> 32));
  put_u32(out, static_cast<uint32_t>(handed_over.qpn_key));
  put_u32(out, static_cast<uint32_t>(handed_over.cores.size()));
  for (const auto& core : handed_over.cores) {
    put_u32(out, static_cast<uint32_t>(core.size()));
    for (const std::vector<uint8_t>& connection : core) {
      put_u32(out, static_cast<uint32_t>(connection.size()));
      out.insert(out.end(), connection.begin(), connection.end());
    }
  }
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
