// RecordReader on arbitrary streams, against a reader that has the whole stream at hand. The first byte says how much is read at
// a time, the second how often messages are polled in between.
#include <algorithm>
#include <cstring>
#include <vector>

#include "base/heap_buffer_pool.h"
#include "rpcrdma/rpc/record_mark.h"
#include "tests/fuzz/fuzz_target.h"

namespace cw::rpcrdma {
namespace {

constexpr RecordLimits kLimits{.message_bytes_max = 600, .fragments_max = 5};

struct Expected {
  std::vector<std::vector<uint8_t>> messages;
  bool fails = false;
};

Expected read_at_once(Bytes stream) {
  Expected expected;
  std::vector<uint8_t> message;
  uint64_t announced = 0;
  uint32_t fragments = 0;
  while (stream.size() >= kRecordMarkBytes) {
    const uint32_t mark = load_be32(stream.data());
    const uint32_t length = mark & ~kLastFragment;
    const bool last = (mark & kLastFragment) != 0;
    stream = stream.subspan(kRecordMarkBytes);
    announced += length;
    if (++fragments > kLimits.fragments_max || announced > kLimits.message_bytes_max || (last && announced == 0)) {
      expected.fails = true;
      return expected;
    }
    if (length > stream.size()) {
      return expected;
    }
    message.insert(message.end(), stream.begin(), stream.begin() + length);
    stream = stream.subspan(length);
    if (last) {
      expected.messages.push_back(std::move(message));
      message.clear();
      announced = 0;
      fragments = 0;
    }
  }
  return expected;
}

void poll_all(RecordReader& reader, const Expected& expected, size_t& polled) {
  Chain out;
  while (reader.poll_message(out)) {
    FUZZ_CHECK(polled < expected.messages.size());
    std::vector<uint8_t> raw(out.bytes());
    out.copy_to(0, raw);
    FUZZ_CHECK(raw == expected.messages[polled]);
    ++polled;
  }
  FUZZ_CHECK(!reader.has_message());
}

void check(Bytes stream, size_t read_bytes, uint32_t poll_every) {
  static HeapBufferPool pool(64, 96, 256);
  const Expected expected = read_at_once(stream);
  {
    RecordAdmission admission(pool);
    RecordReader reader(admission, kLimits);
    size_t polled = 0;
    uint32_t reads = 0;
    while (!stream.empty() && !reader.failed()) {
      MutableBytes space = reader.space();
      if (space.empty()) {
        FUZZ_CHECK(reader.has_message());
        poll_all(reader, expected, polled);
        space = reader.space();
      }
      FUZZ_CHECK(!space.empty());
      const size_t count = std::min({read_bytes, space.size(), stream.size()});
      std::memcpy(space.data(), stream.data(), count);
      stream = stream.subspan(count);
      FUZZ_CHECK(reader.on_bytes(static_cast<uint32_t>(count)).ok() == !reader.failed());
      if (++reads % poll_every == 0) {
        poll_all(reader, expected, polled);
      }
    }
    poll_all(reader, expected, polled);
    FUZZ_CHECK(reader.failed() == expected.fails);
    FUZZ_CHECK(polled == expected.messages.size());
  }
  FUZZ_CHECK(pool.in_use() == 0);
}

}  // namespace
}  // namespace cw::rpcrdma

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size >= 2) {
    cw::rpcrdma::check(cw::Bytes(data + 2, size - 2), 1 + data[0], 1 + data[1] % 16);
  }
  return 0;
}
