// What a thread says before it ends the process: for whoever notes the signal that follows.
#pragma once

#include <cstddef>
#include <string_view>

namespace cw {

inline constexpr size_t kLastWordsMax = 319;  // longer ones are cut

// Of this thread.
void set_last_words(std::string_view words) noexcept;
// Empty: none. A signal handler may ask.
[[nodiscard]] std::string_view last_words() noexcept;

}  // namespace cw
