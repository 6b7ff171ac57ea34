#include "tests/support/pcap_reader.h"

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>

namespace cw::test {
namespace {

constexpr size_t kFileHeaderBytes = 24;
constexpr size_t kRecordHeaderBytes = 16;
constexpr uint32_t kLinkTypeEthernet = 1;
constexpr uint32_t kMagicMicroseconds = 0xa1b2c3d4;
constexpr uint32_t kMagicNanoseconds = 0xa1b23c4d;
constexpr uint32_t kFrameBytesMax = 262144;

[[noreturn]] void refuse(const std::filesystem::path& path, const char* why) {
  throw std::runtime_error(path.string() + ": " + why);
}

std::vector<uint8_t> read_whole(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    refuse(path, "cannot be opened");
  }
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

}  // namespace

std::vector<CapturedFrame> read_pcap(const std::filesystem::path& path) {
  const std::vector<uint8_t> file = read_whole(path);
  if (file.size() < kFileHeaderBytes) {
    refuse(path, "no pcap file header");
  }
  const uint32_t magic_le = load_le32(file.data());
  const bool little = magic_le == kMagicMicroseconds || magic_le == kMagicNanoseconds;
  const auto load = [little, &file](size_t at) { return little ? load_le32(&file[at]) : load_be32(&file[at]); };
  if (load(0) != kMagicMicroseconds && load(0) != kMagicNanoseconds) {
    refuse(path, "not a classic pcap file");
  }
  if ((load(20) & 0xffff) != kLinkTypeEthernet) {
    refuse(path, "link type is not Ethernet");
  }
  const int64_t fraction_ns = load(0) == kMagicNanoseconds ? 1 : 1000;

  std::vector<CapturedFrame> frames;
  size_t at = kFileHeaderBytes;
  while (at < file.size()) {
    if (file.size() - at < kRecordHeaderBytes) {
      refuse(path, "ends within a record header");
    }
    CapturedFrame frame;
    frame.time = Instant::from_ns(int64_t{load(at)} * 1'000'000'000 + int64_t{load(at + 4)} * fraction_ns);
    const uint32_t captured_bytes = load(at + 8);
    frame.original_bytes = load(at + 12);
    at += kRecordHeaderBytes;
    if (captured_bytes > kFrameBytesMax || captured_bytes > file.size() - at) {
      refuse(path, "ends within a frame");
    }
    frame.raw.assign(file.data() + at, file.data() + at + captured_bytes);
    frames.push_back(std::move(frame));
    at += captured_bytes;
  }
  return frames;
}

bool is_roce_frame(const CapturedFrame& frame) {
  const std::vector<uint8_t>& raw = frame.raw;
  if (raw.size() < 18) {
    return false;
  }
  const size_t ether_type = load_be16(&raw[12]) == 0x8100 ? 16 : 12;
  const size_t ip = ether_type + 2;
  const bool ipv6 = load_be16(&raw[ether_type]) == 0x86dd;
  if (!ipv6 && load_be16(&raw[ether_type]) != 0x0800) {
    return false;
  }
  const size_t udp = ip + (ipv6 ? 40 : 20);
  const size_t protocol = ip + (ipv6 ? 6 : 9);
  return raw.size() >= udp + 8 && raw[protocol] == 17 && load_be16(&raw[udp + 2]) == 4791;
}

std::filesystem::path golden_packets_dir() {
  return std::filesystem::path(CAUSEWAY_SOURCE_ROOT) / "tests/golden/packets";
}

std::optional<std::filesystem::path> full_captures_dir() {
  const char* given = std::getenv("CAUSEWAY_CAPTURES");
  const std::filesystem::path path =
      given != nullptr ? std::filesystem::path(given) : std::filesystem::path(CAUSEWAY_SOURCE_ROOT) / "../shared/captures";
  if (!std::filesystem::is_directory(path)) {
    return std::nullopt;
  }
  return path;
}

}  // namespace cw::test
