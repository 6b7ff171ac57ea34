#include "base/assert.h"

#include <cstdio>
#include <cstdlib>

#include "base/last_words.h"

namespace cw {

// The one place below dataplane/ that writes to stderr: it runs once, and nothing runs after it.
void assertion_failed(const char* condition, const char* file, int line) noexcept {
  char words[kLastWordsMax];
  (void)std::snprintf(words, sizeof(words), "internal error: %s is false at %s:%d", condition, file, line);
  set_last_words(words);
  std::fprintf(stderr, "causeway: internal error: %s is false at %s:%d\n", condition, file, line);
  std::abort();
}

}  // namespace cw
