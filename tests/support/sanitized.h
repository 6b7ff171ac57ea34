// What tries much of the same tries less of it under a sanitizer, which is ten times slower. The plain build has tried the rest.
#pragma once

namespace cw::test {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

}  // namespace cw::test
