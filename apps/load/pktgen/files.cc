#include "apps/load/pktgen/files.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "apps/sim/link/pcap_writer.h"

namespace cw::pktgen {
namespace {

using Json = nlohmann::ordered_json;

Json json_of(const Count& count) {
  return {{"metric", count.metric}, {"labels", count.labels}, {"add", count.add}};
}

Json json_of(const std::vector<Count>& counts) {
  Json out = Json::array();
  for (const Count& count : counts) {
    out.push_back(json_of(count));
  }
  return out;
}

Json json_of(const Target& target, const std::optional<QueuePairTarget>& qp) {
  Json out = {
      {"server", to_text(target.path.remote).data()},
      {"server_mac", to_text(target.path.remote_mac).data()},
      {"client", to_text(target.path.local).data()},
      {"client_mac", to_text(target.path.local_mac).data()},
      {"vlan", target.path.vlan},
      {"udp_source_port", target.path.udp_source_port},
      {"path_mtu", target.path_mtu_bytes},
      {"service_port", target.service_port},
  };
  if (qp) {
    out["qpn"] = qp->qpn.value();
    out["psn"] = qp->first_psn.value();
  }
  return out;
}

Json json_of_kinds(const Profile& profile) {
  std::vector<size_t> frames(profile.kinds.size());
  std::vector<size_t> first(profile.kinds.size());
  for (size_t i = 0; i < profile.frames.size(); ++i) {
    const size_t kind = profile.frames[i].kind;
    first[kind] = frames[kind]++ == 0 ? i : first[kind];
  }
  Json out = Json::array();
  for (size_t i = 0; i < profile.kinds.size(); ++i) {
    out.push_back({{"kind", profile.kinds[i].name},
                   {"frames", frames[i]},
                   {"first_frame", first[i]},
                   {"counts", json_of(profile.kinds[i].counts)}});
  }
  return out;
}

std::string write_file(const std::filesystem::path& path, const std::string& content) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << content;
  file.close();
  return file ? "" : fmt::format("cannot write {}: {}", path.string(), std::strerror(errno));
}

}  // namespace

std::string to_pcap(const Profile& profile) {
  std::string out;
  test::append_pcap_start(out, test::PcapTime::kMicroseconds);
  Instant at;
  for (const Frame& frame : profile.frames) {
    test::append_pcap_frame(out, test::PcapTime::kMicroseconds, at, frame.raw);
    at = at + Duration::us(1);
  }
  return out;
}

std::string to_json(const Profile& profile, const Target& target, const std::optional<QueuePairTarget>& qp) {
  size_t raw = 0;
  for (const Frame& frame : profile.frames) {
    raw += frame.raw.size();
  }
  const Json json = {
      {"profile", profile.name},
      {"seed", target.seed},
      {"frames", profile.frames.size()},
      {"bytes", raw},
      {"target", json_of(target, qp)},
      {"remarks", profile.remarks},
      {"first_pass", json_of(first_pass(profile))},
      {"further_pass", json_of(profile.further_pass)},
      {"kinds", json_of_kinds(profile)},
  };
  return json.dump(2) + "\n";
}

std::string to_json(const Target& target, const std::optional<QueuePairTarget>& qp) {
  return json_of(target, qp).dump(2) + "\n";
}

std::filesystem::path json_path_of(const std::filesystem::path& pcap) {
  std::filesystem::path json = pcap;
  return json.replace_extension(".json");
}

std::string write_files(const std::filesystem::path& pcap, const Profile& profile, const Target& target,
                        const std::optional<QueuePairTarget>& qp) {
  const std::string problem = write_file(pcap, to_pcap(profile));
  return problem.empty() ? write_file(json_path_of(pcap), to_json(profile, target, qp)) : problem;
}

}  // namespace cw::pktgen
