// Operations on names: create, link, rename, remove, directories; and a directory with many entries.
//
// All names below a worker's directory are this worker's, so that each can be predicted. An NFS client hides a file that is
// removed or replaced while open behind a name of its own; what it does to the file must not show.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "tests/exerciser/dice.h"
#include "tests/exerciser/file_work.h"
#include "tests/exerciser/files.h"
#include "tests/exerciser/name_model.h"

namespace cw::exerciser {

// All files and names of a worker.
struct Tree {
  NameModel names;
  std::map<FileId, std::unique_ptr<File>> files;
  FileId next_id = 1;
};

class NameWork {
 public:
  NameWork(Run& run, Files& files, Dice& dice, FileWork& content, Tree& tree)
      : run_(run), files_(files), dice_(dice), content_(content), tree_(tree) {}

  // The directories that stay, and the first files.
  void begin();
  // One operation, chosen by chance.
  void operate(Turn turn);
  // Every directory has the names it must have, every symbolic link its target, and nothing else is there.
  void verify_all();

 private:
  using Operation = void (NameWork::*)(Turn);
  struct Choice {
    unsigned weight;
    Operation run;
  };
  static const Choice kChoices[];

  void create(Turn turn);
  void link(Turn turn);
  void rename(Turn turn);
  void remove(Turn turn);
  void remove_while_open(Turn turn);
  void symlink(Turn turn);
  void make_directory(Turn turn);
  void remove_directory(Turn turn);
  void rename_directory(Turn turn);
  void list(Turn turn);
  void many_entries(Turn turn);

  void verify_names(const std::string& directory);
  // A path of the model, or one that is free as well as one of a name in use.
  [[nodiscard]] std::string any_file();
  [[nodiscard]] std::string any_path();
  [[nodiscard]] std::string free_path();
  // Before a name goes: when the file was opened by it, an NFS client keeps it as ".nfs..." until the close, and it goes on to
  // count as a link.
  void close_unless_last(FileId file, const std::string& path);
  // After a name went. When it was the last one, what is still open must read as before, and the file ends.
  void retire(FileId file, const std::string& path, Turn turn);

  Run& run_;
  Files& files_;
  Dice& dice_;
  FileWork& content_;
  Tree& tree_;
  uint64_t next_entry_ = 0;
};

}  // namespace cw::exerciser
