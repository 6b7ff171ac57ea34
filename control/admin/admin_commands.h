// One request line to one answer line. Pure but for what it asks of the gateway; the socket is in admin_server.
#pragma once

#include <string>
#include <string_view>

#include "control/admin/gateway_control.h"
#include "control/admin/gateway_view.h"

namespace cw::control {

// What is asked. Both outlive the call.
struct AdminTarget {
  GatewayView& view;
  GatewayControl& control;
};

// Who asks.
struct AdminCaller {
  std::string who;          // for log lines and refusals: "alice (uid 1000)"
  bool may_change = false;  // else it may look
  int file = -1;            // an open file that came with the request; the caller of admin_answer() keeps it. -1: none
};

// `line` has no line end and may be anything. The result is JSON on one line, without line end. With "error" it has "kind", too:
// "bad_request", "unknown_command", "refused", "busy", "failed".
[[nodiscard]] std::string admin_answer(std::string_view line, const AdminCaller& caller, const AdminTarget& target);

// {"error": text, "kind": kind} as it goes over the socket.
[[nodiscard]] std::string admin_error(std::string_view text, const char* kind);

}  // namespace cw::control
