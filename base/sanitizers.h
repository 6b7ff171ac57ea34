// Whether this is compiled with a sanitizer: g++ defines a macro for each, clang has features.
#pragma once

#if defined(__SANITIZE_ADDRESS__)
#define CW_ADDRESS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define CW_ADDRESS_SANITIZER 1
#endif
#endif

#if defined(__SANITIZE_THREAD__)
#define CW_THREAD_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define CW_THREAD_SANITIZER 1
#endif
#endif
