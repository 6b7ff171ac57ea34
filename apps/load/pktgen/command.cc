#include "apps/load/pktgen/command.h"

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <cstdio>
#include <fstream>
#include <set>

#include "apps/load/pktgen/files.h"
#include "apps/load/pktgen/malformed.h"
#include "apps/load/pktgen/noise.h"
#include "apps/load/pktgen/provision.h"
#include "apps/load/pktgen/requests.h"
#include "apps/load/pktgen/send.h"

namespace cw::pktgen {
namespace {

constexpr int kExitFailed = 1;
constexpr int kExitUsage = 2;
constexpr uint32_t kFramesMax = 1'000'000;
constexpr uint32_t kQpnMax = 0xff'fffe;
constexpr uint32_t kPsnMax = 0xff'ffff;

// As on the command line, or in the file that `provision` wrote. Names of the file's keys are those of the options, with '_'.
struct Words {
  std::string server;
  std::string server_mac = "02:70:63:61:70:00";  // what DPDK's net_pcap calls its first port
  std::string client;
  std::string client_mac = "02:00:5e:00:53:01";
  uint32_t vlan = 0;
  uint32_t udp_source_port = 49152;
  uint32_t path_mtu = 1024;
  uint32_t service_port = 20049;
  uint64_t seed = 1;
  std::optional<uint32_t> qpn;
  std::optional<uint32_t> psn;
  std::string provisioned;  // file
  std::string output;
};

struct Settings {
  Words words;
  SendOptions send;
  RequestOptions requests;
  NoiseOptions noise;
  ProvisionOptions provision;
  std::string provision_server;
  std::string provision_output;
};

int complain(const std::string& sentence, int status) {
  fmt::print(stderr, "causeway-load pktgen: {}\n", sentence);
  return status;
}

std::string mac_problem(const std::string& text) {
  const auto mac = wire::parse_mac(text);
  if (!mac.ok()) {
    return fmt::format("'{}' is not a MAC address such as 02:00:5e:00:53:01", text);
  }
  return mac->is_multicast() ? fmt::format("'{}' is the MAC address of a group", text) : "";
}

template <typename T>
void take(const nlohmann::json& json, const char* key, T& out) {
  out = json.at(key).get<T>();
}

// Reads what `provision` wrote. Empty, or what is wrong with the file.
std::string read_provisioned(Words& words) {
  std::ifstream file(words.provisioned);
  if (!file) {
    return fmt::format("cannot read {}; write it with: causeway-load pktgen provision --output {}", words.provisioned,
                       words.provisioned);
  }
  try {
    const nlohmann::json json = nlohmann::json::parse(file);
    take(json, "server", words.server);
    take(json, "server_mac", words.server_mac);
    take(json, "client", words.client);
    take(json, "client_mac", words.client_mac);
    take(json, "vlan", words.vlan);
    take(json, "udp_source_port", words.udp_source_port);
    take(json, "path_mtu", words.path_mtu);
    take(json, "service_port", words.service_port);
    words.qpn = json.at("qpn").get<uint32_t>();
    words.psn = json.at("psn").get<uint32_t>();
  } catch (const nlohmann::json::exception& error) {
    return fmt::format("{} is not what causeway-load pktgen provision writes: {}", words.provisioned, error.what());
  }
  return "";
}

// The checks that CLI11 makes for options, for values from a file, and those across options.
std::string problem_of(const Words& words) {
  for (const std::string& text : {words.server, words.client}) {
    if (text.empty()) {
      return "give --server and --client, or --provisioned FILE";
    }
    if (std::string problem = test::address_problem(text); !problem.empty()) {
      return problem;
    }
  }
  for (const std::string& text : {words.server_mac, words.client_mac}) {
    if (std::string problem = mac_problem(text); !problem.empty()) {
      return problem;
    }
  }
  const IpAddress server = *parse_ip(words.server);
  const IpAddress client = *parse_ip(words.client);
  if (server.is_v4() != client.is_v4()) {
    return fmt::format("--server {} and --client {} are not of one family", words.server, words.client);
  }
  if (server == client) {
    return fmt::format("--server and --client are both {}", words.server);
  }
  if (words.qpn.has_value() != words.psn.has_value()) {
    return "--qpn and --psn go together: both are written by causeway-load pktgen provision";
  }
  return "";
}

Target target_of(const Words& words) {
  Target target;
  target.path.remote = *parse_ip(words.server);
  target.path.remote_mac = *wire::parse_mac(words.server_mac);
  target.path.local = *parse_ip(words.client);
  target.path.local_mac = *wire::parse_mac(words.client_mac);
  target.path.vlan = static_cast<uint16_t>(words.vlan);
  target.path.udp_source_port = static_cast<uint16_t>(words.udp_source_port);
  target.path_mtu_bytes = words.path_mtu;
  target.service_port = static_cast<uint16_t>(words.service_port);
  target.seed = words.seed;
  return target;
}

std::optional<QueuePairTarget> qp_of(const Words& words) {
  if (!words.qpn) {
    return std::nullopt;
  }
  return QueuePairTarget{.qpn = verbs::Qpn(*words.qpn), .first_psn = wire::Psn(*words.psn)};
}

void add_common_options(CLI::App& command, Words& words, bool aims_at_qp) {
  command.add_option("-o,--output", words.output, "pcap file to write; the expected counters go beside it, as .json")
      ->required()
      ->check([](const std::string& text) {
        return text.ends_with(".pcap") ? std::string() : fmt::format("'{}' does not end in .pcap", text);
      });
  command.add_option("-s,--server", words.server, "causewayd's address on the port that the frames arrive at");
  command.add_option("-c,--client", words.client, "address that the frames come from; IPv4 or IPv6, as the server's");
  command.add_option("--server-mac", words.server_mac, "causewayd's MAC (causewayctl status)")->capture_default_str();
  command.add_option("--client-mac", words.client_mac, "MAC that the frames come from, and answers go to")->capture_default_str();
  command.add_option("--vlan", words.vlan, "VLAN id; 0 = untagged")->capture_default_str()->check(CLI::Range(0, 4094));
  command.add_option("--udp-source-port", words.udp_source_port, "UDP source port of the path")
      ->capture_default_str()
      ->check(CLI::Range(1, 65535));
  command.add_option("--path-mtu", words.path_mtu, "RoCE path MTU, bytes")
      ->capture_default_str()
      ->check(CLI::IsMember(std::set<uint32_t>{256, 512, 1024, 2048, 4096}));
  command.add_option("--service-port", words.service_port, "RDMA port of the listener")
      ->capture_default_str()
      ->check(CLI::Range(1, 65535));
  command.add_option("--seed", words.seed, "same seed and options, same bytes")->capture_default_str();
  if (!aims_at_qp) {
    return;
  }
  command.add_option("--qpn", words.qpn, "causewayd's queue pair (causewayctl connections --json: local_qpn)")
      ->check(CLI::Range(2u, kQpnMax));
  command.add_option("--psn", words.psn, "PSN that the queue pair expects next")->check(CLI::Range(0u, kPsnMax));
  command.add_option("--provisioned", words.provisioned,
                     "file written by 'provision': addresses, ports, path MTU, QPN and PSN, in place of these options");
}

int write_profile(const Settings& settings, const Profile& profile, const Target& target,
                  const std::optional<QueuePairTarget>& qp) {
  const std::string& output = settings.words.output;
  if (const std::string problem = write_files(output, profile, target, qp); !problem.empty()) {
    return complain(problem, kExitFailed);
  }
  fmt::print("{}: {} frames of {} kinds\n{}: what they add to the metrics of causewayd\n", output, profile.frames.size(),
             profile.kinds.size(), json_path_of(output).string());
  for (const std::string& remark : profile.remarks) {
    fmt::print("note: {}\n", remark);
  }
  return 0;
}

int generate(Settings& settings, const std::string& name) {
  Words& words = settings.words;
  if (!words.provisioned.empty()) {
    if (const std::string problem = read_provisioned(words); !problem.empty()) {
      return complain(problem, kExitFailed);
    }
  }
  if (const std::string problem = problem_of(words); !problem.empty()) {
    return complain(problem, kExitUsage);
  }
  const Target target = target_of(words);
  const auto qp = qp_of(words);
  if (name == "send") {
    if (!qp) {
      return complain("send needs a queue pair: --provisioned FILE, or --qpn and --psn", kExitUsage);
    }
    if (settings.send.payload_bytes > target.path_mtu_bytes) {
      return complain(
          fmt::format("--payload {} does not fit the path MTU, {}", settings.send.payload_bytes, target.path_mtu_bytes),
          kExitUsage);
    }
    return write_profile(settings, make_sends(target, *qp, settings.send), target, qp);
  }
  if (name == "requests") {
    return write_profile(settings, make_requests(target, settings.requests), target, qp);
  }
  if (name == "malformed") {
    return write_profile(settings, make_malformed(target, qp), target, qp);
  }
  return write_profile(settings, make_noise(target, settings.noise), target, qp);
}

int run_provision(Settings& settings) {
  settings.provision.server = *parse_ip(settings.provision_server);
  std::string error;
  const auto provisioned = provision(settings.provision, error);
  if (!provisioned) {
    return complain(error, kExitFailed);
  }
  std::ofstream file(settings.provision_output, std::ios::trunc);
  file << to_json(provisioned->target, provisioned->qp);
  file.close();
  if (!file) {
    return complain(fmt::format("cannot write {}", settings.provision_output), kExitFailed);
  }
  fmt::print("{}: queue pair {:#x} expects PSN {}; nobody is there to acknowledge what it sends\n", settings.provision_output,
             provisioned->qp.qpn.value(), provisioned->qp.first_psn.value());
  return 0;
}

void add_send(CLI::App& cli, Settings& settings) {
  CLI::App* command = cli.add_subcommand("send", "SENDs to an established queue pair: the raw receive limit");
  add_common_options(*command, settings.words, true);
  command->add_option("-n,--count", settings.send.count, "SENDs, one packet each")
      ->capture_default_str()
      ->check(CLI::Range(1u, kFramesMax));
  command->add_option("--payload", settings.send.payload_bytes, "bytes of payload, up to the path MTU")
      ->capture_default_str()
      ->check(CLI::Range(kSendPayloadMin, 4096u));
  command->footer(
      "The file's PSNs repeat when it is played again: only the first pass carries new messages. Every later pass is made of\n"
      "duplicates, which causewayd checks and acknowledges again but does not execute: a stress of duplicates and ACKs.");
}

void add_requests(CLI::App& cli, Settings& settings) {
  CLI::App* command = cli.add_subcommand("requests", "a flood of CM REQs, each for a connection of its own");
  add_common_options(*command, settings.words, false);
  command->add_option("-n,--count", settings.requests.count, "REQs")->capture_default_str()->check(CLI::Range(1u, kFramesMax));
  command->add_option("--sources", settings.requests.sources, "addresses they come from, counted up from --client")
      ->capture_default_str()
      ->check(CLI::Range(1, 65536));
}

void add_malformed(CLI::App& cli, Settings& settings) {
  CLI::App* command = cli.add_subcommand("malformed", "one frame of every kind that is refused under a name of its own");
  add_common_options(*command, settings.words, true);
  command->footer(
      "With a queue pair also what is refused at one, and bad RPC-over-RDMA headers: for one pass over the file. Without, each\n"
      "pass counts the same.");
}

void add_noise(CLI::App& cli, Settings& settings) {
  CLI::App* command = cli.add_subcommand("noise", "other traffic of a LAN, to run beside a real load");
  add_common_options(*command, settings.words, false);
  command->add_option("-n,--count", settings.noise.count, "frames")->capture_default_str()->check(CLI::Range(1u, kFramesMax));
}

void add_provision(CLI::App& cli, Settings& settings) {
  CLI::App* command = cli.add_subcommand("provision", "connects, writes the queue pair's numbers, and leaves without a word");
  test::add_link_options(*command, settings.provision.link);
  command->add_option("-s,--server", settings.provision_server, "causewayd's RDMA address")
      ->required()
      ->check(test::address_problem);
  command->add_option("-p,--port", settings.provision.service_port, "RDMA port of the listener")->capture_default_str();
  command->add_option("--inline", settings.provision.inline_bytes, "inline size offered")
      ->capture_default_str()
      ->check(CLI::Range(1024, 65536));
  command->add_option("--wait", settings.provision.wait_seconds, "seconds to try")
      ->capture_default_str()
      ->check(CLI::Range(1, 3600));
  command->add_option("-o,--output", settings.provision_output, "JSON file for --provisioned")->required();
  command->footer(
      "causewayd keeps the connection until its keep-alive ([roce] keepalive_s, 0 = never) or its retries find that nobody is\n"
      "there. Packets of the generator count as signs of life.");
}

}  // namespace

int run_command(int argc, char** argv) {
  Settings settings;
  settings.provision.link.port.instance = "provision";
  CLI::App cli("causeway-load pktgen: captures for packet generators, with the counters that they move", "causeway-load pktgen");
  cli.require_subcommand(1);
  add_send(cli, settings);
  add_requests(cli, settings);
  add_malformed(cli, settings);
  add_noise(cli, settings);
  add_provision(cli, settings);
  cli.footer(
      "Each profile has a --help of its own. deploy/pktgen/README.md tells how the files are played.\n"
      "Exit status: 0 written, 1 not, 2 wrong usage.");
  try {
    cli.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return cli.exit(error) == 0 ? 0 : kExitUsage;
  }
  const std::string name = cli.get_subcommands().front()->get_name();
  return name == "provision" ? run_provision(settings) : generate(settings, name);
}

}  // namespace cw::pktgen
