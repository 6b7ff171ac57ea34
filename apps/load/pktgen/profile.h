// What a generated capture holds: frames, and what each kind of frame adds to causewayd's metrics when it arrives.
//
// The counts are what tests and operators compare with /metrics: after one pass over the file every frame stands under exactly
// the counters that its kind names, and under no other discard reason.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "rocev2/wire/packet_builder.h"

namespace cw::pktgen {

using ByteVector = std::vector<uint8_t>;

// A counter of causewayd and how much it rises. Samples of `metric` whose labels include `labels` are added up.
struct Count {
  std::string metric;
  std::map<std::string, std::string> labels;
  uint64_t add = 1;
};

struct Kind {
  std::string name;           // unique within the profile
  std::vector<Count> counts;  // per frame of this kind
};

struct Frame {
  size_t kind = 0;  // index into Profile::kinds
  ByteVector raw;
};

struct Profile {
  std::string name;
  std::vector<Kind> kinds;
  std::vector<Frame> frames;         // in the order of the file
  std::vector<Count> further_pass;   // what each later pass over the file adds; empty: the remarks say why it has no fixed sum
  std::vector<std::string> remarks;  // for whoever reads the figures
};

// Appends a frame under a kind of its name, which is made when it is new. The counters of the port and of RoCE packets, which
// follow from the bytes, are added to `counts` here.
void add_frame(Profile& profile, const std::string& kind, ByteVector raw, const std::vector<Count>& counts);

// The sum over all frames of the file, one entry per counter, sorted.
[[nodiscard]] std::vector<Count> first_pass(const Profile& profile);

// A queue pair of causewayd that is established and at rest: what `causeway-load pktgen provision` leaves behind.
struct QueuePairTarget {
  verbs::Qpn qpn;       // causewayd's
  wire::Psn first_psn;  // that causewayd expects next
};

// Who sends to whom.
struct Target {
  wire::Path path;                 // from the generator (local) to causewayd (remote)
  uint32_t path_mtu_bytes = 1024;  // 256, 512, 1024, 2048 or 4096
  uint16_t service_port = 20049;   // RDMA port of the listener
  uint64_t seed = 1;
};

}  // namespace cw::pktgen
