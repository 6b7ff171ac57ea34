// causewayctl: asks a running causewayd over its admin socket and prints the answer, or tells it what to do.
#include <span>
#include <string_view>
#include <vector>

#include "control/ctl/command_line.h"
#include "control/ctl/completion.h"
#include "control/ctl/output.h"
#include "control/ctl/run_command.h"
#include "control/ctl/usage_text.h"

int main(int argc, char** argv) {
  using namespace cw::control;
  const std::vector<std::string_view> words(argv + 1, argv + argc);
  if (!words.empty() && words.front() == "__complete") {  // what shells' scripts ask
    return run_complete(std::span(words).subspan(1));
  }
  const CommandLine line = parse_command_line(words, command_table());
  switch (line.kind) {
    case CommandLine::Kind::kCommand:
      return run_command(line.invocation);
    case CommandLine::Kind::kHelp:
      return print(line.help_topics.empty() ? usage_text(command_table()) : usage_text_of(line.help_topics));
    case CommandLine::Kind::kVersion:
      return print("causewayctl " CAUSEWAY_VERSION "\n");
    case CommandLine::Kind::kWrong:
      break;
  }
  return print_error({.kind = "usage", .text = line.problem}, line.invocation.global.json, "Try 'causewayctl --help'.");
}
