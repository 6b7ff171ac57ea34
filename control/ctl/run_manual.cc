#include "control/ctl/run_manual.h"

#include "control/ctl/completion.h"
#include "control/ctl/manual.h"
#include "control/ctl/output.h"

namespace cw::control {

int run_manual(const Invocation& invocation) {
  return print(invocation.value_of("PAGE") == "causeway.toml" ? config_manual() : ctl_manual(command_table()));
}

int run_completion(const Invocation& invocation) {
  return print(completion_script(invocation.value_of("SHELL")));
}

}  // namespace cw::control
