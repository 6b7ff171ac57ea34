#include "control/config/suggest.h"

#include <algorithm>

namespace cw::control {

size_t edit_distance(std::string_view a, std::string_view b) {
  // Three rows of the dynamic programme: row i needs rows i - 1 and i - 2.
  std::vector<size_t> before(b.size() + 1);
  std::vector<size_t> last(b.size() + 1);
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) {
    last[j] = j;
  }
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, replaced});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
    before.swap(last);
    last.swap(row);
  }
  return last[b.size()];
}

std::optional<std::string> nearest(std::string_view word, const std::vector<std::string>& known) {
  constexpr size_t kWordMax = 64;  // longer is no typing mistake
  if (word.size() > kWordMax) {
    return std::nullopt;
  }
  size_t best_distance = 3;
  std::optional<std::string> best;
  for (const std::string& candidate : known) {
    const size_t distance = edit_distance(word, candidate);
    // Up to two mistakes, and in less than half of the word: of a short one two would leave nothing to know it by.
    if (distance < best_distance && distance * 2 < std::max(word.size(), candidate.size())) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

}  // namespace cw::control
