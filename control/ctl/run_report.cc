#include "control/ctl/run_report.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/gzip.h"
#include "control/config/build_features.h"
#include "control/ctl/client.h"
#include "control/ctl/json_text.h"
#include "control/ctl/limited_run.h"
#include "control/ctl/output.h"
#include "control/ctl/render_recording.h"
#include "control/ctl/report_parts.h"
#include "control/ctl/run_command.h"
#include "control/ctl/tar_archive.h"
#include "control/recorder/redact.h"
#include "control/socket/unique_fd.h"
#include "control/socket/write_whole.h"

namespace cw::control {
namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kPartLimit{10'000};
constexpr milliseconds kReportLimit{60'000};
constexpr size_t kPartBytesMax = 64 << 20;
constexpr const char* kUsualConfig = "/etc/causeway/causeway.toml";
constexpr const char* kPrivacy =
    "It has addresses of clients and servers, names of hosts, and the configuration. "
    "It has no payload, no memory handles, no keys, no credentials and no core dump. "
    "Values of the names secret, password, passwd, passphrase and token are taken out of every part.";

struct PartResult {
  std::string name;
  std::string what;
  std::string text;     // had, when `problem` is empty
  std::string problem;  // one line
};

std::string first_line(std::string_view text) {
  constexpr std::string_view kOurs = "causewayctl: ";
  text.remove_prefix(text.starts_with(kOurs) ? kOurs.size() : 0);
  return recorder::printable(text.substr(0, text.find('\n')));
}

PartResult take(const ReportPart& part, milliseconds limit) {
  PartResult result{part.name, part.what, {}, part.missing};
  if (!result.problem.empty()) {
    return result;
  }
  LimitedResult run = run_limited(part.run, limit, kPartBytesMax);
  const bool had = run.status == kExitDone || run.status == kExitBadNews ||
                   (part.any_status && run.status >= 0 && run.status != kNoSuchProgram);
  if (had) {
    result.text = recorder::without_secrets(run.text);
  } else {
    result.problem = !run.problem.empty() ? run.problem : run.text.empty() ? "it failed without a word" : first_line(run.text);
  }
  return result;
}

std::vector<PartResult> take_all(const std::vector<ReportPart>& parts) {
  const auto deadline = Clock::now() + kReportLimit;
  std::vector<PartResult> results;
  std::set<std::string_view> tried;
  std::set<std::string_view> silent;  // groups
  for (const ReportPart& part : parts) {
    const auto left = std::chrono::duration_cast<milliseconds>(deadline - Clock::now());
    if (part.group != nullptr && silent.contains(part.group)) {
      results.push_back({part.name, part.what, {}, fmt::format("not asked for: {} did not answer before", part.group)});
      continue;
    }
    if (left <= milliseconds(0)) {
      results.push_back({part.name, part.what, {}, "the time for the whole report is up"});
      continue;
    }
    results.push_back(take(part, std::min(left, kPartLimit)));
    if (part.group != nullptr && tried.insert(part.group).second && !results.back().problem.empty()) {
      silent.insert(part.group);
    }
  }
  return results;
}

// Who listens at the admin socket; 0: nobody, or it cannot be said.
uint64_t pid_behind(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof(address.sun_path)) {
    return 0;
  }
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  constexpr timeval kTimeout{.tv_sec = 1, .tv_usec = 0};
  const UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &kTimeout, sizeof(kTimeout));
  ucred peer{};
  socklen_t length = sizeof(peer);
  const bool known = connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 &&
                     getsockopt(fd.get(), SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0;
  return known ? static_cast<uint64_t>(std::max<pid_t>(peer.pid, 0)) : 0;
}

std::string config_path_of(const Invocation& invocation, const recorder::RecordingFile& now, const std::string& socket) {
  if (invocation.has("--config")) {
    return std::string(invocation.value_of("--config"));
  }
  if (now.recording) {
    return recorder::head_of(*now.recording).config_path;
  }
  const LimitedResult asked = run_limited(
      [&socket] {
        const AdminReply reply = ask_gateway(socket, {{"command", "reload_preview"}});
        return reply.refusal ? kExitFailed : print(text_of(reply.answer, "file"));
      },
      kPartLimit, PATH_MAX);
  return asked.status == kExitDone ? asked.text : kUsualConfig;
}

std::string host_name() {
  std::array<char, 256> name{};
  (void)gethostname(name.data(), name.size() - 1);
  std::string text = name[0] == '\0' ? "host" : name.data();
  std::ranges::replace_if(
      text, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '-' && c != '.'; }, '_');
  return text;
}

// "default" of /run/causeway/default.sock.
std::string instance_of(const std::string& socket) {
  return std::filesystem::path(socket).stem().string();
}

// What the gateway does, in one sentence.
std::string outcome_of(const ReportTarget& target, const std::vector<PartResult>& results) {
  if (results.front().problem.empty()) {
    return fmt::format("The gateway answers (process {}).", target.pid);
  }
  if (target.pid != 0 || target.now.runs) {
    return fmt::format("The gateway is there (process {}) and does not answer: {}.", target.pid, results.front().problem);
  }
  return fmt::format("The gateway does not run: {}.", results.front().problem);
}

std::string index_of(const ReportTarget& target, const std::string& outcome, const std::vector<PartResult>& results,
                     int64_t unix_ms) {
  std::string text = fmt::format("Report of a Causeway gateway on {}, made at {} by causewayctl {}.\n\n{}\n", host_name(),
                                 recorder::time_text(unix_ms), kProgramVersion, outcome);
  const auto tell = [&text](const char* what, const recorder::RecordingFile& file) {
    text += fmt::format("{}: {}.\n", what, file.recording ? summary_of(*file.recording, file.runs) : file.problem);
  };
  tell("Recorded now or last", target.now);
  tell("The last that crashed", target.crashed);
  text += fmt::format("\n{}\n\n", kPrivacy);
  for (const PartResult& part : results) {
    text += part.problem.empty()
                ? fmt::format("{:<24} {:>10}  {}\n", part.name, bytes_text(static_cast<double>(part.text.size())), part.what)
                : fmt::format("{:<24} {:>10}  {}: {}\n", part.name, "not had", part.what, part.problem);
  }
  return recorder::without_secrets(text);
}

// A line for each reason.
std::string missing_text(const std::vector<PartResult>& results) {
  std::string text;
  for (size_t i = 0; i < results.size();) {
    const auto last = std::find_if(results.begin() + static_cast<ptrdiff_t>(i), results.end(),
                                   [&](const PartResult& part) { return part.problem != results[i].problem; });
    const auto count = static_cast<size_t>(last - results.begin()) - i;
    if (!results[i].problem.empty()) {
      text += fmt::format("  {}{}: {}\n", results[i].name, count > 1 ? fmt::format(" and {} more", count - 1) : "",
                          results[i].problem);
    }
    i += count;
  }
  return text;
}

// A sentence, when the file is not there then.
std::string write_new_file(const std::string& path, std::string_view content) {
  const UniqueFd file(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file.valid()) {
    return errno == EEXIST ? fmt::format("{} exists, and is not overwritten", path)
                           : fmt::format("{}: {}; --out names another place", path, std::strerror(errno));
  }
  if (!write_whole(file.get(), {reinterpret_cast<const uint8_t*>(content.data()), content.size()})) {
    std::string problem = fmt::format("{}: {}", path, std::strerror(errno));
    (void)unlink(path.c_str());
    return problem;
  }
  return {};
}

}  // namespace

int run_report(const Invocation& invocation) {
  const int64_t unix_s = std::time(nullptr);
  const std::string socket = socket_of(invocation.global);
  const std::string folder = [&] {
    std::string time = recorder::time_text(unix_s * 1000).substr(0, 19);
    std::erase_if(time, [](char c) { return c == '-' || c == ':'; });
    return fmt::format("causeway-report-{}-{}-{}Z", host_name(), instance_of(socket), time);
  }();
  const std::string path(invocation.has("--out") ? std::string(invocation.value_of("--out")) : folder + ".tar.gz");
  // Said before the work, not after it.
  if (access(path.c_str(), F_OK) == 0) {
    return print_error({"failed", path + " exists, and is not overwritten"}, invocation.global.json);
  }

  ReportTarget target;
  target.global.socket = socket;
  const std::string recorded = recorder::recorder_path(socket);
  target.now = recorder::read_recording(recorded);
  target.crashed = recorder::read_recording(recorder::crashed_path(recorded));
  target.pid = target.now.pid != 0 ? target.now.pid : pid_behind(socket);
  target.config_path = config_path_of(invocation, target.now, socket);

  const std::vector<PartResult> results = take_all(report_parts(target));
  const std::string outcome = outcome_of(target, results);
  std::vector<ArchiveFile> files;
  files.push_back({"index.txt", index_of(target, outcome, results, unix_s * 1000)});
  Json parts = Json::array();
  for (const PartResult& part : results) {
    parts.push_back({{"name", part.name}, {"had", part.problem.empty()}, {"bytes", part.text.size()}, {"problem", part.problem}});
    if (part.problem.empty()) {
      files.push_back({part.name, part.text});
    }
  }
  const std::string archive = gzip_of(tar_of(folder, files, unix_s));
  if (const std::string problem = write_new_file(path, archive); !problem.empty()) {
    return print_error({"failed", problem}, invocation.global.json);
  }
  const std::string missing = missing_text(results);
  if (invocation.global.json) {
    return print_json(Json{{"file", path}, {"bytes", archive.size()}, {"outcome", outcome}, {"parts", parts}}, false);
  }
  return print(fmt::format("{}: {}, {} parts; begin with index.txt in it\n{}\n{}\n{}{}", path,
                           bytes_text(static_cast<double>(archive.size())), files.size(), outcome, kPrivacy,
                           missing.empty() ? "" : "Not had:\n", missing));
}

}  // namespace cw::control
