// What the build found, for sentences about what is missing.
#pragma once

namespace cw::control {

// clang and libbpf were there: causewayd has its XDP program.
extern const bool kHasXdpProgram;

}  // namespace cw::control
