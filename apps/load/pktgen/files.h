// The two files of a profile: the frames as pcap, and beside it what they add to the metrics, as JSON.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "apps/load/pktgen/profile.h"

namespace cw::pktgen {

// Classic pcap, little-endian, microseconds, Ethernet; one frame per microsecond from time 0. The same profile gives the same
// bytes.
[[nodiscard]] std::string to_pcap(const Profile& profile);

//   profile, seed, frames, bytes
//   target        addresses, VLAN, ports, path MTU; QPN and first PSN for profiles that need a queue pair
//   remarks       how to read the figures
//   first_pass    [{metric, labels, add}]: the sum over the file, when causewayd meets it for the first time
//   further_pass  the same for every later pass; empty: see the remarks
//   kinds         [{kind, frames, first_frame, counts}] in the order in which they first appear; counts are per frame
[[nodiscard]] std::string to_json(const Profile& profile, const Target& target, const std::optional<QueuePairTarget>& qp);

// The member `target` alone: what `causeway-load pktgen provision` writes and the generators read.
[[nodiscard]] std::string to_json(const Target& target, const std::optional<QueuePairTarget>& qp);

// FILE.pcap -> FILE.json.
[[nodiscard]] std::filesystem::path json_path_of(const std::filesystem::path& pcap);

// Writes both. Empty, or one sentence that says what could not be written.
[[nodiscard]] std::string write_files(const std::filesystem::path& pcap, const Profile& profile, const Target& target,
                                      const std::optional<QueuePairTarget>& qp);

}  // namespace cw::pktgen
