#include "rocev2/rc/qp_state.h"

#include <array>

namespace cw::rc {
namespace {

constexpr std::array kTransitions = {
    QpTransition{QpState::kReset, QpEvent::kInitialize, QpState::kInit},
    QpTransition{QpState::kInit, QpEvent::kReadyToReceive, QpState::kRtr},
    QpTransition{QpState::kInit, QpEvent::kFail, QpState::kError},
    QpTransition{QpState::kInit, QpEvent::kDestroy, QpState::kReset},
    QpTransition{QpState::kRtr, QpEvent::kReadyToSend, QpState::kRts},
    QpTransition{QpState::kRtr, QpEvent::kFail, QpState::kError},
    QpTransition{QpState::kRtr, QpEvent::kDestroy, QpState::kReset},
    QpTransition{QpState::kRts, QpEvent::kDrain, QpState::kSqd},
    QpTransition{QpState::kRts, QpEvent::kFail, QpState::kError},
    QpTransition{QpState::kRts, QpEvent::kDestroy, QpState::kReset},
    QpTransition{QpState::kSqd, QpEvent::kReadyToSend, QpState::kRts},
    QpTransition{QpState::kSqd, QpEvent::kFail, QpState::kError},
    QpTransition{QpState::kSqd, QpEvent::kDestroy, QpState::kReset},
    QpTransition{QpState::kError, QpEvent::kDestroy, QpState::kReset},
};

}  // namespace

std::span<const QpTransition> qp_transitions() {
  return kTransitions;
}

std::optional<QpState> next_state(QpState from, QpEvent event) {
  for (const QpTransition& transition : kTransitions) {
    if (transition.from == from && transition.event == event) {
      return transition.to;
    }
  }
  return std::nullopt;
}

const char* to_string(QpState state) noexcept {
  switch (state) {
    case QpState::kReset:
      return "RESET";
    case QpState::kInit:
      return "INIT";
    case QpState::kRtr:
      return "RTR";
    case QpState::kRts:
      return "RTS";
    case QpState::kSqd:
      return "SQD";
    case QpState::kError:
      return "ERROR";
  }
  return "unknown";
}

const char* to_string(QpEvent event) noexcept {
  switch (event) {
    case QpEvent::kInitialize:
      return "initialize";
    case QpEvent::kReadyToReceive:
      return "ready to receive";
    case QpEvent::kReadyToSend:
      return "ready to send";
    case QpEvent::kDrain:
      return "drain";
    case QpEvent::kFail:
      return "fail";
    case QpEvent::kDestroy:
      return "destroy";
  }
  return "unknown";
}

}  // namespace cw::rc
