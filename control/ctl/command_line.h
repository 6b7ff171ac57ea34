// The words of a command line to a command of the table. Pure.
//
//   causewayctl [OPTIONS] OBJECT [VERB] [KEYWORD VALUE]... [VALUE]... [--OPTION [VALUE]]...
//
// Objects, verbs and keywords may be shortened as long as one only is meant; a full word always means itself. Options may stand
// anywhere.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "control/ctl/command.h"

namespace cw::control {

struct CommandLine {
  enum class Kind : uint8_t { kCommand, kHelp, kVersion, kWrong };
  Kind kind = Kind::kWrong;
  Invocation invocation;                    // kCommand; of others what had been understood of the options
  std::vector<const Command*> help_topics;  // kHelp: commands to explain; none: all
  std::string problem;                      // kWrong: one sentence, with a suggestion where there is one
};

// `words` without the program's name.
[[nodiscard]] CommandLine parse_command_line(std::span<const std::string_view> words, std::span<const Command> table);

// The one with exactly this name; nullptr: there is none.
[[nodiscard]] const Parameter* parameter_named(std::span<const Parameter> parameters, std::string_view name);
// The option of every command that the word names, also by its short form: "-w". nullptr: none.
[[nodiscard]] const Parameter* global_parameter(std::string_view word);

// "0x1a2b", "6699". False: it is no number.
[[nodiscard]] bool parse_number(std::string_view text, uint64_t& out);
// "2", "0.5"; at most a day. False: it is not.
[[nodiscard]] bool parse_seconds(std::string_view text, double& out);

}  // namespace cw::control
