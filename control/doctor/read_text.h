// Files of /proc and /sys as text and numbers.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace cw::control::doctor {

// Empty when it cannot be read.
[[nodiscard]] std::string read_text(const std::filesystem::path& path);
// Its first word.
[[nodiscard]] std::string read_word(const std::filesystem::path& path);
[[nodiscard]] uint64_t read_number(const std::filesystem::path& path, uint64_t otherwise = 0);

}  // namespace cw::control::doctor
