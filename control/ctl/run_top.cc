#include "control/ctl/run_top.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>
#include <utility>

#include "control/ctl/activity_rates.h"
#include "control/ctl/client.h"
#include "control/ctl/command_line.h"
#include "control/ctl/output.h"
#include "control/ctl/row_filter.h"
#include "control/ctl/run_command.h"

namespace cw::control {
namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

constexpr double kSecondsUsual = 1;
constexpr uint32_t kRowsUsual = 20;

std::string_view value_or(const Invocation& invocation, const char* parameter, std::string_view usual) {
  return invocation.has(parameter) ? invocation.value_of(parameter) : usual;
}

}  // namespace

int run_top(const Invocation& invocation) {
  const GlobalOptions& global = invocation.global;
  const bool watches = global.watch_s > 0;
  const double pause = watches ? global.watch_s : kSecondsUsual;
  uint64_t last = kRowsUsual;
  if (invocation.has("last")) {
    (void)parse_number(invocation.value_of("last"), last);
  }
  const auto ask = [&](AdminReply& reply) {
    reply = ask_gateway(socket_of(global), {{"command", "activity"}});
    if (!reply.refusal) {
      filter_rows(invocation, reply.answer);
    }
    return !reply.refusal;
  };
  AdminReply before;
  if (!ask(before)) {
    return print_error(*before.refusal, global.json);
  }
  auto asked = Clock::now();
  int status = kExitDone;
  for (uint32_t shown = 0; status == kExitDone && (shown == 0 || (watches && shown != global.count)); ++shown) {
    std::this_thread::sleep_for(std::chrono::duration<double>(pause));
    AdminReply after;
    if (!ask(after)) {
      return print_error(*after.refusal, global.json);
    }
    const auto now = Clock::now();
    const double seconds = std::chrono::duration<double>(now - std::exchange(asked, now)).count();
    const Json rates =
        activity_rates(before.answer, after.answer, seconds, value_or(invocation, "by", "client"),
                       value_or(invocation, "sort", "calls"), static_cast<uint32_t>(std::min<uint64_t>(last, UINT32_MAX)));
    before = std::move(after);
    if (global.json) {
      status = print_json(rates, watches);
    } else {
      const bool redraws = watches && isatty(STDOUT_FILENO) == 1;
      status = print((redraws ? "\x1b[H\x1b[2J" : "") + render_rates(rates, global.detail));
    }
  }
  return status;
}

}  // namespace cw::control
