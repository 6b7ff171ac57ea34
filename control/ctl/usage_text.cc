#include "control/ctl/usage_text.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace cw::control {
namespace {

constexpr size_t kHelpColumn = 28;

std::string line(const std::string& left, const std::string& right) {
  return left.size() + 4 > kHelpColumn ? fmt::format("  {}\n{:{}}{}\n", left, "", kHelpColumn, right)
                                       : fmt::format("  {:<{}}{}\n", left, kHelpColumn - 2, right);
}

std::string help_of(const Parameter& parameter) {
  return parameter.choices.empty() ? parameter.help : fmt::format("{} ({})", parameter.help, fmt::join(parameter.choices, ", "));
}

std::string short_option(const Parameter& parameter) {
  const std::string_view name = parameter.name;
  return name == "--json" ? "-j, " : name == "--watch" ? "-w, " : name == "--help" ? "-h, " : name == "--version" ? "-V, " : "";
}

std::string options_text() {
  std::string text = "\nOptions of every command\n";
  for (const Parameter& parameter : global_parameters()) {
    text += line(short_option(parameter) + spelling(parameter), help_of(parameter));
  }
  return text;
}

}  // namespace

std::string spelling(const Parameter& parameter) {
  return parameter.value == nullptr ? parameter.name : fmt::format("{} {}", parameter.name, parameter.value);
}

std::string synopsis(const Command& command) {
  std::string text = command.object;
  if (*command.verb != '\0') {
    text += fmt::format(fmt::runtime(command.is_default ? " [{}]" : " {}"), command.verb);
  }
  for (const Parameter& parameter : command.parameters) {
    const char* format = parameter.required ? " {}" : parameter.use == ParameterUse::kFilter ? " [{}]..." : " [{}]";
    text += fmt::format(fmt::runtime(format), spelling(parameter));
  }
  return text;
}

std::string usage_text(std::span<const Command> table) {
  std::string text =
      "Asks a running causewayd what it is doing, and tells it what to do.\n"
      "Usage: causewayctl [OPTIONS] OBJECT [VERB] [PARAMETERS]\n\n"
      "Objects and verbs; each may be shortened as long as one only is meant\n";
  for (const Command& command : table) {
    const std::string words = *command.verb == '\0' ? command.object : fmt::format("{} {}", command.object, command.verb);
    const char* mark = command.access == Access::kChange ? " (administrators)" : "";
    text += line(words, std::string(command.help) + mark);
  }
  text += options_text() + "\nExit status: ";
  for (const ExitStatus& each : exit_statuses()) {
    text += fmt::format("{}{} {}", each.status == 0 ? "" : ", ", each.status, each.meaning);
  }
  return text + ".\nMore of one: causewayctl OBJECT --help, and causewayctl(1).\n";
}

std::string usage_text_of(std::span<const Command* const> commands) {
  std::string text;
  for (const Command* command : commands) {
    text += fmt::format("{}causewayctl {}\n  {}{}\n", text.empty() ? "" : "\n", synopsis(*command), command->help,
                        command->access == Access::kChange ? " For administrators." : "");
    if (command->details != nullptr) {
      text += fmt::format("  {}\n", command->details);
    }
    for (const Parameter& parameter : command->parameters) {
      text += line(spelling(parameter), help_of(parameter));
    }
  }
  return text + options_text();
}

}  // namespace cw::control
