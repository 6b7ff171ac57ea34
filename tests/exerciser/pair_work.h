// Close-to-open between two mounts of one directory: what one client wrote before its close, the other reads after its open.
//
// One file is open on one side at a time, and its size and all of its bytes have to be the other side's. A client recognises a
// change by the file's times or by a change attribute made of them. Servers take those from a clock that ticks every few
// milliseconds, so a writer waits for a tick after the other side has looked: without that, NFS promises nothing. Names never
// change here: entries of a directory may be cached for longer.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "tests/exerciser/dice.h"
#include "tests/exerciser/file_model.h"
#include "tests/exerciser/file_work.h"
#include "tests/exerciser/files.h"

namespace cw::exerciser {

class PairWork {
 public:
  static constexpr unsigned kFiles = 3;

  // Makes the files through the first side. Preconditions: nobody has looked for them; the run outlives this.
  PairWork(Run& run, const std::string& one_side, const std::string& other_side);

  [[nodiscard]] static std::string path_of(unsigned file) { return "pair" + std::to_string(file); }

  // Until the run is over.
  void operate();
  // Every file, through both sides.
  void verify_all();
  // Adds "CRC-32 size path" of each file.
  void list(std::string& manifest, const std::string& prefix) const;

 private:
  void write(Files& side, FileModel& model, const std::string& path, uint64_t number);
  void read(Files& side, FileModel& model, const std::string& path, bool direct);

  Run& run_;
  std::array<Files, 2> sides_;
  Dice dice_;
  std::array<FileModel, kFiles> models_;
  std::vector<uint8_t> buffer_;
};

}  // namespace cw::exerciser
