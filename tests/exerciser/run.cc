#include "tests/exerciser/run.h"

#include <unistd.h>

#include <cstdio>

#include "tests/exerciser/file_model.h"

namespace cw::exerciser {

void Run::count(const char* what) {
  ++operations_;
  const std::lock_guard lock(mutex_);
  ++counts_[what];
}

bool Run::damage_due() {
  return options_.damage != 0 && operations_ >= options_.damage && !damage_done_.exchange(true);
}

void Run::fail(const std::string& path, const std::string& what, const FileModel* model) {
  const std::lock_guard lock(mutex_);  // never given back: the first failure is the one that counts
  std::string text = "FAIL " + path + ": " + what;
  if (!text.ends_with('\n')) {
    text += '\n';
  }
  if (model != nullptr && text.find("last operations") == std::string::npos) {
    text += model->history();
  }
  text += "seed " + std::to_string(options_.seed) + ", after " + std::to_string(operations_) + " operations\n";
  fputs(text.c_str(), stdout);
  fflush(stdout);
  _exit(1);
}

std::string Run::summary() const {
  const std::lock_guard lock(mutex_);
  std::string text = std::to_string(operations_) + " operations, " + std::to_string(bytes_written_) + " bytes written, " +
                     std::to_string(bytes_read_) + " read (";
  const char* separator = "";
  for (const auto& [what, count] : counts_) {
    text += separator + what + " " + std::to_string(count);
    separator = ", ";
  }
  return text + ")";
}

}  // namespace cw::exerciser
