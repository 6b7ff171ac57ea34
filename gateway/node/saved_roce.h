// An established connection of RoCE as bytes, for the process that follows this one on the same host. Both run the same format, or
// the connection is not handed over: what is read here was written by our own kind, and is checked all the same.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/bytes.h"
#include "control/cm/connection_manager.h"
#include "rocev2/rc/rc_options.h"

namespace cw::node {

struct SavedRoce {
  cm::EstablishedState cm;
  // Of the path its UDP source port alone: the rest follows from the address. The peer's queue pair number is in `cm`.
  rc::RcConnect rc;
};

void append(std::vector<uint8_t>& out, const SavedRoce& state);
// nullopt: it is something else.
[[nodiscard]] std::optional<SavedRoce> parse_saved_roce(Bytes bytes);

}  // namespace cw::node
