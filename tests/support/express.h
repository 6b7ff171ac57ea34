// Whether what is under test takes the express paths (EndpointOptions::express, ServerShared::express). Programs of tests of the
// protocol run a second time with CAUSEWAY_EXPRESS=no (tests/unit/rc, tests/unit/endpoint): what they say of the general paths is
// tried where nothing is predicted, too.
#pragma once

#include <cstdlib>
#include <string_view>

namespace cw::test {

[[nodiscard]] inline bool takes_express_paths() {
  const char* const given = std::getenv("CAUSEWAY_EXPRESS");
  return given == nullptr || std::string_view(given) != "no";
}

}  // namespace cw::test
