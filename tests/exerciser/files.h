// System calls on files, each of which either does all that was asked or ends the run with a report.
//
// Over NFS a request is sent again when the connection broke before its reply. The server's duplicate-request cache need not know
// it then (RFC 8881 section 2.10.6 promises it from NFSv4.1 on, and only while the server lives), and the second execution of a
// rename finds nothing to rename. With --replays such an error counts as success when the intended result is there to be seen.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <functional>
#include <set>
#include <span>
#include <string>
#include <utility>

#include "control/socket/unique_fd.h"
#include "tests/exerciser/run.h"

namespace cw::exerciser {

class FileModel;

// Files::close is the way to close it: it reports what close(2) says.
using Descriptor = control::UniqueFd;

// Paths are relative to `root`. One thread.
class Files {
 public:
  Files(Run& run, std::string root) : run_(run), root_(std::move(root)) {}

  // The file that the next calls are about, for the report; may be null. It must outlive them.
  void concern(const FileModel* model) { model_ = model; }
  [[nodiscard]] std::string full(const std::string& path) const { return path.empty() ? root_ : root_ + "/" + path; }
  [[nodiscard]] bool is_nfs() const;
  [[noreturn]] void fail(const std::string& path, const std::string& what) const;
  void must(bool condition, const std::string& path, const char* what) const;  // on false: fails with what and errno

  [[nodiscard]] Descriptor open(const std::string& path, int flags, mode_t mode = 0644) const;
  void close(const std::string& path, Descriptor& descriptor) const;
  // By pwrite(2); with `append` by write(2).
  void write(const std::string& path, int descriptor, uint64_t offset, std::span<const uint8_t> bytes, bool append = false) const;
  // As many bytes as there are until the end of the file.
  [[nodiscard]] size_t read(const std::string& path, int descriptor, uint64_t offset, std::span<uint8_t> bytes) const;
  [[nodiscard]] struct stat status(const std::string& path, int descriptor) const;

  void create(const std::string& path, mode_t mode) const;
  void unlink(const std::string& path) const;
  void rename(const std::string& from, const std::string& to) const;
  void link(const std::string& from, const std::string& to) const;
  void symlink(const std::string& target, const std::string& path) const;
  void make_directory(const std::string& path) const;
  void remove_directory(const std::string& path) const;
  // Without "." and "..", and without what the NFS client renames an open file to when it is removed (".nfs...").
  [[nodiscard]] std::set<std::string> list(const std::string& path) const;
  [[nodiscard]] std::string read_link(const std::string& path) const;
  [[nodiscard]] bool exists(const std::string& path) const;

 private:
  // `result` of the call; -1 with errno `repeated` passes when replays are allowed and `done` holds.
  void named(int result, int repeated, const std::function<bool()>& done, const std::string& path, const char* what) const;

  Run& run_;
  const std::string root_;
  const FileModel* model_ = nullptr;
};

}  // namespace cw::exerciser
