#include "control/ctl/run_ping.h"

#include <fmt/core.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "control/ctl/client.h"
#include "control/ctl/command_line.h"
#include "control/ctl/json_text.h"
#include "control/ctl/output.h"
#include "control/ctl/run_command.h"
#include "control/ctl/table.h"

namespace cw::control {
namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

constexpr auto kAskAgain = std::chrono::milliseconds(2);
constexpr auto kPatience = std::chrono::seconds(65);  // beyond what a gateway may be configured to wait

// The row of one backend; or why there is none.
AdminReply ping_one(const Invocation& invocation, const std::string& socket, const std::string& backend) {
  Json request = {{"command", "ping_start"}, {"backend", backend}};
  for (const char* name : {"program", "version"}) {
    uint64_t number = 0;
    if (invocation.has(name) && parse_number(invocation.value_of(name), number)) {
      request[name] = std::to_string(number);
    }
  }
  AdminReply reply = ask_gateway(socket, request);
  const auto deadline = Clock::now() + kPatience;
  while (!reply.refusal && !flag_of(reply.answer, "done") && Clock::now() < deadline) {
    std::this_thread::sleep_for(kAskAgain);
    reply = ask_gateway(socket, {{"command", "ping_show"}});
  }
  if (!reply.refusal) {
    reply.answer.erase("done");
    Json row = {{"backend", backend}};
    row.update(reply.answer);
    reply.answer = std::move(row);
  }
  return reply;
}

}  // namespace

int run_ping(const Invocation& invocation) {
  const bool json = invocation.global.json;
  const std::string socket = socket_of(invocation.global);
  std::vector<std::string> backends;
  if (invocation.has("BACKEND")) {
    backends.emplace_back(invocation.value_of("BACKEND"));
  } else {
    const AdminReply status = ask_gateway(socket, {{"command", "status"}});
    if (status.refusal) {
      return print_error(*status.refusal, json);
    }
    for (const Json& backend : list_of(status.answer, "backends")) {
      backends.push_back(text_of(backend, "name"));
    }
  }
  Json rows = Json::array();
  Table table({"BACKEND", "ANSWER", ">CONNECT", ">CALL"});
  bool all_alive = true;
  for (const std::string& backend : backends) {
    AdminReply reply = ping_one(invocation, socket, backend);
    if (reply.refusal) {
      return print_error(*reply.refusal, json);
    }
    all_alive &= flag_of(reply.answer, "alive");
    table.add({backend, text_of(reply.answer, "outcome"), short_time_text(number_of(reply.answer, "connect_seconds")),
               short_time_text(number_of(reply.answer, "call_seconds"))});
    rows.push_back(std::move(reply.answer));
  }
  const int printed = json ? print_json(Json{{"pings", rows}}, false) : print(table.text(0));
  return printed != kExitDone ? printed : all_alive ? kExitDone : kExitBadNews;
}

}  // namespace cw::control
