// Four connections, of two sources and two workers, read records out of one small pool, as the input says: how long records are
// and in which fragments, who reads how much, whose client acknowledges, who breaks, who else takes Buffers and gives them back.
// Every byte comes out as it went in, shares are kept, nothing is lost; when nobody waits, nobody has a turn to collect; and when
// all who hold something give it back, every record that has begun comes (no deadlock).
//
// Input: pairs [what][how].
#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <vector>

#include "base/heap_buffer_pool.h"
#include "rpcrdma/rpc/record_mark.h"
#include "tests/fuzz/fuzz_target.h"

namespace cw::rpcrdma {
namespace {

constexpr uint32_t kBuffers = 48;
constexpr uint32_t kBytes = 64;
constexpr uint32_t kReaders = 4;
constexpr uint32_t kWorkers = 2;
constexpr uint32_t kSources = 2;
constexpr uint32_t kReserve = 1;
constexpr size_t kInputBytesMax = 256;
constexpr uint32_t kRecordBytesMax = 240;
constexpr RecordLimits kLimits{.message_bytes_max = kRecordBytesMax, .fragments_max = 4};
// The longest record is 4 Buffers, and may have begun in two more. Beside it there is what each worker keeps back and has open,
// and for each source one record that has begun and waits.
constexpr uint32_t kRecordUnits = 6;
constexpr uint32_t kOneRecord = kRecordUnits + kWorkers * (kReserve + 1 + kSources);

// The bytes of all records of a connection, one behind the other: they come round after 256.
constexpr std::array<uint8_t, 256 + kRecordBytesMax> kContent = [] {
  std::array<uint8_t, 256 + kRecordBytesMax> bytes{};
  for (size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<uint8_t>(i * 7 + 1);
  }
  return bytes;
}();

class Connection {
 public:
  Connection(RecordAdmission& admission, uint32_t source, uint64_t owner) : reader(admission, kLimits, source, owner) {}

  // A record of up to 240 bytes in up to three fragments; nothing while many are under way.
  void send(uint8_t how) {
    if (stream_.size() - read_ > 2 * kRecordBytesMax) {
      return;
    }
    uint32_t left = std::min(1 + (how & 63) * 4u, kRecordBytesMax);
    for (uint32_t pieces = 1 + (how >> 6) % 3; pieces > 0; --pieces) {
      const uint32_t count = pieces == 1 ? left : left / 2;
      std::array<uint8_t, kRecordMarkBytes> mark;
      write_record_mark(mark, count, pieces == 1);
      stream_.insert(stream_.end(), mark.begin(), mark.end());
      const auto content = kContent.begin() + sent_ % 256;
      stream_.insert(stream_.end(), content, content + count);
      sent_ += count;
      left -= count;
    }
    ++records_;
  }
  void read(size_t bytes) {
    while (bytes > 0 && read_ < stream_.size()) {
      const MutableBytes space = reader.space();
      if (space.empty()) {
        break;
      }
      const size_t step = std::min({bytes, space.size(), stream_.size() - read_});
      std::memcpy(space.data(), stream_.data() + read_, step);
      FUZZ_CHECK(reader.on_bytes(static_cast<uint32_t>(step)).ok());
      read_ += step;
      bytes -= step;
    }
    Chain message;
    while (reader.poll_message(message)) {
      std::array<uint8_t, kRecordBytesMax> bytes_of;
      FUZZ_CHECK(message.bytes() <= bytes_of.size());
      message.copy_to(0, MutableBytes(bytes_of).first(message.bytes()));
      FUZZ_CHECK(std::memcmp(bytes_of.data(), kContent.data() + came_ % 256, message.bytes()) == 0);
      came_ += static_cast<uint32_t>(message.bytes());
      --records_;
      kept.push_back(std::move(message));
    }
    reader.end_turn();
  }
  [[nodiscard]] bool is_done() const { return records_ == 0; }

  RecordReader reader;
  std::vector<Chain> kept;  // until its client acknowledges

 private:
  std::vector<uint8_t> stream_;
  size_t read_ = 0;
  uint32_t sent_ = 0;
  uint32_t came_ = 0;
  uint32_t records_ = 0;  // that have not come yet
};

class Rig {
 public:
  Rig() {
    for (uint32_t i = 0; i < kReaders; ++i) {
      renew(i);
    }
  }
  void check() const {
    uint32_t growing = 0;
    for (uint32_t source = 0; source < kSources; ++source) {
      const RecordBudget::Held held = budget_.held(source);
      FUZZ_CHECK(held.growing <= std::min(held.units, budget_.share().growing));
      FUZZ_CHECK(held.units <= std::max(budget_.share().units, budget_.share().growing + kRecordUnits));
      growing += held.growing;
    }
    FUZZ_CHECK(growing <= RecordBudget::growing_max(kBuffers, kOneRecord));
  }
  void act(uint8_t what, uint8_t how) {
    const uint32_t index = what % kReaders;
    Connection& one = *connections_[index];
    switch (what / kReaders % 8) {
      case 0:
        one.send(how);
        break;
      case 1:
        one.read(how + 1u);
        break;
      case 2:
        one.send(how);
        one.read(SIZE_MAX);
        break;
      case 3:
        if (!one.kept.empty()) {
          one.kept.erase(one.kept.begin() + how % static_cast<ptrdiff_t>(one.kept.size()));
        }
        break;
      case 4:
        turn(workers_[how % kWorkers]);
        break;
      case 5:
        if (how < 32) {
          renew(index);
        }
        break;
      case 6:
        for (uint32_t i = how % kBuffers; i > 0 && hoard_.buffer_count() < kBuffers; --i) {
          if (Buffer* buffer = pool.allocate_one(); buffer != nullptr) {
            hoard_.push_back(buffer);
          }
        }
        break;
      case 7:
        hoard_.clear();
        break;
    }
    check();
  }
  void finish() {
    check_turns();
    hoard_.clear();
    for (uint32_t round = 0; round < 200 && !is_done(); ++round) {
      for (auto& each : connections_) {
        each->kept.clear();
        each->read(SIZE_MAX);
      }
      turn(workers_[0]);
      turn(workers_[1]);
    }
    FUZZ_CHECK(is_done());
    connections_ = {};
    turn(workers_[0]);
    turn(workers_[1]);
    FUZZ_CHECK(budget_.held(0).units == 0 && budget_.held(1).units == 0);
    FUZZ_CHECK(!workers_[0].wants_poll() && !workers_[1].wants_poll());
  }

 private:
  void renew(uint32_t index) {
    connections_[index].reset();
    connections_[index] = std::make_unique<Connection>(workers_[index % kWorkers], index / kWorkers % kSources, index);
  }
  void turn(RecordAdmission& worker) {
    worker.begin_turn();
    while (const RecordDemand* served = worker.poll()) {
      FUZZ_CHECK(served->owner < kReaders && !connections_[served->owner]->reader.is_waiting());
    }
  }
  // A turn to collect that nobody uses is passed on, if it has come.
  void check_turns() {
    turn(workers_[0]);
    turn(workers_[1]);
    turn(workers_[0]);
    if (workers_[0].waiting() == 0 && workers_[1].waiting() == 0) {
      FUZZ_CHECK(!workers_[0].wants_poll() && !workers_[1].wants_poll());
    }
  }
  [[nodiscard]] bool is_done() const {
    return std::ranges::all_of(connections_, [](const auto& each) { return each->is_done(); });
  }

 public:
  static HeapBufferPool pool;

 private:
  LocalRecordBudget budget_{pool, kBuffers, kSources, kSources, kOneRecord};
  std::array<RecordAdmission, kWorkers> workers_{RecordAdmission(budget_, kReserve), RecordAdmission(budget_, kReserve)};
  std::array<std::unique_ptr<Connection>, kReaders> connections_;
  Chain hoard_;  // what others have of the pool
};

HeapBufferPool Rig::pool(kBuffers, kBytes, 256);

}  // namespace
}  // namespace cw::rpcrdma

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  {
    cw::rpcrdma::Rig rig;
    for (size_t i = 0; i + 1 < std::min(size, cw::rpcrdma::kInputBytesMax); i += 2) {
      rig.act(data[i], data[i + 1]);
    }
    rig.finish();
  }
  FUZZ_CHECK(cw::rpcrdma::Rig::pool.in_use() == 0);
  return 0;
}
