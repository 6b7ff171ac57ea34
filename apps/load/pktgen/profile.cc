#include "apps/load/pktgen/profile.h"

#include <algorithm>
#include <utility>

#include "rocev2/wire/packet_view.h"

namespace cw::pktgen {
namespace {

using Key = std::pair<std::string, std::map<std::string, std::string>>;

std::vector<Count> with_packet_counters(const ByteVector& raw, std::vector<Count> counts) {
  counts.push_back({"causeway_port_packets_total", {{"direction", "rx"}}});
  if (wire::PacketView::parse(raw).ok()) {
    counts.push_back({"causeway_roce_packets_total", {{"direction", "rx"}}});
  }
  return counts;
}

}  // namespace

void add_frame(Profile& profile, const std::string& kind, ByteVector raw, const std::vector<Count>& counts) {
  const auto same = [&](const Kind& known) { return known.name == kind; };
  // Generators append runs of one kind: the last is looked at first.
  auto found = std::find_if(profile.kinds.rbegin(), profile.kinds.rend(), same);
  if (found == profile.kinds.rend()) {
    profile.kinds.push_back({kind, with_packet_counters(raw, counts)});
    found = profile.kinds.rbegin();
  }
  const auto index = static_cast<size_t>(profile.kinds.rend() - found) - 1;
  profile.frames.push_back({index, std::move(raw)});
}

std::vector<Count> first_pass(const Profile& profile) {
  std::map<Key, uint64_t> sums;
  for (const Frame& frame : profile.frames) {
    for (const Count& count : profile.kinds[frame.kind].counts) {
      sums[{count.metric, count.labels}] += count.add;
    }
  }
  std::vector<Count> out;
  out.reserve(sums.size());
  for (const auto& [key, sum] : sums) {
    out.push_back({key.first, key.second, sum});
  }
  return out;
}

}  // namespace cw::pktgen
