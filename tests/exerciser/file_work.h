// Operations on the bytes and attributes of one file, each done to the file and to its model, each read compared.
//
// Reads and writes go through the page cache, around it (O_DIRECT) and through mmap, in turn and through descriptors that stay
// open for many operations or for one. All of them are of one thread and one client, where NFS promises what POSIX does.
#pragma once

#include <ctime>
#include <string>
#include <vector>

#include "tests/exerciser/dice.h"
#include "tests/exerciser/file_model.h"
#include "tests/exerciser/files.h"
#include "tests/exerciser/name_model.h"

namespace cw::exerciser {

struct File {
  FileModel model;
  Descriptor kept;  // stays open from one operation to another; may be closed
  mode_t mode = 0644;
  timespec modified{};         // the latest mtime seen
  bool has_dirty_map = false;  // pages were written through a mapping and perhaps not flushed
};

// One operation's number, and the key of what it writes.
struct Turn {
  uint64_t number = 0;
  uint64_t key = 0;
};

class FileWork {
 public:
  FileWork(Run& run, Files& files, Dice& dice) : run_(run), files_(files), dice_(dice) {}

  // One operation, chosen by chance.
  void operate(File& file, const std::string& path, Turn turn);
  // copy_file_range(2), which NFSv4.2 may do on the server.
  void copy(File& from, const std::string& from_path, File& to, const std::string& to_path, Turn turn);
  // Everything about a file that has `links` names: all bytes, size, links, mode, mtime. It is opened for this, whereupon an NFS
  // client asks the server (close-to-open).
  void verify(File& file, const std::string& path, uint64_t links, Turn turn);
  void verify_attributes(File& file, const std::string& path, uint64_t links, Turn turn);
  // Reads the range through this descriptor and compares.
  void compare(const File& file, const std::string& path, int descriptor, uint64_t offset, uint64_t bytes);
  void close_kept(File& file, const std::string& path);

 private:
  using Operation = void (FileWork::*)(File&, const std::string&, int, Turn);
  struct Choice {
    unsigned weight;
    Operation run;
    int flags;  // of open(2), besides O_RDWR; other than 0: never through a descriptor that stays open
  };
  static const Choice kChoices[];

  void write(File& file, const std::string& path, int descriptor, Turn turn);
  void append(File& file, const std::string& path, int descriptor, Turn turn);
  void read(File& file, const std::string& path, int descriptor, Turn turn);
  void read_all(File& file, const std::string& path, int descriptor, Turn turn);
  void truncate(File& file, const std::string& path, int descriptor, Turn turn);
  void direct_write(File& file, const std::string& path, int descriptor, Turn turn);
  void direct_read(File& file, const std::string& path, int descriptor, Turn turn);
  void map_write(File& file, const std::string& path, int descriptor, Turn turn);
  void map_read(File& file, const std::string& path, int descriptor, Turn turn);
  void sync(File& file, const std::string& path, int descriptor, Turn turn);
  void forget_pages(File& file, const std::string& path, int descriptor, Turn turn);
  void punch(File& file, const std::string& path, int descriptor, Turn turn);
  void allocate(File& file, const std::string& path, int descriptor, Turn turn);
  void seek(File& file, const std::string& path, int descriptor, Turn turn);
  void change_mode(File& file, const std::string& path, int descriptor, Turn turn);

  void flush_mapped(File& file, const std::string& path, int descriptor);
  [[nodiscard]] Descriptor open_direct(const std::string& path);
  // What O_DIRECT wants multiples of here.
  [[nodiscard]] uint64_t direct_unit() const { return files_.is_nfs() ? 1 : 4096; }
  // Where a write may start so that the file stays within its largest size.
  [[nodiscard]] uint64_t place_to_write(const File& file);
  [[nodiscard]] uint64_t length_from(uint64_t offset) { return dice_.length(run_.options().bytes_max - offset); }
  // The whole pages in which the range lies, mapped. `use` gets the range itself. Returns whether pages are left dirty.
  template <typename Use>
  [[nodiscard]] bool with_map(const std::string& path, int descriptor, uint64_t offset, uint64_t bytes, int protection,
                              Use&& use);

  Run& run_;
  Files& files_;
  Dice& dice_;
  std::vector<uint8_t> buffer_;
};

}  // namespace cw::exerciser
