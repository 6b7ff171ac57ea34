#include "control/ctl/render_control.h"

#include <fmt/core.h>

#include "control/ctl/json_text.h"
#include "control/ctl/table.h"

namespace cw::control {

using Json = nlohmann::ordered_json;

std::string render_drain(const Json& answer, Detail) {
  const std::string state = text_of(answer, "state");
  if (state == "serving") {
    return fmt::format("serving, {} connections\n", text_of(answer, "connections"));
  }
  const std::string timeout = text_of(answer, "timeout_seconds");
  return fmt::format("{}: {} connections left, {} ended in order, {} by force, {:.1f} s{}\n", state,
                     text_of(answer, "connections"), text_of(answer, "ended_in_order"), text_of(answer, "forced"),
                     number_of(answer, "elapsed_seconds"),
                     timeout == "-" ? "" : fmt::format(" of {:.1f} s", number_of(answer, "timeout_seconds")));
}

std::string render_reload(const Json& answer, Detail) {
  std::string text;
  for (const Json& problem : list_of(answer, "problems")) {
    text += (problem.is_string() ? problem.get<std::string>() : problem.dump()) + "\n";
  }
  const std::string file = text_of(answer, "file");
  if (!flag_of(answer, "valid")) {
    return text + file + ": not valid, nothing is changed\n";
  }
  for (const char* when : {"at_once", "restart"}) {
    std::string changes;
    for (const Json& change : list_of(answer, "changes")) {
      if (text_of(change, "takes_effect") == when) {
        const std::string reason = text_of(change, "reason");
        changes += fmt::format("  {}: {} -> {}{}\n", text_of(change, "key"), text_of(change, "before"), text_of(change, "after"),
                               std::string_view(when) == "at_once" || reason == "-" ? "" : fmt::format(" ({})", reason));
      }
    }
    if (!changes.empty()) {
      text += (std::string_view(when) == "restart" ? "with a restart\n" : "at once\n") + changes;
    }
  }
  if (list_of(answer, "changes").empty()) {
    text += "no changes\n";
  }
  return text + file + (flag_of(answer, "applied") ? ": read again\n" : ": not read again, this was a preview\n");
}

std::string render_capture(const Json& answer, Detail) {
  const std::string state = text_of(answer, "state");
  if (state == "none") {
    return "no capture\n";
  }
  return fmt::format("{}: {} packets, {} in {}{}, {} dropped\n", state, text_of(answer, "packets"),
                     bytes_text(number_of(answer, "bytes")), text_of(answer, "file"),
                     flag_of(answer, "with_payload") ? " (with payload)" : "", text_of(answer, "dropped"));
}

std::string render_settings(const Json& answer, Detail) {
  Table table({"KEY", "VALUE"});
  for (const Json& setting : list_of(answer, "settings")) {
    table.add({text_of(setting, "key"), text_of(setting, "value")});
  }
  return table.empty() ? "no such settings\n" : table.text(0);
}

}  // namespace cw::control
