#include "control/recorder/last_words.h"

#include <fmt/core.h>
#include <signal.h>
#include <string.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <sstream>

namespace cw::control::recorder {
namespace {

constexpr size_t kModulesMax = 4096;

std::string signal_name(int32_t signal) {
  const char* name = sigabbrev_np(signal);
  return name != nullptr ? fmt::format("SIG{}", name) : fmt::format("signal {}", signal);
}

template <size_t N>
std::string text_of_array(const char (&text)[N]) {
  return printable({text, strnlen(text, N)});
}

// Who sent it, where somebody did, or the address that the processor could not use.
std::string cause_of(const Fault& fault, uint64_t own_pid) {
  if (fault.code > 0) {
    return fault.signal == SIGSEGV || fault.signal == SIGBUS ? fmt::format(" (address {:#x})", fault.address) : "";
  }
  const bool is_own = fault.sender_pid == 0 || static_cast<uint64_t>(fault.sender_pid) == own_pid;
  return is_own ? "" : fmt::format(" (sent by process {}, user {})", fault.sender_pid, fault.sender_uid);
}

std::string place_of(uint64_t address, const std::vector<Module>& modules) {
  const auto found =
      std::ranges::find_if(modules, [address](const Module& module) { return module.begin <= address && address < module.end; });
  if (found == modules.end()) {
    return fmt::format("{:#x}", address);
  }
  return fmt::format("{}+{:#x} (build id {})", found->file, address - found->begin, found->build_id);
}

uint64_t hex_of(std::string_view text) {
  uint64_t value = 0;
  (void)std::from_chars(text.data(), text.data() + text.size(), value, 16);
  return value;
}

}  // namespace

std::string printable(std::string_view text) {
  std::string clean(text);
  std::ranges::replace_if(
      clean, [](char c) { return static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) == 0x7f; }, '?');
  return clean;
}

std::string time_text(int64_t unix_ms) {
  constexpr int64_t kLatestMs = int64_t{253402300799} * 1000;  // the year 9999; a recording may claim anything
  const int64_t bounded = std::clamp<int64_t>(unix_ms, 0, kLatestMs);
  const time_t seconds = bounded / 1000;
  tm parts{};
  gmtime_r(&seconds, &parts);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday,
                     parts.tm_hour, parts.tm_min, parts.tm_sec, bounded % 1000);
}

std::string to_text(const Head& head) {
  return fmt::format("version {}\ninstance {}\nconfig {}\nprogram {}\npid {}\n", head.version, head.instance, head.config_path,
                     head.program, head.pid);
}

Head parse_head(std::string_view text) {
  Head head;
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    const size_t space = std::min(line.find(' '), line.size());
    const std::string value = printable(std::string_view(line).substr(std::min(space + 1, line.size())));
    const std::string_view name = std::string_view(line).substr(0, space);
    if (name == "version") {
      head.version = value;
    } else if (name == "instance") {
      head.instance = value;
    } else if (name == "config") {
      head.config_path = value;
    } else if (name == "program") {
      head.program = value;
    } else if (name == "pid") {
      (void)std::from_chars(value.data(), value.data() + value.size(), head.pid);
    }
  }
  return head;
}

std::string to_text(const Module& module) {
  return fmt::format("{:x} {:x} {} {}\n", module.begin, module.end, module.build_id.empty() ? "-" : module.build_id, module.file);
}

std::vector<Module> parse_modules(std::string_view text) {
  std::vector<Module> modules;
  std::istringstream lines{std::string(text)};
  for (std::string line; modules.size() < kModulesMax && std::getline(lines, line);) {
    std::istringstream words(line);
    std::string begin;
    std::string end;
    Module module;
    words >> begin >> end >> module.build_id >> std::ws;
    std::getline(words, module.file);
    module.begin = hex_of(begin);
    module.end = hex_of(end);
    module.build_id = printable(module.build_id);
    module.file = printable(module.file);
    modules.push_back(std::move(module));
  }
  return modules;
}

std::optional<Fault> fault_of(const Recording& recording) {
  const std::string_view text = recording.text(Area::kFault);
  if (text.size() != sizeof(Fault)) {
    return std::nullopt;
  }
  Fault fault;
  std::memcpy(&fault, text.data(), sizeof(fault));
  return fault;
}

Head head_of(const Recording& recording) {
  return parse_head(recording.text(Area::kHead));
}

bool has_crashed(const Recording& recording) {
  return recording.newest(Area::kFault) != nullptr || recording.newest(Area::kEnd) == nullptr;
}

std::string how_it_ended(const Recording& recording) {
  if (const std::optional<Fault> fault = fault_of(recording)) {
    const std::string words = text_of_array(fault->words);
    return fmt::format("ended by {}{} in thread {}{}, at {}", signal_name(fault->signal),
                       cause_of(*fault, head_of(recording).pid), text_of_array(fault->thread_name),
                       words.empty() ? "" : ": " + words, time_text(recording.newest(Area::kFault)->unix_ms));
  }
  if (const Entry* end = recording.newest(Area::kEnd)) {
    return end->tag == static_cast<uint32_t>(End::kInOrder)
               ? fmt::format("ended in order, at {}", time_text(end->unix_ms))
               : fmt::format("did not start: {}, at {}", printable(end->text), time_text(end->unix_ms));
  }
  const Entry* seen = recording.newest(Area::kCounters);
  return fmt::format("ended without a word, as SIGKILL ends it: somebody's, or the kernel's for want of memory{}",
                     seen == nullptr ? "" : fmt::format("; last seen at {}", time_text(seen->unix_ms)));
}

std::string trail_text(const Recording& recording) {
  const std::vector<Module> modules = parse_modules(recording.text(Area::kModules));
  const std::string_view trail = recording.text(Area::kTrail);
  const std::optional<Fault> fault = fault_of(recording);
  std::string text = fault && fault->instruction != 0 ? place_of(fault->instruction, modules) + "\n\n" : "";
  for (size_t at = 0; at + sizeof(uint64_t) <= trail.size(); at += sizeof(uint64_t)) {
    uint64_t address = 0;
    std::memcpy(&address, trail.data() + at, sizeof(address));
    text += place_of(address, modules) + "\n";
  }
  return text;
}

}  // namespace cw::control::recorder
