// Files below a folder of their own, which goes with them: a made-up /sys for a test.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "base/assert.h"

namespace cw::test {

class FileTree {
 public:
  FileTree() {
    std::string name = std::filesystem::temp_directory_path() / "cw_tree_XXXXXX";
    CW_ASSERT(mkdtemp(name.data()) != nullptr);
    root_ = name;
  }
  ~FileTree() {
    std::error_code ignored;
    std::filesystem::remove_all(root_, ignored);
  }
  FileTree(const FileTree&) = delete;
  FileTree& operator=(const FileTree&) = delete;

  // Makes its folders, too.
  void write(const std::filesystem::path& path, const std::string& text) const {
    std::filesystem::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  void remove(const std::filesystem::path& path) const { std::filesystem::remove_all(root_ / path); }
  [[nodiscard]] const std::filesystem::path& root() const { return root_; }

 private:
  std::filesystem::path root_;
};

}  // namespace cw::test
