#include "control/ctl/table.h"

#include <algorithm>

#include "base/assert.h"

namespace cw::control {

Table::Table(std::vector<std::string> titles, Detail detail) : titles_(std::move(titles)) {
  for (std::string& title : titles_) {
    const bool is_wide = title.starts_with('+');
    title.erase(0, is_wide ? 1 : 0);
    shown_.push_back(!is_wide || detail == Detail::kWide);
    right_.push_back(title.starts_with('>'));
    title.erase(0, right_.back() ? 1 : 0);
  }
}

void Table::add(std::vector<std::string> cells) {
  CW_ASSERT(cells.size() == titles_.size());
  rows_.push_back(std::move(cells));
}

std::string Table::text(size_t indent) const {
  std::vector<size_t> widths;
  for (size_t column = 0; column < titles_.size(); ++column) {
    widths.push_back(titles_[column].size());
    for (const auto& row : rows_) {
      widths[column] = std::max(widths[column], row[column].size());
    }
  }
  std::string text;
  const auto add_line = [&](const std::vector<std::string>& cells) {
    std::string line(indent, ' ');
    for (size_t column = 0; column < cells.size(); ++column) {
      if (!shown_[column]) {
        continue;
      }
      const std::string padding(widths[column] - cells[column].size(), ' ');
      line += right_[column] ? padding + cells[column] : cells[column] + padding;
      line += "  ";
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + '\n';
  };
  add_line(titles_);
  for (const auto& row : rows_) {
    add_line(row);
  }
  return text;
}

}  // namespace cw::control
