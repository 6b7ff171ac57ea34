#include "apps/sim/link/pcap_writer.h"

#include <array>
#include <initializer_list>

namespace cw::test {
namespace {

constexpr uint32_t kMagicMicroseconds = 0xa1b2'c3d4;
constexpr uint32_t kMagicNanoseconds = 0xa1b2'3c4d;
constexpr uint32_t kVersion = 2u | 4u << 16;  // 2.4, as two 16-bit words
constexpr uint32_t kSnapBytes = 65'535;
constexpr uint32_t kEthernet = 1;
constexpr int64_t kNsPerSecond = 1'000'000'000;
constexpr int64_t kNsPerMicrosecond = 1'000;

void append_words(std::string& out, std::initializer_list<uint32_t> words) {
  for (const uint32_t word : words) {
    std::array<uint8_t, 4> bytes;
    store_le32(bytes.data(), word);
    out.append(bytes.begin(), bytes.end());
  }
}

}  // namespace

void append_pcap_start(std::string& out, PcapTime unit) {
  append_words(out,
               {unit == PcapTime::kMicroseconds ? kMagicMicroseconds : kMagicNanoseconds, kVersion, 0, 0, kSnapBytes, kEthernet});
}

void append_pcap_frame(std::string& out, PcapTime unit, Instant at, Bytes frame) {
  const auto bytes = static_cast<uint32_t>(frame.size());
  const int64_t fraction = at.to_ns() % kNsPerSecond / (unit == PcapTime::kMicroseconds ? kNsPerMicrosecond : 1);
  append_words(out, {static_cast<uint32_t>(at.to_ns() / kNsPerSecond), static_cast<uint32_t>(fraction), bytes, bytes});
  out.append(frame.begin(), frame.end());
}

PcapFile::PcapFile(const std::string& path) : file_(std::fopen(path.c_str(), "wb")) {
  append_pcap_start(record_, PcapTime::kNanoseconds);
  flush_record();
}

void PcapFile::write(Instant at, Bytes frame) {
  append_pcap_frame(record_, PcapTime::kNanoseconds, at, frame);
  flush_record();
}

void PcapFile::flush_record() {
  if (file_ != nullptr) {
    (void)std::fwrite(record_.data(), record_.size(), 1, file_.get());
  }
  record_.clear();
}

}  // namespace cw::test
