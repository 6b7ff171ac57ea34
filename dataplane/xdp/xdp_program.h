// The compiled XDP program (causeway_xdp.c), as clang's object file. Part of the gateway, so that there is no file to install, to
// find, or to be of another version.
#pragma once

#include "base/bytes.h"

namespace cw::dataplane {

// Empty in a build without clang and libbpf.
[[nodiscard]] Bytes xdp_program();

}  // namespace cw::dataplane
