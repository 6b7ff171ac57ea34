// `causeway-load pktgen`: writes captures for packet generators, and makes the queue pair that some of them aim at.
#pragma once

namespace cw::pktgen {

// `argv[0]` is the word pktgen. Returns the exit status: 0 written, 1 not, 2 wrong usage.
[[nodiscard]] int run_command(int argc, char** argv);

}  // namespace cw::pktgen
