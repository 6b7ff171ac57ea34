// RPC-over-RDMA messages and RDMA Writes taken out of a capture file: SENDs of reliable connections reassembled, written bytes
// by handle.
#pragma once

#include <deque>
#include <filesystem>
#include <map>
#include <optional>
#include <vector>

#include "rpcrdma/wire/chunk_list.h"
#include "tests/unit/rpcrdma/bytes.h"

namespace cw::test {

struct CapturedTraffic {
  struct Written {
    uint64_t address = 0;
    ByteVector raw;
  };
  std::vector<ByteVector> messages;                // in the order of their last packets
  std::map<uint32_t, std::deque<Written>> writes;  // by handle

  // What was written to the first `length` bytes of a segment; nothing when the capture does not hold all of it.
  [[nodiscard]] std::optional<ByteVector> written_to(const rpcrdma::Segment& segment, uint32_t length) const;
};

[[nodiscard]] CapturedTraffic read_traffic(const std::filesystem::path& pcap);

}  // namespace cw::test
