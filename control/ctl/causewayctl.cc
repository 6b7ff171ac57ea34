// causewayctl: asks a running causewayd over its admin socket and prints the answer.
// Exit status: 0 answered, 1 no answer or an error, 2 wrong usage.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cstdio>
#include <string>

#include "control/config/config.h"
#include "control/ctl/client.h"
#include "control/ctl/render.h"

namespace {

using Json = nlohmann::ordered_json;

constexpr int kExitError = 1;
constexpr int kExitUsage = 2;

struct Command {
  const char* name;
  const char* help;
  std::string (*render)(const Json&);
};

constexpr std::array<Command, 3> kCommands = {{
    {"status", "Version, uptime, ports, listeners and backends.", cw::control::render_status},
    {"connections", "One line per connection: peer, queue pairs, state, credits, traffic, last error.",
     cw::control::render_connections},
    {"stats", "Every number that /metrics exports; with PREFIX, those whose name begins with it.", cw::control::render_stats},
}};

struct Options {
  std::string socket;
  std::string instance = cw::control::GatewayConfig().instance;
  std::string prefix;
  bool json = false;
};

int run(const Command& command, const Options& options) {
  const std::string socket = options.socket.empty() ? cw::control::default_admin_socket(options.instance) : options.socket;
  const cw::control::AdminReply reply = cw::control::ask_gateway(socket, command.name, options.prefix);
  if (!reply.problem.empty()) {
    fmt::print(stderr, "causewayctl: {}\n", reply.problem);
    return kExitError;
  }
  const std::string text =
      options.json ? reply.answer.dump(2, ' ', false, Json::error_handler_t::replace) + '\n' : command.render(reply.answer);
  // A closed pipe or a full disk is an error that a script has to see.
  const bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0;
  return written ? 0 : kExitError;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Asks a running causewayd what it is doing.");
  app.name("causewayctl");
  app.footer("Exit status: 0 answered, 1 no answer or an error, 2 wrong usage.");
  app.set_version_flag("-V,--version", "causewayctl " CAUSEWAY_VERSION);
  Options options;
  CLI::Option* socket = app.add_option("--socket", options.socket, "Admin socket of the gateway")->type_name("PATH");
  app.add_option("--instance", options.instance, "Gateway by its name: its socket is /run/causeway/NAME.sock (default: default)")
      ->type_name("NAME")
      ->excludes(socket);
  app.add_flag("--json", options.json, "Print the answer as JSON");
  app.require_subcommand(1);
  app.fallthrough();
  for (const Command& command : kCommands) {
    CLI::App* sub = app.add_subcommand(command.name, command.help);
    if (std::string_view(command.name) == "stats") {
      sub->add_option("PREFIX", options.prefix, "Beginning of the names, for example causeway_roce");
    }
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kExitUsage;
  }
  for (const Command& command : kCommands) {
    if (app.got_subcommand(command.name)) {
      return run(command, options);
    }
  }
  return kExitUsage;
}
