// One thread of the exerciser: a directory of its own, and its ranges of the shared files.
//
// What it does is decided by the seed and its number alone. The phases are called one after the other; only operate() runs beside
// that of other workers.
#pragma once

#include <string>

#include "tests/exerciser/dice.h"
#include "tests/exerciser/file_work.h"
#include "tests/exerciser/files.h"
#include "tests/exerciser/name_work.h"
#include "tests/exerciser/region_work.h"

namespace cw::exerciser {

class Worker {
 public:
  // Makes the worker's directory below `root`. The run outlives the worker.
  Worker(Run& run, const std::string& root, unsigned number);

  void operate();
  // Closes what is open: then everything must be on its way to the server.
  void close_all();
  void verify_all();
  // Adds "CRC-32 size path" of each file, with paths below the root.
  void list(std::string& manifest) const;

 private:
  [[nodiscard]] Turn next_turn();
  // Flips one bit of one file, not of its model. False when no file has any bytes.
  bool damage();

  Run& run_;
  const unsigned number_;
  const std::string name_;
  Files files_;
  Files shared_files_;
  Dice dice_;
  Tree tree_;
  FileWork content_;
  NameWork names_;
  RegionWork regions_;
  uint64_t operations_ = 0;
};

}  // namespace cw::exerciser
