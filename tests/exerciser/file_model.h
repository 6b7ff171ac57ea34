// What one file must contain, and how it came to: every byte, and the last operations that changed or read it.
//
// The model knows no files and no system calls. Whoever operates on the real file does the same here, then compares what it
// reads. A thread owns a model; the ranges of one file that several threads share are models of their own (region_work.h).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace cw::exerciser {

// One operation on a file, as a failure report shows it.
struct Step {
  uint64_t number = 0;    // of the worker's operations, from 1
  const char* what = "";  // a string literal
  uint64_t offset = 0;
  uint64_t bytes = 0;
  uint64_t key = 0;  // of the pattern it wrote; 0: it wrote none
};

struct Mismatch {
  enum class Kind { kLength, kContent };
  Kind kind = Kind::kContent;
  uint64_t offset = 0;    // in the file, of the first wrong byte; with kLength: where the read began
  uint64_t expected = 0;  // the byte; with kLength: how many had to be read
  uint64_t got = 0;
  uint64_t wrong_bytes = 0;  // in all of the comparison
};

class FileModel {
 public:
  static constexpr size_t kHistoryMax = 24;

  [[nodiscard]] uint64_t size() const { return bytes_.size(); }
  [[nodiscard]] std::span<const uint8_t> bytes() const { return bytes_; }

  // Each notes its step. What lies between the old end and a write or a new end reads as zeros.
  void write(const Step& step);                                    // step.bytes of its pattern at step.offset
  void write(const Step& step, std::span<const uint8_t> content);  // the same with other content
  void resize(const Step& step);                                   // to step.offset
  void punch(const Step& step);                                    // zeros, without a change of size
  void note(const Step& step);                                     // anything else: a read, a rename

  // A read of `asked` bytes at `offset` returned `got`: nothing when that is what it had to be.
  [[nodiscard]] std::optional<Mismatch> compare(uint64_t offset, uint64_t asked, std::span<const uint8_t> got) const;
  [[nodiscard]] bool is_zero(uint64_t offset, uint64_t bytes) const;

  // Several lines: the mismatch, which operation the wrong byte stems from if that is known, and the last operations.
  [[nodiscard]] std::string explain(const Mismatch& mismatch) const;
  [[nodiscard]] std::string history() const;

 private:
  // Makes room for what a step writes.
  void reach(uint64_t size);

  std::vector<uint8_t> bytes_;
  std::array<Step, kHistoryMax> steps_{};
  size_t steps_noted_ = 0;  // ever; the last kHistoryMax of them are kept
};

}  // namespace cw::exerciser
