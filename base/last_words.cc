#include "base/last_words.h"

#include <algorithm>
#include <cstring>

namespace cw {
namespace {

thread_local char said[kLastWordsMax + 1];

}  // namespace

void set_last_words(std::string_view words) noexcept {
  const size_t length = std::min(words.size(), kLastWordsMax);
  std::memcpy(said, words.data(), length);
  said[length] = '\0';
}

std::string_view last_words() noexcept {
  return said;
}

}  // namespace cw
