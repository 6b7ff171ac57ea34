#include "control/ctl/manual.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <set>
#include <string_view>

#include "control/admin/answer_fields.h"
#include "control/config/config_help.h"
#include "control/ctl/usage_text.h"

namespace cw::control {
namespace {

std::string title(const char* name, int section, const char* what) {
  return fmt::format(".TH {} {} \"\" \"Causeway\" \"Causeway\"\n.SH NAME\n{} \\- {}\n", name, section, roff_text(name), what);
}

std::string item(const std::string& term, const std::string& text) {
  return fmt::format(".TP\n.B {}\n{}\n", roff_text(term), roff_text(text));
}

std::string help_of(const Parameter& parameter) {
  return parameter.choices.empty() ? std::string(parameter.help) + "."
                                   : fmt::format("{}: {}.", parameter.help, fmt::join(parameter.choices, ", "));
}

const char* who(Access access) {
  switch (access) {
    case Access::kLocal:
      return "Asks no gateway.";
    case Access::kRead:
      return "For whoever may open the admin socket.";
    case Access::kChange:
      return "For administrators.";
  }
  return "";
}

template <typename T>
std::string field_list(const char* rows) {
  std::string text = fmt::format(".SS {}\n", rows);
  for (const AnswerField<T>& field : answer_fields_of<T>()) {
    text += item(field.name, field.help);
  }
  return text;
}

// A field that several transports have is listed once, as the first describes it.
std::string transport_field_list() {
  std::string text;
  std::set<std::string_view> listed;
  for (const auto& table : transport_fields()) {
    for (const verbs::QueuePairField& field : table) {
      text += listed.insert(field.name).second ? item(field.name, field.help) : "";
    }
  }
  return text;
}

}  // namespace

std::string roff_text(std::string_view text) {
  std::string out;
  bool at_line_start = true;
  for (const char c : text) {
    if (at_line_start && (c == '.' || c == '\'')) {
      out += "\\&";
    }
    out += c == '\\' ? std::string("\\e") : c == '-' ? std::string("\\-") : std::string(1, c);
    at_line_start = c == '\n';
  }
  return out;
}

std::string ctl_manual(std::span<const Command> table) {
  std::string text = title("causewayctl", 1, "ask a running Causeway gateway, or tell it what to do");
  text += ".SH SYNOPSIS\n.B causewayctl\n[\\fIOPTIONS\\fR] \\fIOBJECT\\fR [\\fIVERB\\fR] [\\fIPARAMETERS\\fR]\n";
  text += ".SH DESCRIPTION\n";
  text += roff_text(
      "Objects, verbs and keywords may be shortened as long as one only is meant. "
      "Pairs of keyword and value are filters: of one keyword any value has to fit, of different keywords all. "
      "Numbers are decimal, or hexadecimal with 0x. Looking is for whoever may open the admin socket; "
      "changing something is for root, the gateway's own user, "
      "and those that [admin] admins and admin_groups of its configuration name.\n");
  text += ".SH COMMANDS\n";
  for (const Command& command : table) {
    text += fmt::format(".SS {}\n{} {}\n", roff_text(synopsis(command)), roff_text(command.help), who(command.access));
    text += command.details == nullptr ? "" : roff_text(command.details) + "\n";
    for (const Parameter& parameter : command.parameters) {
      text += item(spelling(parameter), help_of(parameter));
    }
  }
  text += ".SH OPTIONS\n";
  for (const Parameter& parameter : global_parameters()) {
    text += item(spelling(parameter), help_of(parameter));
  }
  text += ".SH EXIT STATUS\n";
  for (const ExitStatus& each : exit_statuses()) {
    text += item(std::to_string(each.status), each.meaning);
  }
  text += ".SH JSON\n" + roff_text(
                             "With --json the answer is one object, with --watch one a line. "
                             "An error is {\"error\": text, \"kind\": kind}, kind one of usage, unreachable, refused, failed. "
                             "Fields may be added; none changes its meaning or goes away.\n");
  text += field_list<ConnectionStatus>("connections") + field_list<QueuePairStatus>("queue_pairs") + transport_field_list() +
          field_list<ListenerStatus>("listeners") + field_list<BackendStatus>("backends") + field_list<ServerStatus>("servers") +
          field_list<RouteStatus>("routes") + field_list<ClientStatus>("clients") + field_list<PortStatus>("ports") +
          field_list<CoreStatus>("cores") + field_list<TransportEventStatus>("events") + field_list<StatInfo>("schema");
  return text + ".SH SEE ALSO\n.BR causewayd (8),\n.BR causeway.toml (5)\n";
}

std::string config_manual() {
  std::string text = title("causeway.toml", 5, "configuration of the Causeway gateway");
  text += ".SH DESCRIPTION\n" + roff_text(
                                    "/etc/causeway/causeway.toml is a TOML file. Unknown keys are errors. "
                                    "causewayctl config check FILE says everything that is wrong with a file at once.\n");
  for (const SectionHelp& section : config_help()) {
    text += fmt::format(".SH {}\n{}\n", roff_text(section.header), roff_text(section.help));
    for (const KeyHelp& key : section.keys) {
      std::string help = key.help + (key.required ? " Required." : "");
      help += key.range.empty() ? "" : fmt::format(" ({})", key.range);
      help += !key.fallback.empty() && !key.required ? fmt::format(" Default: {}.", key.fallback)
              : key.example.empty()                  ? ""
                                                     : fmt::format(" Example: {}.", key.example);
      text += item(key.name, help);
    }
  }
  return text + ".SH SEE ALSO\n.BR causewayd (8),\n.BR causewayctl (1)\n";
}

std::string bash_completion(std::span<const Command> table) {
  std::string objects;
  std::string verbs;
  std::string words;
  std::string last;
  for (const Command& command : table) {
    if (last != command.object) {
      objects += fmt::format("{}{}", objects.empty() ? "" : " ", command.object);
      verbs += fmt::format("{}    {}) words=\"", last.empty() ? "" : "\" ;;\n", command.object);
      last = command.object;
    }
    verbs += *command.verb == '\0' ? "" : std::string(command.verb) + " ";
    std::string own;
    for (const Parameter& parameter : command.parameters) {
      if (parameter.use != ParameterUse::kPositional) {
        own += std::string(parameter.name) + " ";
      }
      for (const char* choice : parameter.use == ParameterUse::kPositional ? parameter.choices : std::span<const char* const>()) {
        own += std::string(choice) + " ";
      }
    }
    const std::string pattern = *command.verb == '\0' ? fmt::format("{}:*", command.object)
                                : command.is_default  ? fmt::format("{}:{}|{}:*", command.object, command.verb, command.object)
                                                      : fmt::format("{}:{}", command.object, command.verb);
    words += command.is_default ? "" : fmt::format("    {}) words=\"{}\" ;;\n", pattern, own);
  }
  // Patterns that take anything stand last.
  std::string values;
  for (const Command& command : table) {
    std::string own;
    for (const Parameter& parameter : command.parameters) {
      if (parameter.use != ParameterUse::kPositional) {
        own += std::string(parameter.name) + " ";
      }
      if (parameter.use != ParameterUse::kPositional && !parameter.choices.empty()) {
        values += fmt::format("    {}:*:{}) COMPREPLY=($(compgen -W \"{}\" -- \"$cur\")); return ;;\n", command.object,
                              parameter.name, fmt::join(parameter.choices, " "));
      }
      if (parameter.use == ParameterUse::kPositional) {
        own += fmt::format("{} ", fmt::join(parameter.choices, " "));
      }
    }
    words += command.is_default ? fmt::format("    {}:*) words=\"{}\" ;;\n", command.object, own) : "";
  }
  std::string options;
  std::string with_value;
  for (const Parameter& parameter : global_parameters()) {
    options += fmt::format("{}{}", options.empty() ? "" : " ", parameter.name);
    if (parameter.value != nullptr) {
      with_value += fmt::format("{}{}", with_value.empty() ? "" : "|", parameter.name);
    }
  }
  return fmt::format(R"(# bash completion of causewayctl; made by 'causewayctl completion bash'
_causewayctl()
{{
  local cur="${{COMP_WORDS[COMP_CWORD]}}" prev="${{COMP_WORDS[COMP_CWORD-1]}}" object= verb= words= i
  for ((i = 1; i < COMP_CWORD; i++)); do
    case "${{COMP_WORDS[i]}}" in
    {}) ((i++)) ;;
    -*) ;;
    *) if [[ -z $object ]]; then object="${{COMP_WORDS[i]}}"; elif [[ -z $verb ]]; then verb="${{COMP_WORDS[i]}}"; fi ;;
    esac
  done
  case "$object:$verb:$prev" in
    *:*:--socket|*:*:--config|config:check:*) COMPREPLY=($(compgen -f -- "$cur")); return ;;
{}  esac
  if [[ $cur == -* ]]; then
    words="{}"
  fi
  if [[ -z $object ]]; then
    COMPREPLY=($(compgen -W "{} $words" -- "$cur")); return
  fi
  local more="$words"
  if [[ -z $verb ]]; then
    case "$object" in
{}" ;;
    esac
    more="$more $words"
  fi
  case "$object:$verb" in
{}  esac
  COMPREPLY=($(compgen -W "$words $more" -- "$cur"))
}}
complete -F _causewayctl causewayctl
)",
                     with_value, values, options, objects, verbs, words);
}

}  // namespace cw::control
