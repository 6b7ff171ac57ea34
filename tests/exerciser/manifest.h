// What a run left, for somebody who looks at the server's side: one line per file.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace cw::exerciser {

// As zlib's crc32(), which every language has.
[[nodiscard]] uint32_t crc32(std::span<const uint8_t> bytes);

// "CRC-32 size path", the first as eight hexadecimal digits.
[[nodiscard]] std::string manifest_line(std::span<const uint8_t> bytes, const std::string& path);

}  // namespace cw::exerciser
