#include "tests/peers/perftest_wire.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

namespace cw::peers {
namespace {

constexpr std::string_view kOurVersion = "6.06";
constexpr double kOldestVersion = 5.70;

}  // namespace

Result<PerftestKey> PerftestKey::parse(Bytes bytes) {
  const auto reader = FixedReader<kSize>::from(bytes);
  if (!reader || bytes.size() != kSize) {
    return cw::fail(Error::kBadValue);
  }
  PerftestKey key;
  key.lid = reader->be32<0>();
  key.reads_outstanding = reader->be32<4>();
  key.qpn = reader->be32<8>();
  key.psn = reader->be32<12>();
  key.rkey = verbs::Rkey(reader->be32<16>());
  key.address = reader->be64<24>();
  std::ranges::copy(reader->raw<32, 16>(), key.gid.begin());
  key.srqn = reader->be32<48>();
  key.gid_index = reader->be32<52>();
  return key;
}

void PerftestKey::write(std::span<uint8_t, kSize> out) const {
  FixedWriter<kSize> writer(out);
  writer.be32<0>(lid);
  writer.be32<4>(reads_outstanding);
  writer.be32<8>(qpn);
  writer.be32<12>(psn);
  writer.be32<16>(rkey.value());
  writer.be64<24>(address);
  writer.raw<32>(std::span<const uint8_t, 16>(gid));
  writer.be32<48>(srqn);
  writer.be32<52>(gid_index);
}

PerftestVersion PerftestVersion::ours() {
  PerftestVersion version;
  std::ranges::copy(kOurVersion, version.text.begin());
  return version;
}

Result<PerftestVersion> PerftestVersion::parse(Bytes bytes) {
  PerftestVersion version;
  if (bytes.size() != kSize || std::ranges::find(bytes, uint8_t{0}) == bytes.end()) {
    return cw::fail(Error::kBadValue);
  }
  std::ranges::transform(bytes, version.text.begin(), [](uint8_t byte) { return static_cast<char>(byte); });
  if (std::strtod(version.text.data(), nullptr) < kOldestVersion) {
    return cw::fail(Error::kUnsupported);
  }
  return version;
}

void PerftestVersion::write(std::span<uint8_t, kSize> out) const {
  std::ranges::transform(text, out.begin(), [](char letter) { return static_cast<uint8_t>(letter); });
}

}  // namespace cw::peers
