#include "control/cm/connection_state.h"

namespace cw::cm {

namespace {

using S = ConnectionState;
using I = ConnectionInput;
using A = ConnectionAction;

constexpr Transition kTransitions[] = {
    {S::kIdle, I::kReq, S::kReqRcvd, A::kAnnounce},
    {S::kIdle, I::kConnect, S::kReqSent, A::kSendReq},

    // The user decides. A repeated REQ is not answered before an MRA told the peer that we have it.
    {S::kReqRcvd, I::kReq, S::kReqRcvd, A::kIgnore},
    {S::kReqRcvd, I::kRej, S::kTimewait, A::kEnd},
    {S::kReqRcvd, I::kSuperseded, S::kTimewait, A::kEnd},
    {S::kReqRcvd, I::kEvicted, S::kTimewait, A::kEnd},
    {S::kReqRcvd, I::kAccept, S::kRepSent, A::kSendRep},
    {S::kReqRcvd, I::kReject, S::kTimewait, A::kSendRej},
    {S::kReqRcvd, I::kDelay, S::kMraReqSent, A::kSendMra},
    {S::kReqRcvd, I::kDisconnect, S::kTimewait, A::kSendRej},
    {S::kReqRcvd, I::kGiveUp, S::kTimewait, A::kSendRej},

    {S::kMraReqSent, I::kReq, S::kMraReqSent, A::kDuplicateMessage},
    {S::kMraReqSent, I::kRej, S::kTimewait, A::kEnd},
    {S::kMraReqSent, I::kSuperseded, S::kTimewait, A::kEnd},
    {S::kMraReqSent, I::kEvicted, S::kTimewait, A::kEnd},
    {S::kMraReqSent, I::kAccept, S::kRepSent, A::kSendRep},
    {S::kMraReqSent, I::kReject, S::kTimewait, A::kSendRej},
    {S::kMraReqSent, I::kDelay, S::kMraReqSent, A::kSendMra},
    {S::kMraReqSent, I::kDisconnect, S::kTimewait, A::kSendRej},
    {S::kMraReqSent, I::kGiveUp, S::kTimewait, A::kSendRej},

    // A DREQ here means that the peer had the REP, while its RTU was lost.
    {S::kRepSent, I::kReq, S::kRepSent, A::kDuplicateMessage},
    {S::kRepSent, I::kMraOfRep, S::kMraRepRcvd, A::kWait},
    {S::kRepSent, I::kRtu, S::kEstablished, A::kEstablish},
    {S::kRepSent, I::kData, S::kEstablished, A::kEstablish},
    {S::kRepSent, I::kRej, S::kTimewait, A::kEnd},
    {S::kRepSent, I::kDreq, S::kTimewait, A::kSendDrep},
    {S::kRepSent, I::kSuperseded, S::kTimewait, A::kEnd},
    {S::kRepSent, I::kEvicted, S::kTimewait, A::kEnd},
    {S::kRepSent, I::kDisconnect, S::kTimewait, A::kSendRej},
    {S::kRepSent, I::kGiveUp, S::kTimewait, A::kSendRej},

    {S::kMraRepRcvd, I::kReq, S::kMraRepRcvd, A::kIgnore},
    {S::kMraRepRcvd, I::kMraOfRep, S::kMraRepRcvd, A::kWait},
    {S::kMraRepRcvd, I::kRtu, S::kEstablished, A::kEstablish},
    {S::kMraRepRcvd, I::kData, S::kEstablished, A::kEstablish},
    {S::kMraRepRcvd, I::kRej, S::kTimewait, A::kEnd},
    {S::kMraRepRcvd, I::kDreq, S::kTimewait, A::kSendDrep},
    {S::kMraRepRcvd, I::kSuperseded, S::kTimewait, A::kEnd},
    {S::kMraRepRcvd, I::kEvicted, S::kTimewait, A::kEnd},
    {S::kMraRepRcvd, I::kDisconnect, S::kTimewait, A::kSendRej},
    {S::kMraRepRcvd, I::kGiveUp, S::kTimewait, A::kSendRej},

    {S::kReqSent, I::kMraOfReq, S::kMraReqRcvd, A::kWait},
    {S::kReqSent, I::kRep, S::kRepRcvd, A::kAnnounce},
    {S::kReqSent, I::kRej, S::kTimewait, A::kEnd},
    {S::kReqSent, I::kDisconnect, S::kTimewait, A::kSendRej},
    {S::kReqSent, I::kGiveUp, S::kTimewait, A::kSendRej},

    {S::kMraReqRcvd, I::kMraOfReq, S::kMraReqRcvd, A::kWait},
    {S::kMraReqRcvd, I::kRep, S::kRepRcvd, A::kAnnounce},
    {S::kMraReqRcvd, I::kRej, S::kTimewait, A::kEnd},
    {S::kMraReqRcvd, I::kDisconnect, S::kTimewait, A::kSendRej},
    {S::kMraReqRcvd, I::kGiveUp, S::kTimewait, A::kSendRej},

    {S::kRepRcvd, I::kRep, S::kRepRcvd, A::kIgnore},
    {S::kRepRcvd, I::kMraOfReq, S::kRepRcvd, A::kIgnore},
    {S::kRepRcvd, I::kRej, S::kTimewait, A::kEnd},
    {S::kRepRcvd, I::kDreq, S::kTimewait, A::kSendDrep},
    {S::kRepRcvd, I::kSuperseded, S::kTimewait, A::kEnd},
    {S::kRepRcvd, I::kReady, S::kEstablished, A::kSendRtu},
    {S::kRepRcvd, I::kDisconnect, S::kTimewait, A::kSendRej},
    {S::kRepRcvd, I::kGiveUp, S::kTimewait, A::kSendRej},

    // A repeated REP means that our RTU was lost.
    {S::kEstablished, I::kReq, S::kEstablished, A::kIgnore},
    {S::kEstablished, I::kRep, S::kEstablished, A::kDuplicateMessage},
    {S::kEstablished, I::kMraOfRep, S::kEstablished, A::kIgnore},
    {S::kEstablished, I::kMraOfReq, S::kEstablished, A::kIgnore},
    {S::kEstablished, I::kRtu, S::kEstablished, A::kIgnore},
    {S::kEstablished, I::kRej, S::kTimewait, A::kEnd},
    {S::kEstablished, I::kDreq, S::kTimewait, A::kSendDrep},
    {S::kEstablished, I::kLap, S::kEstablished, A::kSendApr},
    {S::kEstablished, I::kSuperseded, S::kTimewait, A::kEnd},
    {S::kEstablished, I::kDisconnect, S::kDreqSent, A::kSendDreq},

    // Both sides may ask at once: each answers the other.
    {S::kDreqSent, I::kReq, S::kDreqSent, A::kIgnore},
    {S::kDreqSent, I::kRep, S::kDreqSent, A::kIgnore},
    {S::kDreqSent, I::kRtu, S::kDreqSent, A::kIgnore},
    {S::kDreqSent, I::kRej, S::kTimewait, A::kEnd},
    {S::kDreqSent, I::kDreq, S::kTimewait, A::kSendDrep},
    {S::kDreqSent, I::kDrep, S::kTimewait, A::kEnd},
    {S::kDreqSent, I::kSuperseded, S::kTimewait, A::kEnd},
    {S::kDreqSent, I::kGiveUp, S::kTimewait, A::kEnd},

    {S::kTimewait, I::kReq, S::kTimewait, A::kRepeatReject},
    {S::kTimewait, I::kMraOfReq, S::kTimewait, A::kIgnore},
    {S::kTimewait, I::kMraOfRep, S::kTimewait, A::kIgnore},
    {S::kTimewait, I::kRep, S::kTimewait, A::kRepeatReject},
    {S::kTimewait, I::kRtu, S::kTimewait, A::kIgnore},
    {S::kTimewait, I::kRej, S::kTimewait, A::kIgnore},
    {S::kTimewait, I::kDreq, S::kTimewait, A::kSendDrep},
    {S::kTimewait, I::kDrep, S::kTimewait, A::kIgnore},
    {S::kTimewait, I::kRelease, S::kIdle, A::kNone},
};

constexpr size_t kStates = static_cast<size_t>(S::kCount);
constexpr size_t kInputs = static_cast<size_t>(I::kCount);
constexpr uint8_t kRefused = 0xff;
static_assert(std::size(kTransitions) < kRefused);

constexpr auto kIndex = [] {
  std::array<std::array<uint8_t, kInputs>, kStates> index{};
  for (auto& row : index) {
    row.fill(kRefused);
  }
  for (size_t i = 0; i < std::size(kTransitions); ++i) {
    index[static_cast<size_t>(kTransitions[i].from)][static_cast<size_t>(kTransitions[i].input)] = static_cast<uint8_t>(i);
  }
  return index;
}();

// Listed twice, a transition would be ambiguous: the later row would win in kIndex, and the earlier be dead.
constexpr bool is_unambiguous() {
  size_t listed = 0;
  for (const auto& row : kIndex) {
    for (const uint8_t at : row) {
      listed += at == kRefused ? 0 : 1;
    }
  }
  return listed == std::size(kTransitions);
}
static_assert(is_unambiguous());

}  // namespace

std::span<const Transition> all_transitions() noexcept {
  return kTransitions;
}

const Transition* find_transition(ConnectionState from, ConnectionInput input) noexcept {
  const uint8_t at = kIndex[static_cast<size_t>(from)][static_cast<size_t>(input)];
  return at == kRefused ? nullptr : &kTransitions[at];
}

const char* to_string(ConnectionState state) noexcept {
  switch (state) {
    case S::kIdle:
      return "idle";
    case S::kReqRcvd:
      return "req_rcvd";
    case S::kMraReqSent:
      return "mra_req_sent";
    case S::kRepSent:
      return "rep_sent";
    case S::kMraRepRcvd:
      return "mra_rep_rcvd";
    case S::kReqSent:
      return "req_sent";
    case S::kMraReqRcvd:
      return "mra_req_rcvd";
    case S::kRepRcvd:
      return "rep_rcvd";
    case S::kEstablished:
      return "established";
    case S::kDreqSent:
      return "dreq_sent";
    case S::kTimewait:
      return "timewait";
    case S::kCount:
      break;
  }
  return "unknown";
}

const char* to_string(ConnectionInput input) noexcept {
  switch (input) {
    case I::kReq:
      return "req";
    case I::kMraOfReq:
      return "mra_of_req";
    case I::kMraOfRep:
      return "mra_of_rep";
    case I::kRep:
      return "rep";
    case I::kRtu:
      return "rtu";
    case I::kRej:
      return "rej";
    case I::kDreq:
      return "dreq";
    case I::kDrep:
      return "drep";
    case I::kLap:
      return "lap";
    case I::kData:
      return "data";
    case I::kSuperseded:
      return "superseded";
    case I::kEvicted:
      return "evicted";
    case I::kConnect:
      return "connect()";
    case I::kAccept:
      return "accept()";
    case I::kReject:
      return "reject()";
    case I::kDelay:
      return "delay()";
    case I::kReady:
      return "ready()";
    case I::kDisconnect:
      return "disconnect()";
    case I::kGiveUp:
      return "give_up";
    case I::kRelease:
      return "release";
    case I::kCount:
      break;
  }
  return "unknown";
}

const char* to_string(ConnectionAction action) noexcept {
  switch (action) {
    case A::kNone:
      return "none";
    case A::kAnnounce:
      return "announce";
    case A::kEstablish:
      return "establish";
    case A::kWait:
      return "wait";
    case A::kEnd:
      return "end";
    case A::kSendReq:
      return "send_req";
    case A::kSendMra:
      return "send_mra";
    case A::kSendRep:
      return "send_rep";
    case A::kSendRtu:
      return "send_rtu";
    case A::kSendRej:
      return "send_rej";
    case A::kSendDreq:
      return "send_dreq";
    case A::kSendDrep:
      return "send_drep";
    case A::kSendApr:
      return "send_apr";
    case A::kDuplicateMessage:
      return "repeat";
    case A::kRepeatReject:
      return "repeat_reject";
    case A::kIgnore:
      return "ignore";
  }
  return "unknown";
}

}  // namespace cw::cm
