// Memory for records that arrive: who may begin one, and who waits.
//
// Replies of all backends share one pool of large Buffers. If each connection took Buffers as its bytes come, many half records
// could hold the whole pool, and none could ever end. Hence a record is admitted for all of its bytes before it may grow beyond
// the Buffer that it began in: its record mark says how long it is.
// A record in several fragments does not say that before its last mark. It is admitted for the fragments announced so far and
// grows with each mark. What all growing records hold together leaves to one the longest record there may be: who may not grow
// within that, or within its source's share of it, is admitted for the longest record there may be, and what it does not need
// goes back when its last mark is there. So whoever is first in line always gets what it waits for.
//
// Shares: the incomplete records of one source (a backend) hold at most its share of the pool, the pool divided by the sources
// and one more. So a backend that begins records and ends none leaves to the others what they need. One record of each source is
// always admitted, however long; the growing records of a source leave room for it in the share, but have an eighth of the share.
// Waiting: who finds no memory waits in line, first come first served within its source, those that have begun before those that
// have not; the sources take turns. Only the first in line collects Buffers as they come back, and it keeps what it has, so
// neither small nor large records starve it. With several workers, a ticket says whose first in line collects. Records that need
// up to a quarter of a Buffer and have no more than one do not wait behind large ones: each worker keeps some Buffers back for
// them, and of those that come back it takes one for each that the line gets.
// While anybody waits, only record marks are read of records that begin (RecordReader): no memory goes to what may not go on.
//
// Buffers come back in the hands of drivers and other threads, where nothing of ours runs. So the owner calls begin_turn() and
// poll() while wants_poll(), each turn and at least once a millisecond.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/buffer.h"
#include "base/intrusive_list.h"

namespace cw::rpcrdma {

// What all workers share: the shares of the sources, and whose turn it is to collect. Sources have the numbers 0 to
// sources_max - 1.
class RecordBudget {
 public:
  RecordBudget(BufferPool& pool, uint32_t sources_max) : pool_(pool), sources_max_(sources_max) {}
  virtual ~RecordBudget() = default;
  [[nodiscard]] BufferPool& pool() const { return pool_; }
  [[nodiscard]] uint32_t sources_max() const { return sources_max_; }

  // Counts `units` Buffers to the source, for a record that is admitted for all of its bytes. Of what it has already, `grown`
  // were counted by take_growing() and are not growing any more. False, and nothing counted: others of the source have been
  // admitted so, and these would exceed its share.
  [[nodiscard]] virtual bool take_share(uint32_t source, uint32_t units, uint32_t grown) = 0;
  // For a record that grows. False, and nothing counted: these would exceed the share of the source, or what all may have.
  [[nodiscard]] virtual bool take_growing(uint32_t source, uint32_t units) = 0;
  virtual void give_share(uint32_t source, uint32_t units, bool growing) = 0;
  // Tickets are served in order, one at a time.
  [[nodiscard]] virtual uint64_t draw_ticket() = 0;
  [[nodiscard]] virtual bool is_served(uint64_t ticket) const = 0;
  virtual void serve_next(uint64_t ticket) = 0;
  [[nodiscard]] virtual bool someone_collects() const = 0;
  // Buffers that came back to those who waited, ever.
  virtual void note_collected(uint32_t count) = 0;
  [[nodiscard]] virtual uint64_t collected() const = 0;

  // Buffers, of one source.
  struct Held {
    uint32_t units = 0;    // of its incomplete records
    uint32_t growing = 0;  // of these, of those that grow
  };
  // What one source may hold.
  struct Share {
    uint32_t units = 0;
    uint32_t growing = 0;
  };
  // Of `buffers` Buffers. `one_record` are enough for the longest record while all but records have what they keep back.
  [[nodiscard]] static Share share_of(uint32_t buffers, uint32_t one_record, uint32_t sources) {
    const uint32_t units = buffers / (sources + 1);
    const uint32_t growing = std::max(units - std::min(units, one_record), units / kGrowingPart);
    return {.units = units, .growing = std::min(growing, growing_max(buffers, one_record))};
  }
  // Over all sources.
  [[nodiscard]] static uint32_t growing_max(uint32_t buffers, uint32_t one_record) {
    return buffers - std::min(buffers, one_record);
  }
  [[nodiscard]] static bool is_within(Share share, Held held, uint32_t units) {
    return held.units == held.growing || (held.units <= share.units && units <= share.units - held.units);
  }
  [[nodiscard]] static bool is_growing_within(Share share, Held held, uint32_t units) {
    return held.units <= share.units && units <= share.units - held.units && held.growing <= share.growing &&
           units <= share.growing - held.growing;
  }

 private:
  static constexpr uint32_t kGrowingPart = 8;  // of a share too small for the longest record and others beside it
  BufferPool& pool_;
  uint32_t sources_max_;
};

// For one thread.
class LocalRecordBudget final : public RecordBudget {
 public:
  // `pool` has `buffers` Buffers, which `sources` share, and `one_record` are enough for the longest record (share_of()). By
  // default no record grows: each is admitted for all of its bytes, or for the longest there may be.
  explicit LocalRecordBudget(BufferPool& pool, uint32_t buffers = UINT32_MAX, uint32_t sources = 1, uint32_t sources_max = 1,
                             uint32_t one_record = UINT32_MAX)
      : RecordBudget(pool, std::max(sources, sources_max)),
        share_(share_of(buffers, one_record, sources)),
        growing_max_(growing_max(buffers, one_record)),
        held_(this->sources_max()) {}

  [[nodiscard]] bool take_share(uint32_t source, uint32_t units, uint32_t grown) override {
    Held& held = held_[source];
    if (!is_within(share_, held, units)) {
      return false;
    }
    held.units += units;
    held.growing -= grown;
    growing_ -= grown;
    return true;
  }
  [[nodiscard]] bool take_growing(uint32_t source, uint32_t units) override {
    Held& held = held_[source];
    if (units > growing_max_ - growing_ || !is_growing_within(share_, held, units)) {
      return false;
    }
    held.units += units;
    held.growing += units;
    growing_ += units;
    return true;
  }
  void give_share(uint32_t source, uint32_t units, bool growing) override {
    held_[source].units -= units;
    held_[source].growing -= growing ? units : 0;
    growing_ -= growing ? units : 0;
  }
  // What the incomplete records of the source hold.
  [[nodiscard]] Held held(uint32_t source) const { return held_[source]; }
  [[nodiscard]] Share share() const { return share_; }
  [[nodiscard]] uint64_t draw_ticket() override { return next_ticket_++; }
  [[nodiscard]] bool is_served(uint64_t ticket) const override { return serving_ == ticket; }
  void serve_next(uint64_t ticket) override { serving_ = ticket + 1; }
  [[nodiscard]] bool someone_collects() const override { return serving_ != next_ticket_; }
  void note_collected(uint32_t count) override { collected_ += count; }
  [[nodiscard]] uint64_t collected() const override { return collected_; }

 private:
  Share share_;
  uint32_t growing_max_;
  uint32_t growing_ = 0;
  std::vector<Held> held_;  // by source
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
  uint32_t rest_wanted = 0;   // beyond these, if it has to be admitted for the longest record
  bool has_begun = false;     // it had some of its memory before
  bool is_growing = false;    // its units are counted as those of a record that grows
  bool is_small = false;      // a quarter of a Buffer is enough for what it waits for
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

  // Counts `units`, and puts `buffers` more into demand.spare. The record's length is not known yet if there is a `rest`: so many
  // Buffers more would do for the longest, and it may get them too. False: it waits in line now, until poll() names it.
  [[nodiscard]] bool admit(RecordDemand& demand, uint32_t units, uint32_t buffers, uint32_t rest = 0);
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
    List begun;
    List fresh;
    [[nodiscard]] bool empty() const { return small.empty() && begun.empty() && fresh.empty(); }
    // Of those that are not small. One that collects stays the first until it has everything.
    [[nodiscard]] RecordDemand* first() {
      RecordDemand* of_fresh = fresh.front();
      return begun.empty() || (of_fresh != nullptr && of_fresh->units_wanted == 0) ? of_fresh : begun.front();
    }
  };
  void join(RecordDemand& demand);
  [[nodiscard]] bool take_growing(RecordDemand& demand);
  [[nodiscard]] bool take_wanted_share(RecordDemand& demand);
  [[nodiscard]] bool take_reserved(RecordDemand& demand);
  [[nodiscard]] bool collect(RecordDemand& demand);
  [[nodiscard]] bool collect_all(RecordDemand& demand);
  [[nodiscard]] bool is_reserved_for(const RecordDemand& demand) const {
    return demand.is_small && demand.spare_wanted == 1 && reserve_max_ > 0;
  }
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
