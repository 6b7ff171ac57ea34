#include "tests/exerciser/worker.h"

#include <fcntl.h>

#include <cinttypes>
#include <cstdio>
#include <iterator>

#include "tests/exerciser/file_model.h"
#include "tests/exerciser/manifest.h"

namespace cw::exerciser {
Worker::Worker(Run& run, const std::string& root, unsigned number)
    : run_(run),
      number_(number),
      name_("worker" + std::to_string(number)),
      files_(run, root + "/" + name_),
      shared_files_(run, root),
      dice_(scramble(run.options().seed) + number),
      content_(run, files_, dice_),
      names_(run, files_, dice_, content_, tree_),
      regions_(run, shared_files_, dice_, number) {
  shared_files_.make_directory(name_);
  names_.begin();
}

void Worker::operate() {
  while (!run_.over(operations_)) {
    const Turn turn = next_turn();
    const uint64_t kind = dice_.below(100);
    const auto& all = tree_.names.files();
    if (kind < 20 || all.empty()) {
      names_.operate(turn);
    } else if (kind < 40) {
      regions_.operate(turn);
    } else {
      const auto& [path, id] = *std::next(all.begin(), static_cast<ptrdiff_t>(dice_.below(all.size())));
      File& file = *tree_.files.at(id);
      const auto& [other_path, other_id] = *std::next(all.begin(), static_cast<ptrdiff_t>(dice_.below(all.size())));
      if (kind < 43 && other_id != id) {
        content_.copy(*tree_.files.at(other_id), other_path, file, path, turn);
      } else if (kind < 50) {
        run_.count("stat");
        content_.verify_attributes(file, path, tree_.names.links_of(id), turn);
      } else {
        content_.operate(file, path, turn);
      }
    }
    if (run_.damage_due()) {
      if (damage()) {
        return;  // whatever came now might write over it
      }
      run_.damage_later();
    }
  }
}

void Worker::close_all() {
  for (const auto& [id, file] : tree_.files) {
    content_.close_kept(*file, tree_.names.path_of(id));
  }
}

void Worker::verify_all() {
  names_.verify_all();
  for (const auto& [id, file] : tree_.files) {
    content_.verify(*file, tree_.names.path_of(id), tree_.names.links_of(id), {operations_, 0});
  }
  regions_.verify_all();
}

void Worker::list(std::string& manifest) const {
  for (const auto& [path, id] : tree_.names.files()) {
    manifest += manifest_line(tree_.files.at(id)->model.bytes(), name_ + "/" + path);
  }
}

Turn Worker::next_turn() {
  ++operations_;
  return {operations_, scramble(run_.options().seed ^ scramble((uint64_t{number_} << 48) + operations_))};
}

bool Worker::damage() {
  for (const auto& [id, file] : tree_.files) {
    if (file->model.size() == 0) {
      continue;
    }
    const std::string path = tree_.names.path_of(id);
    const uint64_t offset = dice_.below(file->model.size());
    uint8_t byte = static_cast<uint8_t>(file->model.bytes()[offset] ^ 0x10);
    Descriptor descriptor = files_.open(path, O_RDWR);
    files_.write(path, descriptor.get(), offset, std::span(&byte, 1));
    files_.close(path, descriptor);
    printf("damage: flipped a bit of %s at offset %" PRIu64 "\n", files_.full(path).c_str(), offset);
    return true;
  }
  return false;
}

}  // namespace cw::exerciser
