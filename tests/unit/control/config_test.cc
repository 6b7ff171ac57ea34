#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <regex>
#include <sstream>
#include <string>

#include "control/config/buffer_plan.h"
#include "control/config/config_check.h"
#include "control/config/config_file.h"
#include "control/config/config_parse.h"
#include "control/config/memory_plan.h"
#include "control/config/suggest.h"

namespace cw::control {
namespace {

std::string read_text(const std::filesystem::path& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

std::string all_problems(const ParsedConfig& parsed) {
  std::string text;
  for (const Problem& problem : parsed.problems) {
    text += to_string(problem) + '\n';
  }
  for (const Problem& problem : config_check(parsed)) {
    text += to_string(problem) + '\n';
  }
  return text;
}

class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    char name[] = "/tmp/cw_config_XXXXXX";
    path_ = mkdtemp(name);
  }
  ~TemporaryDirectory() { std::filesystem::remove_all(path_); }
  [[nodiscard]] std::string file(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

// The table of keys decides what a file may say, and the reference and the manual page are made from it. A range in a comment of
// config.h would be a second one, which nobody keeps right.
TEST(ConfigReference, RangesStandInTheTableAlone) {
  std::istringstream lines(read_text(CAUSEWAY_SOURCE_ROOT "/control/config/config.h"));
  static const std::regex kRange(R"(\d(?: [KMGT]iB)?\.\.\d)");  // "64 KiB..64 MiB", "0..7"
  size_t count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    EXPECT_FALSE(std::regex_search(line, kRange)) << line;
  }
  EXPECT_GT(count, 100u);
}

// A new key changes this file in the same commit: run with CAUSEWAY_WRITE_GOLDEN=1.
TEST(ConfigReference, IsTheFileInDeploy) {
  const char* path = CAUSEWAY_SOURCE_ROOT "/deploy/config/causeway.toml";
  if (std::getenv("CAUSEWAY_WRITE_GOLDEN") != nullptr) {
    std::ofstream(path) << config_reference();
  }
  EXPECT_EQ(config_reference(), read_text(path));
}

TEST(ConfigReference, ParsesAndChecksClean) {
  EXPECT_EQ(all_problems(config_parse(config_reference(), "reference")), "");
}

// With the lines that are commented out, too.
TEST(ConfigReference, TheExampleOfIwarpAloneIsFineAndNeedsNoDpdk) {
  const std::string text = read_text(CAUSEWAY_SOURCE_ROOT "/deploy/config/iwarp-alone.toml");
  std::istringstream lines(text);
  std::string all;
  for (std::string line; std::getline(lines, line);) {
    all += line.substr(line.size() > 1 && line[0] == '#' && line[1] != ' ' ? 1 : 0) + '\n';
  }
  for (const std::string& each : {text, all}) {
    const ParsedConfig parsed = config_parse(each, "iwarp-alone.toml");
    EXPECT_EQ(all_problems(parsed), "") << each;
    EXPECT_FALSE(needs_dpdk(parsed.config));
  }
}

// Every line that shows a default or an example is itself valid.
TEST(ConfigReference, ParsesCleanWithEveryKeyWrittenOut) {
  // Comments begin with "# "; a key that is commented out follows its '#' directly.
  std::istringstream lines(config_reference());
  std::string text;
  for (std::string line; std::getline(lines, line);) {
    const bool commented_out = line.size() > 1 && line[0] == '#' && line[1] != ' ';
    const bool of_other_type = line.starts_with("#programs");
    text += line.substr(commented_out && !of_other_type ? 1 : 0) + '\n';
  }
  const ParsedConfig parsed = config_parse(text, "reference");
  // The reference port has the default MTU, for which path_mtu_max is warned about once it is written out.
  EXPECT_TRUE(parsed.problems.empty()) << all_problems(parsed);
  EXPECT_FALSE(has_errors(config_check(parsed))) << all_problems(parsed);
  const Config defaults;
  EXPECT_EQ(parsed.config.dataplane.rx_buffers, defaults.dataplane.rx_buffers);
  EXPECT_EQ(parsed.config.limits.call_bytes_max, defaults.limits.call_bytes_max);
  EXPECT_EQ(parsed.config.roce.path_mtu_max, defaults.roce.path_mtu_max);
  EXPECT_EQ(parsed.config.metrics.listen, defaults.metrics.listen);
  EXPECT_EQ(parsed.config.log.level, defaults.log.level);
}

TEST(ConfigParse, FillsEveryKindOfValue) {
  const ParsedConfig parsed = config_parse(R"(
[gateway]
instance = "rack-7_a"
[dataplane]
main_lcore = 2
poll_lcores = [3, 4]
worker_lcores = [5, 6]
hugepages = true
idle = "spin"
[[port]]
device = "0000:3b:00.0"
mtu = 9000
vlan = 100
addresses = ["192.0.2.1/24", "2001:db8::1/64"]
gateway4 = "192.0.2.254"
gateway6 = "fe80::1"
[[listener]]
name = "bench"
port = 20050
backend = "local"
credits = 112
reverse_credits = 8
inline_bytes = 8192
remote_invalidate = false
allow = ["192.0.2.0/24", "2001:db8::7"]
[[backend]]
name = "local"
type = "builtin"
programs = ["bench"]
[limits]
call_bytes_max = 1_048_576
connections_max = 32
[roce]
path_mtu_max = 1024
[metrics]
listen = "off"
[log]
level = "debug"
)",
                                           "c.toml");
  ASSERT_EQ(all_problems(parsed), "");
  const Config& c = parsed.config;
  EXPECT_EQ(c.gateway.instance, "rack-7_a");
  EXPECT_EQ(c.dataplane.main_lcore, 2u);
  EXPECT_EQ(c.dataplane.poll_lcores, (std::vector<uint32_t>{3, 4}));
  EXPECT_EQ(c.dataplane.worker_lcores, (std::vector<uint32_t>{5, 6}));
  EXPECT_TRUE(c.dataplane.hugepages);
  EXPECT_EQ(c.dataplane.idle, IdleMode::kSpin);
  ASSERT_EQ(c.ports.size(), 1u);
  EXPECT_EQ(c.ports[0].addresses[1], *parse_prefix("2001:db8::1/64"));
  EXPECT_EQ(c.ports[0].gateway4, parse_ip("192.0.2.254"));
  EXPECT_EQ(c.ports[0].gateway6, parse_ip("fe80::1"));
  EXPECT_EQ(c.ports[0].vlan, 100u);
  ASSERT_EQ(c.listeners.size(), 1u);
  EXPECT_EQ(c.listeners[0].credits, 112u);
  EXPECT_EQ(c.listeners[0].reverse_credits, 8u);
  EXPECT_FALSE(c.listeners[0].remote_invalidate);
  EXPECT_EQ(c.listeners[0].allow[1], *parse_prefix("2001:db8::7/128"));
  EXPECT_EQ(c.backends[0].type, BackendType::kBuiltin);
  EXPECT_EQ(c.backends[0].programs, std::vector<std::string>{"bench"});
  EXPECT_EQ(c.limits.call_bytes_max, 1048576u);
  EXPECT_EQ(c.roce.path_mtu_max, 1024u);
  EXPECT_FALSE(c.metrics.listen);
  EXPECT_EQ(c.log.level, LogLevel::kDebug);
  EXPECT_EQ(admin_socket_path(c), "/run/causeway/rack-7_a.sock");
}

// Proves RPCRDMA-5-4.
// Proves RPCRDMA-6.3-1: thresholds and credits that suit NFS stand where nothing is said, and each service of the operator, with
// its program behind a listener of its own, can have others.
TEST(ConfigParse, TransportParametersHaveDefaultsThatAListenerOverrides) {
  const ParsedConfig parsed = config_parse(
      "[[listener]]\nbackend = \"nfs\"\n[[listener]]\nport = 20050\nbackend = \"nfs\"\ninline_bytes = 8192\ncredits = 8\n"
      "reverse_credits = 0\nremote_invalidate = false\n[[backend]]\nname = \"nfs\"\naddress = \"127.0.0.1:2049\"\n",
      "test");
  EXPECT_TRUE(parsed.problems.empty()) << all_problems(parsed);
  ASSERT_EQ(parsed.config.listeners.size(), 2u);
  const ListenerConfig& usual = parsed.config.listeners[0];
  EXPECT_EQ(usual.port, 20049);
  EXPECT_EQ(usual.inline_bytes, 4096u) << "what Linux has on either side";
  EXPECT_EQ(usual.credits, 64u);
  EXPECT_EQ(usual.reverse_credits, 16u);
  EXPECT_TRUE(usual.remote_invalidate);
  const ListenerConfig& other = parsed.config.listeners[1];
  EXPECT_EQ(other.port, 20050);
  EXPECT_EQ(other.inline_bytes, 8192u);
  EXPECT_EQ(other.credits, 8u);
  EXPECT_EQ(other.reverse_credits, 0u);
  EXPECT_FALSE(other.remote_invalidate);
}

// Proves RPCRDMA-9-4: any 16-bit port may be a service's, and two may not have the same.
TEST(ConfigParse, AListenerMayHaveAnyPort) {
  for (const uint32_t port : {1u, 1023u, 20049u, 20050u, 65535u}) {
    const ParsedConfig parsed = config_parse("[[listener]]\nport = " + std::to_string(port) + "\nbackend = \"nfs\"\n", "test");
    EXPECT_TRUE(parsed.problems.empty()) << all_problems(parsed);
    ASSERT_EQ(parsed.config.listeners.size(), 1u);
    EXPECT_EQ(parsed.config.listeners[0].port, port);
  }
}

// Proves RPCRDMA-3.3.3-6: no listener can be set up that receives less than 1024 bytes.
TEST(ConfigParse, AnInlineSizeBelow1024IsRefused) {
  for (const uint32_t bytes : {0u, 512u, 1020u, 1023u}) {
    const ParsedConfig parsed =
        config_parse("[[listener]]\nbackend = \"nfs\"\ninline_bytes = " + std::to_string(bytes) + "\n", "c.toml");
    EXPECT_NE(
        all_problems(parsed).find("listener.inline_bytes: " + std::to_string(bytes) + " is out of range; use 1024 to 65536"),
        std::string::npos)
        << all_problems(parsed);
  }
  const ParsedConfig smallest = config_parse("[[listener]]\nbackend = \"nfs\"\ninline_bytes = 1024\n", "c.toml");
  EXPECT_TRUE(smallest.problems.empty()) << all_problems(smallest);
  EXPECT_EQ(smallest.config.listeners.at(0).inline_bytes, 1024u);
}

TEST(ConfigParse, ListenerWithoutNameTakesItsBackends) {
  const ParsedConfig parsed = config_parse("[[listener]]\nbackend = \"nfs\"\n", "c.toml");
  EXPECT_EQ(parsed.config.listeners.at(0).name, "nfs");
  EXPECT_EQ(parsed.config.listeners.at(0).port, 20049u);
}

TEST(ConfigParse, WrongValueKeepsItsDefault) {
  const ParsedConfig parsed = config_parse("[dataplane]\nrx_buffers = 7\npoll_lcores = [1, true]\n", "c.toml");
  EXPECT_EQ(parsed.config.dataplane.rx_buffers, DataplaneConfig().rx_buffers);
  EXPECT_EQ(parsed.config.dataplane.poll_lcores, DataplaneConfig().poll_lcores);
}

// Mutations of a valid file: any result is fine, crashes and endless output are not.
TEST(ConfigParse, P5_SurvivesMutatedInput) {
  const std::string valid = config_reference();
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    std::string text = valid;
    for (int edit = 0; edit < 4; ++edit) {
      const size_t at = random() % text.size();
      switch (random() % 3) {
        case 0:
          text[at] = static_cast<char>(random());
          break;
        case 1:
          text.erase(at, random() % 40);
          break;
        default:
          text.insert(at, text.substr(random() % text.size(), random() % 40));
      }
    }
    const ParsedConfig parsed = config_parse(text, "fuzz");
    EXPECT_LT(all_problems(parsed).size(), 1u << 20);
  }
}

TEST(ConfigParse, DeepNestingIsRefusedWithoutHarm) {
  const ParsedConfig parsed = config_parse("x = " + std::string(100'000, '['), "deep");
  EXPECT_EQ(parsed.problems.size(), 1u);
}

TEST(ConfigCheck, PathMtuFollowsFromTheEthernetMtu) {
  EXPECT_EQ(path_mtu_for(1280, 4096), 1024u);
  EXPECT_EQ(path_mtu_for(1500, 4096), 1024u);
  EXPECT_EQ(path_mtu_for(4179, 4096), 2048u);
  EXPECT_EQ(path_mtu_for(4180, 4096), 4096u);
  EXPECT_EQ(path_mtu_for(9000, 2048), 2048u);
}

TEST(ConfigCheck, ReservedBuffersCountTheDearestListenersFirst) {
  Config config;
  config.ports.push_back({.mtu = 9000});
  config.limits.connections_max = 10;
  config.listeners.push_back({.name = "cheap", .credits = 1, .reverse_credits = 0, .inline_bytes = 4096});
  config.listeners.push_back({.name = "dear", .credits = 100, .reverse_credits = 5, .inline_bytes = 8192, .connections_max = 4});
  EXPECT_EQ(reserved_buffers(config), 4u * 210 + 6u * 1);
}

// However little is configured, what calls may hold leaves room for the largest one's data, and for sending.
TEST(BufferPlan, SharesAddUpToLessThanThePool) {
  for (const uint32_t mtu : {1500u, 4500u, 9000u}) {
    for (const uint32_t spare : {0u, 1u, 1000u, 100'000u}) {
      for (const uint32_t cores : {1u, 3u}) {
        Config config;
        config.ports.push_back({.device = "net_memif0", .mtu = mtu});
        config.listeners.push_back({.name = "a"});
        config.dataplane.poll_lcores.assign(cores, 0);
        config.dataplane.rx_buffers = static_cast<uint32_t>(reserved_buffers(config)) + spare;
        const BufferPlan plan = plan_buffers(config);
        EXPECT_LT(plan.reserved + plan.pulled_max + plan.held_max, plan.packets);
        EXPECT_GT(plan.packets, config.dataplane.rx_buffers);
        EXPECT_GE(plan.pulled_max / cores * uint64_t{path_mtu_for(mtu, 4096)}, config.limits.call_bytes_max);
      }
    }
  }
}

// As long as the credits leave enough of them.
TEST(BufferPlan, GivesPulledDataUpToHalfOfTheBuffers) {
  Config config;
  config.ports.push_back({.device = "net_memif0", .mtu = 4500});
  config.listeners.push_back({.name = "a"});
  EXPECT_EQ(plan_buffers(config).pulled_max, config.dataplane.rx_buffers / 2);
  EXPECT_EQ(plan_buffers(config).held_max, config.dataplane.rx_buffers / 8);
  EXPECT_LT(plan_buffers(config).packets, config.dataplane.rx_buffers + 2000);
}

TEST(BufferPlan, RingsOfNicsHoldBuffersOfTheirOwn) {
  Config config;
  config.ports.push_back({.device = "net_memif0", .mtu = 4500});
  config.listeners.push_back({.name = "a"});
  const uint32_t without = plan_buffers(config).packets;
  config.ports[0].device = "0000:3b:00.0";
  EXPECT_EQ(plan_buffers(config).packets, without + 2048);
}

// net_virtio refuses a buffer that does not hold the MTU, an Ethernet header, a VLAN tag and its own header.
TEST(MemoryPlan, BuffersHoldWhatDriversOfNicsReckonWith) {
  constexpr uint32_t kHeadroomBytes = 128;
  for (uint32_t mtu = 1280; mtu <= 9000; ++mtu) {
    ASSERT_GE(packet_data_bytes("0000:3b:00.0", mtu), kHeadroomBytes + mtu + 14 + 4 + 12) << mtu;
  }
}

TEST(ConfigFile, LoadsAndSortsProblemsByLine) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("c.toml");
  std::ofstream(path) << config_reference() + "\n[extra]\n";
  const LoadedConfig loaded = load_config(path);
  EXPECT_FALSE(loaded.ok());
  ASSERT_EQ(loaded.problems.size(), 1u);
  EXPECT_EQ(loaded.problems[0].file, path);
  EXPECT_EQ(loaded.config.ports.size(), 1u);
}

TEST(ConfigFile, WarningsDoNotStopTheStart) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("c.toml");
  std::ofstream(path) << config_reference() + "\n[[backend]]\nname = \"spare\"\naddress = \"127.0.0.1:1\"\n";
  const LoadedConfig loaded = load_config(path);
  EXPECT_TRUE(loaded.ok());
  ASSERT_EQ(loaded.problems.size(), 1u);
}

TEST(ConfigFile, WhatCannotBeReadIsOneProblem) {
  const TemporaryDirectory directory;
  EXPECT_EQ(
      to_string(load_config("/nonexistent/c.toml").problems.at(0)),
      "/nonexistent/c.toml: cannot be read: No such file or directory; name the file with --config, and check its permissions");
  EXPECT_EQ(load_config("/tmp").problems.at(0).message, "is not a file");
  const std::string fifo = directory.file("fifo");
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_EQ(load_config(fifo).problems.at(0).message, "is not a file");
  const std::string big = directory.file("big");
  std::ofstream(big) << std::string((1 << 20) + 1, '#');
  EXPECT_EQ(load_config(big).problems.at(0).message, "is longer than 1 MiB");
}

TEST(Suggest, CountsEditsAndSwaps) {
  EXPECT_EQ(edit_distance("", ""), 0u);
  EXPECT_EQ(edit_distance("port", "port"), 0u);
  EXPECT_EQ(edit_distance("prot", "port"), 1u);
  EXPECT_EQ(edit_distance("pot", "port"), 1u);
  EXPECT_EQ(edit_distance("ports", "port"), 1u);
  EXPECT_EQ(edit_distance("abc", "xyz"), 3u);
}

TEST(Suggest, OffersOnlyWhatIsNear) {
  const std::vector<std::string> known = {"port", "name", "credits"};
  EXPECT_EQ(nearest("prot", known), "port");
  EXPECT_EQ(nearest("credit", known), "credits");
  EXPECT_FALSE(nearest("x", known));
  EXPECT_FALSE(nearest(std::string(100'000, 'p'), known));
}

}  // namespace
}  // namespace cw::control
