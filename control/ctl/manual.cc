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
  text += ".SH EXAMPLES\n";
  for (const Example& example : examples()) {
    text += item(fmt::format("causewayctl {}", example.words), example.what);
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
          field_list<RdmaPortStatus>("rdma_ports") + field_list<ActivityStatus>("activity") + field_list<CoreStatus>("cores") +
          field_list<TransportEventStatus>("events") + field_list<StatInfo>("schema");
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

}  // namespace cw::control
