#include "apps/load/load_stats.h"

namespace cw::load {

namespace {

template <typename Change>
void change_each(LoadCounters& to, const LoadCounters& by, Change change) {
  change(to.calls, by.calls);
  change(to.bytes, by.bytes);
  change(to.wrong, by.wrong);
  for (size_t i = 0; i < to.failed.size(); ++i) {
    change(to.failed[i], by.failed[i]);
  }
  change(to.refused, by.refused);
  change(to.lost, by.lost);
  change(to.interrupted, by.interrupted);
  change(to.resent, by.resent);
  change(to.connected, by.connected);
  change(to.closed, by.closed);
  change(to.churn_missed, by.churn_missed);
  change(to.called_back, by.called_back);
  change(to.arrived, by.arrived);
  change(to.overflowed, by.overflowed);
}

}  // namespace

void LoadCounters::subtract(const LoadCounters& earlier) {
  change_each(*this, earlier, [](uint64_t& value, uint64_t by) { value -= by; });
}

void LoadCounters::add(const LoadCounters& more) {
  change_each(*this, more, [](uint64_t& value, uint64_t by) { value += by; });
}

void LoadStats::subtract(const LoadStats& earlier) {
  LoadCounters::subtract(earlier);
  for (size_t i = 0; i < entries.size(); ++i) {
    entries[i].calls -= earlier.entries[i].calls;
    entries[i].bytes -= earlier.entries[i].bytes;
    entries[i].failed -= earlier.entries[i].failed;
    entries[i].latency.subtract(earlier.entries[i].latency);
  }
  service.subtract(earlier.service);
  connect.subtract(earlier.connect);
}

void LoadStats::merge(const LoadStats& other) {
  LoadCounters::add(other);
  for (size_t i = 0; i < entries.size(); ++i) {
    entries[i].calls += other.entries[i].calls;
    entries[i].bytes += other.entries[i].bytes;
    entries[i].failed += other.entries[i].failed;
    entries[i].latency.merge(other.entries[i].latency);
  }
  service.merge(other.service);
  connect.merge(other.connect);
}

}  // namespace cw::load
