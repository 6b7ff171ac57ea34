// What a command of causewayctl is: its words, its parameters, and what it asks of the gateway. The commands themselves stand in
// command_table.cc, once: the parser, --help, the manual page and what shells offer are made from there.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "control/ctl/table.h"

namespace cw::control {

// Who may give it.
enum class Access : uint8_t {
  kLocal,   // asks no gateway
  kRead,    // whoever may open the admin socket
  kChange,  // administrators
};

enum class ParameterUse : uint8_t {
  kFilter,      // KEYWORD VALUE: rows to show. Several of one keyword: any of them; of several keywords: all of them
  kArgument,    // KEYWORD VALUE
  kPositional,  // VALUE
  kOption,      // --name VALUE
  kSwitch,      // --name
};

// What a value has to look like, and what shells offer for it.
enum class ValueKind : uint8_t {
  kText,
  kNetwork,  // an address, or a prefix: 10.0.0.0/8
  kNumber,   // decimal, or hexadecimal with 0x
  kSeconds,  // decimal, fractions allowed
  kFlag,     // yes or no
  kFile,
  kChoice,
};

struct Parameter {
  const char* name;   // keyword; with "--" of options; of positionals what stands for the value in the help: "PREFIX"
  const char* value;  // what stands for the value in the help; nullptr with positionals and switches
  ParameterUse use;
  ValueKind kind;
  const char* help;
  // Filters: field of the rows. Others: name of the argument in the request; nullptr when the gateway is not told.
  const char* field = nullptr;
  std::span<const char* const> choices = {};
  bool required = false;
};

struct Given {
  const Parameter* parameter;
  std::string value;  // "yes" of switches
};

struct Command;

// Options that any command takes.
struct GlobalOptions {
  std::string socket;    // empty: of the instance
  std::string instance;  // empty: default
  bool json = false;
  Detail detail = Detail::kNarrow;
  double watch_s = 0;  // 0: once
  uint32_t count = 0;  // answers to print with watch_s; 0 = without end
};

// A command line that has been understood.
struct Invocation {
  const Command* command = nullptr;
  std::vector<Given> given;
  GlobalOptions global;
  // The first value given for the parameter, or empty.
  [[nodiscard]] std::string_view value_of(std::string_view parameter) const {
    for (const Given& each : given) {
      if (each.parameter->name == parameter) {
        return each.value;
      }
    }
    return {};
  }
  [[nodiscard]] bool has(std::string_view parameter) const { return !value_of(parameter).empty(); }
};

struct Command {
  const char* object;
  const char* verb;  // empty: the object is the command
  const char* help;  // one sentence
  Access access;
  bool is_default = false;  // what the object means without a verb
  std::span<const Parameter> parameters = {};
  const char* request = nullptr;  // on the admin socket
  const char* rows = nullptr;     // member of the answer that filters look at
  std::string (*render)(const nlohmann::ordered_json& answer, Detail detail) = nullptr;
  // Instead of one request and its answer. Returns the exit status.
  int (*run)(const Invocation& invocation) = nullptr;
  const char* details = nullptr;  // more sentences for the manual
};

[[nodiscard]] std::span<const Command> command_table();
// Options that any command takes, as parameters.
[[nodiscard]] std::span<const Parameter> global_parameters();

// A command line worth knowing, without the program's name.
struct Example {
  const char* words;
  const char* what;
};
[[nodiscard]] std::span<const Example> examples();

// Exit status.
enum : int {
  kExitDone = 0,
  kExitFailed = 1,   // no answer, or an error
  kExitUsage = 2,    // wrong usage
  kExitRefused = 3,  // the gateway does not take this command from this user
  kExitBadNews = 4,  // done as asked, and the outcome is not the good one
};
struct ExitStatus {
  int status;
  const char* meaning;
};
[[nodiscard]] std::span<const ExitStatus> exit_statuses();

}  // namespace cw::control
