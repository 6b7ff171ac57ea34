#include "control/cm/connection_manager.h"

#include <algorithm>

#include "base/assert.h"
#include "control/cm/connection_manager_inl.h"
#include "control/cm/timeout_code.h"
#include "control/cm/wire/mra.h"

namespace cw::cm {

namespace {

// What `bytes` becomes in a field of fixed size: zeros behind it. Precondition: it fits.
template <size_t N>
void fill(std::array<uint8_t, N>& field, Bytes bytes) {
  CW_ASSERT(bytes.size() <= N);
  std::copy(bytes.begin(), bytes.end(), field.begin());
}

// The part of REQ that does not depend on our own state.
Req request_from(const CmAddress& to, ServiceId service, const ConnectParameters& parameters) {
  Req req;
  req.service = service;
  req.local_qpn = parameters.local_qpn;
  req.responder_resources = parameters.our_responder_resources;
  req.initiator_depth = parameters.our_initiator_depth;
  req.remote_response_code = parameters.peer_response_code & 0x1f;
  req.end_to_end_flow_control = parameters.end_to_end_flow_control;
  req.starting_psn = parameters.first_receive_psn;
  req.local_response_code = parameters.our_response_code & 0x1f;
  req.retry_count = parameters.retry_count & 0x7;
  req.path_mtu = parameters.path_mtu;
  req.rnr_retry_count = parameters.rnr_retry_count & 0x7;
  req.max_cm_retries = parameters.max_cm_retries & 0xf;
  req.shared_receive_queue = parameters.shared_receive_queue;
  req.primary.local_lid = RequestPath::kPermissiveLid;
  req.primary.remote_lid = RequestPath::kPermissiveLid;
  req.primary.local_gid = to.local;
  req.primary.remote_gid = to.remote;
  req.primary.flow_label = parameters.flow_label & 0xf'ffff;
  req.primary.traffic_class = parameters.traffic_class;
  req.primary.hop_limit = parameters.hop_limit;
  req.primary.ack_timeout_code = parameters.ack_timeout_code & 0x1f;
  std::span<uint8_t> consumer(req.private_data);
  if (is_ip_service(service)) {
    const IpCmHeader header{.source_port = parameters.source_port, .source = to.local, .destination = to.remote};
    header.write(consumer.first<IpCmHeader::kSize>());
    consumer = consumer.subspan(IpCmHeader::kSize);
  }
  std::copy(parameters.private_data.begin(), parameters.private_data.end(), consumer.begin());
  return req;
}

}  // namespace

ConnectionManager::ConnectionManager(const CmOptions& options, RandomSource& random)
    : options_(options),
      table_(options.connection_max + options.timewait_max, options.core, random),
      handshakes_(options.handshakes_at_once_max > 0 ? options.handshakes_at_once_max : 2 * options.connection_max),
      timers_(options.connection_max + options.timewait_max),
      request_rates_(options.request_rate, random),
      answer_bucket_(options.answer_rate),
      prefixes_(options.prefix, random),
      transmit_queue_(options.transmit_queue_max),
      half_open_(prefixes_.index_end()) {
  CW_ASSERT(options.connection_max > 0 && options.transmit_queue_max > 0 && options.half_open_max > 0);
  services_.reserve(options.service_max);
}

ConnectionManager::~ConnectionManager() {
  for (uint32_t slot = 0; slot < table_.capacity(); ++slot) {
    Connection& connection = table_.at(slot);
    timers_.cancel(connection);
    connection.ListNode<PendingEventTag>::unlink_if_linked();
    connection.ListNode<TimewaitTag>::unlink_if_linked();
    connection.ListNode<EvictionTag>::unlink_if_linked();
    release_handshake(connection);
  }
}

Status ConnectionManager::listen(ServiceId service) {
  if (std::find(services_.begin(), services_.end(), service) != services_.end()) {
    return {};
  }
  if (services_.size() >= options_.service_max) {
    return fail(Error::kLimit);
  }
  services_.push_back(service);
  return {};
}

void ConnectionManager::unlisten(ServiceId service) {
  std::erase(services_, service);
}

bool ConnectionManager::poll_transmit(CmDatagram& out) {
  if (transmit_queue_.empty()) {
    return false;
  }
  out = transmit_queue_.pop();
  return true;
}

bool ConnectionManager::poll_event(CmEvent& out) {
  Connection* connection = events_.pop_front();
  if (connection == nullptr) {
    return false;
  }
  out.connection = connection->id();
  out.address = connection->address;
  if (connection->detail_kept) {
    out.detail = connection->handshake->detail;
  } else {
    std::visit([&](const auto& detail) { out.detail = detail; }, connection->brief);
  }
  connection->was_announced = true;
  trim(*connection);
  if (connection->state == ConnectionState::kTimewait) {
    // Time-wait may have run out while the event lay here.
    if (connection->is_armed()) {
      timewaits_.push_back(*connection);
    } else {
      release(*connection);
    }
  }
  return true;
}

Status ConnectionManager::accept(Instant now, ConnectionId id, const AcceptParameters& parameters) {
  if (parameters.private_data.size() > kRepPrivateDataSize) {
    return fail(Error::kLimit);
  }
  Connection* connection = table_.find(id);
  if (connection == nullptr || find_transition(connection->state, ConnectionInput::kAccept) == nullptr) {
    return fail(Error::kBadState);
  }
  Rep rep;
  rep.local_comm_id = connection->local_comm_id;
  rep.remote_comm_id = connection->remote_comm_id;
  rep.local_qpn = parameters.local_qpn;
  rep.starting_psn = parameters.first_receive_psn;
  rep.responder_resources = parameters.our_responder_resources;
  rep.initiator_depth = parameters.our_initiator_depth;
  rep.target_ack_delay_code = parameters.target_ack_delay_code & 0x1f;
  rep.failover = connection->alternate_offered ? Failover::kUnsupported : Failover::kAccepted;
  rep.end_to_end_flow_control = parameters.end_to_end_flow_control;
  rep.rnr_retry_count = parameters.rnr_retry_count & 0x7;
  rep.shared_receive_queue = parameters.shared_receive_queue;
  rep.local_ca_guid = options_.local_ca_guid;
  fill(rep.private_data, parameters.private_data);
  ++stats_.requests_accepted;
  connection->local_qpn = parameters.local_qpn;
  send_and_keep(*connection, connection->peer_transaction_id, rep);
  set_state(*connection, ConnectionState::kRepSent);
  repeat_until(now, *connection, std::min(connection->attempt, options_.unproven_max));
  return {};
}

Status ConnectionManager::reject(Instant now, ConnectionId id, RejectReason reason, Bytes private_data) {
  if (private_data.size() > kRejPrivateDataSize) {
    return fail(Error::kLimit);
  }
  Connection* connection = table_.find(id);
  if (connection == nullptr || find_transition(connection->state, ConnectionInput::kReject) == nullptr) {
    return fail(Error::kBadState);
  }
  send_rej(*connection, reason, private_data);
  end(now, *connection, CmOutcome::kRejectedByUs);
  return {};
}

Status ConnectionManager::delay(Instant now, ConnectionId id, Duration service_time) {
  Connection* connection = table_.find(id);
  if (connection == nullptr || find_transition(connection->state, ConnectionInput::kDelay) == nullptr) {
    return fail(Error::kBadState);
  }
  Mra mra;
  mra.local_comm_id = connection->local_comm_id;
  mra.remote_comm_id = connection->remote_comm_id;
  mra.about = AboutMessage::kReq;
  mra.service_timeout_code = timeout_code_for(service_time);
  connection->mra_sent = true;
  send_and_keep(*connection, connection->peer_transaction_id, mra);
  set_state(*connection, ConnectionState::kMraReqSent);
  wait_until(*connection, now + std::max(service_time, options_.decision_max));
  return {};
}

void ConnectionManager::data_arrived(Instant now, ConnectionId id) {
  Connection* connection = table_.find(id);
  if (connection == nullptr || find_transition(connection->state, ConnectionInput::kData) == nullptr) {
    return;
  }
  ++stats_.established_by_data;
  establish(now, *connection);
  post(*connection, Established{.by_data = true});
}

Result<ConnectionId> ConnectionManager::connect(Instant now, const CmAddress& to, ServiceId service,
                                                const ConnectParameters& parameters) {
  if (to.local.is_v4() != to.remote.is_v4() || to.remote.is_multicast() || !is_valid(parameters.path_mtu)) {
    return fail(Error::kBadValue);
  }
  if (parameters.private_data.size() > (is_ip_service(service) ? kReqConsumerDataSize : kReqPrivateDataSize)) {
    return fail(Error::kLimit);
  }
  Connection* connection = admit();
  if (connection == nullptr) {
    return fail(Error::kNoResources);
  }
  connection->address = to;
  connection->local_qpn = parameters.local_qpn;
  connection->peer_response = timeout_of(parameters.peer_response_code);
  connection->attempt = handshake_of(options_, connection->peer_response, parameters.max_cm_retries);
  connection->ack_timeout_code = parameters.ack_timeout_code;
  connection->was_announced = true;  // the caller has its id: however it ends, an event tells
  Req req = request_from(to, service, parameters);
  req.local_comm_id = connection->local_comm_id;
  req.local_ca_guid = options_.local_ca_guid;
  ++stats_.connects_started;
  send_and_keep(*connection, connection->transaction_id, req);
  set_state(*connection, ConnectionState::kReqSent);
  repeat_until(now, *connection, connection->attempt);
  return connection->id();
}

Status ConnectionManager::ready(Instant now, ConnectionId id) {
  Connection* connection = table_.find(id);
  if (connection == nullptr || find_transition(connection->state, ConnectionInput::kReady) == nullptr) {
    return fail(Error::kBadState);
  }
  establish(now, *connection);
  connection->kept = Kept::kRtu;
  send_kept(*connection);
  return {};
}

void ConnectionManager::disconnect(Instant now, ConnectionId id) {
  Connection* connection = table_.find(id);
  const Transition* transition =
      connection == nullptr ? nullptr : find_transition(connection->state, ConnectionInput::kDisconnect);
  if (transition == nullptr) {
    return;
  }
  if (transition->action == ConnectionAction::kSendDreq) {
    connection->kept = Kept::kDreq;
    send_kept(*connection);
    set_state(*connection, ConnectionState::kDreqSent);
    trim(*connection);
    repeat_until(now, *connection, options_.disconnect_max);
    return;
  }
  // A REQ that is taken back is a time-out to the peer: there is no other word for it.
  send_rej(*connection, connection->remote_known ? RejectReason::kConsumerDefined : RejectReason::kTimeout, {});
  end(now, *connection, CmOutcome::kLocalDisconnect, Disconnected{DisconnectCause::kLocalRequest});
}

ConnectionState ConnectionManager::state_of(ConnectionId id) {
  const Connection* connection = table_.find(id);
  return connection == nullptr ? ConnectionState::kIdle : connection->state;
}

}  // namespace cw::cm
