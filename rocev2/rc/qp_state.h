// The states of a queue pair and the only ways between them (IBA 10.3, without SQD and SQE, which nobody needs here).
//
//   RESET -> INIT -> RTR -> RTS        any -> ERROR        any -> RESET (destroyed)
#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace cw::rc {

enum class QpState : uint8_t {
  kReset,  // no connection, nothing is received
  kInit,   // receives may be posted, nothing is received yet
  kRtr,    // ready to receive: the responder works
  kRts,    // ready to send: both halves work
  kError,  // every packet is ignored, every work request flushed
};
inline constexpr uint32_t kQpStateCount = 5;

enum class QpEvent : uint8_t {
  kInitialize,
  kReadyToReceive,
  kReadyToSend,
  kFail,  // by a peer's fault, exhausted retries or our own close
  kDestroy,
};
inline constexpr uint32_t kQpEventCount = 5;

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
