// Assertions that survive release builds.
//
// CW_ASSERT states what our own code guarantees; it is on in every build and ends the process with one line. No CW_ASSERT
// may depend on what a peer sent: a peer's fault is counted and answered or dropped, never asserted.
// CW_DASSERT is for checks that are too dear per packet in release; it is on in debug, simulation and fuzz builds.
#pragma once

namespace cw {

[[noreturn]] void assertion_failed(const char* condition, const char* file, int line) noexcept;

}  // namespace cw

#define CW_ASSERT(condition)                                  \
  do {                                                        \
    if (!(condition)) [[unlikely]] {                          \
      ::cw::assertion_failed(#condition, __FILE__, __LINE__); \
    }                                                         \
  } while (false)

#ifdef NDEBUG
#define CW_DASSERT(condition) \
  do {                        \
  } while (false)
#else
#define CW_DASSERT(condition) CW_ASSERT(condition)
#endif
