#include "tests/sim/link/pcap_writer.h"

#include <array>

namespace cw::sim {
namespace {

constexpr uint32_t kMagicNanoseconds = 0xa1b2'3c4d;
constexpr uint32_t kVersion = 2u | 4u << 16;  // 2.4, as two 16-bit words
constexpr uint32_t kSnapBytes = 65'535;
constexpr uint32_t kEthernet = 1;
constexpr int64_t kNsPerSecond = 1'000'000'000;

template <size_t N>
void write_words(std::FILE* file, const std::array<uint32_t, N>& words) {
  std::array<uint8_t, N * 4> octets;
  for (size_t i = 0; i < N; ++i) {
    store_le32(octets.data() + i * 4, words[i]);
  }
  (void)std::fwrite(octets.data(), octets.size(), 1, file);
}

}  // namespace

PcapFile::PcapFile(const std::string& path) : file_(std::fopen(path.c_str(), "wb")) {
  if (file_ != nullptr) {
    write_words<6>(file_.get(), {kMagicNanoseconds, kVersion, 0, 0, kSnapBytes, kEthernet});
  }
}

void PcapFile::write(Instant at, Bytes frame) {
  if (file_ == nullptr) {
    return;
  }
  const auto bytes = static_cast<uint32_t>(frame.size());
  write_words<4>(file_.get(), {static_cast<uint32_t>(at.to_ns() / kNsPerSecond), static_cast<uint32_t>(at.to_ns() % kNsPerSecond),
                               bytes, bytes});
  (void)std::fwrite(frame.data(), frame.size(), 1, file_.get());
}

}  // namespace cw::sim
