// The last things out of the ordinary that happened to the queue pairs of a core: losses, refusals, waits, ends. A flight
// recorder: always on, read by causewayctl trace after the fact. Nothing of ordinary traffic is in it, so a queue pair that works
// costs nothing.
// One writer, the core; whoever else wants to read asks it for a copy.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "base/time.h"
#include "rocev2/wire/psn.h"
#include "verbs/event_log.h"
#include "verbs/ids.h"
#include "verbs/transport_event.h"

namespace cw::rc {

enum class TransportEventKind : uint8_t {
  kCreated,
  kConnected,  // to RTR; psn: the first that we send
  kDestroyed,
  kFailed,  // to ERROR; detail: QpErrorCause
  // Requester
  kAckTimeout,      // psn: the oldest without an answer; detail: which retry it leads to
  kTailProbe,       // the oldest packet alone was sent again, since the peer is silent; psn: its
  kSendsAgain,      // everything from psn on
  kNakReceived,     // detail: NAK code
  kRnrNakReceived,  // the peer had no receive; detail: its timer code
  kGapReportReceived,
  kResponseMissing,  // something later was answered; psn: of that
  kKeepaliveSent,    // an idle peer is asked whether it is there
  // Responder
  kDuplicateRequest,  // answered again; psn: its
  kOutOfSequence,     // a request ahead of the one expected; psn: its
  kNakSent,           // psn: the one expected; detail: NAK code
  kRnrNakSent,        // no receive was posted; psn: the one expected
  kGapReportSent,     // psn: the one expected
  // Both
  kDiscarded,    // a packet; detail: wire::DropReason
  kCnpReceived,  // the peer saw congestion; detail: 1 when the rate was cut
  kCnpSent,      // the peer's packets came marked
  kCount,
};
[[nodiscard]] const char* to_string(TransportEventKind kind) noexcept;

struct TransportEvent {
  static constexpr std::string_view kWire = "RoCE";

  Instant at;     // of the last of them
  Instant first;  // of the first
  verbs::Qpn qpn;
  wire::Psn psn;  // of the last of them
  uint32_t count = 1;
  TransportEventKind kind = TransportEventKind::kCount;
  uint8_t detail = 0;

  [[nodiscard]] bool is_same(const TransportEvent& other) const {
    return qpn == other.qpn && kind == other.kind && detail == other.detail;
  }
};
// What `detail` means, in words; "" when it says nothing.
[[nodiscard]] const char* reason_of(const TransportEvent& event) noexcept;

// In the words that all transports use.
[[nodiscard]] verbs::TransportEvent to_event(const TransportEvent& event) noexcept;

class TransportLog {
 public:
  explicit TransportLog(uint32_t capacity) : events_(capacity) {}  // at least 1; 40 bytes each

  // Stamped with the time of the last set_now().
  void note(verbs::Qpn qpn, TransportEventKind kind, wire::Psn psn, uint8_t detail = 0) {
    events_.note({.at = now_, .qpn = qpn, .psn = psn, .kind = kind, .detail = detail});
  }
  void set_now(Instant now) { now_ = now; }

  [[nodiscard]] uint32_t capacity() const { return events_.capacity(); }
  [[nodiscard]] uint32_t size() const { return events_.size(); }
  [[nodiscard]] uint64_t overwritten() const { return events_.overwritten(); }
  // The youngest that fit, oldest first; returns how many.
  uint32_t copy(std::span<verbs::TransportEvent> out) const { return events_.copy(out); }

 private:
  verbs::EventLog<TransportEvent> events_;
  Instant now_;
};

}  // namespace cw::rc
