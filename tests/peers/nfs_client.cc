// causeway-nfs-client: NFSv3 and NFSv4.1 over our own client endpoint, against any NFS/RDMA server, in every chunk shape.
//
// With --cut it does something else: calls that must not be done twice, the connection cut behind each (exactly_once.h).
//
// For each kind of connection and each version of NFS it opens a connection, works through the Suite and says `ok SHAPE` or
// `FAIL SHAPE: expected ..., got ...`. Exit status: 0 all shapes were right, 1 not, 2 wrong usage.
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>
#include <CLI/CLI.hpp>

#include <cstdio>
#include <memory>
#include <optional>

#include "apps/load/link_options.h"
#include "apps/nfs/exactly_once.h"
#include "apps/nfs/live_caller.h"
#include "apps/nfs/mount3.h"
#include "apps/nfs/suite.h"
#include "control/config/config.h"

namespace cw::nfs {
namespace {

constexpr int kExitUsage = 2;
constexpr uint32_t kCallsMax = 128;

constexpr Profile kProfiles[] = {
    {.name = "whole"},
    {.name = "segments", .remote_invalidate = false, .segment_bytes = 4001},
    {.name = "pieces", .segment_bytes = 333},
    {.name = "small", .inline_bytes = 1024},
    {.name = "silent", .silent = true},
};

struct Settings {
  test::LinkOptions link;
  std::string server;
  uint16_t port = 20049;
  std::string mountd;
  uint16_t mountd_port = 12050;
  std::string export_path = "/";
  std::vector<std::string> versions = {"3", "4.1"};
  std::vector<std::string> profiles;
  std::string filter;
  std::string directory = "causeway";
  bool keep = false;
  uint32_t cut = 0;
  bool quick = false;
  bool knfsd = false;
  bool svcrdma = false;
};

LiveCaller* interruptible = nullptr;

int fail(const std::string& sentence) {
  fmt::print(stderr, "causeway-nfs-client: {}\n", sentence);
  return 1;
}

// One connection, one version. What goes wrong outside of a shape counts as a shape of its own.
void work(const Settings& settings, const Profile& profile, Version& version, LiveCaller& caller, Report& report) {
  const std::string directory = fmt::format("{}-{}-{}", settings.directory, version.name(), profile.name);
  std::string trouble = caller.connect(*parse_ip(settings.server), settings.port, profile);
  report.begin(fmt::format("{}/{}", version.name(), profile.name),
               [&] { return caller.is_connected() ? std::string() : "connection " + caller.ending(); });
  if (trouble.empty()) {
    trouble = version.begin(caller);
  }
  Limits limits;
  limits.inline_bytes = std::min(caller.thresholds().send_bytes, caller.thresholds().receive_bytes);
  limits.segment_bytes = profile.segment_bytes;
  limits.quick = settings.quick;
  limits.is_svcrdma = settings.svcrdma;
  limits.is_knfsd = settings.knfsd || settings.svcrdma;
  Suite suite(report, caller, version, limits);
  if (trouble.empty()) {
    trouble = suite.prepare(directory);
  }
  report.shape("connection", [&] { return trouble; });
  if (!trouble.empty()) {
    caller.disconnect();
    return;
  }
  suite.run();
  report.shape("credits/kept", [&]() -> std::string {
    const bool kept = caller.credits() > 0 && caller.in_flight_max() > 1 && caller.in_flight_max() <= kCallsMax;
    return kept ? ""
                : expected("several calls at once", fmt::format("{} with {} credits", caller.in_flight_max(), caller.credits()));
  });
  report.shape("invalidation", [&]() -> std::string {
    const uint64_t count = caller.stats().remote_invalidations;
    if (caller.thresholds().remote_invalidation) {
      return count > 0 ? "" : expected("SEND with Invalidate, which both sides offer", "none");
    }
    // knfsd invalidates for a client that offers it, without having said so itself.
    const bool offered = profile.remote_invalidate && !profile.silent;
    return count == 0 || offered ? "" : expected("no SEND with Invalidate", fmt::format("{}", count));
  });
  if (!settings.keep) {
    suite.clean_up(directory);
  }
  version.end(caller);
  fmt::print("# {}/{}: inline {}/{}, {} credits, {} at once, {} invalidations, {} bad replies\n", version.name(), profile.name,
             caller.thresholds().send_bytes, caller.thresholds().receive_bytes, caller.credits(), caller.in_flight_max(),
             caller.stats().remote_invalidations, caller.stats().bad_replies);
  caller.disconnect();
}

int cut(const Settings& settings, const ByteVector& root, LiveCaller& caller, RandomSource& random) {
  // A server may drop a call that it is not quite done with (Ganesha: repeated within some 100 us of the reply). Linux waits
  // 60 s then; it has to be longer than the gateway waits for that call, 10 s.
  const Profile profile{.name = "cut", .call_timeout = Duration::seconds(13)};
  const auto connect = [&] { return caller.connect(*parse_ip(settings.server), settings.port, profile); };
  ExactlyOnceCounts counts;
  const std::string trouble = ExactlyOnce(caller, root, connect, random).run(settings.directory + "-cut", settings.cut, counts);
  fmt::print("{} calls repeated on a new connection, {} answered otherwise than the first time, {} not answered\n", counts.calls,
             counts.wrong, counts.unanswered);
  if (!trouble.empty()) {
    fmt::print("FAIL cut: {}\n", trouble);
  } else if (counts.wrong > 0) {
    fmt::print("FAIL cut: {} of {} calls, first {}\n", counts.wrong, counts.calls, counts.first_wrong);
  }
  return trouble.empty() && counts.wrong == 0 ? 0 : 1;
}

bool wanted(const std::vector<std::string>& names, const std::string& name) {
  return names.empty() || std::find(names.begin(), names.end(), name) != names.end();
}

int run(const Settings& settings) {
  std::string error;
  ByteVector root;
  if (wanted(settings.versions, "3")) {
    root = mount3(settings.mountd.empty() ? settings.server : settings.mountd, settings.mountd_port, settings.export_path, error);
    if (root.empty()) {
      return fail(error);
    }
  }
  std::unique_ptr<dataplane::HeapPools> heap;
  std::unique_ptr<dataplane::OnePort> port;
  std::optional<client::ClientWire> wire;
  if (settings.link.has_heap()) {
    heap = test::open_heap(settings.link, error);
    if (heap == nullptr) {
      return fail(error);
    }
  }
  if (settings.link.wire == client::Wire::kVerbs) {
    wire.emplace(*heap,
                 client::VerbsClientOptions{.connections_max = 16, .window = kCallsMax, .device = settings.link.port.device},
                 8 * kCallsMax);
  } else if (settings.link.wire == client::Wire::kIwarp) {
    wire.emplace(*heap, client::IwarpClientOptions{.connections_max = 16, .calls_max = kCallsMax, .crc = settings.link.crc},
                 8 * kCallsMax);
  } else {
    port = dataplane::OnePort::open(settings.link.port, error);
    if (port == nullptr) {
      return fail(error);
    }
    const control::IpPrefix own = settings.link.own();
    node::NodeOptions options = port->node_options(own.address, own.length_bits);
    options.endpoint.qp_max = 16;
    options.endpoint.read_replay_max = 16;
    options.endpoint.send_work_max = 4096;
    options.endpoint.receive_work_max = 4096;
    wire.emplace(*port, options, 8 * kCallsMax);
  }
  LiveCaller caller(*wire, control::path_mtu_for(settings.link.port.mtu, 4096), kCallsMax);
  interruptible = &caller;
  wire->announce();
  if (settings.cut > 0) {
    return cut(settings, root, caller, wire->random());
  }
  Report report(settings.filter);
  for (const Profile& profile : kProfiles) {
    if (!wanted(settings.profiles, profile.name)) {
      continue;
    }
    if (wanted(settings.versions, "3")) {
      work(settings, profile, *make_nfs3(root), caller, report);
    }
    if (wanted(settings.versions, "4.1")) {
      work(settings, profile, *make_nfs41(fmt::format("causeway-nfs-client {} {}", getpid(), profile.name)), caller, report);
    }
  }
  fmt::print("{} ok, {} failed\n", report.passed(), report.failed());
  interruptible = nullptr;
  return report.failed() == 0 && report.passed() > 0 ? 0 : 1;
}

int parse_and_run(int argc, char** argv) {
  Settings settings;
  settings.link.port.instance = "nfs";
  CLI::App cli(
      "causeway-nfs-client: tries every chunk shape of RPC-over-RDMA on an NFS/RDMA server, with NFSv3 and NFSv4.1.\n"
      "Works below one directory of the export's root, and removes it.");
  test::add_wire_options(cli, settings.link);
  cli.add_option("-s,--server", settings.server, "the server's RDMA address")->required()->check(test::address_problem);
  cli.add_option("-p,--port", settings.port, "its RDMA port; iWARP: its TCP port")->capture_default_str();
  cli.add_option("--mountd", settings.mountd, "address of mountd, over the kernel's TCP; default: the server's")
      ->check(test::address_problem);
  cli.add_option("--mountd-port", settings.mountd_port, "TCP port of mountd")->capture_default_str();
  cli.add_option("--export", settings.export_path, "what to ask mountd for; NFSv4.1 works in the server's root")
      ->capture_default_str();
  cli.add_option("--nfs", settings.versions, "versions of NFS")->capture_default_str()->check(CLI::IsMember({"3", "4.1"}));
  cli.add_option("--connection", settings.profiles,
                 "kinds of connection; default all. whole: 4096 bytes inline, a segment per chunk. "
                 "segments: of 4001 bytes, without remote invalidation. pieces: segments of 333 bytes. small: 1024 bytes inline. "
                 "silent: no private data")
      ->check(CLI::IsMember({"whole", "segments", "pieces", "small", "silent"}));
  cli.add_option("-k", settings.filter, "only shapes whose name contains this");
  cli.add_option("--directory", settings.directory, "name of the directory, the connection's name appended")
      ->capture_default_str();
  cli.add_flag("--keep", settings.keep, "leave the files there: NAME-N holds N bytes of the pattern that starts at N");
  cli.add_option("--cut", settings.cut,
                 "in place of the shapes: so many NFSv3 calls that must not be done twice, "
                 "each with the connection cut before the reply is used, and repeated under its XID on a new one");
  cli.add_flag("--quick", settings.quick, "fewer lengths");
  cli.add_flag("--knfsd", settings.knfsd, "the file server is a Linux kernel: leave out what it is known not to take (suite.h)");
  cli.add_flag("--svcrdma", settings.svcrdma, "the same of the kernel's NFS/RDMA server; implies --knfsd");
  cli.footer(
      "Prints `ok SHAPE` or `FAIL SHAPE: expected ..., got ...` for each, and counts.\n"
      "Exit status: 0 all shapes were right, 1 not, or the server was not reached, 2 wrong usage.");
  try {
    cli.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return cli.exit(error) == 0 ? 0 : kExitUsage;
  }
  if (const std::string problem = test::link_problem(cli, settings.link); !problem.empty()) {
    (void)fail(problem);
    return kExitUsage;
  }
  const auto interrupt = [](int) {
    if (interruptible != nullptr) {
      interruptible->interrupt();
    }
  };
  signal(SIGINT, interrupt);
  signal(SIGTERM, interrupt);
  return run(settings);
}

}  // namespace
}  // namespace cw::nfs

int main(int argc, char** argv) {
  return cw::nfs::parse_and_run(argc, argv);
}
