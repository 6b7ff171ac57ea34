#include "control/ctl/output.h"

#include <fmt/core.h>

#include <cstdio>

#include "control/ctl/command.h"

namespace cw::control {

using Json = nlohmann::ordered_json;

int print(const std::string& text) {
  const bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0;
  return written ? kExitDone : kExitFailed;
}

int print_json(const Json& json, bool one_line) {
  return print(json.dump(one_line ? -1 : 2, ' ', false, Json::error_handler_t::replace) + '\n');
}

int print_error(const Refusal& refusal, bool json, const std::string& hint) {
  fmt::print(stderr, "causewayctl: {}\n", refusal.text);
  if (!hint.empty()) {
    fmt::print(stderr, "{}\n", hint);
  }
  if (json) {
    (void)print_json(Json{{"error", refusal.text}, {"kind", refusal.kind}}, false);
  }
  return refusal.kind == "usage" ? kExitUsage : refusal.kind == "refused" ? kExitRefused : kExitFailed;
}

}  // namespace cw::control
