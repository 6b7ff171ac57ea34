#include "control/ctl/report_parts.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <glob.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <span>
#include <string_view>

#include "control/config/build_features.h"
#include "control/config/config_file.h"
#include "control/config/kernel_address.h"
#include "control/ctl/command_line.h"
#include "control/ctl/limited_run.h"
#include "control/ctl/output.h"
#include "control/ctl/render_recording.h"
#include "control/ctl/run_command.h"
#include "control/recorder/last_words.h"
#include "control/socket/unique_fd.h"

namespace cw::control {
namespace {

constexpr size_t kFileBytesMax = 1 << 20;
constexpr timeval kHttpTimeout{.tv_sec = 5, .tv_usec = 0};

// A command of causewayctl.
struct Question {
  const char* name;
  const char* what;
  std::array<std::string_view, 3> words;
};

// What the gateway itself is asked. The first says whether it answers at all.
constexpr std::array kQuestions = {
    Question{"gateway/status.txt", "version, health, ports, listeners, backends", {"status"}},
    Question{"gateway/servers.txt", "servers of the backends and their checks", {"servers", "--wide"}},
    Question{"gateway/routes.txt", "which backend takes which program", {"routes", "--wide"}},
    Question{"gateway/clients.txt", "the [[client]] sections and their budgets", {"clients", "--wide"}},
    Question{"gateway/cores.txt", "how busy the poll cores are", {"cores", "--wide"}},
    Question{"gateway/connections.txt", "every connection", {"connections", "--wide"}},
    Question{"gateway/queue-pairs.txt", "their transport state", {"qp", "--wide"}},
    Question{"gateway/top.txt", "who keeps it busy, in one second", {"top", "--wide"}},
    Question{"gateway/events.txt", "what happened to queue pairs lately", {"trace", "last", "1000000"}},
    Question{"gateway/stats.txt", "every number that it counts", {"stats"}},
    Question{"gateway/config.txt", "the settings that it runs with", {"config", "show"}},
    Question{"gateway/reload.txt", "what a reload would change", {"reload", "--dry-run"}},
    Question{"gateway/drain.txt", "whether it drains", {"drain", "show"}},
    Question{"gateway/log-level.txt", "the least important lines that it writes", {"log", "level"}},
    Question{"gateway/capture.txt", "whether frames are captured", {"capture", "show"}},
};

struct Files {
  const char* name;
  const char* what;
  const char* patterns;  // with commas between; PID stands for the gateway's
};

// What can be read of a process that answers nothing.
constexpr std::array kProcessFiles = {
    Files{"process/status.txt", "memory, limits, signals, control group",
          "/proc/PID/status,/proc/PID/limits,/proc/PID/cmdline,/proc/PID/cgroup,/proc/PID/oom_score,/proc/PID/schedstat"},
    Files{"process/threads.txt", "what each thread does or waits for",
          "/proc/PID/task/*/comm,/proc/PID/task/*/status,/proc/PID/task/*/wchan,/proc/PID/task/*/syscall,/proc/PID/task/*/stack"},
};

constexpr std::array kHostFiles = {
    Files{"host/kernel.txt", "kernel, distribution, uptime, load",
          "/proc/version,/proc/cmdline,/etc/os-release,/proc/uptime,/proc/loadavg,/proc/sys/kernel/tainted,"
          "/proc/sys/kernel/core_pattern,/proc/pressure/*"},
    Files{"host/cpus.txt", "CPUs, NUMA nodes, isolation",
          "/sys/devices/system/cpu/online,/sys/devices/system/cpu/isolated,/sys/devices/system/cpu/nohz_full,"
          "/sys/devices/system/cpu/smt/active,/sys/devices/system/node/node*/cpulist,/proc/stat,/proc/cpuinfo"},
    Files{"host/memory.txt", "memory and hugepages",
          "/proc/meminfo,/sys/devices/system/node/node*/meminfo,/sys/kernel/mm/hugepages/*/*hugepages,"
          "/sys/kernel/mm/transparent_hugepage/enabled"},
    Files{"host/interfaces.txt", "network interfaces as the kernel has them",
          "/proc/net/dev,/sys/class/net/*/operstate,/sys/class/net/*/mtu,/sys/class/net/*/address,/sys/class/net/*/speed,"
          "/sys/class/net/*/carrier_changes,/sys/class/net/*/device/uevent,/sys/class/net/*/device/numa_node"},
    Files{"host/rdma.txt", "RDMA devices and their ports",
          "/sys/class/infiniband/*/fw_ver,/sys/class/infiniband/*/hca_type,/sys/class/infiniband/*/node_guid,"
          "/sys/class/infiniband/*/ports/*/state,/sys/class/infiniband/*/ports/*/phys_state,"
          "/sys/class/infiniband/*/ports/*/rate,/sys/class/infiniband/*/ports/*/link_layer,"
          "/sys/class/infiniband/*/ports/*/counters/*,/sys/class/infiniband/*/ports/*/hw_counters/*"},
    Files{"host/sockets.txt", "counters of the kernel's UDP, TCP and IP", "/proc/net/snmp,/proc/net/snmp6,/proc/net/netstat"},
    Files{"host/modules.txt", "kernel modules", "/proc/modules"},
};

struct Program {
  const char* name;
  const char* what;
  const char* words;  // with commas between
};

constexpr std::array kPrograms = {
    Program{"host/addresses.txt", "addresses of the host", "ip,address,show"},
    Program{"host/links.txt", "interfaces with what they dropped", "ip,-s,-d,link,show"},
    Program{"host/routes.txt", "routes of the host", "ip,route,show,table,all"},
    Program{"host/packages.txt", "versions of the packages that matter",
            "dpkg-query,-W,causeway*,dpdk*,librte*,rdma-core,libibverbs1,librdmacm1,ibverbs-providers,libisal2,nfs-ganesha*,"
            "nfs-kernel-server,linux-image-*"},
    Program{"host/journal.txt", "the service's journal, with the lines of systemd",
            "journalctl,--no-pager,--quiet,--lines=2000,--output=short-iso-precise,--unit=causewayd*"},
    Program{"host/kernel-log.txt", "the kernel's last lines: faults, and what it ended for want of memory",
            "journalctl,--no-pager,--quiet,--lines=500,--output=short-iso-precise,--dmesg"},
};

std::vector<std::string> split(std::string_view text) {
  std::vector<std::string> words;
  while (!text.empty()) {
    const size_t end = std::min(text.find(','), text.size());
    words.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return words;
}

int ask(const GlobalOptions& global, std::span<const std::string_view> words) {
  CommandLine line = parse_command_line(words, command_table());
  const Detail detail = line.invocation.global.detail;
  line.invocation.global = global;
  line.invocation.global.detail = detail;
  return run_command(line.invocation);
}

std::string content_of(const char* path) {
  const UniqueFd file(open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  std::string text;
  std::array<char, 65536> buffer;
  ssize_t got = file.valid() ? 0 : -1;
  while (file.valid() && text.size() < kFileBytesMax && (got = read(file.get(), buffer.data(), buffer.size())) > 0) {
    text.append(buffer.data(), static_cast<size_t>(got));
  }
  return got < 0 ? fmt::format("({})\n", std::strerror(errno)) : text.size() >= kFileBytesMax ? text + "\n(and more)\n" : text;
}

// Each file with its name; what is one line stands behind it.
int show_files(const std::vector<std::string>& patterns) {
  std::string text;
  for (const std::string& pattern : patterns) {
    glob_t found{};
    if (glob(pattern.c_str(), GLOB_NOCHECK, nullptr, &found) == 0) {
      for (size_t i = 0; i < found.gl_pathc; ++i) {
        struct stat info {};
        if (pattern.find('*') != std::string::npos && stat(found.gl_pathv[i], &info) != 0) {
          continue;  // nothing fits the pattern
        }
        std::string content = content_of(found.gl_pathv[i]);
        std::replace(content.begin(), content.end(), '\0', ' ');  // between the words of a command line
        const bool is_line = content.find('\n') + 1 >= content.size() || content.empty();
        text += fmt::format("{}:{}{}{}", found.gl_pathv[i], is_line ? " " : "\n", content, content.ends_with('\n') ? "" : "\n");
      }
    }
    globfree(&found);
  }
  return print(text.empty() ? "there are none\n" : text);
}

int fail(const std::string& problem) {
  (void)print(problem + "\n");
  return kExitFailed;
}

// One GET, whose answer ends with the connection.
int show_page(const std::string& config_path, const char* path) {
  const LoadedConfig loaded = load_config(config_path);
  if (!loaded.ok() || !loaded.config.metrics.listen) {
    return fail(loaded.ok() ? "[metrics] listen is not set" : config_path + " is not valid or cannot be read");
  }
  const SocketAddress& address = *loaded.config.metrics.listen;
  const UniqueFd fd(socket(family_of(address.address), SOCK_STREAM | SOCK_CLOEXEC, 0));
  setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &kHttpTimeout, sizeof(kHttpTimeout));
  setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &kHttpTimeout, sizeof(kHttpTimeout));
  sockaddr_storage raw{};
  const socklen_t length = write_address(address, raw);
  const std::string request = fmt::format("GET {} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", path, to_string(address));
  if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&raw), length) != 0 ||
      send(fd.get(), request.data(), request.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(request.size())) {
    return fail(fmt::format("http://{}{}: {}", to_string(address), path, std::strerror(errno)));
  }
  std::string answer;
  std::array<char, 65536> buffer;
  ssize_t got = 0;
  while ((got = recv(fd.get(), buffer.data(), buffer.size(), 0)) > 0) {
    answer.append(buffer.data(), static_cast<size_t>(got));
  }
  const size_t body = answer.find("\r\n\r\n");
  if (got < 0 || body == std::string::npos || !answer.starts_with("HTTP/1.1 200")) {
    return fail(fmt::format("http://{}{}: {}", to_string(address), path,
                            got < 0 && errno == EAGAIN ? "no answer within 5 s"
                            : got < 0                  ? std::strerror(errno)
                                                       : recorder::printable(answer.substr(0, answer.find('\r'))).c_str()));
  }
  return print(answer.substr(body + 4));
}

int show_recording_part(const RecordingPart& part, const recorder::RecordingFile& file) {
  return print(part.render(*file.recording, file.runs));
}

void add_recording(const recorder::RecordingFile& file, const std::string& folder, std::vector<ReportPart>& parts) {
  for (const RecordingPart& part : recording_parts()) {
    ReportPart added{.name = folder + "/" + part.name, .what = part.what, .run = {}, .missing = file.problem};
    if (file.recording) {
      added.run = [&part, &file] { return show_recording_part(part, file); };
    }
    parts.push_back(std::move(added));
  }
}

int show_version() {
  utsname host{};
  (void)uname(&host);
  return print(fmt::format("causewayctl {}\nbeside_kernel (an XDP program): {}\nhost {}, {} {} on {}\nuser {}\n", kProgramVersion,
                           kHasXdpProgram ? "built in" : "not built in", host.nodename, host.sysname, host.release, host.machine,
                           geteuid()));
}

}  // namespace

std::vector<ReportPart> report_parts(const ReportTarget& target) {
  std::vector<ReportPart> parts;
  parts.reserve(64);  // a few more than there are
  for (const Question& question : kQuestions) {
    parts.push_back({.name = question.name,
                     .what = question.what,
                     .run =
                         [&target, &question] {
                           const auto end = std::ranges::find(question.words, std::string_view());
                           return ask(target.global, {question.words.begin(), end});
                         },
                     .missing = {},
                     .group = "its admin socket"});
  }
  parts.push_back({.name = "gateway/metrics.txt",
                   .what = "what Prometheus gets",
                   .run = [&target] { return show_page(target.config_path, "/metrics"); },
                   .missing = {},
                   .group = "its metrics address"});
  parts.push_back({.name = "gateway/history.json",
                   .what = "the last 15 minutes, second by second, as the live page has them",
                   .run = [&target] { return show_page(target.config_path, "/api/history?since=0"); },
                   .missing = {},
                   .group = "its metrics address"});
  add_recording(target.now, "recorder", parts);
  add_recording(target.crashed, "crashed", parts);
  parts.push_back({.name = "config/file.txt", .what = "the configuration file", .run = [&target] {
                     return show_files({target.config_path});
                   }});
  parts.push_back({.name = "config/check.txt", .what = "what is wrong with it", .run = [&target] {
                     const std::array<std::string_view, 3> words = {"config", "check", target.config_path};
                     return ask(target.global, words);
                   }});
  parts.push_back({.name = "host/doctor.txt", .what = "what this host lacks for it", .run = [&target] {
                     const std::array<std::string_view, 3> words = {"doctor", "--config", target.config_path};
                     return ask(target.global, words);
                   }});
  parts.push_back({.name = "host/version.txt", .what = "who made this report", .run = show_version});
  for (const Files& files : kProcessFiles) {
    std::string patterns = files.patterns;
    for (size_t at = 0; (at = patterns.find("PID", at)) != std::string::npos;) {
      patterns.replace(at, 3, std::to_string(target.pid));
    }
    parts.push_back({.name = files.name,
                     .what = files.what,
                     .run = [patterns = split(patterns)] { return show_files(patterns); },
                     .missing = target.pid == 0 ? "no process of this gateway is known to run" : ""});
  }
  for (const Files& files : kHostFiles) {
    parts.push_back(
        {.name = files.name, .what = files.what, .run = [patterns = split(files.patterns)] { return show_files(patterns); }});
  }
  for (const Program& program : kPrograms) {
    parts.push_back({.name = program.name,
                     .what = program.what,
                     .run = [words = split(program.words)] { return become_program(words); },
                     .missing = {},
                     .any_status = true});
  }
  return parts;
}

}  // namespace cw::control
