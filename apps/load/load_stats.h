// What a load counted: plain numbers of its core, copied whole for whoever shows them.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <numeric>

#include "apps/load/call_mix.h"
#include "apps/load/fine_histogram.h"
#include "rpcrdma/endpoint/client_endpoint.h"

namespace cw::load {

struct LoadCounters {
  uint64_t calls = 0;                                        // answered rightly
  uint64_t bytes = 0;                                        // data moved, both ways
  uint64_t wrong = 0;                                        // answered, with wrong content
  std::array<uint64_t, rpcrdma::kCallStatusCount> failed{};  // by status: have no answer, and get none any more; kReplied unused
  uint64_t refused = 0;                                      // connections
  uint64_t lost = 0;
  uint64_t interrupted = 0;   // calls whose connection was lost and that wait to be sent again, or were: not failed
  uint64_t resent = 0;        // of these, sent again under their XIDs on a new connection
  uint64_t connected = 0;     // connections made, again ones included
  uint64_t closed = 0;        // connections that we closed: churn, or fewer wanted
  uint64_t churn_missed = 0;  // to be closed by the churn's rate, but none was open and idle enough
  uint64_t called_back = 0;   // calls of the server that were answered (CALLBACK)
  uint64_t arrived = 0;       // open loop: calls that were due
  uint64_t overflowed = 0;    // of these, dropped because the queue of due calls was full

  // What was counted since. Precondition: `earlier` is a copy of this from then.
  void subtract(const LoadCounters& earlier);
  void add(const LoadCounters& more);
  [[nodiscard]] uint64_t all_failed() const { return std::accumulate(failed.begin(), failed.end(), uint64_t{0}); }
};

struct EntryStats {
  uint64_t calls = 0;
  uint64_t bytes = 0;
  uint64_t failed = 0;  // wrong answers included
  // From the instant at which the call was due (open loop) or sent (closed loop) to its answer. A call that was sent again counts
  // from the first time.
  FineHistogram latency;
};

struct LoadStats : LoadCounters {
  std::array<EntryStats, CallMix::kEntriesMax> entries;
  FineHistogram service;  // open loop: from sending to the answer, which leaves out the wait before
  FineHistogram connect;  // from the wish for a connection until it was up

  void subtract(const LoadStats& earlier);
  // Adds what another core counted, of the same mix.
  void merge(const LoadStats& other);
  // Of all kinds of call.
  [[nodiscard]] FineHistogram latency() const {
    FineHistogram all;
    for (const EntryStats& entry : entries) {
      all.merge(entry.latency);
    }
    return all;
  }
  // Copies what a mix of so many entries uses, into a copy made this way before.
  void copy_to(LoadStats& out, size_t entry_count) const {
    static_cast<LoadCounters&>(out) = *this;
    std::copy_n(entries.begin(), entry_count, out.entries.begin());
    out.service = service;
    out.connect = connect;
  }
};

}  // namespace cw::load
