// Runs a fuzz target over files without a fuzzer: replay DIRECTORY-OR-FILE...
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include "tests/fuzz/fuzz_target.h"

namespace {

std::vector<std::filesystem::path> inputs_of(int count, char** arguments) {
  std::vector<std::filesystem::path> inputs;
  for (int i = 1; i < count; ++i) {
    if (!std::filesystem::is_directory(arguments[i])) {
      inputs.emplace_back(arguments[i]);
      continue;
    }
    for (const auto& entry : std::filesystem::directory_iterator(arguments[i])) {
      inputs.push_back(entry.path());
    }
  }
  std::sort(inputs.begin(), inputs.end());
  return inputs;
}

}  // namespace

int main(int count, char** arguments) {
  const std::vector<std::filesystem::path> inputs = inputs_of(count, arguments);
  for (const std::filesystem::path& input : inputs) {
    std::ifstream file(input, std::ios::binary);
    if (!file) {
      std::fprintf(stderr, "%s: cannot be opened\n", input.c_str());
      return 1;
    }
    std::vector<uint8_t> raw{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    raw.shrink_to_fit();
    LLVMFuzzerTestOneInput(raw.data(), raw.size());
  }
  if (fuzz_after_corpus != nullptr && !inputs.empty()) {
    fuzz_after_corpus();
  }
  std::printf("%zu inputs\n", inputs.size());
  return inputs.empty() ? 1 : 0;  // an empty corpus proves nothing
}
