// What tries much of the same tries less of it under a sanitizer, which is ten times slower. The plain build has tried the rest.
#pragma once

#include "base/sanitizers.h"

namespace cw::test {

#if defined(CW_ADDRESS_SANITIZER) || defined(CW_THREAD_SANITIZER)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

}  // namespace cw::test
