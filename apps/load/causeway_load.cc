// causeway-load: an RPC-over-RDMA client that loads a gateway and says what came of it.
//
// Opens connections through the real transport on a DPDK port of its own, makes calls in a closed or an open loop, checks every
// answer, and ends with rates and latencies, for people and for programs. Exit status: 0 all answers were right, 1 not, or no
// measurement came about, 2 wrong usage. Besides that it has subcommands, each in files of its own.
#include <array>
#include <string_view>

#include "apps/load/load_command.h"
#include "apps/load/pktgen/command.h"

namespace {

struct Subcommand {
  std::string_view name;
  int (*run)(int argc, char** argv);  // argv[0] is the subcommand's name
};

constexpr std::array kSubcommands = {
    Subcommand{"pktgen", cw::pktgen::run_command},
};

}  // namespace

int main(int argc, char** argv) {
  for (const Subcommand& subcommand : kSubcommands) {
    if (argc > 1 && subcommand.name == argv[1]) {
      return subcommand.run(argc - 1, argv + 1);
    }
  }
  return cw::load::run_load_command(argc, argv);
}
