// Which names a worker's directories must have: hard links of files by number, symbolic links, and directories.
//
// Paths are relative to the worker's directory. Like FileModel it knows no system calls.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace cw::exerciser {

using FileId = uint64_t;

class NameModel {
 public:
  // Precondition of add_*: the path is free.
  void add_file(const std::string& path, FileId file);
  void add_symlink(const std::string& path, const std::string& target);
  void add_directory(const std::string& path);
  void remove(const std::string& path);
  // As rename(2): what `to` was is replaced; nothing happens when both are links of one file. A directory takes what is below it
  // along. Returns the file that `to` was a link of and is no longer.
  std::optional<FileId> rename(const std::string& from, const std::string& to);

  [[nodiscard]] bool has(const std::string& path) const;
  [[nodiscard]] std::optional<FileId> file_at(const std::string& path) const;
  [[nodiscard]] uint64_t links_of(FileId file) const;
  // One path of the file; empty when it has none.
  [[nodiscard]] std::string path_of(FileId file) const;
  // Names in a directory, without what is below them. "" is the worker's own.
  [[nodiscard]] std::set<std::string> names_in(const std::string& directory) const;

  [[nodiscard]] const std::map<std::string, FileId>& files() const { return files_; }
  [[nodiscard]] const std::map<std::string, std::string>& symlinks() const { return symlinks_; }
  [[nodiscard]] const std::set<std::string>& directories() const { return directories_; }

 private:
  std::map<std::string, FileId> files_;
  std::map<std::string, std::string> symlinks_;  // target by path
  std::set<std::string> directories_;
};

}  // namespace cw::exerciser
