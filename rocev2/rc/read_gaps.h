// What the requester knows of the responses to its READs and atomics once one of them has come before its turn: which PSNs are
// missing, and where in a READ's payload they belong. From a slab, and only while something is missing.
//
//        una = first hole          hole               frontier           next_psn
//   ------|xxxxx|-------------------|xxx|----------------|--------------------> PSN
//         missing      arrived                arrived        not answered yet
//
// Before the frontier everything has been answered: responses have arrived or are in a hole, SENDs and WRITEs were executed,
// because the peer executes in order. What has arrived is in its READ's payload already, in the right order, so that nothing is
// held twice and no more than was asked for: a hole remembers the frame behind which its responses belong.
//
// A responder answers in the order of the requests, repeated ones included (IBA 9.7.5.1.2). So a hole is overtaken once something
// that was asked for later has come. It is lost when the reordering window (reorder_window.h) has passed since, and only then
// it is asked for again; not twice within a round trip. What comes twice proves nothing. A hole lies within what one request
// asked for, because no repetition may ask for more.
//
// Bounds: kHolesMax holes; a response that would make one more is not taken, and is asked for again in its time. Frames belong to
// the Works.
#pragma once

#include <array>
#include <cstdint>

#include "base/buffer.h"
#include "base/time.h"
#include "rocev2/rc/work.h"
#include "rocev2/wire/psn.h"

namespace cw::rc {

class ReadGaps {
 public:
  static constexpr uint32_t kHolesMax = 32;

  // When responses were asked for, as far as it tells one answer from another.
  struct Asking {
    uint32_t number = 0;  // of the repetition, from 1; 0: asked for once
    wire::Psn first;      // valid when number > 0: the response that the repetition asks for first
    wire::Psn limit_psn;  // valid when number > 0: nothing from here on had been asked for then
    Instant at;           // valid when number > 0
    [[nodiscard]] bool again() const { return number > 0; }
  };
  struct Hole {
    wire::Psn first;
    uint32_t count = 0;        // responses, at least one
    Work* work = nullptr;      // whose they are
    wire::Psn request_end;     // where what was asked for together ends
    Buffer* before = nullptr;  // of its payload, behind which they belong; nullptr: at its head
    Asking asked;
    Instant noted_at;          // when it was found to be missing
    Instant overtaken_at;      // valid when overtaken_by > 0
    uint8_t overtaken_by = 0;  // answers to what was asked for later that have come since it was asked for; 255 or more
    bool lost = false;         // to be asked for again

    [[nodiscard]] wire::Psn end() const { return first.plus(count); }
  };

  // `asks_rest`: a repetition asks from a hole to the end of its READ request, as every peer understands it, not for the hole
  // alone. Of one request, repetitions then begin further and further in: rdma_rxe forgets what lies before the last one's
  // beginning. Precondition: `oldest` awaits the response with PSN una.
  ReadGaps(wire::Psn una, Work* oldest, uint32_t request_packets, bool asks_rest)
      : frontier_(una), last_(oldest), request_packets_(request_packets), asks_rest_(asks_rest) {}

  [[nodiscard]] bool empty() const { return hole_count_ == 0; }
  [[nodiscard]] wire::Psn frontier() const { return frontier_; }
  // Everything before it has been answered, and has arrived.
  [[nodiscard]] wire::Psn first_missing() const { return hole_count_ > 0 ? holes_[0].first : frontier_; }
  // Where the READ request ends that the frontier lies within; the frontier when it lies within none.
  [[nodiscard]] wire::Psn request_end_at_frontier() const;

  // Everything before `psn` has been answered, and what has not arrived is missing; asked for again already when `asked` says so,
  // and then, with `overtaken`, overtaken all the same. False when there is no room for a further hole: the frontier has come
  // as far as it could. Precondition: psn is not before the frontier, and has been sent.
  [[nodiscard]] bool move_frontier(wire::Psn psn, const Asking& asked, Instant now, bool overtaken);
  // The work to which the PSN at the frontier belongs. Precondition: it has been sent.
  [[nodiscard]] Work& work_at_frontier();
  // The response at the frontier has been taken.
  void pass_frontier() {
    frontier_ = frontier_.next();
    ++early_count_;
  }
  // Responses that have come and have not been settled: una has not passed them.
  [[nodiscard]] uint32_t early_count() const { return early_count_; }
  void note_settled(uint32_t responses) { early_count_ -= responses; }

  // READ requests and atomics, of those from `oldest` on that are not complete, whose answers have all come.
  [[nodiscard]] uint32_t complete_count(const Work* oldest) const;

  // The hole that `psn` lies in, or nullptr.
  [[nodiscard]] Hole* find(wire::Psn psn);
  // Whether fill() has room. Precondition: psn lies in the hole.
  [[nodiscard]] bool can_fill(const Hole& hole, wire::Psn psn) const;
  // The response has arrived; `frame` (nullptr: it carries none) becomes part of the payload. `hole` is no longer valid.
  // Precondition: can_fill.
  void fill(Hole& hole, wire::Psn psn, Buffer* frame);

  // Something from `psn` on that was first asked for later has come: what was asked for before is overtaken.
  void note_answer_of(wire::Psn psn, Instant now);
  // The response `psn` has come as the answer to a repetition: what was asked for before that is overtaken.
  void note_answer_to(const Asking& asked, wire::Psn psn, Instant now);
  // A response that has come before has come again. Where the rest of a request is asked for, the answers to one that left
  // `age_min` ago or earlier have come as far as `psn`: what they should have brought before is overtaken.
  void note_duplicate(wire::Psn psn, Instant now, Duration age_min);
  void note_all_lost();

  // How long what is overtaken may still be on its way.
  struct Patience {
    Duration wait;
    uint32_t overtaken_max = 0;  // overtaken by so many it is lost at once; 0: by no number
    Duration again_min;          // a repetition is not lost earlier than this after it was sent
  };
  // Notes as lost what has been overtaken for long enough.
  void note_overdue(Instant now, const Patience& patience);
  // When note_overdue() has something to note; never() when nothing is overtaken.
  [[nodiscard]] Instant next_overdue(const Patience& patience) const;

  // The oldest hole that is to be asked for again, or nullptr.
  [[nodiscard]] Hole* next_lost();
  // The hole is asked for again now, and with it, when the rest is asked for, every later one of its request.
  void on_asked(Hole& hole, wire::Psn limit_psn, Instant now);
  // Responses that a repetition for the hole asks for.
  [[nodiscard]] uint32_t responses_to_ask(const Hole& hole) const {
    return asks_rest_ ? static_cast<uint32_t>(hole.first.distance_to(hole.request_end)) : hole.count;
  }
  [[nodiscard]] Asking ask(wire::Psn first, wire::Psn limit_psn, Instant now) { return {++askings_, first, limit_psn, now}; }

  // Takes everything that has come before its turn out of the payloads of the works from `oldest` on, and gives it to `out`.
  void take_early(Work* oldest, Chain& out);

  [[nodiscard]] bool is_consistent() const;

 private:
  [[nodiscard]] bool add(Hole hole);
  void remove(uint32_t index);
  static void note_overtaken(Hole& hole, Instant now);
  [[nodiscard]] static Instant overdue_at(const Hole& hole, const Patience& patience);

  std::array<Hole, kHolesMax> holes_;  // in PSN order, never adjacent within a request
  uint32_t hole_count_ = 0;
  uint32_t askings_ = 0;
  uint32_t early_count_ = 0;
  wire::Psn frontier_;
  Work* last_;
  uint32_t request_packets_;
  bool asks_rest_;
};

}  // namespace cw::rc
