#include "control/ctl/run_doctor.h"

#include <fmt/core.h>

#include <string>

#include "control/ctl/output.h"
#include "control/doctor/checks.h"
#include "control/doctor/read_facts.h"

namespace cw::control {

using Json = nlohmann::ordered_json;

int run_doctor(const Invocation& invocation) {
  const std::string file(invocation.has("--config") ? invocation.value_of("--config") : "/etc/causeway/causeway.toml");
  uint32_t faults = 0;
  uint32_t warnings = 0;
  Json rows = Json::array();
  std::string text;
  for (const doctor::Finding& finding : doctor::judge(doctor::read_facts(file))) {
    faults += finding.severity == doctor::Severity::kFault ? 1 : 0;
    warnings += finding.severity == doctor::Severity::kWarning ? 1 : 0;
    rows.push_back(
        {{"check", finding.check}, {"severity", to_string(finding.severity)}, {"what", finding.what}, {"fix", finding.fix}});
    text += fmt::format("{:<8} {:<14} {}\n", to_string(finding.severity), finding.check, finding.what);
    text += finding.fix.empty() ? "" : fmt::format("{:<23} -> {}\n", "", finding.fix);
  }
  text += fmt::format("{} faults, {} warnings\n", faults, warnings);
  const int printed = invocation.global.json
                          ? print_json(Json{{"findings", rows}, {"faults", faults}, {"warnings", warnings}}, false)
                          : print(text);
  return printed != kExitDone ? printed : faults > 0 ? kExitBadNews : kExitDone;
}

}  // namespace cw::control
