#include "control/ctl/run_config.h"

#include <fmt/core.h>

#include "control/config/config_file.h"
#include "control/ctl/client.h"
#include "control/ctl/json_text.h"
#include "control/ctl/output.h"
#include "control/ctl/render_control.h"
#include "control/ctl/run_command.h"

namespace cw::control {
namespace {

using Json = nlohmann::ordered_json;

Json to_json(const Problem& problem) {
  return {{"line", problem.line},
          {"column", problem.column},
          {"key", problem.key},
          {"message", problem.message},
          {"suggestion", problem.suggestion},
          {"severity", problem.severity == Severity::kError ? "error" : "warning"}};
}

}  // namespace

int run_log_level(const Invocation& invocation) {
  Json request = {{"command", "log_level"}};
  if (invocation.has("LEVEL")) {
    request = {{"command", "log_level_set"}, {"level", std::string(invocation.value_of("LEVEL"))}};
  }
  const AdminReply reply = ask_gateway(socket_of(invocation.global), request);
  if (reply.refusal) {
    return print_error(*reply.refusal, invocation.global.json);
  }
  return invocation.global.json ? print_json(reply.answer, false) : print(text_of(reply.answer, "level") + "\n");
}

int run_config_check(const Invocation& invocation) {
  const std::string file(invocation.value_of("FILE"));
  const LoadedConfig loaded = load_config(file);
  Json problems = Json::array();
  std::string text;
  for (const Problem& problem : loaded.problems) {
    problems.push_back(to_json(problem));
    text += to_string(problem) + "\n";
  }
  const int printed = invocation.global.json
                          ? print_json(Json{{"file", file}, {"valid", loaded.ok()}, {"problems", problems}}, false)
                          : print(loaded.ok() ? text + file + ": fine\n" : text);
  return printed != kExitDone ? printed : loaded.ok() ? kExitDone : kExitBadNews;
}

int run_reload(const Invocation& invocation) {
  const char* command = invocation.has("--dry-run") ? "reload_preview" : "reload";
  const AdminReply reply = ask_gateway(socket_of(invocation.global), {{"command", command}});
  if (reply.refusal) {
    return print_error(*reply.refusal, invocation.global.json);
  }
  const int printed = invocation.global.json ? print_json(reply.answer, false) : print(render_reload(reply.answer));
  return printed != kExitDone ? printed : flag_of(reply.answer, "valid") ? kExitDone : kExitBadNews;
}

}  // namespace cw::control
