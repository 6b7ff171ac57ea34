#include "apps/sim/sim_command.h"

#include <CLI/CLI.hpp>
#include <map>
#include <string>

namespace cw::sim {
namespace {

void add_script_options(CLI::App& app, ScriptWork& work) {
  // CLI11 would print the bytes of an enumeration in the help.
  const std::map<std::string, StreamKind> works{
      {"send", StreamKind::kSend}, {"write", StreamKind::kWrite}, {"read", StreamKind::kRead}};
  const std::map<std::string, PeerKind> peers{{"standard", PeerKind::kStandard}, {"causeway", PeerKind::kCauseway}};
  app.add_option_function<std::string>(
         "--work", [&work, works](const std::string& name) { work.work = works.at(name); },
         "of --script: what each connection does")
      ->check(CLI::IsMember({"send", "write", "read"}));
  app.add_option_function<std::string>(
         "--peer", [&work, peers](const std::string& name) { work.peer = peers.at(name); }, "of --script: whom it talks to")
      ->check(CLI::IsMember({"standard", "causeway"}));
  app.add_option("--size", work.message_bytes, "of --script: bytes of a message")
      ->check(CLI::Range(1u, ScriptWork::kMessageBytesMax))
      ->capture_default_str();
  app.add_option("--mtu", work.mtu_bytes, "of --script: payload bytes of a packet")
      ->check(CLI::IsMember({256u, 512u, 1024u, 2048u, 4096u}))
      ->capture_default_str();
  app.add_option("--qps", work.qps, "of --script: connections")->check(CLI::Range(1u, ScriptWork::kQpMax))->capture_default_str();
}

}  // namespace

std::optional<int> parse_command(int argc, char** argv, SimSettings& settings) {
  CLI::App app{
      "Runs gateways and clients of Causeway in memory, under a simulated clock and faults drawn from a seed,\n"
      "and checks that no call is lost, doubled or damaged, that nothing leaks and that everything ends.\n"
      "\n"
      "  causeway-sim --seed 7                 one run; the same trace hash every time, on every machine\n"
      "  causeway-sim --seed 1 --seeds 2000    a sweep; exit status 1 if a seed failed\n"
      "  causeway-sim --seed 7 --scenario      what seed 7 is made of\n"
      "  causeway-sim --seed 7 --pcap 7.pcap   every frame that arrived, for Wireshark\n"
      "  causeway-sim --boundary               disconnects and kills at every packet of a small run\n"
      "  causeway-sim --script 'qp 0 out psn +40 #1 drop' --work write --peer standard",
      "causeway-sim"};
  app.set_version_flag("--version", CAUSEWAY_VERSION);
  app.add_option("--seed", settings.seed, "the run, or the first run of a sweep")->capture_default_str();
  app.add_option("--seeds", settings.seeds, "so many runs, with consecutive seeds")->capture_default_str();
  app.add_option_function<std::string>(
         "--wires",
         [&settings](const std::string& name) {
           settings.variant.wires = name == "roce" ? Wires::kRoce : name == "iwarp" ? Wires::kIwarp : Wires::kBoth;
         },
         "what clients connect over, of a run, a sweep or --boundary: roce, iwarp, or both to one gateway (roce)")
      ->check(CLI::IsMember({"roce", "iwarp", "both"}));
  app.add_flag_callback(
      "--no-express", [&settings] { settings.variant.express = false; },
      "all hosts take the general paths alone; the hash must be the same");
  app.add_option("--jobs", settings.jobs, "threads of a sweep; the result does not depend on it")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  app.add_option("--keep", settings.keep, "only these faults of the seed, as the shrinker prints them: 3,5/4 or none");
  app.add_option("--pcap", settings.pcap, "write every frame that arrives to a capture file (one run)");
  app.add_option("--trace", settings.trace, "write one line per event to a file, or - for standard output (one run)");
  app.add_option("--boundary-at", settings.boundary_at, "one run of --boundary, as it prints them: tcp:kill_gateway:17");
  app.add_flag("--scenario", settings.scenario, "print what the seed is made of, and run nothing");
  app.add_flag("--boundary", settings.boundary, "break something at every packet, or at every byte of a stream, of a small run");
  app.add_option("--step", settings.boundary_step, "of --boundary: only one of so many places, the first included")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_flag("--goodput", settings.goodput, "measure goodput of one connection by loss rate and window");
  app.add_option("--goodput-check", settings.goodput_check,
                 "the same, compared with a golden table; exit status 1 if it differs");
  app.add_option(
      "--isolation", settings.isolation,
      "rates and waits of honest clients beside a kind of hostile peers, or beside each (all); exit status 1 if one suffers");
  app.add_flag("--goodput-reorder", settings.reorder, "measure goodput of one connection by what disorders its packets");
  app.add_option("--goodput-reorder-check", settings.reorder_check,
                 "the same, compared with a golden table; exit status 1 if it differs");
  app.add_option("--script", settings.script,
                 "a little work under a fault script, what each event cost, and the counters beside the wire; exit status 1 if\n"
                 "it did not end well: 'qp 0 out psn +40 #1 drop; qp 0 in ack +47 behind 3' (apps/sim/link/script.h)");
  add_script_options(app, settings.script_work);
  app.add_flag("--no-shrink", settings.no_shrink, "do not look for the smallest list of faults that still fails");
  app.add_flag("--coverage", settings.coverage, "list every event of the protocols and how often it was seen");
  app.add_flag("--json", settings.json, "print the report as JSON");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& wrong) {
    return app.exit(wrong);
  }
  return std::nullopt;
}

}  // namespace cw::sim
