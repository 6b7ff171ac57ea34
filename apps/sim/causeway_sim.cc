// causeway-sim: the deterministic simulation as a program. See apps/sim/README.md.
#include <malloc.h>

#include "apps/sim/sim_command.h"
#include "apps/sim/sim_modes.h"

int main(int argc, char** argv) {
  cw::sim::SimSettings settings;
  if (const auto status = cw::sim::parse_command(argc, argv, settings)) {
    return *status;
  }
  // Worlds come and go by the thousand: keep their memory.
  (void)mallopt(M_MMAP_THRESHOLD, 1 << 30);
  (void)mallopt(M_TRIM_THRESHOLD, 1 << 30);
  return cw::sim::run_mode(settings);
}
