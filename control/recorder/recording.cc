#include "control/recorder/recording.h"

#include <algorithm>
#include <cstring>

#include "base/assert.h"
#include "base/crc32.h"

namespace cw::control::recorder {
namespace {

constexpr size_t kSummedFrom = sizeof(EntryHeader::checksum);

uint32_t checksum_of(const uint8_t* slot, size_t text_bytes) {
  return crc32(0, slot + kSummedFrom, sizeof(EntryHeader) - kSummedFrom + text_bytes);
}

// Looks at its own copy of the slot: the process that the bytes belong to may write at the same time.
std::optional<Entry> read_slot(std::vector<uint8_t> slot) {
  EntryHeader header;
  std::memcpy(&header, slot.data(), sizeof(header));
  if (header.number == 0 || header.text_bytes > slot.size() - sizeof(header) ||
      header.checksum != checksum_of(slot.data(), header.text_bytes)) {
    return std::nullopt;
  }
  const auto* text = reinterpret_cast<const char*>(slot.data()) + sizeof(header);
  return Entry{header.number, header.unix_ms, header.tag, header.left_out_bytes, {text, header.text_bytes}};
}

}  // namespace

RecordingWriter::RecordingWriter(std::span<uint8_t> bytes) : bytes_(bytes) {
  CW_ASSERT(bytes.size() == kRecordingBytes);
  std::memset(bytes.data(), 0, bytes.size());
  std::memcpy(bytes.data(), kMagic.data(), kMagic.size());
}

void RecordingWriter::put(Area area, int64_t unix_ms, std::string_view text, uint32_t tag) {
  const AreaShape& shape = shape_of(area);
  const uint64_t number = ++written_[static_cast<size_t>(area)];
  uint8_t* slot = bytes_.data() + offset_of(area) + number % shape.slots * shape.slot_bytes;
  const auto fits = static_cast<uint32_t>(std::min<size_t>(text.size(), text_bytes_max(area)));
  EntryHeader header{.checksum = 0,
                     .text_bytes = fits,
                     .number = number,
                     .unix_ms = unix_ms,
                     .tag = tag,
                     .left_out_bytes = static_cast<uint32_t>(std::min<size_t>(text.size() - fits, UINT32_MAX))};
  std::memcpy(slot, &header, sizeof(header));
  if (fits > 0) {
    std::memcpy(slot + sizeof(header), text.data(), fits);
  }
  header.checksum = checksum_of(slot, fits);
  std::memcpy(slot, &header.checksum, sizeof(header.checksum));
}

std::optional<Recording> Recording::parse(Bytes bytes) {
  if (bytes.size() != kRecordingBytes || std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) != 0) {
    return std::nullopt;
  }
  Recording recording;
  for (size_t i = 0; i < kAreas.size(); ++i) {
    const AreaShape& shape = kAreas[i];
    std::vector<Entry>& entries = recording.areas_[i];
    for (uint32_t slot = 0; slot < shape.slots; ++slot) {
      const uint8_t* begin = bytes.data() + offset_of(static_cast<Area>(i)) + size_t{slot} * shape.slot_bytes;
      if (std::optional<Entry> entry = read_slot({begin, begin + shape.slot_bytes})) {
        entries.push_back(std::move(*entry));
      }
    }
    std::ranges::stable_sort(entries, {}, &Entry::number);
  }
  return recording;
}

std::string_view last_lines(std::string_view text, Area area) {
  const size_t most = text_bytes_max(area);
  if (text.size() <= most) {
    return text;
  }
  // From the line on that begins within what fits.
  const size_t end_of_line = text.find('\n', text.size() - most - 1);
  return end_of_line == std::string_view::npos ? std::string_view() : text.substr(end_of_line + 1);
}

std::string_view first_lines(std::string_view text, Area area) {
  const size_t most = text_bytes_max(area);
  return text.size() <= most ? text : text.substr(0, text.rfind('\n', most - 1) + 1);
}

}  // namespace cw::control::recorder
