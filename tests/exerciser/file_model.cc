#include "tests/exerciser/file_model.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>

#include "tests/exerciser/pattern.h"

namespace cw::exerciser {
namespace {

std::string line_of(const Step& step) {
  char text[160];
  snprintf(text, sizeof text, "  %" PRIu64 ": %s, offset %" PRIu64 ", %" PRIu64 " bytes\n", step.number, step.what, step.offset,
           step.bytes);
  return text;
}

}  // namespace

void FileModel::write(const Step& step) {
  reach(step.offset + step.bytes);
  fill_pattern(step.key, step.offset, std::span(bytes_).subspan(step.offset, step.bytes));
  note(step);
}

void FileModel::write(const Step& step, std::span<const uint8_t> content) {
  reach(step.offset + content.size());
  std::copy(content.begin(), content.end(), bytes_.begin() + static_cast<ptrdiff_t>(step.offset));
  note(step);
}

void FileModel::resize(const Step& step) {
  bytes_.resize(step.offset);
  note(step);
}

void FileModel::punch(const Step& step) {
  const uint64_t end = std::min(size(), step.offset + step.bytes);
  if (step.offset < end) {
    std::fill(bytes_.begin() + static_cast<ptrdiff_t>(step.offset), bytes_.begin() + static_cast<ptrdiff_t>(end), uint8_t{0});
  }
  note(step);
}

void FileModel::note(const Step& step) {
  steps_[steps_noted_++ % kHistoryMax] = step;
}

std::optional<Mismatch> FileModel::compare(uint64_t offset, uint64_t asked, std::span<const uint8_t> got) const {
  const uint64_t due = offset >= size() ? 0 : std::min(asked, size() - offset);
  Mismatch mismatch;
  for (uint64_t index = 0; index < std::min<uint64_t>(due, got.size()); ++index) {
    if (got[index] == bytes_[offset + index]) {
      continue;
    }
    if (mismatch.wrong_bytes++ == 0) {
      mismatch.offset = offset + index;
      mismatch.expected = bytes_[offset + index];
      mismatch.got = got[index];
    }
  }
  if (mismatch.wrong_bytes != 0) {
    return mismatch;
  }
  if (got.size() != due) {
    return Mismatch{.kind = Mismatch::Kind::kLength, .offset = offset, .expected = due, .got = got.size()};
  }
  return std::nullopt;
}

bool FileModel::is_zero(uint64_t offset, uint64_t bytes) const {
  const uint64_t end = std::min(size(), offset + bytes);
  for (uint64_t at = offset; at < end; ++at) {
    if (bytes_[at] != 0) {
      return false;
    }
  }
  return true;
}

std::string FileModel::explain(const Mismatch& mismatch) const {
  char text[200];
  if (mismatch.kind == Mismatch::Kind::kLength) {
    snprintf(text, sizeof text, "offset %" PRIu64 ": expected %" PRIu64 " bytes, got %" PRIu64 "; the file has %" PRIu64 "\n",
             mismatch.offset, mismatch.expected, mismatch.got, size());
    return text + history();
  }
  snprintf(text, sizeof text, "offset %" PRIu64 ": expected 0x%02x, got 0x%02x; %" PRIu64 " bytes are wrong\n", mismatch.offset,
           static_cast<unsigned>(mismatch.expected), static_cast<unsigned>(mismatch.got), mismatch.wrong_bytes);
  std::string result = text;
  if (mismatch.got == 0) {
    result += "zero is what a hole reads as; no operation writes it\n";
  }
  for (size_t back = 0; back < std::min(kHistoryMax, steps_noted_) && mismatch.got != 0; ++back) {
    const Step& step = steps_[(steps_noted_ - 1 - back) % kHistoryMax];
    const bool covers = step.offset <= mismatch.offset && mismatch.offset - step.offset < step.bytes;
    if (step.key != 0 && covers && pattern_at(step.key, mismatch.offset) == mismatch.got) {
      result += "perhaps old data: operation " + std::to_string(step.number) + " wrote this byte there\n";
      break;
    }
  }
  return result + history();
}

std::string FileModel::history() const {
  std::string result = "last operations on this file, oldest first:\n";
  const size_t shown = std::min(kHistoryMax, steps_noted_);
  for (size_t back = shown; back > 0; --back) {
    result += line_of(steps_[(steps_noted_ - back) % kHistoryMax]);
  }
  return result;
}

void FileModel::reach(uint64_t size_wanted) {
  if (size_wanted > size()) {
    bytes_.resize(size_wanted);
  }
}

}  // namespace cw::exerciser
