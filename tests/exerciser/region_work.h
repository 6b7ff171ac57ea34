// Files that all workers write at once: each has ranges of its own in them, a prime number of bytes long, so that neighbours
// share pages, blocks and segments of one request.
//
// What another worker writes beside them must never change a worker's ranges. The files keep their size, and nothing is mapped: a
// mapped page and O_DIRECT beside it are not promised to agree.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tests/exerciser/dice.h"
#include "tests/exerciser/file_model.h"
#include "tests/exerciser/file_work.h"
#include "tests/exerciser/files.h"

namespace cw::exerciser {

class RegionWork {
 public:
  // `worker` of `run.options().workers`.
  RegionWork(Run& run, Files& files, Dice& dice, unsigned worker);

  // Makes the shared files: once, before any worker begins.
  static void make(Run& run, Files& files);
  [[nodiscard]] static std::string path_of(unsigned file) { return "shared" + std::to_string(file); }
  [[nodiscard]] static uint64_t file_bytes(const Run& run);

  void operate(Turn turn);
  // All of this worker's ranges.
  void verify_all();

 private:
  // The first byte of this worker's range number `range`.
  [[nodiscard]] uint64_t start_of(uint64_t range) const;
  void compare(unsigned file, int descriptor, uint64_t offset, uint64_t bytes);

  Run& run_;
  Files& files_;
  Dice& dice_;
  const unsigned worker_;
  std::vector<FileModel> models_;  // by file; of each only this worker's ranges are true
  std::vector<uint8_t> buffer_;
};

}  // namespace cw::exerciser
