// Values of answers as text for people. Pure. What is missing shows as "-", so that a newer or older gateway still shows.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace cw::control {

// One value as text; "-" for what is not there or empty. Control characters are replaced: what a peer sent must not steer the
// terminal.
[[nodiscard]] std::string text_of(const nlohmann::ordered_json& object, const char* key);
// 0 for what is not there.
[[nodiscard]] double number_of(const nlohmann::ordered_json& object, const char* key);
// False for what is not there.
[[nodiscard]] bool flag_of(const nlohmann::ordered_json& object, const char* key);
// An empty list for what is not there.
[[nodiscard]] const nlohmann::ordered_json& list_of(const nlohmann::ordered_json& object, const char* key);
// "3d 04:05:06", "04:05:06".
[[nodiscard]] std::string duration_text(double seconds);
// 0.000012 -> "12 us".
[[nodiscard]] std::string short_time_text(double seconds);
// 1536 -> "1.5 KiB".
[[nodiscard]] std::string bytes_text(double bytes);
// With blanks between; "-" for none.
[[nodiscard]] std::string join(const nlohmann::ordered_json& list);
// 2748 -> "0x000abc".
[[nodiscard]] std::string qpn_text(const nlohmann::ordered_json& object, const char* key);

}  // namespace cw::control
