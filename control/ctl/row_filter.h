// Which rows of an answer a command line asks for. Pure.
#pragma once

#include <nlohmann/json.hpp>

#include "control/ctl/command.h"

namespace cw::control {

// Takes the rows out that do not fit. Of one keyword any value has to fit, of different keywords all. A row without the field
// fits nothing.
void filter_rows(const Invocation& invocation, nlohmann::ordered_json& answer);

}  // namespace cw::control
