// What the suite found: a line for each shape, and the counts.
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <functional>
#include <string>

namespace cw::nfs {

// `filter`: only shapes whose name contains it are tried.
class Report {
 public:
  explicit Report(std::string filter) : filter_(std::move(filter)) {}

  // `over` says, when something does, why nothing more can be tried: the shapes left are then counted as one failure.
  void begin(const std::string& prefix, std::function<std::string()> over) {
    prefix_ = prefix;
    over_ = std::move(over);
    ended_ = false;
  }
  // Tries one shape. It returns nothing when all was as it should, else "expected ..., got ...".
  void shape(const std::string& name, const std::function<std::string()>& attempt) {
    const std::string whole = prefix_ + "/" + name;
    if (ended_ || whole.find(filter_) == std::string::npos) {
      return;
    }
    std::string trouble = attempt();
    if (const std::string end = over_(); !end.empty()) {
      ended_ = true;
      trouble += fmt::format(" ({}; no further shape is tried)", end);
    }
    ++(trouble.empty() ? passed_ : failed_);
    fmt::print("{}\n", trouble.empty() ? "ok " + whole : fmt::format("FAIL {}: {}", whole, trouble));
    std::fflush(stdout);
  }
  [[nodiscard]] unsigned passed() const { return passed_; }
  [[nodiscard]] unsigned failed() const { return failed_; }

 private:
  std::string filter_;
  std::string prefix_;
  std::function<std::string()> over_;
  bool ended_ = false;
  unsigned passed_ = 0;
  unsigned failed_ = 0;
};

[[nodiscard]] inline std::string expected(const std::string& wanted, const std::string& got) {
  return fmt::format("expected {}, got {}", wanted, got);
}

}  // namespace cw::nfs
