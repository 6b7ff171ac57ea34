// How the ConnectionManager takes in requests: duplicates first, then what is wrong with them, then whether there is room.
#include <algorithm>

#include "control/cm/connection_manager_inl.h"
#include "control/cm/timeout_code.h"

namespace cw::cm {

void ConnectionManager::on_req(const Arrival& arrival) {
  const Req req = parse_whole<Req>(arrival.message);
  Connection* known = table_.find_by_remote_id(arrival.from, req.local_comm_id);
  if (known != nullptr && known->passive) {
    return on_duplicate_req(arrival, req, *known);
  }
  // Before the budgets of requests: one that nobody could serve costs an answer (take_answer) and takes no place from others.
  if (const auto reason = judge(arrival.from, req)) {
    return refuse(arrival, *reason, AboutMessage::kReq, 0, req.local_comm_id);
  }
  const PrefixTable::Index prefix = prefixes_.find(arrival.now, arrival.from.remote, arrival.from.way());
  if (const RequestVerdict verdict = request_rates_.take(arrival.now, arrival.from.remote, prefixes_, prefix);
      verdict != RequestVerdict::kTaken) {
    return drop(verdict == RequestVerdict::kRate ? CmDrop::kRequestRate : CmDrop::kPrefixRequestRate);
  }
  if (!prefixes_.may_open(prefix)) {
    evict(arrival.now, *half_open_[prefix].front());
  } else if (half_open_count_ >= options_.half_open_max) {
    evict_half_open(arrival.now);
  }
  Connection* connection = admit();
  if (connection == nullptr && make_room(arrival.now)) {
    connection = admit();
  }
  if (connection == nullptr) {
    return refuse(arrival, RejectReason::kNoResources, AboutMessage::kReq, 0, req.local_comm_id);
  }
  take_in(arrival, req, *connection, prefix, table_.find_established(arrival.from, req.local_qpn));
}

void ConnectionManager::on_duplicate_req(const Arrival& arrival, const Req& req, Connection& connection) {
  const Transition* transition = step(connection, ConnectionInput::kReq, MessageType::kReq);
  if (transition == nullptr) {
    return;
  }
  ++stats_.duplicates[static_cast<size_t>(MessageType::kReq)];
  const bool dead = transition->action == ConnectionAction::kRepeatReject;
  if (dead && !(connection.kept != Kept::kNone && type_of_kept(connection) == MessageType::kRej)) {
    return refuse(arrival, RejectReason::kStaleConnection, AboutMessage::kReq, 0, req.local_comm_id);
  }
  answer_again(arrival.now, connection);
}

// Why a request cannot be served, whoever asks. The order is that of usefulness to the peer's operator.
std::optional<RejectReason> ConnectionManager::judge(const CmAddress& from, const Req& req) const {
  if (std::find(services_.begin(), services_.end(), req.service) == services_.end()) {
    return RejectReason::kInvalidServiceId;
  }
  if (req.transport != TransportService::kReliableConnected) {
    return RejectReason::kInvalidTransportType;
  }
  // Our queue pair's packets would go to the GID of the REQ: to a third party, if it is not that of the sender.
  if (req.primary.local_gid != from.remote || req.primary.remote_gid != from.local) {
    return RejectReason::kInvalidGid;
  }
  if (!is_valid(req.path_mtu) || req.path_mtu > options_.path_mtu_max) {
    return RejectReason::kInvalidMtu;
  }
  // Of partitions there is only the default one. The highest bit tells full from limited members, and does not matter here.
  if ((req.pkey & 0x7fff) != 0x7fff || !is_connected_qpn(req.local_qpn)) {
    return RejectReason::kUnsupported;
  }
  if (is_ip_service(req.service)) {
    const auto ip_cm = IpCmHeader::parse(req.private_data);
    if (!ip_cm.ok() || ip_cm->source != from.remote || ip_cm->destination != from.local) {
      return RejectReason::kConsumerDefined;  // what the kernel answers to a header that it cannot use
    }
  }
  return std::nullopt;
}

void ConnectionManager::take_in(const Arrival& arrival, const Req& req, Connection& connection, PrefixTable::Index prefix,
                                const Connection* rival) {
  connection.passive = true;
  connection.prefix = prefix;
  connection.address = arrival.from;
  connection.remote_comm_id = req.local_comm_id;
  connection.remote_qpn = req.local_qpn;
  connection.peer_transaction_id = arrival.transaction_id;
  connection.peer_response = timeout_of(req.local_response_code);
  connection.attempt = handshake_of(options_, connection.peer_response, req.max_cm_retries);
  connection.ack_timeout_code = req.primary.ack_timeout_code;
  connection.alternate_offered = req.has_alternate();
  table_.set_remote(connection);
  set_state(connection, ConnectionState::kReqRcvd);
  wait_until(connection, arrival.now + options_.decision_max);
  ConnectRequest request{
      .service = req.service,
      .remote_qpn = req.local_qpn,
      .first_send_psn = req.starting_psn,
      .path_mtu = req.path_mtu,
      .peer_responder_resources = req.responder_resources,
      .peer_initiator_depth = req.initiator_depth,
      .retry_count = req.retry_count,
      .rnr_retry_count = req.rnr_retry_count,
      .ack_timeout_code = req.primary.ack_timeout_code,
      .end_to_end_flow_control = req.end_to_end_flow_control,
      .shared_receive_queue = req.shared_receive_queue,
      .traffic_class = req.primary.traffic_class,
      .hop_limit = req.primary.hop_limit,
      .flow_label = req.primary.flow_label,
      .pkey = req.pkey,
      .remote_ca_guid = req.local_ca_guid,
      .has_ip_cm = is_ip_service(req.service),
  };
  if (rival != nullptr) {
    request.rival = rival->id();
  }
  Bytes consumer(req.private_data);
  if (request.has_ip_cm) {
    request.ip_cm = IpCmHeader::parse(consumer).value();
    consumer = consumer.subspan(IpCmHeader::kSize);
  }
  request.private_data = PrivateData::from(consumer);
  post(connection, request);
}

}  // namespace cw::cm
