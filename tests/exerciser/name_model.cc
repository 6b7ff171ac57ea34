#include "tests/exerciser/name_model.h"

#include <algorithm>
#include <utility>

namespace cw::exerciser {
namespace {

std::string directory_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash);
}

std::string name_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? path : path.substr(slash + 1);
}

// `path` with the directory `from` in front of it replaced by `to`.
std::string moved(const std::string& path, const std::string& from, const std::string& to) {
  return path.starts_with(from + "/") ? to + path.substr(from.size()) : path;
}

}  // namespace

void NameModel::add_file(const std::string& path, FileId file) {
  files_[path] = file;
}
void NameModel::add_symlink(const std::string& path, const std::string& target) {
  symlinks_[path] = target;
}
void NameModel::add_directory(const std::string& path) {
  directories_.insert(path);
}

void NameModel::remove(const std::string& path) {
  files_.erase(path);
  symlinks_.erase(path);
  directories_.erase(path);
}

std::optional<FileId> NameModel::rename(const std::string& from, const std::string& to) {
  const std::optional<FileId> source = file_at(from);
  const std::optional<FileId> replaced = file_at(to);
  if (from == to || (source && source == replaced)) {
    return std::nullopt;
  }
  remove(to);
  if (source) {
    files_.erase(from);
    files_[to] = *source;
  } else if (const auto link = symlinks_.find(from); link != symlinks_.end()) {
    symlinks_[to] = link->second;
    symlinks_.erase(from);
  } else {
    directories_.erase(from);
    NameModel after;
    for (const auto& [path, file] : files_) {
      after.files_[moved(path, from, to)] = file;
    }
    for (const auto& [path, target] : symlinks_) {
      after.symlinks_[moved(path, from, to)] = target;
    }
    for (const std::string& path : directories_) {
      after.directories_.insert(moved(path, from, to));
    }
    *this = std::move(after);
    directories_.insert(to);
  }
  return replaced;
}

bool NameModel::has(const std::string& path) const {
  return files_.contains(path) || symlinks_.contains(path) || directories_.contains(path);
}

std::optional<FileId> NameModel::file_at(const std::string& path) const {
  const auto found = files_.find(path);
  return found == files_.end() ? std::nullopt : std::optional(found->second);
}

uint64_t NameModel::links_of(FileId file) const {
  return static_cast<uint64_t>(
      std::count_if(files_.begin(), files_.end(), [file](const auto& entry) { return entry.second == file; }));
}

std::string NameModel::path_of(FileId file) const {
  const auto found = std::find_if(files_.begin(), files_.end(), [file](const auto& entry) { return entry.second == file; });
  return found == files_.end() ? "" : found->first;
}

std::set<std::string> NameModel::names_in(const std::string& directory) const {
  std::set<std::string> names;
  const auto take = [&](const std::string& path) {
    if (directory_of(path) == directory) {
      names.insert(name_of(path));
    }
  };
  for (const auto& [path, file] : files_) {
    take(path);
  }
  for (const auto& [path, target] : symlinks_) {
    take(path);
  }
  for (const std::string& path : directories_) {
    take(path);
  }
  return names;
}

}  // namespace cw::exerciser
