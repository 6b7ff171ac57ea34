// What every fuzz target defines, and how it says that something is wrong.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
// What a target may define: called when its whole corpus has been replayed, to say that the corpus reaches what it is for.
extern "C" [[gnu::weak]] void fuzz_after_corpus();

// Unlike an assertion of the code under test: the property that this target checks does not hold.
#define FUZZ_CHECK(condition)                                                            \
  do {                                                                                   \
    if (!(condition)) {                                                                  \
      std::fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                      \
    }                                                                                    \
  } while (false)
