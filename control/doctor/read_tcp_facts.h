// Reads what iWARP takes of this host: addresses, TCP ports, descriptors, the settings of the kernel's TCP. Changes nothing.
#pragma once

#include "control/doctor/facts.h"

namespace cw::control::doctor {

void read_tcp_facts(Facts& facts);

}  // namespace cw::control::doctor
