// How a setting of a TOML file is described: its name, the member it goes to, its range and what it means. Tables of these drive
// parsing and suggestions (section_parser.h) and the reference text.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "control/config/ip_text.h"

namespace cw::control {

// An enum member, by the names of its values in order.
template <typename S>
struct Choice {
  std::span<const char* const> names;
  uint32_t (*get)(const S&);
  void (*set)(S&, uint32_t);
};

template <typename S>
using Member = std::variant<bool S::*, uint16_t S::*, uint32_t S::*, uint64_t S::*, std::string S::*, std::vector<uint32_t> S::*,
                            std::vector<std::string> S::*, std::vector<IpPrefix> S::*, std::vector<SocketAddress> S::*,
                            std::optional<IpAddress> S::*, std::optional<SocketAddress> S::*, Choice<S>>;

// What a text value must look like.
enum class TextRule : uint8_t {
  kAny,     // 1..256 printable characters
  kName,    // 1..32 characters of a-z 0-9 - _
  kPath,    // absolute, at most 107 characters (a UNIX socket address holds no more)
  kHost,    // an interface address: the prefix length must be written
  kSocket,  // address:port, or "off"
};

struct Bounds {
  uint64_t min = 0;  // of a number, or of each number in a list
  uint64_t max = 0;
  uint64_t multiple = 1;   // the number is a multiple of this
  uint32_t count_max = 0;  // entries of a list
};

template <typename S>
struct Key {
  const char* name;
  Member<S> member;
  const char* help;               // sentences for the operator
  const char* example = nullptr;  // as written in TOML; shown where there is no default
  Bounds bounds = {};
  TextRule rule = TextRule::kAny;
  bool required = false;
  bool shown = false;  // the reference configuration sets it, though it is not always required
  bool live = false;   // a reload applies it: at once, or to connections that begin from then on
};

struct SectionInfo {
  const char* name;
  const char* help;
  uint32_t count_max = 0;  // 0 = [name], once; else [[name]], up to so often
  bool optional = false;   // [[name]]: none is usual; the reference shows it as a comment
  bool live = false;       // [[name]]: a reload adds and removes whole ones, too
  // Why the others of its keys, and whole sections, wait for a restart.
  const char* waits = "";
};

template <typename S>
struct Section {
  SectionInfo info;
  std::span<const Key<S>> keys;
};

}  // namespace cw::control
