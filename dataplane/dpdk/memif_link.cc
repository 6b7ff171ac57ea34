#include "dataplane/dpdk/memif_link.h"

namespace cw::dataplane {
namespace {

constexpr Duration kTryEvery = Duration::ms(100);         // client role, while the other end is not there
constexpr Duration kLookForLeaseEvery = Duration::ms(1);  // the core hands over within a turn

}  // namespace

MemifLink::MemifLink(bool server, DeviceLeases& leases, Ends& ends)
    : server_(server),
      leases_(leases),
      ends_(ends),
      state_(server ? State::kNoPeer : State::kNoDriver),
      has_peer_(!server),
      handshake_(server) {}

MemifLink::Ready MemifLink::watched() const {
  const bool passes = state_ == State::kHandshake || state_ == State::kUp;
  return {.listener = state_ == (server_ ? State::kNoPeer : State::kNoDriver),
          .peer = passes,
          .driver = passes || state_ == State::kLeaving || (state_ == State::kNoPeer && !server_)};
}

Instant MemifLink::deadline(Instant now) const {
  if (state_ == State::kTaking) {
    return now + kLookForLeaseEvery;
  }
  if (state_ == State::kHandshake) {
    return handshake_ends_;
  }
  return !server_ && (state_ == State::kNoPeer || state_ == State::kNoDriver) ? now + kTryEvery : Instant::never();
}

void MemifLink::advance(Instant now, Ready ready) {
  switch (state_) {
    case State::kNoDriver:
      if (ready.any()) {
        on_driver_connected(now);
      } else {
        ends_.restart_driver();
      }
      break;
    case State::kNoPeer:
      if (server_) {
        on_peer_connected(now);
      } else if (ready.driver) {
        leave();
      } else if (ends_.connect(End::kPeer)) {
        has_peer_ = true;
        begin_handshake(now);
      }
      break;
    case State::kHandshake:
      if (handshake_ends_ <= now) {
        ends_.refuse("the handshake takes too long");
        leave();
        break;
      }
      // The driver's end first: what it has to say, such as why it refuses, goes out before it hears of the other end's going.
      if (ready.any() && !pass(ready.driver ? End::kDriver : End::kPeer)) {
        leave();
      }
      break;
    case State::kUp:
      state_ = State::kTaking;
      leases_.ask();
      break;
    case State::kTaking:
      if (leases_.are_keepers()) {
        leave();
      }
      break;
    case State::kLeaving:
      on_driver_left();
      break;
  }
}

void MemifLink::on_driver_connected(Instant now) {
  if (!ends_.accept(End::kDriver)) {
    return;
  }
  state_ = State::kNoPeer;
  if (has_peer_) {
    begin_handshake(now);
  }
}

void MemifLink::on_peer_connected(Instant now) {
  if (!ends_.accept(End::kPeer)) {
    return;
  }
  if (!ends_.connect(End::kDriver)) {
    ends_.close(End::kPeer);
    return;
  }
  has_peer_ = true;
  begin_handshake(now);
}

void MemifLink::begin_handshake(Instant now) {
  handshake_ = MemifHandshake(server_);
  handshake_ends_ = now + kHandshakeMax;
  state_ = State::kHandshake;
}

bool MemifLink::pass(End from) {
  const std::optional<Received> received = ends_.receive(from);
  if (!received) {
    return false;
  }
  const char* refusal = from == End::kPeer ? handshake_.from_peer(received->message, received->file_bytes)
                                           : handshake_.from_driver(received->message);
  if (refusal != nullptr) {
    ends_.refuse(refusal);
    return false;
  }
  if (!ends_.pass_on(from == End::kPeer ? End::kDriver : End::kPeer)) {
    return false;
  }
  if (MemifHandshake::type_of(received->message) == MemifHandshake::kDisconnect) {
    // The driver may have said CONNECTED just before it hears this. It takes its rings away now, and no core may get them.
    return false;
  }
  if (handshake_.is_complete()) {
    // From the driver: it is done. To the driver: nothing else comes to it now until the device is the keeper's again.
    state_ = State::kUp;
    leases_.give_back();
  }
  return true;
}

void MemifLink::leave() {
  ends_.close(End::kPeer);
  has_peer_ = false;
  ends_.shut_down_driver();
  state_ = State::kLeaving;
}

void MemifLink::on_driver_left() {
  if (ends_.receive(End::kDriver)) {
    return;  // still speaking
  }
  ends_.close(End::kDriver);
  if (server_) {
    state_ = State::kNoPeer;
    return;
  }
  state_ = State::kNoDriver;
  ends_.restart_driver();
}

}  // namespace cw::dataplane
