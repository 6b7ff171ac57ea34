// Every command of causewayctl, one row each.
#include <array>

#include "control/ctl/command.h"
#include "control/ctl/render.h"
#include "control/ctl/render_control.h"
#include "control/ctl/run_capture.h"
#include "control/ctl/run_config.h"
#include "control/ctl/run_doctor.h"
#include "control/ctl/run_drain.h"
#include "control/ctl/run_manual.h"
#include "control/ctl/run_ping.h"
#include "control/ctl/run_report.h"
#include "control/ctl/run_restart.h"
#include "control/ctl/run_top.h"

namespace cw::control {
namespace {

using Use = ParameterUse;
using Kind = ValueKind;

constexpr std::array kConnectionStates = {"opening-backend", "accepting", "established"};
constexpr std::array kQpStates = {"RESET", "INIT", "RTR", "RTS", "SQD", "ERROR"};
constexpr std::array kBackendTypes = {"tcp", "builtin"};

constexpr Parameter filter(const char* keyword, const char* value, Kind kind, const char* field, const char* help,
                           std::span<const char* const> choices = {}) {
  return {keyword, value, Use::kFilter, kind, help, field, choices};
}

constexpr std::array kConnectionFilters = {
    filter("client", "NETWORK", Kind::kNetwork, "peer_address", "Connections of this address or prefix"),
    filter("section", "NAME", Kind::kText, "section", "Connections that count in the budget of this [[client]] section"),
    filter("listener", "NAME", Kind::kText, "listener", "Connections of this listener"),
    filter("state", "STATE", Kind::kChoice, "state", "Connections in this state", kConnectionStates),
    filter("id", "NUMBER", Kind::kNumber, "id", "The connection with this id"),
    filter("lqpn", "QPN", Kind::kNumber, "local_qpn", "The connection of this queue pair of ours"),
    filter("rqpn", "QPN", Kind::kNumber, "remote_qpn", "Connections of queue pairs with this number at the client"),
    filter("lcore", "CPU", Kind::kNumber, "lcore", "Connections of the poll core on this CPU"),
};
constexpr std::array kQpFilters = {
    filter("lqpn", "QPN", Kind::kNumber, "local_qpn", "The queue pair with this number"),
    filter("rqpn", "QPN", Kind::kNumber, "remote_qpn", "Queue pairs whose peer has this number"),
    filter("client", "NETWORK", Kind::kNetwork, "peer_address", "Queue pairs to this address or prefix"),
    filter("listener", "NAME", Kind::kText, "listener", "Queue pairs of this listener"),
    filter("state", "STATE", Kind::kChoice, "state", "Queue pairs in this state", kQpStates),
    filter("connection", "NUMBER", Kind::kNumber, "connection", "The queue pair of the connection with this id"),
    filter("lcore", "CPU", Kind::kNumber, "lcore", "Queue pairs of the poll core on this CPU"),
};
constexpr std::array kTopRows = {"client", "section"};
constexpr std::array kTopOrders = {"calls", "bytes", "time", "errors"};
constexpr std::array kTopParameters = {
    filter("client", "NETWORK", Kind::kNetwork, "client", "Clients with this address or prefix"),
    filter("section", "NAME", Kind::kText, "section", "Clients of this [[client]] section"),
    Parameter{"by", "WHAT", Use::kArgument, Kind::kChoice, "A line for each of these (default: client)", nullptr, kTopRows},
    Parameter{"sort", "ORDER", Use::kArgument, Kind::kChoice, "Most first (default: calls)", nullptr, kTopOrders},
    Parameter{"last", "NUMBER", Use::kArgument, Kind::kNumber, "So many lines at most (default: 20)"},
};
constexpr std::array kTraceParameters = {
    Parameter{"lqpn", "QPN", Use::kArgument, Kind::kNumber, "Of the queue pair with this number, living or gone", "lqpn"},
    Parameter{"event", "NAME", Use::kArgument, Kind::kText, "Of this kind, for example ack_timeout", "event"},
    Parameter{"last", "NUMBER", Use::kArgument, Kind::kNumber, "So many at most (default: 200)", "last"},
};
constexpr std::array kListenerFilters = {
    filter("name", "NAME", Kind::kText, "name", "The listener with this name"),
    filter("port", "NUMBER", Kind::kNumber, "port", "The listener at this RDMA port"),
    filter("backend", "NAME", Kind::kText, "backend", "Listeners of this backend"),
    filter("removed", "yes|no", Kind::kFlag, "removed",
           "Those that a reload has removed and that have connections left, or others"),
};
constexpr std::array kBackendFilters = {
    filter("name", "NAME", Kind::kText, "name", "The backend with this name"),
    filter("type", "TYPE", Kind::kChoice, "type", "Backends of this type", kBackendTypes),
    filter("up", "yes|no", Kind::kFlag, "up", "Backends that are up, or are not"),
};
constexpr std::array kRouteFilters = {
    filter("listener", "NAME", Kind::kText, "listener", "Calls that come in by this listener"),
    filter("program", "NUMBER", Kind::kNumber, "program", "Calls of this RPC program, where it has a [[route]]"),
    filter("backend", "NAME", Kind::kText, "backend", "Calls that go to this backend"),
};
constexpr std::array kClientFilters = {
    filter("name", "NAME", Kind::kText, "name", "The section with this name"),
    filter("client", "NETWORK", Kind::kNetwork, "prefixes", "Sections with a prefix that meets this address or prefix"),
    filter("allow", "yes|no", Kind::kFlag, "allow", "Sections whose clients may connect, or may not"),
};
constexpr std::array kServerFilters = {
    filter("backend", "NAME", Kind::kText, "backend", "Servers of this backend"),
    filter("address", "ADDRESS", Kind::kText, "address", "The server with this address and port"),
    filter("up", "yes|no", Kind::kFlag, "up", "Servers that are up, or are not"),
    filter("preferred", "yes|no", Kind::kFlag, "preferred", "Servers that new connections go to, or do not"),
};
constexpr std::array kPortFilters = {
    filter("device", "NAME", Kind::kText, "device", "The port of this DPDK device"),
    filter("link", "yes|no", Kind::kFlag, "link_up", "Ports whose link is up, or is not"),
};
constexpr std::array kCoreFilters = {
    filter("lcore", "CPU", Kind::kNumber, "lcore", "The poll core on this CPU"),
};
constexpr std::array kStatsParameters = {
    Parameter{"PREFIX", nullptr, Use::kPositional, Kind::kText, "Beginning of the names, for example causeway_roce", "prefix"},
};

constexpr std::array kLogLevels = {"trace", "debug", "info", "warning", "error"};
constexpr std::array kDrainStartParameters = {
    Parameter{"--wait", nullptr, Use::kSwitch, Kind::kText, "Say how far it is until no connection is left"},
    Parameter{"--timeout", "SECONDS", Use::kOption, Kind::kSeconds, "End by force what is left after so long", "timeout_s"},
};
constexpr std::array kLogLevelParameters = {
    Parameter{"LEVEL", nullptr, Use::kPositional, Kind::kChoice, "The least important lines to write", nullptr, kLogLevels},
};
constexpr std::array kConfigShowParameters = {
    Parameter{"PREFIX", nullptr, Use::kPositional, Kind::kText, "Beginning of the keys, for example limits", "prefix"},
};
constexpr std::array kConfigCheckParameters = {
    Parameter{"FILE", nullptr, Use::kPositional, Kind::kFile, "Configuration file", nullptr, {}, true},
};
constexpr std::array kReloadParameters = {
    Parameter{"--dry-run", nullptr, Use::kSwitch, Kind::kText, "Only say what would change; for everybody"},
};

constexpr std::array kPingParameters = {
    Parameter{"BACKEND", nullptr, Use::kPositional, Kind::kText, "Name of a backend; without it, all of them"},
    Parameter{"program", "NUMBER", Use::kArgument, Kind::kNumber, "RPC program to call; else NFS, or bench of built-in ones"},
    Parameter{"version", "NUMBER", Use::kArgument, Kind::kNumber, "Its version; else 4 of NFS, 1 of bench"},
};

constexpr std::array kDoctorParameters = {
    Parameter{"--config", "FILE", Use::kOption, Kind::kFile, "Configuration file (default: /etc/causeway/causeway.toml)"},
};

constexpr std::array kReportParameters = {
    Parameter{"--out", "FILE", Use::kOption, Kind::kFile, "File to make (default: a name with host and time, in this directory)"},
    Parameter{"--config", "FILE", Use::kOption, Kind::kFile, "Configuration file, where the gateway cannot say which"},
};

constexpr std::array kCaptureParameters = {
    Parameter{"FILE", nullptr, Use::kPositional, Kind::kFile, "File to make, on the gateway's host", "file", {}, true},
    Parameter{"client", "NETWORK", Use::kArgument, Kind::kNetwork, "Frames of clients with this address or prefix", "client"},
    Parameter{"lqpn", "QPN", Use::kArgument, Kind::kNumber, "Frames of this queue pair, both ways", "lqpn"},
    Parameter{"snaplen", "BYTES", Use::kArgument, Kind::kNumber, "Copied of each frame (default: 384; 9216 with payload)",
              "snaplen"},
    Parameter{"packets", "NUMBER", Use::kArgument, Kind::kNumber, "End after so many (default: 10000)", "packets"},
    Parameter{"seconds", "NUMBER", Use::kArgument, Kind::kNumber, "End after so long (default: 60)", "seconds"},
    Parameter{"--with-payload", nullptr, Use::kSwitch, Kind::kText, "Keep data and memory handles, which are taken out otherwise",
              "with_payload"},
};
constexpr std::array kPages = {"causewayctl", "causeway.toml"};
constexpr std::array kShells = {"bash", "zsh", "fish"};
constexpr std::array kManualParameters = {
    Parameter{"PAGE", nullptr, Use::kPositional, Kind::kChoice, "Which page", nullptr, kPages, true},
};
constexpr std::array kCompletionParameters = {
    Parameter{"SHELL", nullptr, Use::kPositional, Kind::kChoice, "Of which shell", nullptr, kShells, true},
};

const std::array kCommands = {
    Command{.object = "status",
            .verb = "",
            .help = "Version, uptime, ports, listeners and backends, and what keeps the gateway from being ready.",
            .access = Access::kRead,
            .request = "status",
            .render = render_status},
    Command{.object = "connections",
            .verb = "show",
            .help = "One line per connection: peer, queue pairs, state, credits, traffic, last error.",
            .access = Access::kRead,
            .is_default = true,
            .parameters = kConnectionFilters,
            .request = "connections",
            .rows = "connections",
            .render = render_connections},
    Command{.object = "qp",
            .verb = "show",
            .help = "Transport state of queue pairs: PSNs, window, credits, timers, losses, congestion.",
            .access = Access::kRead,
            .is_default = true,
            .parameters = kQpFilters,
            .request = "queue_pairs",
            .rows = "queue_pairs",
            .render = render_queue_pairs},
    Command{.object = "trace",
            .verb = "show",
            .help = "What happened to queue pairs lately: losses, refusals, waits, ends, with reasons.",
            .access = Access::kRead,
            .is_default = true,
            .parameters = kTraceParameters,
            .request = "transport_events",
            .render = render_transport_events,
            .details = "Always on: each core remembers its last 4096 events, those of queue pairs that are gone too. "
                       "The same event again and again is one line with a count, and SINCE says when it began."},
    Command{.object = "listeners",
            .verb = "show",
            .help = "What clients connect to.",
            .access = Access::kRead,
            .is_default = true,
            .parameters = kListenerFilters,
            .request = "status",
            .rows = "listeners",
            .render = render_listeners,
            .details = "MAX/s is its calls_per_second, MAX B/s its bytes_per_second. "
                       "WAITED counts calls that waited for these, or for what their [[client]] section may have."},
    Command{.object = "backends",
            .verb = "show",
            .help = "What answers the calls, and whether it does.",
            .access = Access::kRead,
            .is_default = true,
            .parameters = kBackendFilters,
            .request = "status",
            .rows = "backends",
            .render = render_backends},
    Command{.object = "servers",
            .verb = "show",
            .help = "The servers of TCP backends, in order of preference: whether each is up, what its last check said.",
            .access = Access::kRead,
            .is_default = true,
            .parameters = kServerFilters,
            .request = "status",
            .rows = "servers",
            .render = render_servers,
            .details = "New connections go to the first server of a backend that is not known to be down: \"next\" says yes."},
    Command{.object = "routes",
            .verb = "show",
            .help = "Which backend takes the calls of which RPC program, by listener, and how many it took.",
            .access = Access::kRead,
            .is_default = true,
            .parameters = kRouteFilters,
            .request = "status",
            .rows = "routes",
            .render = render_routes,
            .details = "A listener has a line for each [[route]], and one for the programs without: "
                       "its own backend takes their calls, or they are answered with PROG_UNAVAIL."},
    Command{.object = "clients",
            .verb = "show",
            .help = "The [[client]] sections: who may connect, and what is used of each budget.",
            .access = Access::kRead,
            .is_default = true,
            .parameters = kClientFilters,
            .request = "status",
            .rows = "clients",
            .render = render_clients,
            .details =
                "An address belongs to the section with the longest prefix that it is in. "
                "MAX/s is its calls_per_second, MAX B/s its bytes_per_second. "
                "WAITED counts calls that waited for the section's bytes_in_flight_max, calls_per_second or bytes_per_second, "
                "or for those of their listener; "
                "DENIED and FULL count connection requests refused because of allow = false and of connections_max."},
    Command{.object = "top",
            .verb = "",
            .help = "Which clients keep the gateway busy, and with what: calls, bytes, errors and times of the next second.",
            .access = Access::kRead,
            .parameters = kTopParameters,
            .request = "activity",
            .rows = "activity",
            .run = run_top,
            .details = "With --watch of so many seconds, again and again. IN is what the client sends, OUT what it gets. "
                       "ERRORS counts replies that refuse a call, and calls that were lost with their connection. "
                       "MEAN is from the SEND of a call to that of its reply. "
                       "MOST TIME IN says which procedures take their time together; "
                       "of NFSv4 the operation that a COMPOUND is about. "
                       "Clients that are gone are remembered, the last 256 of each core."},
    Command{.object = "ports",
            .verb = "show",
            .help = "Network ports with their addresses, MTU and link. Those of RDMA devices: status.",
            .access = Access::kRead,
            .is_default = true,
            .parameters = kPortFilters,
            .request = "status",
            .rows = "ports",
            .render = render_ports},
    Command{.object = "cores",
            .verb = "show",
            .help = "Poll cores and how busy they are.",
            .access = Access::kRead,
            .is_default = true,
            .parameters = kCoreFilters,
            .request = "cores",
            .rows = "cores",
            .render = render_cores},
    Command{.object = "stats",
            .verb = "show",
            .help = "Every number that /metrics exports; with PREFIX, those whose name begins with it.",
            .access = Access::kRead,
            .is_default = true,
            .parameters = kStatsParameters,
            .request = "stats",
            .render = render_stats},
    Command{.object = "stats",
            .verb = "schema",
            .help = "What these numbers are: kind, unit and meaning.",
            .access = Access::kRead,
            .parameters = kStatsParameters,
            .request = "stat_schema",
            .render = render_schema},
    Command{.object = "ping",
            .verb = "",
            .help = "Make a NULL call to backends over the way that clients' calls go, timed by stage.",
            .access = Access::kRead,
            .parameters = kPingParameters,
            .run = run_ping,
            .details = "CONNECT is the way to a worker, a connection made, and back; "
                       "CALL the way to the worker, the backend's answer, and back. "
                       "A server that knows the program or version not is alive all the same. "
                       "The exit status is 4 when a backend does not answer."},
    Command{.object = "drain",
            .verb = "show",
            .help = "Whether the gateway drains, and how far it is.",
            .access = Access::kRead,
            .is_default = true,
            .request = "drain_show",
            .render = render_drain},
    Command{.object = "drain",
            .verb = "start",
            .help = "Refuse new connections and end the others in order, without failing a call.",
            .access = Access::kChange,
            .parameters = kDrainStartParameters,
            .request = "drain_start",
            .run = run_drain_start,
            .details = "A connection takes no new calls; it ends when those that it has taken are answered. "
                       "Its client makes the others again on its next connection. "
                       "With --wait the exit status is 4 when connections had to be ended by force."},
    Command{.object = "drain",
            .verb = "stop",
            .help = "Take connections again.",
            .access = Access::kChange,
            .request = "drain_stop",
            .render = render_drain},
    Command{.object = "log",
            .verb = "level",
            .help = "Show the log level; with LEVEL, change it until the next reload (administrators).",
            .access = Access::kRead,
            .is_default = true,
            .parameters = kLogLevelParameters,
            .run = run_log_level},
    Command{.object = "config",
            .verb = "show",
            .help = "Every setting that the gateway runs with, as it would be written; with PREFIX, some of them.",
            .access = Access::kRead,
            .is_default = true,
            .parameters = kConfigShowParameters,
            .request = "settings",
            .render = render_settings},
    Command{.object = "config",
            .verb = "check",
            .help = "Say everything that is wrong with a configuration file. Needs no gateway.",
            .access = Access::kLocal,
            .parameters = kConfigCheckParameters,
            .run = run_config_check},
    Command{.object = "reload",
            .verb = "",
            .help = "Read the configuration file again, and say what changes at once and what with a restart.",
            .access = Access::kChange,
            .parameters = kReloadParameters,
            .run = run_reload},
    Command{
        .object = "restart",
        .verb = "",
        .help = "Let the program that is installed now follow in this process; RoCE clients stay connected.",
        .access = Access::kChange,
        .request = "restart",
        .run = run_restart,
        .details =
            "For an upgrade, and for settings that wait for a restart. "
            "The new program reads the configuration file first: when it says no, nothing changes. "
            "RoCE clients notice a pause; those of iWARP and of RDMA devices, and whoever has no answer within half a second, "
            "connect anew. It waits until the gateway answers again. "
            "The exit status is 4 when connections did not go on."},
    Command{.object = "doctor",
            .verb = "",
            .help = "Name what is missing on this host for a configuration, and the command that fixes it. Needs no gateway.",
            .access = Access::kLocal,
            .parameters = kDoctorParameters,
            .run = run_doctor,
            .details = "Run it as the user of the gateway, or as root: it says what this user may do, "
                       "and as root whether the user causeway may open RDMA devices. It changes nothing. "
                       "The exit status is 4 when something keeps the gateway from running or serving."},
    Command{
        .object = "report",
        .verb = "",
        .help = "Put all that is known of a gateway, also of one that hangs or has crashed, into one file for its support.",
        .access = Access::kRead,
        .parameters = kReportParameters,
        .run = run_report,
        .details =
            "The file is a .tar.gz that only you can read; an existing one is not overwritten. "
            "It has what the other commands say, what the gateway's recorder holds, also that of the last process that crashed, "
            "the configuration, and facts of process and host; "
            "index.txt in it says for each part what it is, or why it could not be had. "
            "It has addresses and names, and neither payload nor secrets. It takes no longer than a minute, whatever hangs. "
            "Run it as root: others may not read the recorder, and see less of process and host."},
    Command{.object = "capture",
            .verb = "show",
            .help = "Whether frames are captured, how many, and to where.",
            .access = Access::kRead,
            .is_default = true,
            .request = "capture_show",
            .render = render_capture},
    Command{.object = "capture",
            .verb = "start",
            .help = "Write the frames of clients to a pcapng file, which tshark reads.",
            .access = Access::kChange,
            .parameters = kCaptureParameters,
            .request = "capture_start",
            .run = run_capture_start,
            .details =
                "Data and memory handles (R_Keys, chunks) are taken out, but for --with-payload. "
                "The file is yours: causewayctl makes it, readable by its owner only, and hands it to the gateway open; "
                "an existing one is not overwritten. Frames that the disk is too slow for are counted; no client waits for it. "
                "A file that does not answer, on a file server that is gone, keeps nobody waiting either: "
                "the state is \"stuck\" then, and no other capture can begin until it answers."},
    Command{.object = "capture",
            .verb = "stop",
            .help = "End the capture.",
            .access = Access::kChange,
            .request = "capture_stop",
            .render = render_capture},
    Command{.object = "completion",
            .verb = "",
            .help = "Print a script that completes these words; packages install it.",
            .access = Access::kLocal,
            .parameters = kCompletionParameters,
            .run = run_completion},
    Command{.object = "manual",
            .verb = "",
            .help = "Print a manual page in the form that man reads; packages install it.",
            .access = Access::kLocal,
            .parameters = kManualParameters,
            .run = run_manual},
};

constexpr std::array kGlobals = {
    Parameter{"--socket", "PATH", Use::kOption, Kind::kFile, "Admin socket of the gateway"},
    Parameter{"--instance", "NAME", Use::kOption, Kind::kText, "Gateway by its name: its socket is /run/causeway/NAME.sock"},
    Parameter{"--json", nullptr, Use::kSwitch, Kind::kText, "Print the answer as JSON, errors too"},
    Parameter{"--wide", nullptr, Use::kSwitch, Kind::kText, "Show every column, however wide the tables get"},
    Parameter{"--watch", "SECONDS", Use::kOption, Kind::kSeconds, "Ask again and again, with a pause of so long"},
    Parameter{"--count", "NUMBER", Use::kOption, Kind::kNumber, "With --watch: end after so many answers"},
    Parameter{"--help", nullptr, Use::kSwitch, Kind::kText, "Explain the command, or all of them"},
    Parameter{"--version", nullptr, Use::kSwitch, Kind::kText, "Print the version"},
};

constexpr std::array kExamples = {
    Example{"status", "Version, links, listeners and backends, and whether the gateway is ready."},
    Example{"connections client 10.1.0.0/16 state established", "The connections of a network."},
    Example{"qp connection 7", "Transport state of the queue pair of connection 7: window, losses, timers."},
    Example{"trace lqpn 0x1a2b last 20", "What happened to a queue pair lately, also when it is gone."},
    Example{"--json backends up no", "The backends that are down, for a script."},
    Example{"--watch 1 connections listener nfs", "A listener's connections, every second."},
    Example{"top sort bytes last 5", "The five clients that move most."},
    Example{"ping nfs", "A NULL call to the backend nfs, timed by stage."},
    Example{"config check /etc/causeway/causeway.toml", "Everything that is wrong with a file."},
    Example{"reload --dry-run", "What a reload would change at once, and what waits for a restart."},
    Example{"drain start --wait --timeout 60", "Before an upgrade: end the connections in order, by force after a minute."},
    Example{"capture start /tmp/one.pcapng client 10.1.2.3 seconds 10", "Ten seconds of one client's frames, for tshark."},
    Example{"report --out /tmp/report.tar.gz", "All that is known of the gateway, for whoever helps with it."},
    Example{"doctor --config causeway.toml", "What this host lacks for a configuration, and the command for it."},
};

constexpr std::array<ExitStatus, 5> kExitStatuses = {{
    {kExitDone, "done"},
    {kExitFailed, "no answer or an error"},
    {kExitUsage, "wrong usage"},
    {kExitRefused, "not permitted"},
    {kExitBadNews, "done as asked, and the outcome is not the good one"},
}};

}  // namespace

std::span<const Command> command_table() {
  return kCommands;
}

std::span<const Parameter> global_parameters() {
  return kGlobals;
}

std::span<const Example> examples() {
  return kExamples;
}

std::span<const ExitStatus> exit_statuses() {
  return kExitStatuses;
}

}  // namespace cw::control
