#include "control/ctl/run_restart.h"

#include <fmt/core.h>

#include <chrono>
#include <optional>
#include <thread>

#include "control/ctl/client.h"
#include "control/ctl/json_text.h"
#include "control/ctl/output.h"
#include "control/ctl/run_command.h"

namespace cw::control {
namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::ordered_json;

constexpr auto kFollowerPause = std::chrono::milliseconds(20);
constexpr auto kFollowerPatience = std::chrono::seconds(60);
constexpr const char* kTakenOver = "causeway_connections_taken_over_total";

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double total_of(const Json& answer) {
  double sum = 0;
  if (const auto stats = answer.find("stats"); stats != answer.end()) {
    for (const auto& [name, value] : stats->items()) {
      sum += value.is_number() ? value.get<double>() : 0;
    }
  }
  return sum;
}

// Younger than the process that was asked. nullopt: the one that was asked, or nobody, answers still.
std::optional<double> taken_over(const std::string& socket, Clock::time_point start) {
  const AdminReply status = ask_gateway(socket, {{"command", "status"}});
  if (status.refusal || number_of(status.answer, "uptime_seconds") > seconds_since(start)) {
    return std::nullopt;
  }
  const AdminReply stats = ask_gateway(socket, {{"command", "stats"}, {"prefix", kTakenOver}});
  return stats.refusal ? std::nullopt : std::optional(total_of(stats.answer));
}

}  // namespace

int run_restart(const Invocation& invocation) {
  const bool json = invocation.global.json;
  const std::string socket = socket_of(invocation.global);
  const AdminReply before = ask_gateway(socket, {{"command", "status"}});
  const AdminReply reply = before.refusal ? before : ask_gateway(socket, request_of(invocation));
  if (reply.refusal) {
    return print_error(*reply.refusal, json);
  }
  const double connections = number_of(before.answer, "connections");
  const Clock::time_point start = Clock::now();
  std::optional<double> went_on;
  while (!went_on) {
    if (Clock::now() - start > kFollowerPatience) {
      return print_error({"failed", "the program that follows does not answer; its log says why"}, json);
    }
    std::this_thread::sleep_for(kFollowerPause);
    went_on = taken_over(socket, start);
  }
  const double seconds = seconds_since(start);
  const int printed =
      json ? print_json({{"seconds", seconds}, {"connections_before", connections}, {"connections_taken_over", *went_on}}, true)
           : print(fmt::format("restarted in {:.1f} s: {:.0f} of {:.0f} connections went on\n", seconds, *went_on, connections));
  return printed != kExitDone ? printed : *went_on < connections ? kExitBadNews : kExitDone;
}

}  // namespace cw::control
