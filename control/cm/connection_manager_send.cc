// What the ConnectionManager sends: one queue, REJ in all its forms, and answers to repeated messages.
#include <algorithm>

#include "base/bytes.h"
#include "control/cm/connection_manager_inl.h"
#include "control/cm/wire/dreq.h"
#include "control/cm/wire/rtu.h"

namespace cw::cm {

namespace {

// Where a reason from the wire counts: codes beyond those of IBA together under 0.
size_t count_index(RejectReason reason) {
  const auto code = static_cast<uint32_t>(reason);
  return code < kRejectReasonCount ? code : 0;
}

AboutMessage rejected_in(ConnectionState state) {
  switch (state) {
    case ConnectionState::kReqRcvd:
    case ConnectionState::kMraReqSent:
      return AboutMessage::kReq;
    case ConnectionState::kRepRcvd:
      return AboutMessage::kRep;
    default:
      return AboutMessage::kOther;
  }
}

}  // namespace

bool ConnectionManager::enqueue(const CmAddress& to, const Mad& mad) {
  if (!transmit_queue_.push(CmDatagram{.to = to, .mad = mad})) {
    ++stats_.transmit_queue_full;
    return false;
  }
  const MessageType type = type_of(mad);
  ++stats_.sent[static_cast<size_t>(type)];
  if (type == MessageType::kRej) {
    // The reason stands behind two communication ids and two bytes about what was rejected (IBA 12.6.7).
    ++stats_.rejects_sent[count_index(static_cast<RejectReason>(load_be16(mad.data() + kMadHeaderSize + 10)))];
  }
  return true;
}

// The network's own budget first, so that its flood leaves that of all alone.
CmDrop ConnectionManager::take_answer(Instant now, const CmAddress& to) {
  if (!prefixes_.take_answer(now, prefixes_.find(now, to.remote, to.way()))) {
    return CmDrop::kPrefixAnswerRate;
  }
  return answer_bucket_.take(now) ? CmDrop::kCount : CmDrop::kAnswerRate;
}

// To a peer with whom there is no connection.
void ConnectionManager::refuse(const Arrival& arrival, RejectReason reason, AboutMessage about, uint32_t our_comm_id,
                               uint32_t peer_comm_id) {
  answer(arrival, Rej{.local_comm_id = our_comm_id,
                      .remote_comm_id = peer_comm_id,
                      .rejected = about,
                      .information_bytes = 0,
                      .reason = reason});
}

// Kept, to be sent again to whoever repeats what it refuses. Our communication id is 0 as long as the peer has not seen it.
void ConnectionManager::send_rej(Connection& connection, RejectReason reason, Bytes private_data) {
  Rej rej;
  rej.local_comm_id = connection.state == ConnectionState::kReqRcvd ? 0 : connection.local_comm_id;
  rej.remote_comm_id = connection.remote_known ? connection.remote_comm_id : 0;
  rej.rejected = rejected_in(connection.state);
  rej.reason = reason;
  if (reason == RejectReason::kTimeout) {
    // Peers that never learnt our communication id find the connection by our node (IBA 12.6.7.2).
    rej.information_bytes = 8;
    store_be64(rej.information.data(), options_.local_ca_guid);
  }
  std::copy(private_data.begin(), private_data.end(), rej.private_data.begin());
  send_and_keep(connection, connection.passive ? connection.peer_transaction_id : connection.transaction_id, rej);
}

// Sends the kept message once more. Precondition: there is one.
void ConnectionManager::send_kept(Connection& connection) {
  switch (connection.kept) {
    case Kept::kMad:
      (void)enqueue(connection.address, connection.handshake->mad);
      return;
    case Kept::kRtu:
      (void)send(connection.address, connection.transaction_id,
                 Rtu{.local_comm_id = connection.local_comm_id, .remote_comm_id = connection.remote_comm_id});
      return;
    case Kept::kDreq:
      (void)send(connection.address, connection.transaction_id,
                 Dreq{.local_comm_id = connection.local_comm_id,
                      .remote_comm_id = connection.remote_comm_id,
                      .remote_qpn = connection.remote_qpn});
      return;
    case Kept::kNone:
      break;
  }
  CW_ASSERT(false);
}

MessageType ConnectionManager::type_of_kept(const Connection& connection) {
  switch (connection.kept) {
    case Kept::kMad:
      return type_of(connection.handshake->mad);
    case Kept::kRtu:
      return MessageType::kRtu;
    default:
      return MessageType::kDreq;
  }
}

void ConnectionManager::answer_again(Instant now, Connection& connection) {
  if (connection.kept == Kept::kNone) {
    drop(CmDrop::kDuplicate);
    return;
  }
  if (const CmDrop refusal = take_answer(now, connection.address); refusal != CmDrop::kCount) {
    drop(refusal);
    return;
  }
  send_kept(connection);
}

}  // namespace cw::cm
