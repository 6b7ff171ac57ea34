// A recording of any content, as a crash or somebody else leaves it: what is read of it was written as an entry, and there is a
// sentence for it.
//
// Input: any number of entries [area][bytes of text][text] and, with the highest bit of the area set, of bytes that are changed
// [area][slot][offset in the slot][value].
#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

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

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static std::vector<uint8_t> bytes(kRecordingBytes);
  Input input(data, std::min(size, kInputBytesMax));
  RecordingWriter writer(bytes);
  std::array<std::vector<std::string>, kAreas.size()> put;
  while (!input.empty()) {
    const uint8_t what = input.byte();
    const auto area = static_cast<Area>((what & 0x7f) % kAreas.size());
    if ((what & 0x80) != 0) {
      const size_t slot = input.byte() % shape_of(area).slots;
      const size_t offset = input.byte() % shape_of(area).slot_bytes;
      bytes[offset_of(area) + slot * shape_of(area).slot_bytes + offset] = input.byte();
      continue;
    }
    const uint8_t length = input.byte();
    const std::string text = stretched(input.text(length), area == Area::kEnd ? length : 0);
    writer.put(area, static_cast<int64_t>(length) << (what & 0x3f), text, what);
    put[static_cast<size_t>(area)].push_back(text.substr(0, text_bytes_max(area)));
  }
  const std::optional<Recording> recording = Recording::parse(bytes);
  FUZZ_CHECK(recording.has_value());
  for (size_t area = 0; area < kAreas.size(); ++area) {
    for (const Entry& entry : recording->entries(static_cast<Area>(area))) {
      FUZZ_CHECK(std::ranges::find(put[area], entry.text) != put[area].end());
    }
  }
  FUZZ_CHECK(!how_it_ended(*recording).empty());
  (void)trail_text(*recording);
  (void)without_secrets(recording->text(Area::kConfig));
  return 0;
}
