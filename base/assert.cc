#include "base/assert.h"

#include <cstdio>
#include <cstdlib>

namespace cw {

// The one place below dataplane/ that writes to stderr: it runs once, and nothing runs after it.
void assertion_failed(const char* condition, const char* file, int line) noexcept {
  std::fprintf(stderr, "causeway: internal error: %s is false at %s:%d\n", condition, file, line);
  std::abort();
}

}  // namespace cw
