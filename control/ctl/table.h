// Aligned columns: text to the left, numbers to the right, two blanks between.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace cw::control {

// How much a table shows: what fits 120 columns where names are no longer than usual, or all that there is.
enum class Detail : uint8_t { kNarrow, kWide };

class Table {
 public:
  // A title that begins with '+' is shown with kWide only. Then a '>' says that it is a column of numbers, aligned right. Neither
  // is shown.
  explicit Table(std::vector<std::string> titles, Detail detail = Detail::kWide);
  void add(std::vector<std::string> cells);  // as many as titles
  [[nodiscard]] bool empty() const { return rows_.empty(); }
  // Every line indented by `indent` blanks and ended; no blanks at line ends.
  [[nodiscard]] std::string text(size_t indent) const;

 private:
  std::vector<bool> right_;
  std::vector<bool> shown_;
  std::vector<std::string> titles_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace cw::control
