// Aligned columns: text to the left, numbers to the right, two blanks between.
#pragma once

#include <string>
#include <vector>

namespace cw::control {

class Table {
 public:
  // A title that begins with '>' is a column of numbers: aligned right, shown without the '>'.
  explicit Table(std::vector<std::string> titles);
  void add(std::vector<std::string> cells);  // as many as titles
  [[nodiscard]] bool empty() const { return rows_.empty(); }
  // Every line indented by `indent` blanks and ended; no blanks at line ends.
  [[nodiscard]] std::string text(size_t indent) const;

 private:
  std::vector<bool> right_;
  std::vector<std::string> titles_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace cw::control
