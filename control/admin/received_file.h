// Bytes of a UNIX socket, and the open file that comes with them (SCM_RIGHTS).
#pragma once

#include <sys/types.h>

#include "base/bytes.h"
#include "control/socket/unique_fd.h"

namespace cw::control {

// As recv(); what was sent along goes to `file`. Of several files the last is kept, and the others are closed.
[[nodiscard]] ssize_t receive_with_file(int socket, MutableBytes buffer, UniqueFd& file);
// As send() of a connected socket. file: -1 for none.
[[nodiscard]] ssize_t send_with_file(int socket, Bytes bytes, int file);

}  // namespace cw::control
