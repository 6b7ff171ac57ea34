// What the build is and found, for sentences about what is missing.
#pragma once

namespace cw::control {

extern const char* const kProgramVersion;
// clang and libbpf were there: causewayd has its XDP program.
extern const bool kHasXdpProgram;

}  // namespace cw::control
