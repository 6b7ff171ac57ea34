// Capture files for Wireshark and packet generators: classic pcap, little-endian, Ethernet. pcap_reader.h reads them back.
#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>

#include "base/bytes.h"
#include "base/time.h"

namespace cw::test {

// What the time stamps count; the file's first word says it. Some packet generators read microseconds only.
enum class PcapTime : uint8_t { kMicroseconds, kNanoseconds };

// The file's header, then a frame at a time; `at` is the time since the epoch.
void append_pcap_start(std::string& out, PcapTime unit);
void append_pcap_frame(std::string& out, PcapTime unit, Instant at, Bytes frame);

// A file with nanoseconds. Several cables may share one.
class PcapFile {
 public:
  explicit PcapFile(const std::string& path);
  // Whether the file could be opened and everything so far written.
  [[nodiscard]] bool ok() const { return file_ != nullptr && std::ferror(file_.get()) == 0; }
  void write(Instant at, Bytes frame);

 private:
  struct Close {
    void operator()(std::FILE* file) const { (void)std::fclose(file); }
  };
  void flush_record();

  std::unique_ptr<std::FILE, Close> file_;
  std::string record_;  // kept for its capacity
};

}  // namespace cw::test
