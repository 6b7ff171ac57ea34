// What the ConnectionManager does with messages from the wire, one function for each. All of them look in the same order: is it
// ours, does the state allow it, is it new.
#include <algorithm>

#include "control/cm/connection_manager_inl.h"
#include "control/cm/timeout_code.h"
#include "control/cm/wire/apr.h"
#include "control/cm/wire/drep.h"
#include "control/cm/wire/dreq.h"
#include "control/cm/wire/lap.h"
#include "control/cm/wire/mra.h"
#include "control/cm/wire/rtu.h"
#include "control/cm/wire/sidr.h"

namespace cw::cm {

namespace {

bool is_station(const IpAddress& address) {
  return !address.is_multicast() && address != IpAddress{} && address != IpAddress::v4(0);
}

bool is_plausible(const CmAddress& from) {
  return from.remote_qpn == kGsiQpn && is_station(from.remote) && is_station(from.local) &&
         from.local.is_v4() == from.remote.is_v4();
}

}  // namespace

void ConnectionManager::on_mad(Instant now, const CmAddress& from, std::span<const uint8_t, kMadSize> mad) {
  const MadHeader header = parse_whole<MadHeader>(mad);
  if (header.base_version != kMadBaseVersion || header.management_class != kCmClass || header.method != kMethodSend) {
    return drop(CmDrop::kHeader);
  }
  if (header.class_version != kCmClassVersion) {
    return drop(CmDrop::kClassVersion);
  }
  const auto type = message_type_of(header.attribute_id);
  if (!type) {
    return drop(CmDrop::kAttribute);
  }
  if (!is_plausible(from)) {
    return drop(CmDrop::kSource);
  }
  ++stats_.received[static_cast<size_t>(*type)];
  on_message(Arrival{.now = now, .from = from, .transaction_id = header.transaction_id, .message = message_of(mad)}, *type);
}

void ConnectionManager::on_message(const Arrival& arrival, MessageType type) {
  switch (type) {
    case MessageType::kReq:
      return on_req(arrival);
    case MessageType::kMra:
      return on_mra(arrival);
    case MessageType::kRej:
      return on_rej(arrival);
    case MessageType::kRep:
      return on_rep(arrival);
    case MessageType::kRtu:
      return on_rtu(arrival);
    case MessageType::kDreq:
      return on_dreq(arrival);
    case MessageType::kDrep:
      return on_drep(arrival);
    case MessageType::kSidrReq:
      return on_sidr_req(arrival);
    case MessageType::kLap:
      return on_lap(arrival);
    case MessageType::kSidrRep:
    case MessageType::kApr:
    case MessageType::kCount:
      break;  // answers to questions that we never ask
  }
  drop(CmDrop::kOutOfState);
}

// The connection that a pair of communication ids names, on the path it lives on.
ConnectionManager::Match ConnectionManager::match(const CmAddress& from, uint32_t our_comm_id, uint32_t peer_comm_id) {
  Connection* connection = table_.find_by_local_id(our_comm_id);
  if (connection == nullptr) {
    return {nullptr, CmDrop::kUnknown};
  }
  if (!connection->address.is_same_path(from)) {
    return {nullptr, CmDrop::kUnbound};
  }
  if (connection->remote_known && connection->remote_comm_id != peer_comm_id) {
    return {nullptr, CmDrop::kUnknown};
  }
  return {connection, CmDrop::kCount};
}

const Transition* ConnectionManager::step(Connection& connection, ConnectionInput input, MessageType type) {
  const Transition* transition = find_transition(connection.state, input);
  if (transition == nullptr) {
    drop(CmDrop::kOutOfState);
    return nullptr;
  }
  if (transition->action == ConnectionAction::kIgnore) {
    ++stats_.duplicates[static_cast<size_t>(type)];
    drop(CmDrop::kDuplicate);
    return nullptr;
  }
  return transition;
}

void ConnectionManager::on_rep(const Arrival& arrival) {
  const Rep rep = parse_whole<Rep>(arrival.message);
  const Match found = match(arrival.from, rep.remote_comm_id, rep.local_comm_id);
  if (found.connection == nullptr || found.connection->passive) {
    // Spares a peer that answered before we restarted a minute of repeating itself.
    return drop_and_answer(arrival, found.connection == nullptr ? found.drop : CmDrop::kUnknown,
                           Rej{.local_comm_id = rep.remote_comm_id,
                               .remote_comm_id = rep.local_comm_id,
                               .rejected = AboutMessage::kRep,
                               .information_bytes = 0,
                               .reason = RejectReason::kInvalidCommId});
  }
  Connection& connection = *found.connection;
  const Transition* transition = step(connection, ConnectionInput::kRep, MessageType::kRep);
  if (transition == nullptr) {
    return;
  }
  if (transition->action != ConnectionAction::kAnnounce) {
    ++stats_.duplicates[static_cast<size_t>(MessageType::kRep)];
    return answer_again(arrival.now, connection);
  }
  if (!is_connected_qpn(rep.local_qpn)) {
    return drop(CmDrop::kMalformed);
  }
  // It names both of our random numbers: the peer has said it.
  while (Connection* old = table_.find_by_remote_qpn(arrival.from, rep.local_qpn)) {
    supersede(arrival.now, *old);
  }
  take_reply(arrival, rep, connection);
}

void ConnectionManager::take_reply(const Arrival& arrival, const Rep& rep, Connection& connection) {
  connection.remote_comm_id = rep.local_comm_id;
  connection.remote_qpn = rep.local_qpn;
  connection.peer_transaction_id = arrival.transaction_id;
  connection.kept = Kept::kNone;
  table_.set_remote(connection);
  set_state(connection, ConnectionState::kRepRcvd);
  wait_until(connection, arrival.now + options_.decision_max);
  post(connection, ConnectReply{
                       .remote_qpn = rep.local_qpn,
                       .first_send_psn = rep.starting_psn,
                       .peer_responder_resources = rep.responder_resources,
                       .peer_initiator_depth = rep.initiator_depth,
                       .rnr_retry_count = rep.rnr_retry_count,
                       .target_ack_delay_code = rep.target_ack_delay_code,
                       .end_to_end_flow_control = rep.end_to_end_flow_control,
                       .shared_receive_queue = rep.shared_receive_queue,
                       .remote_ca_guid = rep.local_ca_guid,
                       .private_data = PrivateData::from(rep.private_data),
                   });
}

void ConnectionManager::on_rtu(const Arrival& arrival) {
  const Rtu rtu = parse_whole<Rtu>(arrival.message);
  const Match found = match(arrival.from, rtu.remote_comm_id, rtu.local_comm_id);
  if (found.connection == nullptr || !found.connection->passive) {
    return drop(found.connection == nullptr ? found.drop : CmDrop::kUnknown);
  }
  if (step(*found.connection, ConnectionInput::kRtu, MessageType::kRtu) != nullptr) {
    establish(arrival.now, *found.connection);
    post(*found.connection, Established{.by_data = false});
  }
}

void ConnectionManager::on_mra(const Arrival& arrival) {
  const Mra mra = parse_whole<Mra>(arrival.message);
  const Match found = match(arrival.from, mra.remote_comm_id, mra.local_comm_id);
  if (found.connection == nullptr) {
    return drop(found.drop);
  }
  Connection& connection = *found.connection;
  // An MRA of a REQ goes to the active side, one of a REP to the passive side; one of a LAP is not for us.
  const bool fits = mra.about == (connection.passive ? AboutMessage::kRep : AboutMessage::kReq);
  const ConnectionInput input = connection.passive ? ConnectionInput::kMraOfRep : ConnectionInput::kMraOfReq;
  if (!fits) {
    return drop(CmDrop::kOutOfState);
  }
  const Transition* transition = step(connection, input, MessageType::kMra);
  if (transition == nullptr) {
    return;
  }
  if (connection.delays_granted >= options_.delay_count_max) {
    return drop(CmDrop::kDuplicate);
  }
  ++connection.delays_granted;
  ++stats_.delays_received;
  set_state(connection, transition->to);
  const Duration more = std::min(timeout_of(mra.service_timeout_code), options_.delay_max);
  connection.give_up_at = std::max(connection.give_up_at, arrival.now + more);
  // Slowly repeating goes on: the kernel's CM asks for more than a minute as a matter of course, which is too long to wait for a
  // lost RTU.
  connection.repeat_interval = options_.retransmit_max;
  connection.repeat_at = arrival.now + std::min(more, connection.repeat_interval);
  timers_.arm(connection, earlier(connection.repeat_at, connection.give_up_at));
}

// A REJ that leaves our id open names the peer's instead: that of a request which it takes back.
ConnectionManager::Match ConnectionManager::match_rejected(const CmAddress& from, const Rej& rej) {
  if (rej.remote_comm_id != 0) {
    return match(from, rej.remote_comm_id, rej.local_comm_id);
  }
  Connection* connection = table_.find_by_remote_id(from, rej.local_comm_id);
  if (connection == nullptr || !connection->passive || !is_half_open(connection->state)) {
    return {nullptr, CmDrop::kUnknown};
  }
  return {connection, CmDrop::kCount};
}

void ConnectionManager::on_rej(const Arrival& arrival) {
  const Rej rej = parse_whole<Rej>(arrival.message);
  const Match found = match_rejected(arrival.from, rej);
  if (found.connection == nullptr) {
    return drop(found.drop);
  }
  Connection& connection = *found.connection;
  if (step(connection, ConnectionInput::kRej, MessageType::kRej) == nullptr) {
    return;
  }
  const auto code = static_cast<uint32_t>(rej.reason);
  ++stats_.rejects_received[code < kRejectReasonCount ? code : 0];
  const ConnectionState state = connection.state;
  // end() would take a kept REQ or REP for a REJ of ours that may have to be repeated.
  connection.kept = Kept::kNone;
  if (state == ConnectionState::kDreqSent) {
    end(arrival.now, connection, CmOutcome::kLocalDisconnect, Disconnected{DisconnectCause::kLocalRequest});
  } else if (state == ConnectionState::kEstablished) {
    end(arrival.now, connection, CmOutcome::kRejectedLate, Disconnected{DisconnectCause::kRejected});
  } else {
    end(arrival.now, connection, CmOutcome::kRejectedByPeer,
        Rejected{.reason = rej.reason, .private_data = PrivateData::from(rej.private_data)});
  }
}

void ConnectionManager::on_dreq(const Arrival& arrival) {
  const Dreq dreq = parse_whole<Dreq>(arrival.message);
  const Match found = match(arrival.from, dreq.remote_comm_id, dreq.local_comm_id);
  const Drep drep{.local_comm_id = dreq.remote_comm_id, .remote_comm_id = dreq.local_comm_id};
  if (found.connection == nullptr || !found.connection->remote_known) {
    // The peer is through with a connection that we never had, or no longer have.
    return drop_and_answer(arrival, found.connection == nullptr ? found.drop : CmDrop::kUnknown, drep);
  }
  Connection& connection = *found.connection;
  if (dreq.remote_qpn != connection.local_qpn) {
    return drop(CmDrop::kQpnMismatch);
  }
  const ConnectionState state = connection.state;
  if (step(connection, ConnectionInput::kDreq, MessageType::kDreq) == nullptr) {
    return;
  }
  if (state == ConnectionState::kTimewait) {
    ++stats_.duplicates[static_cast<size_t>(MessageType::kDreq)];
    return answer(arrival, drep);
  }
  connection.kept = Kept::kNone;
  (void)send(connection.address, arrival.transaction_id, drep);
  if (state == ConnectionState::kDreqSent) {
    end(arrival.now, connection, CmOutcome::kLocalDisconnect, Disconnected{DisconnectCause::kLocalRequest});
  } else {
    end(arrival.now, connection, CmOutcome::kRemoteDisconnect, Disconnected{DisconnectCause::kRemoteRequest});
  }
}

void ConnectionManager::on_drep(const Arrival& arrival) {
  const Drep drep = parse_whole<Drep>(arrival.message);
  const Match found = match(arrival.from, drep.remote_comm_id, drep.local_comm_id);
  if (found.connection == nullptr) {
    return drop(found.drop);
  }
  if (step(*found.connection, ConnectionInput::kDrep, MessageType::kDrep) != nullptr) {
    found.connection->kept = Kept::kNone;
    end(arrival.now, *found.connection, CmOutcome::kLocalDisconnect, Disconnected{DisconnectCause::kLocalRequest});
  }
}

void ConnectionManager::on_lap(const Arrival& arrival) {
  const Lap lap = parse_whole<Lap>(arrival.message);
  const Match found = match(arrival.from, lap.remote_comm_id, lap.local_comm_id);
  if (found.connection == nullptr) {
    return drop(found.drop);
  }
  if (step(*found.connection, ConnectionInput::kLap, MessageType::kLap) != nullptr) {
    answer(arrival, Apr{.local_comm_id = lap.remote_comm_id,
                        .remote_comm_id = lap.local_comm_id,
                        .information_bytes = 0,
                        .status = AlternatePathStatus::kUnsupported});
  }
}

void ConnectionManager::on_sidr_req(const Arrival& arrival) {
  const SidrReq request = parse_whole<SidrReq>(arrival.message);
  answer(arrival, SidrRep{.request_id = request.request_id,
                          .status = SidrStatus::kUnsupportedService,
                          .information_bytes = 0,
                          .qpn = {},
                          .service = request.service});
}

}  // namespace cw::cm
