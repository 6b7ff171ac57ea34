// What poll cores tell each other of the lines for a listener's rate, so that sections share it by their weights whichever core
// their connections are on: how far the clock of each line is, and where somebody waits. A line is named by listener and section.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace cw::rpcrdma {

class RateShares {
 public:
  RateShares() = default;
  virtual ~RateShares() = default;
  RateShares(const RateShares&) = delete;
  RateShares& operator=(const RateShares&) = delete;

  // Weighed nanoseconds of the listener's rate.
  [[nodiscard]] virtual int64_t clock(size_t listener, size_t section) const = 0;
  // Somebody waits in it, on whatever core.
  [[nodiscard]] virtual bool is_waiting(size_t listener, size_t section) const = 0;
  // Of all cores together: a line counts on each core where somebody waits in it.
  [[nodiscard]] virtual uint32_t lines_waiting(size_t listener) const = 0;

  virtual void begin_to_wait(size_t listener, size_t section) = 0;
  virtual void end_to_wait(size_t listener, size_t section) = 0;
  // A call goes, and moves the clock by so much: from where the line was that last went, if it is behind that.
  virtual void go(size_t listener, size_t section, int64_t weighed) = 0;
  // It cost so much more, or less.
  virtual void settle(size_t listener, size_t section, int64_t weighed) = 0;
  // All clocks stand together again.
  virtual void forget() = 0;
};

// Of one core.
class LocalRateShares final : public RateShares {
 public:
  // `sections`: with one for those that are of none.
  LocalRateShares(size_t listeners, size_t sections) : sections_(sections), lines_(listeners * sections), listeners_(listeners) {}

  [[nodiscard]] int64_t clock(size_t listener, size_t section) const override { return lines_[at(listener, section)].clock; }
  [[nodiscard]] bool is_waiting(size_t listener, size_t section) const override {
    return lines_[at(listener, section)].waiting > 0;
  }
  [[nodiscard]] uint32_t lines_waiting(size_t listener) const override { return listeners_[listener].waiting; }
  void begin_to_wait(size_t listener, size_t section) override {
    ++lines_[at(listener, section)].waiting;
    ++listeners_[listener].waiting;
  }
  void end_to_wait(size_t listener, size_t section) override {
    --lines_[at(listener, section)].waiting;
    --listeners_[listener].waiting;
  }
  void go(size_t listener, size_t section, int64_t weighed) override {
    int64_t& own = lines_[at(listener, section)].clock;
    own = std::max(own, listeners_[listener].clock);
    listeners_[listener].clock = own;
    own += weighed;
  }
  void settle(size_t listener, size_t section, int64_t weighed) override { lines_[at(listener, section)].clock += weighed; }
  void forget() override {
    std::ranges::for_each(lines_, [](Row& row) { row.clock = 0; });
    std::ranges::for_each(listeners_, [](Row& row) { row.clock = 0; });
  }

 private:
  struct Row {
    int64_t clock = 0;
    uint32_t waiting = 0;
  };
  [[nodiscard]] size_t at(size_t listener, size_t section) const { return listener * sections_ + section; }

  size_t sections_;
  std::vector<Row> lines_;
  std::vector<Row> listeners_;  // clock: where the line was that last went
};

}  // namespace cw::rpcrdma
