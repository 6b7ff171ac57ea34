#include "control/ctl/client.h"

#include <fmt/core.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "control/admin/received_file.h"
#include "control/socket/unique_fd.h"

namespace cw::control {
namespace {

using Json = nlohmann::ordered_json;

constexpr timeval kTimeout{.tv_sec = 5, .tv_usec = 0};
constexpr size_t kAnswerBytesMax = 64 << 20;  // ten thousand connections take 5 MB

AdminReply refuse(std::string problem, const char* kind = "unreachable") {
  return {{}, Refusal{kind, std::move(problem)}};
}

// What to do about a socket that cannot be connected to.
std::string connect_problem(const std::string& path, int error) {
  switch (error) {
    case ENOENT:
      return fmt::format(
          "{}: no such socket. Is causewayd running? Another instance is chosen by --instance, another path by --socket", path);
    case ECONNREFUSED:
      return fmt::format("{}: nobody listens. Is causewayd running? This file was left behind by one that was killed", path);
    case EACCES:
    case EPERM:
      return fmt::format("{}: permission denied. Run this as root, or as a member of the socket's group", path);
    default:
      return fmt::format("{}: {}", path, std::strerror(error));
  }
}

// The answer line, or a problem.
std::string receive_line(int fd, std::string& problem) {
  std::string text;
  std::array<char, 65536> buffer;
  while (text.find('\n') == std::string::npos) {
    const ssize_t got = recv(fd, buffer.data(), buffer.size(), 0);
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got < 0) {
      problem = errno == EAGAIN ? "causewayd did not answer within 5 s" : fmt::format("causewayd: {}", std::strerror(errno));
      return {};
    }
    if (got == 0) {
      problem = "causewayd closed the connection without an answer";
      return {};
    }
    text.append(buffer.data(), static_cast<size_t>(got));
    if (text.size() > kAnswerBytesMax) {
      problem = "the answer is too long";
      return {};
    }
  }
  return text.substr(0, text.find('\n'));
}

}  // namespace

AdminReply ask_gateway(const std::string& socket_path, const Json& request, int file) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (socket_path.empty() || socket_path.size() >= sizeof(address.sun_path)) {
    return refuse(fmt::format("'{}' is no socket path: it has 1 to {} characters", socket_path, sizeof(address.sun_path) - 1));
  }
  socket_path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  const UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &kTimeout, sizeof(kTimeout));
  setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &kTimeout, sizeof(kTimeout));
  if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    return refuse(connect_problem(socket_path, errno));
  }
  const std::string line = request.dump(-1, ' ', false, Json::error_handler_t::replace) + '\n';
  const Bytes bytes(reinterpret_cast<const uint8_t*>(line.data()), line.size());
  if (send_with_file(fd.get(), bytes, file) != static_cast<ssize_t>(line.size())) {
    return refuse(fmt::format("{}: {}", socket_path, std::strerror(errno)));
  }
  std::string problem;
  const std::string answer = receive_line(fd.get(), problem);
  if (!problem.empty()) {
    return refuse(problem);
  }
  Json json = Json::parse(answer, nullptr, false);
  if (!json.is_object()) {
    return refuse("the answer is not JSON; does this socket belong to causewayd?");
  }
  if (const auto error = json.find("error"); error != json.end()) {
    const auto kind = json.find("kind");
    const bool refused = kind != json.end() && *kind == "refused";
    return refuse(error->is_string() ? error->get<std::string>() : error->dump(), refused ? "refused" : "failed");
  }
  return {std::move(json), {}};
}

}  // namespace cw::control
