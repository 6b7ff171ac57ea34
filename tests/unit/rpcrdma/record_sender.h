// What a backend sends on its connection, for tests of the memory for records.
#pragma once

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/buffer.h"
#include "rpcrdma/rpc/record_mark.h"
#include "tests/unit/rpcrdma/bytes.h"

namespace cw::test {

using rpcrdma::kRecordMarkBytes;
using rpcrdma::RecordAdmission;
using rpcrdma::RecordReader;

inline constexpr rpcrdma::RecordLimits kRecordLimits{.message_bytes_max = 5'000, .fragments_max = 4};

// A connection on which a backend sends a record, in one fragment or in some.
class Sender {
 public:
  Sender(RecordAdmission& admission, uint32_t bytes, uint32_t source = 0, uint64_t owner = 0)
      : Sender(admission, std::vector<uint32_t>{bytes}, source, owner) {}
  Sender(RecordAdmission& admission, const std::vector<uint32_t>& fragments, uint32_t source = 0, uint64_t owner = 0)
      : reader(admission, kRecordLimits, source, owner) {
    for (size_t i = 0; i < fragments.size(); ++i) {
      uint8_t mark[kRecordMarkBytes];
      rpcrdma::write_record_mark(mark, fragments[i], i + 1 == fragments.size());
      add(stream_, mark);
      stream_.resize(stream_.size() + fragments[i], 0x5a);
    }
  }
  // Gives what the reader takes, up to `count` bytes; true when the message is there.
  bool feed(size_t count = SIZE_MAX) {
    while (count > 0 && sent_ < stream_.size()) {
      const MutableBytes space = reader.space();
      if (space.empty()) {
        return false;
      }
      const size_t step = std::min({count, space.size(), stream_.size() - sent_});
      std::memcpy(space.data(), stream_.data() + sent_, step);
      CW_ASSERT(reader.on_bytes(static_cast<uint32_t>(step)).ok());
      sent_ += step;
      count -= step;
    }
    const bool came = reader.has_message() && reader.poll_message(message);
    reader.end_turn();
    return came;
  }
  RecordReader reader;
  Chain message;

 private:
  ByteVector stream_;
  size_t sent_ = 0;
};

}  // namespace cw::test
