#include "control/ctl/run_capture.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string>

#include "control/ctl/client.h"
#include "control/ctl/output.h"
#include "control/ctl/render_control.h"
#include "control/ctl/run_command.h"
#include "control/socket/unique_fd.h"

namespace cw::control {

int run_capture_start(const Invocation& invocation) {
  const bool json = invocation.global.json;
  std::error_code unknown;
  const std::filesystem::path path = std::filesystem::absolute(invocation.value_of("FILE"), unknown);
  // What nobody has written to yet is removed again; the link that a path may end in is not followed.
  const UniqueFd file(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file.valid()) {
    return print_error({"failed", errno == EEXIST ? fmt::format("{} exists, and is not overwritten", path.string())
                                                  : fmt::format("{}: {}", path.string(), std::strerror(errno))},
                       json);
  }
  nlohmann::ordered_json request = request_of(invocation);
  request["file"] = path.string();
  const AdminReply reply = ask_gateway(socket_of(invocation.global), request, file.get());
  if (reply.refusal) {
    (void)unlink(path.c_str());
    return print_error(*reply.refusal, json);
  }
  return json ? print_json(reply.answer, false) : print(render_capture(reply.answer));
}

}  // namespace cw::control
