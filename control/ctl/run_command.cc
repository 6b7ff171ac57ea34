#include "control/ctl/run_command.h"

#include <fmt/core.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "control/config/config.h"
#include "control/ctl/command_line.h"
#include "control/ctl/output.h"
#include "control/ctl/row_filter.h"

namespace cw::control {
namespace {

using Json = nlohmann::ordered_json;

int print_answer(const Invocation& invocation, const Json& answer) {
  const GlobalOptions& global = invocation.global;
  const bool watches = global.watch_s > 0;
  if (global.json) {
    return print_json(answer, watches);
  }
  // A terminal shows the newest answer in place of the one before.
  const bool redraws = watches && isatty(STDOUT_FILENO) == 1;
  return print((redraws ? "\x1b[H\x1b[2J" : "") + invocation.command->render(answer, global.detail));
}

int ask_once(const Invocation& invocation) {
  AdminReply reply = ask_gateway(socket_of(invocation.global), request_of(invocation));
  if (reply.refusal) {
    return print_error(*reply.refusal, invocation.global.json);
  }
  const Command& command = *invocation.command;
  filter_rows(invocation, reply.answer);
  // An answer that serves several commands is cut down to what this one is about.
  if (command.rows != nullptr && reply.answer.contains(command.rows)) {
    reply.answer = Json{{command.rows, std::move(reply.answer[command.rows])}};
  }
  return print_answer(invocation, reply.answer);
}

}  // namespace

std::string socket_of(const GlobalOptions& options) {
  if (!options.socket.empty()) {
    return options.socket;
  }
  return default_admin_socket(options.instance.empty() ? GatewayConfig().instance : options.instance);
}

Json request_of(const Invocation& invocation) {
  Json request = {{"command", invocation.command->request}};
  for (const Given& given : invocation.given) {
    if (given.parameter->use != ParameterUse::kFilter && given.parameter->field != nullptr) {
      uint64_t number = 0;
      const bool is_number = given.parameter->kind == ValueKind::kNumber && parse_number(given.value, number);
      request[given.parameter->field] = is_number ? std::to_string(number) : given.value;
    }
  }
  return request;
}

int run_command(const Invocation& invocation) {
  if (invocation.command->run != nullptr) {
    return invocation.command->run(invocation);
  }
  const GlobalOptions& global = invocation.global;
  int status = ask_once(invocation);
  // Without --count it is 0, which `asked` does not reach: until somebody interrupts, or an answer fails.
  for (uint32_t asked = 1; global.watch_s > 0 && status == kExitDone && asked != global.count; ++asked) {
    std::this_thread::sleep_for(std::chrono::duration<double>(global.watch_s));
    status = ask_once(invocation);
  }
  return status;
}

}  // namespace cw::control
