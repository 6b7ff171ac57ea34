// The states of a queue pair and the only ways between them (IBA 10.3.1). Values are those of ibv_qp_state.
//
//   RESET -> INIT -> RTR -> RTS <-> SQD        any -> ERROR        any -> RESET (destroyed)
//
// SQE (value 5) is missing on purpose: the standard has it for unreliable transports only, where a failed send leaves the receive
// side alone. On a reliable connection every such failure goes to ERROR.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

namespace cw::rc {

enum class QpState : uint8_t {
  kReset = 0,  // no connection, nothing is received
  kInit = 1,   // receives may be posted, nothing is received yet
  kRtr = 2,    // ready to receive: the responder works
  kRts = 3,    // ready to send: both halves work
  kSqd = 4,    // send queue draining: as RTS, but no work is begun; what has been begun is finished
  kError = 6,  // every packet is ignored, every work request flushed
};
inline constexpr std::array kQpStates = {QpState::kReset, QpState::kInit, QpState::kRtr,
                                         QpState::kRts,   QpState::kSqd,  QpState::kError};
// The responder's half, and the requester's, work.
[[nodiscard]] constexpr bool can_receive(QpState state) {
  return state == QpState::kRtr || state == QpState::kRts || state == QpState::kSqd;
}
[[nodiscard]] constexpr bool can_send(QpState state) {
  return state == QpState::kRts || state == QpState::kSqd;
}

enum class QpEvent : uint8_t {
  kInitialize,
  kReadyToReceive,
  kReadyToSend,
  kDrain,
  kFail,  // by a peer's fault, exhausted retries or our own close
  kDestroy,
};
inline constexpr uint32_t kQpEventCount = 6;

struct QpTransition {
  QpState from;
  QpEvent event;
  QpState to;
};

[[nodiscard]] std::span<const QpTransition> qp_transitions();
// Nothing when the table does not list the pair: the event is refused.
[[nodiscard]] std::optional<QpState> next_state(QpState from, QpEvent event);

[[nodiscard]] const char* to_string(QpState state) noexcept;
[[nodiscard]] const char* to_string(QpEvent event) noexcept;

}  // namespace cw::rc
