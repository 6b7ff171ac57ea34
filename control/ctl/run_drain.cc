#include "control/ctl/run_drain.h"

#include <chrono>
#include <thread>

#include "control/ctl/client.h"
#include "control/ctl/json_text.h"
#include "control/ctl/output.h"
#include "control/ctl/render_control.h"
#include "control/ctl/run_command.h"

namespace cw::control {
namespace {

using Json = nlohmann::ordered_json;

constexpr auto kLookAgain = std::chrono::milliseconds(200);

int print_progress(const Invocation& invocation, const Json& answer) {
  return invocation.global.json ? print_json(answer, true) : print(render_drain(answer));
}

}  // namespace

int run_drain_start(const Invocation& invocation) {
  const bool json = invocation.global.json;
  const std::string socket = socket_of(invocation.global);
  AdminReply reply = ask_gateway(socket, request_of(invocation));
  std::string said;
  while (!reply.refusal) {
    const std::string state = text_of(reply.answer, "state");
    // Progress is said when there is some.
    const std::string now = state + text_of(reply.answer, "connections") + text_of(reply.answer, "forced");
    if (now != said && print_progress(invocation, reply.answer) != kExitDone) {
      return kExitFailed;
    }
    said = now;
    if (!invocation.has("--wait")) {
      return kExitDone;
    }
    if (state == "drained") {
      return number_of(reply.answer, "forced") > 0 ? kExitBadNews : kExitDone;
    }
    if (state == "serving") {
      return print_error({"failed", "somebody has stopped the drain"}, json);
    }
    std::this_thread::sleep_for(kLookAgain);
    reply = ask_gateway(socket, {{"command", "drain_show"}});
  }
  return print_error(*reply.refusal, json);
}

}  // namespace cw::control
