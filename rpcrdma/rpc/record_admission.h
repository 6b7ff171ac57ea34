// Memory for records that arrive: who may begin one, and who waits.
//
// Replies of all backends share one pool of large Buffers. If each connection took Buffers as its bytes come, many half records
// could hold the whole pool, and none could ever end. Hence a record is admitted for all of its bytes before it may grow beyond
// the Buffer that it began in: its record mark says how long it is. A record in several fragments is admitted for the longest
// record there may be, and what it does not need goes back when the mark of its last fragment is there.
//
// Shares: the incomplete records of one source (a backend) hold at most its share of the pool, the pool divided by the sources
// and one more. So a backend that begins records and ends none leaves to the others what they need. One record of each source is
// always admitted, however long.
// Waiting: who finds no memory waits in line, first come first served within its source; the sources take turns. Only the
// first in line collects Buffers as they come back, and it keeps what it has, so neither small nor large records starve it. With
// several workers, a ticket says whose first in line collects. Records of up to a quarter of a Buffer do not wait behind large
// ones: each worker keeps some Buffers back for them, and of those that come back it takes one for each that the line gets.
// While anybody waits, only record marks are read of records that begin (RecordReader): no memory goes to what may not go on.
//
// Buffers come back in the hands of drivers and other threads, where nothing of ours runs. So the owner calls begin_turn() and
// poll() while wants_poll(), each turn and at least once a millisecond.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "rocev2/base/buffer.h"
#include "rocev2/base/intrusive_list.h"

namespace cw::rpcrdma {

// What all workers share: the shares of the sources, and whose turn it is to collect. Sources have the numbers 0 to
// sources_max - 1.
class RecordBudget {
 public:
  RecordBudget(BufferPool& pool, uint32_t sources_max) : pool_(pool), sources_max_(sources_max) {}
  virtual ~RecordBudget() = default;
  [[nodiscard]] BufferPool& pool() const { return pool_; }
  [[nodiscard]] uint32_t sources_max() const { return sources_max_; }

  // Counts `units` Buffers to the source. False, and nothing counted: it has others, and these would exceed its share.
  [[nodiscard]] virtual bool take_share(uint32_t source, uint32_t units) = 0;
  virtual void give_share(uint32_t source, uint32_t units) = 0;
  // Tickets are served in order, one at a time.
  [[nodiscard]] virtual uint64_t draw_ticket() = 0;
  [[nodiscard]] virtual bool is_served(uint64_t ticket) const = 0;
  virtual void serve_next(uint64_t ticket) = 0;
  [[nodiscard]] virtual bool someone_collects() const = 0;
  // Buffers that came back to those who waited, ever.
  virtual void note_collected(uint32_t count) = 0;
  [[nodiscard]] virtual uint64_t collected() const = 0;

  // Of a source that holds `held`.
  [[nodiscard]] static bool is_within(uint32_t share, uint32_t held, uint32_t units) {
    return held == 0 || (held <= share && units <= share - held);
  }
  [[nodiscard]] static uint32_t share_of(uint32_t buffers, uint32_t sources) { return buffers / (sources + 1); }

 private:
  BufferPool& pool_;
  uint32_t sources_max_;
};

// For one thread.
class LocalRecordBudget final : public RecordBudget {
 public:
  // `pool` has `buffers` Buffers, which `sources` share.
  explicit LocalRecordBudget(BufferPool& pool, uint32_t buffers = UINT32_MAX, uint32_t sources = 1, uint32_t sources_max = 1)
      : RecordBudget(pool, std::max(sources, sources_max)), share_(share_of(buffers, sources)), held_(this->sources_max()) {}

  [[nodiscard]] bool take_share(uint32_t source, uint32_t units) override {
    const bool taken = is_within(share_, held_[source], units);
    held_[source] += taken ? units : 0;
    return taken;
  }
  void give_share(uint32_t source, uint32_t units) override { held_[source] -= units; }
  // That the incomplete records of the source hold.
  [[nodiscard]] uint32_t held(uint32_t source) const { return held_[source]; }
  [[nodiscard]] uint64_t draw_ticket() override { return next_ticket_++; }
  [[nodiscard]] bool is_served(uint64_t ticket) const override { return serving_ == ticket; }
  void serve_next(uint64_t ticket) override { serving_ = ticket + 1; }
  [[nodiscard]] bool someone_collects() const override { return serving_ != next_ticket_; }
  void note_collected(uint32_t count) override { collected_ += count; }
  [[nodiscard]] uint64_t collected() const override { return collected_; }

 private:
  uint32_t share_;
  std::vector<uint32_t> held_;  // by source
  uint64_t next_ticket_ = 0;
  uint64_t serving_ = 0;
  uint64_t collected_ = 0;
};

struct RecordLineTag {};

// A record that asks for memory. Belongs to one RecordAdmission.
struct RecordDemand : ListNode<RecordLineTag> {
  uint64_t owner = 0;       // for whom polls
  uint32_t source = 0;      // whose share it counts in
  uint32_t units = 0;       // counted there
  Buffer* spare = nullptr;  // admitted and not in use yet, linked
  uint32_t spare_count = 0;
  uint32_t units_wanted = 0;  // to be counted still
  uint32_t spare_wanted = 0;  // Buffers to be had still
  bool is_small = false;      // goes into a quarter of a Buffer
};

// What one worker's connections have in common. One thread.
class RecordAdmission {
 public:
  // `reserve`: Buffers that are kept back for small records.
  explicit RecordAdmission(RecordBudget& budget, uint32_t reserve = 0);
  // For connections that share `pool` with nobody else.
  explicit RecordAdmission(BufferPool& pool);
  // Nobody waits any more.
  ~RecordAdmission();
  RecordAdmission(const RecordAdmission&) = delete;
  RecordAdmission& operator=(const RecordAdmission&) = delete;

  [[nodiscard]] uint32_t buffer_bytes() const { return budget_.pool().buffer_bytes(); }
  // Whether more may be read of the source's records than the next mark.
  [[nodiscard]] bool may_read_ahead(uint32_t source) const { return lines_[source].empty() && !budget_.someone_collects(); }
  // A Buffer with at least a quarter of it free, in which the last record of some connection ended, or a new one; nullptr: none.
  [[nodiscard]] Buffer* take_open();
  // Who has ended a record in it gives it back for the next one.
  void give_open(Buffer* buffer);

  // Counts `units`, and puts `buffers` more into demand.spare. False: it waits in line now, until poll() names it.
  [[nodiscard]] bool admit(RecordDemand& demand, uint32_t units, uint32_t buffers);
  // It waits no more, and everything that it had goes back.
  void forget(RecordDemand& demand);
  // A part of what it had goes back.
  void give_back(RecordDemand& demand, uint32_t units, uint32_t buffers);

  [[nodiscard]] bool wants_poll() const { return waiting_ > 0 || ticket_.has_value(); }
  void begin_turn();
  // One that has waited and may go on now; nullptr: none.
  [[nodiscard]] RecordDemand* poll();
  [[nodiscard]] uint32_t waiting() const { return waiting_; }
  // Records that had to wait, ever.
  [[nodiscard]] uint64_t waited() const { return waited_; }

 private:
  using List = IntrusiveList<RecordDemand, RecordLineTag>;
  struct Line {
    List small;
    List large;
    [[nodiscard]] bool empty() const { return small.empty() && large.empty(); }
  };
  [[nodiscard]] bool take_wanted_share(RecordDemand& demand);
  [[nodiscard]] bool take_reserved(RecordDemand& demand);
  [[nodiscard]] bool collect(RecordDemand& demand);
  [[nodiscard]] bool collect_all(RecordDemand& demand);
  [[nodiscard]] bool is_reserved_for(const RecordDemand& demand) const { return demand.is_small && reserve_max_ > 0; }
  void give_spare(RecordDemand& demand, uint32_t buffers);
  RecordDemand* grant(RecordDemand& demand);
  RecordDemand* serve_small(uint32_t source);
  RecordDemand* serve_large();
  void pass_ticket();
  static void add_spare(RecordDemand& demand, Buffer* buffer);

  std::optional<LocalRecordBudget> own_;
  RecordBudget& budget_;
  std::vector<Line> lines_;  // by source
  uint32_t waiting_ = 0;
  uint64_t waited_ = 0;
  Buffer* open_ = nullptr;
  uint32_t reserve_max_;
  std::vector<Buffer*> reserve_;
  uint64_t collected_seen_ = 0;  // RecordBudget::collected() when the reserve got its last one
  std::optional<uint64_t> ticket_;
  uint32_t collecting_ = 0;  // the source whose turn it is
};

}  // namespace cw::rpcrdma
