#include "apps/load/load_command.h"

#include <fmt/format.h>
#include <signal.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "apps/load/amount.h"
#include "apps/load/load_session.h"
#include "apps/load/scenario.h"
#include "apps/load/scenario_list.h"
#include "rocev2/rc/rc_options.h"

namespace cw::load {
namespace {

constexpr int kExitUsage = 2;
constexpr size_t kTitleMax = 60;

std::atomic<bool> interrupted{false};

int wrong_usage(const std::string& sentence) {
  fmt::print(stderr, "causeway-load: {}\nRun with --help for more information.\n", sentence);
  return kExitUsage;
}

class Command {
 public:
  explicit Command(const LinkFaultOptions& faults) { session_.terminal.load.faults = faults; }
  int run(int argc, char** argv) {
    if (const int status = read_scenario(argc, argv); status != 0) {
      return status;
    }
    CLI::App cli(
        "causeway-load: loads the bench program of a causewayd, or an NFSv3 export behind it, over RoCEv2, iWARP or rdma-core, "
        "checks every answer and measures.\n"
        "Without --rate a closed loop: each connection keeps its window full. "
        "With it an open loop, free of coordinated omission.");
    add_options(cli);
    try {
      cli.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
      return cli.exit(error) == 0 ? 0 : kExitUsage;
    }
    if (const std::string problem = settle(cli); !problem.empty()) {
      return wrong_usage(problem);
    }
    if (const std::string problem = unwritable_output(session_.terminal.output); !problem.empty()) {
      fmt::print(stderr, "causeway-load: {}\n", problem);
      return 1;
    }
    signal(SIGINT, [](int) { interrupted = true; });
    signal(SIGTERM, [](int) { interrupted = true; });
    return run_session(session_, interrupted);
  }

 private:
  // The file comes first, whatever the order of the words: options override it.
  int read_scenario(int argc, char** argv) {
    std::string name;
    CLI::App first;
    first.set_help_flag();
    first.allow_extras();
    first.add_option("--scenario", name);
    first.add_flag("--list", list_);
    try {
      first.parse(argc, argv);
    } catch (const CLI::ParseError&) {
      return 0;  // whatever is wrong: the full parser says it
    }
    if (list_) {
      std::exit(list_scenarios());
    }
    if (name.empty()) {
      return 0;
    }
    scenario_ = scenario_path(name);
    Scenario scenario = load_scenario(scenario_);
    if (!scenario.ok()) {
      for (const control::Problem& problem : scenario.problems) {
        fmt::print(stderr, "{}\n", control::to_string(problem));
      }
      return wrong_usage(fmt::format("the scenario {} cannot be used", scenario_));
    }
    session_.terminal.load = scenario.settings;
    session_.terminal.description = scenario.description;
    return 0;
  }

  void add_options(CLI::App& cli) {
    cli.set_version_flag("-V,--version", "causeway-load " CAUSEWAY_VERSION);
    session_.link.port.instance = "load";
    test::add_wire_options(cli, session_.link, test::LinkCount::kOnePerThread);
    TerminalSettings& terminal = session_.terminal;
    cli.add_option("-s,--server", terminal.server, "the gateway's RDMA address")->required()->check([](const std::string& text) {
      return test::address_problem(text_for_thread(text, 0));
    });
    cli.add_option("-p,--port", terminal.service_port, "RDMA port of the listener; iWARP: its TCP port")->capture_default_str();
    cli.add_option("--threads", terminal.threads,
                   "poll cores, each with a link of its own and a share of the connections and rates: '{}' in --device, "
                   "--address and --server stands for the number of the thread, 0, 1, ..., and CPUs follow --lcore")
        ->capture_default_str()
        ->check(CLI::Range(1, 64));
    cli.add_option("--gateway", session_.next_hop, "next hop when the server is on another network")
        ->check(test::address_problem);
    cli.add_option("--scenario", scenario_, "settings from a file, or by its name from deploy/load; options override them");
    cli.add_flag("--list", list_, "show the scenarios there are, and what a scenario file may set");
    add_call_options(cli);
    add_connection_options(cli);
    add_fault_options(cli);
    add_nfs_options(cli);
    add_output_options(cli);
    cli.footer(
        "Examples (LINK: --device, --address and --mtu as deploy/quickstart.sh --keep prints them):\n"
        "  causeway-load LINK --server 10.9.0.1                                 how many calls are possible\n"
        "  causeway-load --transport iwarp --server 192.0.2.9                   the same over iWARP: no DPDK, no root\n"
        "  causeway-load --transport verbs --device rxe0 --server 192.0.2.9     the same by an RDMA device of this host\n"
        "  causeway-load LINK --server 10.9.0.1 --rate 2k --op echo -b 4k       how long 2000 users a second wait\n"
        "  causeway-load LINK --server 10.9.0.1 --scenario mixed --html r.html  a scenario, and a page with charts\n"
        "  causeway-load --threads 2 --device net_memif{},role=client,socket=/run/cw{}.sock,socket-abstract=no --mtu 4500\n"
        "    --address 10.9.{}.2/24 --server 10.9.{}.1 --connections 16         "
        "from two cores, to a gateway with two such ports\n"
        "  causeway-load LINK --server 10.9.0.1 --mix getattr:6,read/64k:3,write/64k:1 --mountd 192.0.2.5 --export /data\n"
        "\n"
        "causeway-load pktgen writes captures for packet generators: see causeway-load pktgen --help.\n"
        "Profiles change over time: '1k, 10s:20k' in a straight line from 1000 to 20000 at 10 s, '1k, 10s=20k' by a jump.\n"
        "Latency is counted from the instant at which a call was due (open loop) or sent (closed loop); a percentile is within\n"
        "0.8 % of the truth, from 256 ns to 68 s.\n"
        "Exit status: 0 all answers were right, 1 not, or no measurement came about, 2 wrong usage.");
  }

  void add_call_options(CLI::App& cli) {
    LoadSettings& load = session_.terminal.load;
    const char* group = "Calls";
    cli.add_option("-o,--op", operation_,
                   "null, echo, source (server sends), sink (server receives) or callback (server calls back); "
                   "with NFS null, getattr, read or write")
        ->default_str("echo")
        ->check(CLI::IsMember({"null", "echo", "source", "sink", "callback", "getattr", "read", "write"}))
        ->group(group);
    cli.add_option("-b,--bytes", bytes_, "data per call: 512, 64k, up to 4m")->default_str("0")->group(group);
    cli.add_option("--mix", load.mix,
                   "several kinds in place of these, with weights: 'null:50,echo/512:30,source/64k:15,sink/1m:5'")
        ->group(group);
    cli.add_option("--rate", load.rate, "open loop: calls per second over all connections, or a profile ('1k, 10s:20k')")
        ->group(group);
    cli.add_flag("--closed", closed_, "closed loop, though the scenario has a rate")->group(group);
    cli.add_option_function<std::string>(
           "--arrivals",
           [&load](const std::string& name) { load.arrivals = name == "constant" ? Arrivals::kConstant : Arrivals::kPoisson; },
           "open loop: constant or poisson (the default)")
        ->check(CLI::IsMember({"constant", "poisson"}))
        ->group(group);
    cli.add_option("--burst", load.burst, "open loop: calls that are due at once")
        ->capture_default_str()
        ->check(CLI::Range(1, 100'000))
        ->group(group);
    cli.add_option("--queue", load.queue, "open loop: due calls that may wait; more are dropped, and reported")
        ->capture_default_str()
        ->check(CLI::Range(1u, 16u << 20))
        ->group(group);
    cli.add_option("-t,--seconds", load.seconds, "seconds to measure")
        ->capture_default_str()
        ->check(CLI::Range(1, 604'800))
        ->group(group);
    cli.add_option("--warmup", load.warmup_seconds, "seconds before; none when a profile changes over time")
        ->capture_default_str()
        ->check(CLI::Range(0, 3600))
        ->group(group);
    cli.add_option("--verify-every", load.verify_every, "check the data of each n-th answer in full, 0: of none")
        ->capture_default_str()
        ->check(CLI::Range(0u, 1u << 30))
        ->group(group);
  }

  void add_connection_options(CLI::App& cli) {
    LoadSettings& load = session_.terminal.load;
    const char* group = "Connections";
    cli.add_option("-n,--connections", load.connections, "connections, or a profile over time ('4, 10s:64')")
        ->capture_default_str()
        ->group(group);
    cli.add_option("-w,--window", load.window, "calls in flight per connection")
        ->capture_default_str()
        ->check(CLI::Range(1, 1024))
        ->group(group);
    cli.add_option("--churn", load.churn,
                   "connections per second that are closed, when their calls are answered, and opened again")
        ->capture_default_str()
        ->group(group);
    cli.add_option("--inline", load.inline_bytes, "inline size offered")
        ->capture_default_str()
        ->check(CLI::Range(1024, 65536))
        ->group(group);
    cli.add_option("--path-mtu", load.path_mtu_max, "largest RoCE path MTU, also when the port's would do for more")
        ->capture_default_str()
        ->check(CLI::IsMember({256, 512, 1024, 2048, 4096}))
        ->group(group);
    cli.add_option(
           "--ack-timeout", load.ack_timeout,
           "of RoCE, as an exponent: 14 is 67 ms, 19 is 2.1 s, as Linux clients have it. A connection ends after seven of them")
        ->capture_default_str()
        ->check(CLI::Range(uint32_t{rc::kAckTimeoutMin}, uint32_t{rc::kAckTimeoutMax}))
        ->group(group);
    cli.add_flag("--reconnect", load.reconnect,
                 "open lost and refused connections again and send the calls lost with them again under their XIDs, "
                 "and open a memif link when its server is back; without it, a refused connection ends the run at once")
        ->group(group);
    cli.add_flag("--spin", load.spin, "never sleep when idle")->group(group);
  }

  void add_fault_options(CLI::App& cli) {
    LinkFaultOptions& faults = session_.terminal.load.faults;
    const auto permille = [&](const char* name, uint32_t& out, const char* help) {
      cli.add_option(name, out, help)
          ->capture_default_str()
          ->check(CLI::Range(0, 1000))
          ->group("Faults of the link, on our side");
    };
    const auto microseconds = [&](const char* name, uint32_t& out, const char* help) {
      cli.add_option(name, out, help)
          ->capture_default_str()
          ->check(CLI::Range(0, 10'000'000))
          ->group("Faults of the link, on our side");
    };
    permille("--loss", faults.loss_permille, "frames lost, permille");
    permille("--duplicate", faults.duplicate_permille, "frames doubled, permille");
    permille("--reorder", faults.reorder_permille, "frames overtaken by later ones, permille");
    microseconds("--reorder-us", faults.reorder_us, "by up to so much");
    permille("--corrupt", faults.corrupt_permille, "frames with a bit flipped, permille");
    microseconds("--delay-us", faults.delay_us, "a longer way for all frames");
    microseconds("--jitter-us", faults.jitter_us, "on top, at random, up to this");
    cli.add_option_function<std::string>(
           "--fault-direction",
           [&faults](const std::string& name) {
             faults.direction = name == "out" ? FaultDirection::kOut : name == "in" ? FaultDirection::kIn : FaultDirection::kBoth;
           },
           "both (the default), out (what we send) or in")
        ->check(CLI::IsMember({"both", "out", "in"}))
        ->group("Faults of the link, on our side");
  }

  void add_nfs_options(CLI::App& cli) {
    NfsSettings& nfs = session_.terminal.load.nfs;
    const char* group = "NFSv3 (calls getattr, read, write)";
    cli.add_option("--mountd", session_.nfs.mountd, "address of mountd, over the kernel's TCP; default: the server's")
        ->check(test::address_problem)
        ->group(group);
    cli.add_option("--mountd-port", session_.nfs.mountd_port, "TCP port of mountd")->capture_default_str()->group(group);
    cli.add_option("--export", session_.nfs.export_path, "what to ask mountd for")->capture_default_str()->group(group);
    cli.add_option("--directory", session_.nfs.directory, "made in the export, the process id appended, and removed")
        ->capture_default_str()
        ->group(group);
    cli.add_option("--files", nfs.files, "files that the load works on")
        ->capture_default_str()
        ->check(CLI::Range(1, 4096))
        ->group(group);
    cli.add_option("--file-size", nfs.file_size, "bytes of each")->capture_default_str()->group(group);
    cli.add_flag("--sequential", nfs.sequential, "one block after the other, else anywhere")->group(group);
    cli.add_flag("--stable", nfs.stable, "WRITE with FILE_SYNC, else UNSTABLE")->group(group);
  }

  void add_output_options(CLI::App& cli) {
    OutputSettings& output = session_.terminal.output;
    const char* group = "Output";
    cli.add_option("--json", output.json, "also write the result as JSON to this file ('-' = stdout)")->group(group);
    cli.add_option("--csv", output.csv, "a line per interval, to this file ('-' = stdout)")->group(group);
    cli.add_option("--html", output.html, "a report with charts that opens offline, to this file")->group(group);
    cli.add_option("--interval-ms", output.interval_ms, "length of an interval")
        ->capture_default_str()
        ->check(CLI::Range(50, 60'000))
        ->group(group);
    cli.add_flag("--plain", output.plain, "lines of progress, though stdout is a terminal")->group(group);
  }

  // What the options mean together. Empty, or what is wrong.
  std::string settle(const CLI::App& cli) {
    TerminalSettings& terminal = session_.terminal;
    const bool one_kind = cli.count("--op") + cli.count("--bytes") > 0;
    if (one_kind && cli.count("--mix") > 0) {
      return "--mix: says kinds and sizes itself; leave out --op and --bytes";
    }
    if (closed_ && cli.count("--rate") > 0) {
      return "--rate: makes an open loop; leave out --closed";
    }
    if (closed_) {
      terminal.load.rate.clear();
    }
    if (const auto bytes = parse_bytes(bytes_); !bytes || *bytes > CallMix::kBytesMax) {
      return fmt::format("--bytes: '{}' is not a size of up to 4m", bytes_);
    }
    if (one_kind) {
      const bool has_data = operation_ != "null" && operation_ != "getattr";
      terminal.load.mix = has_data ? fmt::format("{}/{}", operation_, bytes_) : operation_;
    }
    std::vector<SettingProblem> problems;
    terminal.plan = plan_load(terminal.load, problems);
    if (!problems.empty()) {
      std::string name = problems.front().key.substr(problems.front().key.find('.') + 1);
      std::replace(name.begin(), name.end(), '_', '-');
      return fmt::format("--{}: {}", name, problems.front().message);
    }
    if (std::string problem = wire_problem(cli); !problem.empty()) {
      return problem;
    }
    terminal.wire = session_.link.wire;
    if (const std::string problem = thread_problem(); !problem.empty()) {
      return "--threads: " + problem;
    }
    if (terminal.load.title.empty()) {
      const auto entries = terminal.plan.mix.entries();
      terminal.title = entries.size() == 1 ? to_string(entries[0]) : terminal.load.mix;
      if (terminal.title.size() > kTitleMax) {
        terminal.title = fmt::format("mix of {} kinds of call", entries.size());
      }
    } else {
      terminal.title = terminal.load.title;
    }
    return {};
  }

  [[nodiscard]] std::string wire_problem(const CLI::App& cli) const {
    if (std::string problem = test::link_problem(cli, session_.link); !problem.empty() || !session_.link.has_heap()) {
      return problem;
    }
    for (const char* name : {"--gateway", "--path-mtu", "--ack-timeout"}) {
      if (cli.count(name) > 0) {
        return fmt::format("{}: belongs to RoCE; with --transport {} the kernel's routes and {} decide, so leave it out", name,
                           client::to_string(session_.link.wire),
                           session_.link.wire == client::Wire::kIwarp ? "TCP" : "the RDMA device");
      }
    }
    if (session_.terminal.load.faults.any()) {
      return fmt::format(
          "--transport {}: faults of the link are made in a DPDK port, and there is none; "
          "use tc and netem on the interface, or leave out --loss, --delay-us and the like (in a scenario: [faults])",
          client::to_string(session_.link.wire));
    }
    return {};
  }

  [[nodiscard]] std::string thread_problem() const {
    const TerminalSettings& terminal = session_.terminal;
    if (terminal.threads == 1) {
      return {};
    }
    if (terminal.plan.mix.has_nfs()) {
      return "calls of NFS come from one thread; leave it out";
    }
    if (terminal.plan.connections_max < terminal.threads) {
      return fmt::format("{} threads need as many connections, and there are {}: see --connections", terminal.threads,
                         terminal.plan.connections_max);
    }
    for (const std::string& text : {session_.link.port.device, session_.link.address}) {
      if (!session_.link.has_heap() && text.find("{}") == std::string::npos) {
        return fmt::format("'{}' would be the same for all; put '{{}}' where the number of the thread belongs", text);
      }
    }
    return {};
  }

  SessionSettings session_;
  std::string scenario_;
  bool list_ = false;
  bool closed_ = false;
  std::string operation_ = "echo";
  std::string bytes_ = "0";
};

}  // namespace

int run_load_command(int argc, char** argv, const LinkFaultOptions& faults) {
  return Command(faults).run(argc, argv);
}

}  // namespace cw::load
