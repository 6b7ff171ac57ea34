// What the entries of a recording say, and the sentences made of them. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "control/recorder/recording.h"

namespace cw::control::recorder {

// Area::kHead: a line each, "name value".
struct Head {
  std::string version;
  std::string instance;
  std::string config_path;
  std::string program;  // its file
  uint64_t pid = 0;
};
[[nodiscard]] std::string to_text(const Head& head);
[[nodiscard]] Head parse_head(std::string_view text);

// Area::kEnd: its tag.
enum class End : uint32_t {
  kInOrder = 1,
  kNotStarted = 2,  // the text says why
};

// Area::kFault, as it is: a signal handler writes it, and formats nothing.
struct Fault {
  int32_t signal = 0;
  int32_t code = 0;      // si_code
  uint64_t address = 0;  // that could not be used; of signals that the processor causes
  uint64_t instruction = 0;
  int32_t thread = 0;
  int32_t sender_pid = 0;  // who sent it; 0: nobody did
  uint32_t sender_uid = 0;
  char thread_name[16] = {};
  char words[324] = {};  // what was said of it: an assertion
};
static_assert(sizeof(Fault) <= text_bytes_max(Area::kFault));
inline constexpr uint32_t kTrailMax = text_bytes_max(Area::kTrail) / sizeof(uint64_t);  // addresses

// Area::kModules: a line each, "BEGIN END BUILD-ID FILE" with hexadecimal numbers; "-" where there is no build id.
struct Module {
  uint64_t begin = 0;
  uint64_t end = 0;
  std::string build_id;
  std::string file;
};
[[nodiscard]] std::string to_text(const Module& module);
[[nodiscard]] std::vector<Module> parse_modules(std::string_view text);

[[nodiscard]] std::optional<Fault> fault_of(const Recording& recording);
[[nodiscard]] Head head_of(const Recording& recording);
// It ended otherwise than it should: by a signal, or without a word. Of a process that has ended.
[[nodiscard]] bool has_crashed(const Recording& recording);

// "ended by SIGSEGV (address 0x8) in thread cw-poll-1, at 2026-01-31T12:00:00.123Z", "ended in order, at ..." Of a process that
// has ended.
[[nodiscard]] std::string how_it_ended(const Recording& recording);
// The instruction that it was at, and behind an empty line the functions that it was in, innermost first, one a line:
// "causewayd+0x1234 (build id 0123abcd)". Empty: nothing is known.
[[nodiscard]] std::string trail_text(const Recording& recording);

// "2026-01-31T12:00:00.123Z"
[[nodiscard]] std::string time_text(int64_t unix_ms);
// With "?" in place of what a terminal would take for a command.
[[nodiscard]] std::string printable(std::string_view text);

}  // namespace cw::control::recorder
