// A recording of any content, as a crash or somebody else leaves it: what is read of it was written as an entry, there is a
// sentence for it, and `causewayctl report` makes files of it that may be shown on a terminal.
//
// Input: any number of entries [area][bytes of text][text] and, with the highest bit of the area set, of bytes that are changed
// [area][slot][offset in the slot][value]. With the next bit set as well, the entry gets the checksum that it needs then: a crash
// leaves none like it, somebody may. The signal's entry has one size; of an odd number of bytes it is made.
#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "base/crc32.h"
#include "control/ctl/render_recording.h"
#include "control/recorder/last_words.h"
#include "control/recorder/recording.h"
#include "control/recorder/redact.h"
#include "tests/fuzz/fuzz_target.h"

namespace {

using namespace cw::control::recorder;

constexpr size_t kInputBytesMax = 2048;

class Input {
 public:
  Input(const uint8_t* data, size_t size) : rest_(reinterpret_cast<const char*>(data), size) {}
  [[nodiscard]] bool empty() const { return rest_.empty(); }
  uint8_t byte() {
    const auto value = rest_.empty() ? uint8_t{0} : static_cast<uint8_t>(rest_.front());
    rest_.remove_prefix(rest_.empty() ? 0 : 1);
    return value;
  }
  std::string_view text(size_t bytes) {
    const std::string_view taken = rest_.substr(0, bytes);
    rest_.remove_prefix(taken.size());
    return taken;
  }

 private:
  std::string_view rest_;
};

// As wide as the area is, so that texts of any size are met.
std::string stretched(std::string_view text, uint8_t times) {
  std::string wide;
  for (uint32_t i = 0; i <= times; ++i) {
    wide += text;
  }
  return wide;
}

// What an entry of this area is made of the bytes of the input.
std::string text_of(Area area, std::string_view text) {
  if (area == Area::kFault && text.size() % 2 != 0) {
    std::string fault(text);
    fault.resize(sizeof(Fault), text.back());
    return fault;
  }
  return stretched(text, area == Area::kEnd ? static_cast<uint8_t>(text.size()) : 0);
}

// So that the entry counts, whatever its header says.
void sum_anew(uint8_t* slot, size_t slot_bytes) {
  EntryHeader header;
  std::memcpy(&header, slot, sizeof(header));
  const size_t text_bytes = std::min<size_t>(header.text_bytes, slot_bytes - sizeof(header));
  header.checksum = cw::crc32(0, slot + sizeof(header.checksum), sizeof(header) - sizeof(header.checksum) + text_bytes);
  std::memcpy(slot, &header.checksum, sizeof(header.checksum));
}

bool steers_a_terminal(std::string_view text) {
  return std::ranges::any_of(text, [](unsigned char c) { return (c < 0x20 && c != '\n') || c == 0x7f; });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static std::vector<uint8_t> bytes(kRecordingBytes);
  Input input(data, std::min(size, kInputBytesMax));
  RecordingWriter writer(bytes);
  std::array<std::vector<std::string>, kAreas.size()> put;
  std::array<bool, kAreas.size()> is_forged{};
  while (!input.empty()) {
    const uint8_t what = input.byte();
    const auto area = static_cast<Area>((what & 0x3f) % kAreas.size());
    if ((what & 0x80) != 0) {
      const size_t slot = input.byte() % shape_of(area).slots;
      const size_t offset = input.byte() % shape_of(area).slot_bytes;
      uint8_t* begin = bytes.data() + offset_of(area) + slot * shape_of(area).slot_bytes;
      begin[offset] = input.byte();
      if ((what & 0x40) != 0) {
        sum_anew(begin, shape_of(area).slot_bytes);
        is_forged[static_cast<size_t>(area)] = true;
      }
      continue;
    }
    const uint8_t length = input.byte();
    const std::string text = text_of(area, input.text(length));
    writer.put(area, static_cast<int64_t>(length) << (what & 0x3f), text, what);
    put[static_cast<size_t>(area)].push_back(text.substr(0, text_bytes_max(area)));
  }
  const std::optional<Recording> recording = Recording::parse(bytes);
  FUZZ_CHECK(recording.has_value());
  for (size_t area = 0; area < kAreas.size(); ++area) {
    for (const Entry& entry : recording->entries(static_cast<Area>(area))) {
      FUZZ_CHECK(is_forged[area] || std::ranges::find(put[area], entry.text) != put[area].end());
    }
  }
  FUZZ_CHECK(!how_it_ended(*recording).empty());
  (void)trail_text(*recording);
  (void)without_secrets(recording->text(Area::kConfig));
  for (const cw::control::RecordingPart& part : cw::control::recording_parts()) {
    const std::string text = part.render(*recording, put[0].empty());
    FUZZ_CHECK(!text.empty() && !steers_a_terminal(text));
  }
  return 0;
}
