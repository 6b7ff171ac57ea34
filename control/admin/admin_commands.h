// One request line to one answer line. Pure but for what it asks of the view; the socket is in admin_server.
#pragma once

#include <string>
#include <string_view>

#include "control/admin/gateway_view.h"

namespace cw::control {

// `line` has no line end and may be anything. The result is JSON on one line, without line end.
[[nodiscard]] std::string admin_answer(std::string_view line, GatewayView& view);

// {"error": text} as it goes over the socket.
[[nodiscard]] std::string admin_error(std::string_view text);

}  // namespace cw::control
