#include "tests/loadgen/pktgen/files.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cerrno>
#include <cstring>
#include <fstream>

namespace cw::pktgen {
namespace {

using Json = nlohmann::ordered_json;

constexpr uint32_t kMagicMicroseconds = 0xa1b2c3d4;
constexpr uint16_t kMajor = 2;
constexpr uint16_t kMinor = 4;
constexpr uint32_t kSnapshotBytes = 65535;
constexpr uint32_t kLinkTypeEthernet = 1;
constexpr uint32_t kMicrosecondsPerSecond = 1'000'000;

void put16(std::string& out, uint16_t value) {
  out.push_back(static_cast<char>(value & 0xff));
  out.push_back(static_cast<char>(value >> 8));
}
void put32(std::string& out, uint32_t value) {
  put16(out, static_cast<uint16_t>(value & 0xffff));
  put16(out, static_cast<uint16_t>(value >> 16));
}

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
      {"server", wire::to_text(target.path.remote).data()},
      {"server_mac", wire::to_text(target.path.remote_mac).data()},
      {"client", wire::to_text(target.path.local).data()},
      {"client_mac", wire::to_text(target.path.local_mac).data()},
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
  put32(out, kMagicMicroseconds);
  put16(out, kMajor);
  put16(out, kMinor);
  put32(out, 0);
  put32(out, 0);
  put32(out, kSnapshotBytes);
  put32(out, kLinkTypeEthernet);
  uint32_t index = 0;
  for (const Frame& frame : profile.frames) {
    const auto bytes = static_cast<uint32_t>(frame.octets.size());
    put32(out, index / kMicrosecondsPerSecond);
    put32(out, index % kMicrosecondsPerSecond);
    put32(out, bytes);
    put32(out, bytes);
    out.append(frame.octets.begin(), frame.octets.end());
    ++index;
  }
  return out;
}

std::string to_json(const Profile& profile, const Target& target, const std::optional<QueuePairTarget>& qp) {
  size_t octets = 0;
  for (const Frame& frame : profile.frames) {
    octets += frame.octets.size();
  }
  const Json json = {
      {"profile", profile.name},
      {"seed", target.seed},
      {"frames", profile.frames.size()},
      {"octets", octets},
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
