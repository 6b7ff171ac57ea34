// Writes what passes to a capture file (classic pcap, nanoseconds, Ethernet) for Wireshark, which knows RoCE and RPC-over-RDMA.
#pragma once

#include <cstdio>
#include <memory>
#include <string>

#include "rocev2/base/bytes.h"
#include "tests/sim/link/link.h"

namespace cw::sim {

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
  std::unique_ptr<std::FILE, Close> file_;
};

// On top of a stack it shows what was sent; the simulation writes what arrived. Several cables may share a file.
class PcapTap final : public Decorator {
 public:
  PcapTap(std::unique_ptr<Link> inner, PcapFile& file) : Decorator(std::move(inner), Window{}, 0), file_(file) {}

 protected:
  void act(Instant now, Transit&& frame) override {
    file_.write(now, frame.octets);
    pass(now, std::move(frame));
  }

 private:
  PcapFile& file_;
};

}  // namespace cw::sim
