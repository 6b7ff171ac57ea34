// What a gateway leaves behind when it ends without a word: the bytes of its recorder, laid out once for the process that
// writes them and for whoever reads them afterwards. Pure.
//
// A recording has areas of fixed size, and an area is a ring of slots. A slot holds one entry: a header with a number that grows
// by one with each entry of the area, and a checksum over number and text. The writer fills the slot of the oldest entry. A
// reader takes the entries whose checksum fits. So an entry that is half written, since the process ended in the middle of it or
// has not got further yet, does not exist, and the one before it is there. It takes no lock and no order of writes.
//
// A reader believes nothing that it reads: what does not fit is left out, whatever the bytes are. Numbers are in the order of the
// host that wrote them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"

namespace cw::control::recorder {

enum class Area : uint8_t {
  kHead,      // which process this is
  kEnd,       // how it ended, where it could say so itself
  kFault,     // the signal that ended it (fault.h)
  kTrail,     // addresses of the functions that it was in then
  kModules,   // where the program and its libraries lie, so that addresses can be told
  kConfig,    // the settings in force
  kStatus,    // what causewayctl status says
  kCounters,  // the metrics that are not zero
  kEvents,    // what happened to queue pairs lately
  kLines,     // of the log
};

struct AreaShape {
  const char* name;
  uint32_t slots;
  uint32_t slot_bytes;  // header included
};

// Two slots where the newest entry alone counts: the one before it is whole while that is written. Who changes a number here
// changes kMagic, too.
inline constexpr std::array<AreaShape, 10> kAreas = {{
    {"head", 1, 2048},
    {"end", 1, 1024},
    {"fault", 1, 512},
    {"trail", 1, 1024},
    {"modules", 2, 24 << 10},
    {"config", 2, 48 << 10},
    {"status", 2, 64 << 10},
    {"counters", 2, 64 << 10},
    {"events", 2, 80 << 10},
    {"lines", 256, 1152},  // a line of the log has 1024 bytes at most, and what is said of lines held back
}};
inline constexpr std::string_view kMagic = "causeway rec 01\n";

struct EntryHeader {
  uint32_t checksum;  // of all that follows it, the text included
  uint32_t text_bytes;
  uint64_t number;  // from 1
  int64_t unix_ms;
  uint32_t tag;             // of a line: its level
  uint32_t left_out_bytes;  // that the text had and the slot has no room for
};
static_assert(sizeof(EntryHeader) == 32);

[[nodiscard]] constexpr const AreaShape& shape_of(Area area) {
  return kAreas[static_cast<size_t>(area)];
}
[[nodiscard]] constexpr uint32_t text_bytes_max(Area area) {
  return shape_of(area).slot_bytes - static_cast<uint32_t>(sizeof(EntryHeader));
}
[[nodiscard]] constexpr size_t offset_of(Area area) {
  size_t offset = kMagic.size();
  for (size_t i = 0; i < static_cast<size_t>(area); ++i) {
    offset += size_t{kAreas[i].slots} * kAreas[i].slot_bytes;
  }
  return offset;
}
inline constexpr size_t kRecordingBytes =
    offset_of(Area::kLines) + size_t{shape_of(Area::kLines).slots} * shape_of(Area::kLines).slot_bytes;
static_assert(kRecordingBytes <= 1 << 20);

// Writes the entries of one process, from the first. One thread at a time for each area; put() may be called by a signal handler.
class RecordingWriter {
 public:
  // Forgets what the bytes were. Precondition: kRecordingBytes of them, which outlive the writer.
  explicit RecordingWriter(std::span<uint8_t> bytes);
  // What is too long is cut off at the end, and the entry says so.
  void put(Area area, int64_t unix_ms, std::string_view text, uint32_t tag = 0);

 private:
  std::span<uint8_t> bytes_;
  std::array<uint64_t, kAreas.size()> written_{};
};

struct Entry {
  uint64_t number = 0;
  int64_t unix_ms = 0;
  uint32_t tag = 0;
  uint32_t left_out_bytes = 0;
  std::string text;  // may hold any byte
};

// A recording that has been read. The bytes may change while it is read.
class Recording {
 public:
  // Nothing: the bytes are no recording, or that of another version.
  [[nodiscard]] static std::optional<Recording> parse(Bytes bytes);
  // In order of their numbers.
  [[nodiscard]] const std::vector<Entry>& entries(Area area) const { return areas_[static_cast<size_t>(area)]; }
  // nullptr: there is none.
  [[nodiscard]] const Entry* newest(Area area) const { return entries(area).empty() ? nullptr : &entries(area).back(); }
  // Empty: there is none.
  [[nodiscard]] std::string_view text(Area area) const {
    return newest(area) == nullptr ? std::string_view() : newest(area)->text;
  }

 private:
  std::array<std::vector<Entry>, kAreas.size()> areas_;
};

// The last whole lines of `text` that fit in an entry of the area.
[[nodiscard]] std::string_view last_lines(std::string_view text, Area area);
// The first.
[[nodiscard]] std::string_view first_lines(std::string_view text, Area area);

}  // namespace cw::control::recorder
