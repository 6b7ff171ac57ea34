#include "control/doctor/read_text.h"

#include <fstream>
#include <iterator>
#include <sstream>

namespace cw::control::doctor {

std::string read_text(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::string read_word(const std::filesystem::path& path) {
  std::istringstream text(read_text(path));
  std::string word;
  text >> word;
  return word;
}

uint64_t read_number(const std::filesystem::path& path, uint64_t otherwise) {
  std::istringstream text(read_text(path));
  uint64_t number = otherwise;
  text >> number;
  return text.fail() ? otherwise : number;
}

}  // namespace cw::control::doctor
