// journald's own socket, to which a line goes with its fields: systemd's native protocol, spoken without its library. An entry is
// one datagram of KEY=value lines. A value with a line end in it is sent as its key, a line end, its length in 8 bytes (little
// endian), the value, and a line end.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "control/socket/unique_fd.h"

namespace cw::telemetry {

inline constexpr const char* kJournalSocket = "/run/systemd/journal/socket";

// `key`: capital letters, digits and underscores.
void append_journal_field(std::string& entry, std::string_view key, std::string_view value);

// Not for two threads at a time.
class JournalSocket {
 public:
  explicit JournalSocket(std::string path) : path_(std::move(path)) {}

  enum class Sent : uint8_t {
    kTaken,
    kNoRoom,   // journald does not keep up
    kRefused,  // nobody is there, or may be asked
  };
  // Never waits. The path is looked up each time, so a journald that was started again is found.
  [[nodiscard]] Sent send(std::string_view entry);

 private:
  std::string path_;
  control::UniqueFd fd_;
};

}  // namespace cw::telemetry
