// Going back and trying again: where the oldest unacknowledged packet lies, when to lose patience, and for how long.
//
// Go-back-N keeps no copies: the cursor moves back to una and the same payload is cut again, so a repeated packet is the same
// bytes by construction (CVE-2023-53539 is what happens to saved requester state). A READ goes on behind the data that has
// arrived.
//
// Three things make the requester repeat: a sequence NAK (or a missing READ response), which costs a round trip; a tail probe,
// which repeats the oldest packet alone after a few round trips of silence, so that the loss of the last packet of a burst or of
// its acknowledgement, or of a NAK that a standard peer sends only once, does not cost a timeout; and the timeout itself. When
// the answer to a probe does not acknowledge all that was sent before it, the peer has not got the rest, which is repeated soon
// (suspected_loss.h). Every repetition without progress counts against retry_count, except probes.
//
// What was under way when the requester went back still arrives, and so do the answers to it: none of them makes it go back
// again. A NAK counts anew when a round trip has passed, whatever it acknowledges and whichever packet it names, because
// everything behind una has just been sent again. Where packets overtake each other a standard responder says NAK to each that
// came too early, and to go back for each would send the whole window several times in a round trip. A READ response behind the
// gap counts when the answers have begun anew.
#pragma once

#include "base/time.h"
#include "rocev2/rc/qp_context.h"
#include "rocev2/rc/send_state.h"

namespace cw::rc {

// Probes between two signs of progress; each waits twice as long as the one before.
inline constexpr uint8_t kTailProbesMax = 3;
// A probe never goes out earlier than this after the last news: below it the timer wheel's tick would decide.
inline constexpr Duration kTailProbeMin = Duration::us(200);
// A repeated READ costs the peer all of the data that has not come, not one packet: the more of it, the longer a probe waits, up
// to more than a scheduling pause of the peer; and the longer, the longer the pauses that the peer has made. One response alone
// can be asked of a Causeway peer, of a READ that it is known to have executed.
inline constexpr Duration kReadProbePerResponse = Duration::us(20);
inline constexpr Duration kReadProbeMax = Duration::ms(5);

// A response of [una, limit_psn) has come: how long nothing had come before it tells what silence of this peer means nothing.
void note_pause(SendState& state, Instant now, wire::Psn psn);

// The cursor for the packet with PSN una.
[[nodiscard]] SendCursor cursor_at_una(const SendState& state, uint32_t mtu_bytes);

// The cursor for the packet with a PSN of [una, limit_psn]; within a READ, for what repeats it from that response on.
[[nodiscard]] SendCursor cursor_at(const SendState& state, wire::Psn psn, uint32_t mtu_bytes);

// Everything from una on will be sent again, READ responses that have come early included.
void go_back(QpContext& context, SendState& state, Instant now);
// Everything from `psn` on will be sent again; from una on, when that is in the middle of a READ. Precondition: what is missing
// before it is noted in the gaps, or it is una.
void go_back_to(QpContext& context, SendState& state, Instant now, wire::Psn psn);

// The peer misses `missing` and holds what the report says: notes it, so that only what is lost is sent again. False when that
// cannot be, and it has to be repeated as towards an ordinary peer. Precondition: missing is una, or what is missing before it is
// noted in the gaps.
[[nodiscard]] bool note_gap(QpContext& context, SendState& state, Instant now, wire::Psn missing, const wire::GapReport& report);
// una has moved; `reported` as for Scoreboard::advance. Gives the scoreboard back when it is no longer needed.
void settle_board(QpContext& context, SendState& state, Instant now, bool reported);
void drop_board(QpContext& context, SendState& state);

// A sequence NAK or a missing READ response says that `psn` did not arrive. `progressed`: the same packet acknowledged something.
// What comes within a round trip after going back is put off until then, and counts if una has not moved. kRetryExceeded when
// the retries are used up. Precondition: as for go_back_to.
[[nodiscard]] QpErrorCause repeat_from(QpContext& context, SendState& state, Instant now, wire::Psn psn, bool progressed);

// What comes sooner after a repetition cannot be an answer to it.
[[nodiscard]] Duration least_answer_time(const SendState& state);
// How long what is overtaken may be late: what the gaps and the board want to know.
[[nodiscard]] ReadGaps::Patience read_patience(const SendState& state);
[[nodiscard]] Scoreboard::Clock board_clock(const SendState& state, Instant now);
// Notes what has been overtaken for long enough, so that it is sent again.
void note_overdue(SendState& state, Instant now);
// A packet came `late` after one that was sent later. `spurious`: meanwhile it had been sent again.
void note_late(QpContext& context, SendState& state, Duration late, bool spurious);

// How long a repeated READ request can be in the network: a round trip and the reordering window, between kRepetitionLifeLeast
// and a fourth of the acknowledgement timeout.
inline constexpr Duration kRepetitionLifeLeast = Duration::us(100);
[[nodiscard]] Duration repetition_life(const SendState& state);
// The READ request for the responses from `first` on leaves again. `within`: it begins within what was asked for together.
void note_read_repeated(QpContext& context, SendState& state, Instant now, wire::Psn first, bool within);
// Forgets READ requests that are no longer in the network, and looks whether the next SEND still has to wait for one.
void review_repeats(QpContext& context, SendState& state, Instant now);
void drop_repeats(QpContext& context, SendState& state);

// Within this time after a repetition, what comes is about the first transmission, not about the repetition.
[[nodiscard]] Duration echo_time(const SendState& state);

// Without gaps: `psn`, behind a READ that misses responses, is answered. True when una is to be repeated for that, false when
// the answers that were under way at the last repetition are still coming.
[[nodiscard]] bool is_news_of_gap(SendState& state, wire::Psn psn);

// The round trip that ends now counts, smoothed as TCP does (RFC 6298): enough to tell a round trip from a timeout.
void take_sample(SendState& state, Instant now);

// An acknowledgement has come for everything before una: it may be the answer to the tail probe.
void settle_probe(SendState& state, Instant now);

// When on_send_timer has something to do; never() when nothing is awaited.
[[nodiscard]] Instant send_deadline(const SendState& state);
// The deadline may have passed: end of an RNR wait, tail probe or timeout. A failure when the retries are used up.
[[nodiscard]] QpErrorCause on_send_timer(QpContext& context, SendState& state, Instant now);

}  // namespace cw::rc
