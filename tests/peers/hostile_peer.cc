// hostile-peer: causeway-load as a client that means harm, for the drills of tests/ops. A second after its first frame packets
// of one kind do not leave it any more, while its stack and its load go on. Not installed.
//
//   hostile-peer no_acks ...          acknowledges nothing: replies are sent to it again and again
//   hostile-peer no_read_answers ...  answers no READ: calls with Read chunks never become whole
//
// What follows are causeway-load's own options.
#include <cstdio>
#include <string_view>

#include "apps/load/load_command.h"

int main(int argc, char** argv) {
  const std::string_view what = argc > 1 ? argv[1] : "";
  cw::load::LinkFaultOptions faults;
  faults.direction = cw::load::FaultDirection::kOut;
  if (what == "no_acks") {
    faults.withheld = cw::wire::OpcodeKind::kAcknowledge;
  } else if (what == "no_read_answers") {
    faults.withheld = cw::wire::OpcodeKind::kReadResponse;
  } else {
    std::fputs("hostile-peer: says no_acks or no_read_answers first, then the options of causeway-load\n", stderr);
    return 2;
  }
  return cw::load::run_load_command(argc - 1, argv + 1, faults);
}
