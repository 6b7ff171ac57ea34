#include "tests/exerciser/name_work.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <iterator>
#include <vector>

#include "tests/exerciser/pattern.h"

namespace cw::exerciser {
namespace {

// Directories that stay. The last holds the many entries and nothing else.
constexpr std::array<const char*, 4> kDirectories = {"a", "a/deeper", "b", "many"};
constexpr std::array<const char*, 4> kPlaces = {"", "a/", "a/deeper/", "b/"};
constexpr uint64_t kNames = 24;
constexpr size_t kSubdirectoriesMax = 6;

}  // namespace

const NameWork::Choice NameWork::kChoices[] = {
    {10, &NameWork::create},          {8, &NameWork::link},         {16, &NameWork::rename},
    {8, &NameWork::remove},           {6, &NameWork::symlink},      {6, &NameWork::remove_while_open},
    {4, &NameWork::make_directory},   {4, &NameWork::list},         {3, &NameWork::remove_directory},
    {3, &NameWork::rename_directory}, {5, &NameWork::many_entries},
};

void NameWork::begin() {
  for (const char* directory : kDirectories) {
    files_.make_directory(directory);
    tree_.names.add_directory(directory);
  }
  create({});
}

void NameWork::operate(Turn turn) {
  const Choice& chosen = dice_.pick(kChoices);
  (this->*chosen.run)(turn);
  files_.concern(nullptr);
}

void NameWork::create(Turn turn) {
  if (tree_.files.size() >= run_.options().files) {
    remove(turn);
    return;
  }
  run_.count("create");
  const std::string path = free_path();
  files_.create(path, 0644);
  auto file = std::make_unique<File>();
  file->model.note({turn.number, "create"});
  tree_.names.add_file(path, tree_.next_id);
  tree_.files[tree_.next_id++] = std::move(file);
}

void NameWork::link(Turn turn) {
  const std::string from = any_file();
  const std::string to = free_path();
  if (from.empty() || tree_.names.files().size() >= 3 * run_.options().files) {
    return;
  }
  run_.count("link");
  const FileId id = *tree_.names.file_at(from);
  File& file = *tree_.files.at(id);
  file.model.note({turn.number, "link"});
  files_.concern(&file.model);
  files_.link(from, to);
  tree_.names.add_file(to, id);
  content_.verify_attributes(file, to, tree_.names.links_of(id), turn);
}

void NameWork::rename(Turn turn) {
  const std::string from = any_file();
  const std::string to = any_path();
  if (from.empty() || tree_.names.directories().contains(to)) {
    return;
  }
  run_.count(tree_.names.has(to) ? "rename over another" : "rename");
  const FileId id = *tree_.names.file_at(from);
  File& file = *tree_.files.at(id);
  if (const auto target = tree_.names.file_at(to); target && *target != id) {
    close_unless_last(*target, to);
  }
  file.model.note({turn.number, "rename"});
  files_.concern(&file.model);
  files_.rename(from, to);
  const auto replaced = tree_.names.rename(from, to);
  if (replaced) {
    retire(*replaced, to, turn);
  }
  content_.verify_attributes(file, to, tree_.names.links_of(id), turn);
}

void NameWork::remove(Turn turn) {
  const std::string path = any_file();
  if (path.empty()) {
    return;
  }
  run_.count("unlink");
  const FileId id = *tree_.names.file_at(path);
  close_unless_last(id, path);
  files_.concern(&tree_.files.at(id)->model);
  files_.unlink(path);
  tree_.names.remove(path);
  if (files_.exists(path)) {
    files_.fail(path, "still there after unlink");
  }
  retire(id, path, turn);
}

void NameWork::close_unless_last(FileId id, const std::string& path) {
  if (tree_.names.links_of(id) > 1) {
    content_.close_kept(*tree_.files.at(id), path);
  }
}

void NameWork::retire(FileId id, const std::string& path, Turn turn) {
  File& file = *tree_.files.at(id);
  const uint64_t links = tree_.names.links_of(id);
  file.model.note({turn.number, links == 0 ? "last name removed" : "name removed"});
  if (links != 0) {
    content_.verify_attributes(file, tree_.names.path_of(id), links, turn);
    return;
  }
  if (file.kept.valid()) {
    files_.concern(&file.model);
    content_.compare(file, path, file.kept.get(), 0, file.model.size() + 1);
    content_.close_kept(file, path);
  }
  files_.concern(nullptr);
  tree_.files.erase(id);
}

void NameWork::remove_while_open(Turn turn) {
  run_.count("unlink while open");
  const std::string path = free_path();
  File file;
  files_.concern(&file.model);
  file.kept = files_.open(path, O_CREAT | O_EXCL | O_RDWR);
  std::vector<uint8_t> bytes(dice_.length(run_.options().bytes_max / 4));
  fill_pattern(turn.key, 0, bytes);
  file.model.write({turn.number, "write, then unlink", 0, bytes.size(), turn.key});
  files_.write(path, file.kept.get(), 0, bytes);
  files_.unlink(path);
  const uint64_t offset = dice_.below(bytes.size());
  const uint64_t key = scramble(turn.key);
  fill_pattern(key, offset, bytes);
  file.model.write({turn.number, "write after unlink", offset, bytes.size(), key});
  files_.write(path, file.kept.get(), offset, bytes);
  if (dice_.chance(50)) {
    files_.must(fdatasync(file.kept.get()) == 0, path, "fdatasync");
    files_.must(posix_fadvise(file.kept.get(), 0, 0, POSIX_FADV_DONTNEED) == 0, path, "posix_fadvise");
  }
  content_.compare(file, path, file.kept.get(), 0, file.model.size() + 1);
  if (files_.exists(path)) {
    files_.fail(path, "still there after unlink while open");
  }
  content_.close_kept(file, path);
}

void NameWork::symlink(Turn) {
  if (tree_.names.symlinks().size() >= kNames / 4) {
    const std::string path = tree_.names.symlinks().begin()->first;
    files_.unlink(path);
    tree_.names.remove(path);
  }
  run_.count("symlink");
  const std::string path = free_path();
  std::string target = dice_.chance(30) ? any_file() : std::string(dice_.length(1000), 'x');
  if (target.empty()) {
    target = "nowhere";
  }
  files_.symlink(target, path);
  tree_.names.add_symlink(path, target);
  if (files_.read_link(path) != target) {
    files_.fail(path, "symlink has another target than the one it was made with");
  }
}

void NameWork::make_directory(Turn) {
  if (tree_.names.directories().size() >= kDirectories.size() + kSubdirectoriesMax) {
    return;
  }
  run_.count("mkdir");
  const std::string path = free_path();
  files_.make_directory(path);
  tree_.names.add_directory(path);
  if (dice_.chance(50) && tree_.names.directories().size() < kDirectories.size() + kSubdirectoriesMax) {
    files_.make_directory(path + "/below");
    tree_.names.add_directory(path + "/below");
  }
}

void NameWork::remove_directory(Turn) {
  for (const std::string& path : tree_.names.directories()) {
    if (std::find(kDirectories.begin(), kDirectories.end(), path) != kDirectories.end()) {
      continue;
    }
    run_.count("rmdir");
    if (!tree_.names.names_in(path).empty()) {
      files_.must(rmdir(files_.full(path).c_str()) != 0 && (errno == ENOTEMPTY || errno == EEXIST), path,
                  "rmdir of a full directory");
      continue;
    }
    files_.remove_directory(path);
    tree_.names.remove(path);
    return;
  }
}

void NameWork::rename_directory(Turn) {
  std::vector<std::string> movable;
  for (const std::string& path : tree_.names.directories()) {
    if (std::find(kDirectories.begin(), kDirectories.end(), path) == kDirectories.end()) {
      movable.push_back(path);
    }
  }
  if (movable.empty()) {
    return;
  }
  run_.count("rename of a directory");
  const std::string from = movable[dice_.below(movable.size())];
  const std::string to = free_path();
  files_.rename(from, to);
  tree_.names.rename(from, to);
  verify_names(to);
}

void NameWork::list(Turn) {
  run_.count("readdir");
  const auto& all = tree_.names.directories();
  const uint64_t chosen = dice_.below(all.size() + 1);
  verify_names(chosen == all.size() ? "" : *std::next(all.begin(), static_cast<ptrdiff_t>(chosen)));
}

void NameWork::many_entries(Turn) {
  run_.count("many entries");
  const std::set<std::string> names = tree_.names.names_in("many");
  const bool grow = names.empty() || (names.size() < run_.options().entries_max && dice_.chance(65));
  const uint64_t batch = 1 + dice_.below(20);
  if (grow) {
    for (uint64_t count = 0; count < batch; ++count) {
      const std::string path = "many/entry-" + std::string(dice_.below(60), 'n') + std::to_string(next_entry_++);
      files_.symlink("target of " + path, path);
      tree_.names.add_symlink(path, "target of " + path);
    }
  } else {
    auto name = std::next(names.begin(), static_cast<ptrdiff_t>(dice_.below(names.size())));
    for (uint64_t count = 0; count < batch && name != names.end(); ++count, ++name) {
      files_.unlink("many/" + *name);
      tree_.names.remove("many/" + *name);
    }
  }
  verify_names("many");
}

void NameWork::verify_all() {
  verify_names("");
  for (const std::string& directory : tree_.names.directories()) {
    verify_names(directory);
  }
  for (const auto& [path, target] : tree_.names.symlinks()) {
    if (files_.read_link(path) != target) {
      files_.fail(path, "symlink has another target than the one it was made with");
    }
  }
}

void NameWork::verify_names(const std::string& directory) {
  const std::set<std::string> expected = tree_.names.names_in(directory);
  const std::set<std::string> got = files_.list(directory);
  for (const std::string& name : expected) {
    if (!got.contains(name)) {
      files_.fail(directory, "readdir: expected " + name + ", which did not come; " + std::to_string(got.size()) +
                                 " names came of " + std::to_string(expected.size()));
    }
  }
  for (const std::string& name : got) {
    if (!expected.contains(name)) {
      files_.fail(directory, "readdir: got " + name + ", which is not there");
    }
  }
}

std::string NameWork::any_file() {
  const auto& all = tree_.names.files();
  return all.empty() ? "" : std::next(all.begin(), static_cast<ptrdiff_t>(dice_.below(all.size())))->first;
}

std::string NameWork::any_path() {
  const uint64_t number = dice_.below(kNames);
  const std::string filler(number % 8 == 7 ? 200 : 0, 'l');  // some names are long
  return kPlaces[dice_.below(kPlaces.size())] + filler + "n" + std::to_string(number);
}

std::string NameWork::free_path() {
  for (;;) {
    std::string path = any_path();
    if (!tree_.names.has(path)) {
      return path;
    }
  }
}

}  // namespace cw::exerciser
