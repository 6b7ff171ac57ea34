#include "gateway/node/roce_transport.h"

#include <algorithm>
#include <array>

#include "gateway/node/saved_roce.h"
#include "rocev2/rc/held_packets.h"
#include "rocev2/rc/qp_fields.h"

namespace cw::node {
namespace {

constexpr Duration kResolvePoll = Duration::ms(10);

cm::RejectReason to_cm(verbs::RejectReason reason) {
  switch (reason) {
    case verbs::RejectReason::kNoListener:
      return cm::RejectReason::kInvalidServiceId;
    case verbs::RejectReason::kRefused:
      return cm::RejectReason::kConsumerDefined;
    case verbs::RejectReason::kNoResources:
    case verbs::RejectReason::kNoAnswer:
    case verbs::RejectReason::kOther:
      break;
  }
  return cm::RejectReason::kNoResources;
}

verbs::QueuePairError error_of(const rc::QpError& error) {
  return {.cause = to_string(error.cause), .origin = to_string(error.origin), .sequence = error.psn.value()};
}

// What one byte on the wire can say.
uint8_t depth_of(uint8_t wanted, uint16_t bound) {
  return static_cast<uint8_t>(std::min<uint16_t>(wanted, bound));
}

}  // namespace

// What connect() was asked for.
struct RoceTransport::Attempt : TimerNode {
  uint32_t slot = 0;
  bool resolving = true;  // the connection manager has no part in it yet
  IpAddress server;
  IpAddress local;
  uint16_t service_port = 0;
  Instant resolve_deadline;
  wire::Psn first_receive_psn;
  verbs::ConnectionOptions options;  // their private data are `private_data`
  std::vector<uint8_t> private_data;
};

RoceTransport::RoceTransport(const RoceOptions& options, Node& node, RandomSource& random)
    : options_(options),
      node_(node),
      random_(random),
      records_(options.connections_max + 1),  // one request is undecided at a time
      by_cm_id_(options.connections_max + 1, random.next_u64()) {
  free_records_.reserve(records_.size());
  for (auto slot = static_cast<uint32_t>(records_.size()); slot > 0; --slot) {
    free_records_.push_back(slot - 1);
  }
}

RoceTransport::~RoceTransport() {
  for (Record& record : records_) {
    if (record.in_use) {
      release(record);
    }
  }
}

void RoceTransport::reconfigure(const RoceOptions& fresh) {
  const uint32_t connections_max = options_.connections_max;
  options_ = fresh;
  options_.connections_max = connections_max;
}

Status RoceTransport::listen(uint16_t port) {
  return node_.cm().listen(cm::ip_service_id(port));
}

void RoceTransport::unlisten(uint16_t port) {
  node_.cm().unlisten(cm::ip_service_id(port));
}

verbs::ConnectionId RoceTransport::id_of(const Record& record) const {
  return verbs::ConnectionId((uint64_t{record.generation} << 32) | slot_of(record));
}

const RoceTransport::Record* RoceTransport::find(verbs::ConnectionId connection) const {
  const auto slot = static_cast<uint32_t>(connection.value());
  if (slot >= records_.size() || !records_[slot].in_use || records_[slot].generation != connection.value() >> 32) {
    return nullptr;
  }
  return &records_[slot];
}

RoceTransport::Record* RoceTransport::find(verbs::ConnectionId connection) {
  return const_cast<Record*>(static_cast<const RoceTransport*>(this)->find(connection));
}

RoceTransport::Record* RoceTransport::find(cm::ConnectionId connection) {
  const uint32_t* slot = by_cm_id_.find(connection.value());
  return slot == nullptr ? nullptr : &records_[*slot];
}

RoceTransport::Record* RoceTransport::take_record() {
  if (free_records_.empty()) {
    return nullptr;
  }
  const uint32_t slot = free_records_.back();
  free_records_.pop_back();
  Record& record = records_[slot];
  record = Record{.generation = record.generation + 1, .in_use = true};
  return &record;
}

void RoceTransport::release(Record& record) {
  if (record.attempt != nullptr) {
    timers_.cancel(*record.attempt);
    record.attempt.reset();
  }
  if (record.qp != nullptr) {
    node_.endpoint().destroy_qp(*record.qp);
    record.qp = nullptr;
  }
  by_cm_id_.erase(record.cm_id.value());
  record.in_use = false;
  free_records_.push_back(slot_of(record));
}

void RoceTransport::destroy(verbs::ConnectionId connection) {
  if (Record* record = find(connection)) {
    release(*record);
  }
}

bool RoceTransport::poll_event(Instant now, verbs::ConnectionEvent& out) {
  while (!own_events_.empty()) {
    out = own_events_.front();
    own_events_.pop_front();
    if (find(out.connection) != nullptr) {
      return true;
    }
  }
  while (node_.cm().poll_event(event_)) {
    out = verbs::ConnectionEvent();
    if (translate(now, out)) {
      return true;
    }
  }
  return false;
}

bool RoceTransport::translate(Instant now, verbs::ConnectionEvent& out) {
  using Kind = verbs::ConnectionEvent::Kind;
  if (const auto* request = event_.as<cm::ConnectRequest>()) {
    return take_request(now, *request, out);
  }
  Record* record = find(event_.connection);
  if (record == nullptr) {
    return false;  // ended here before
  }
  out.connection = id_of(*record);
  out.context = record->context;
  if (event_.as<cm::Established>() != nullptr) {
    out.kind = Kind::kEstablished;
  } else if (event_.as<cm::Disconnected>() != nullptr) {
    out.kind = Kind::kDisconnected;
  } else if (const auto* rejected = event_.as<cm::Rejected>()) {
    out.kind = Kind::kRejected;
    out.rejection = cm::rejection_of(rejected->reason);
    out.private_data = rejected->private_data.bytes();
  } else if (const auto* reply = event_.as<cm::ConnectReply>()) {
    take_response(now, *record, *reply, out);
  }
  return true;  // else ConnectFailed: kUnreachable
}

bool RoceTransport::take_request(Instant now, const cm::ConnectRequest& request, verbs::ConnectionEvent& out) {
  Record* record = take_record();
  if (record == nullptr) {
    (void)node_.cm().reject(now, event_.connection, cm::RejectReason::kNoResources);
    return false;
  }
  const bool inserted = by_cm_id_.insert(event_.connection.value(), slot_of(*record));
  CW_ASSERT(inserted);  // as much room as there are records, and a CM id comes once
  record->cm_id = event_.connection;
  record->address = event_.address;
  record->remote_qpn = request.remote_qpn;
  out.kind = verbs::ConnectionEvent::Kind::kConnectRequest;
  out.connection = id_of(*record);
  out.peer = event_.address.remote;
  out.peer_port = request.ip_cm.source_port;
  out.listener_port = cm::ip_port_of(request.service);
  out.private_data = request.private_data.bytes();
  out.depths = {.initiator_depth = request.peer_responder_resources, .responder_resources = request.peer_initiator_depth};
  if (request.rival) {
    if (const Record* rival = find(*request.rival)) {
      out.rival = rival->context;
    }
  }
  return true;
}

Result<verbs::AcceptedConnection> RoceTransport::accept(Instant now, verbs::ConnectionId connection,
                                                        const verbs::ConnectionOptions& options) {
  Record* record = find(connection);
  const auto* request = event_.as<cm::ConnectRequest>();
  CW_ASSERT(record != nullptr && request != nullptr && record->cm_id == event_.connection);
  record->context = options.context;
  rc::RcOptions rc_options = options_.rc;
  rc_options.receive_bytes_max = options.receive_bytes_max;
  rc_options.user_data = options.context;
  const auto qp = node_.endpoint().create_qp(rc_options);
  if (!qp.ok()) {
    return fail(Error::kNoResources);
  }
  record->qp = *qp;
  const uint8_t initiator_depth = depth_of(rc_options.initiator_depth_max, options.depths.initiator_depth);
  rc::RcConnect connect = node_.connect_values(record->address, **qp, wire::Psn(random_.next_u32()), *request,
                                               {.initiator = initiator_depth, .responder = 0});
  connect.retry_count = std::min(request->retry_count, options_.retry_count);
  connect.rnr_retry = std::min(request->rnr_retry_count, options_.rnr_retry_count);
  take_offer(connect, request->private_data.bytes());
  connect.ack_timeout = std::max(request->ack_timeout_code, options_.ack_timeout_min_code);
  if (!node_.endpoint().connect_qp(**qp, connect).ok()) {
    return fail(Error::kNoResources);
  }
  // Only to a client that has offered something itself: others see no byte more than they know.
  const ExtendedPrivateData private_data(options.private_data, connect.peer_hold_packets > 0 ? offer() : CausewayOffer());
  cm::AcceptParameters parameters;
  parameters.local_qpn = (*qp)->local_qpn();
  parameters.first_receive_psn = connect.remote_first_psn;
  parameters.target_ack_delay_code = options_.target_ack_delay_code;
  parameters.our_responder_resources = 0;
  parameters.our_initiator_depth = connect.initiator_depth;
  parameters.private_data = private_data.bytes();
  if (!node_.cm().accept(now, record->cm_id, parameters).ok()) {
    return fail(Error::kBadState);  // the peer gave up, or had to make room
  }
  return verbs::AcceptedConnection{*qp, limits_of(connect.path_mtu_bytes)};
}

void RoceTransport::reject(Instant now, verbs::ConnectionId connection, verbs::RejectReason reason, Bytes private_data) {
  if (Record* record = find(connection)) {
    (void)node_.cm().reject(now, record->cm_id, to_cm(reason), private_data);
    release(*record);
  }
}

void RoceTransport::notify(Instant now, verbs::ConnectionId connection) {
  const Record* record = find(connection);
  if (record != nullptr && record->qp != nullptr && record->qp->communication_established()) {
    node_.cm().data_arrived(now, record->cm_id);
  }
}

Result<verbs::ConnectionId> RoceTransport::connect(Instant now, const IpAddress& server, uint16_t port,
                                                   const verbs::ConnectionOptions& options) {
  const auto local = node_.station(0).source_for(server);
  if (!local) {
    return fail(Error::kBadValue);
  }
  Record* record = take_record();
  if (record == nullptr) {
    return fail(Error::kNoResources);
  }
  record->context = options.context;
  record->attempt = std::make_unique<Attempt>();
  Attempt& attempt = *record->attempt;
  attempt.slot = slot_of(*record);
  attempt.server = server;
  attempt.local = *local;
  attempt.service_port = port;
  attempt.resolve_deadline = now + options_.resolve_timeout;
  attempt.private_data.assign(options.private_data.begin(), options.private_data.end());
  attempt.options = options;
  attempt.options.private_data = attempt.private_data;
  timers_.arm(attempt, now);
  return id_of(*record);
}

void RoceTransport::on_deadline(Instant now) {
  while (TimerNode* node = timers_.pop_expired(now)) {
    auto& attempt = static_cast<Attempt&>(*node);
    Record& record = records_[attempt.slot];
    if (const auto mac = node_.station(0).resolve(now, attempt.server)) {
      start_handshake(now, record, *mac);
    } else if (now >= attempt.resolve_deadline) {
      give_up(record, cm::RejectReason::kTimeout);
    } else {
      timers_.arm(attempt, now + kResolvePoll);
    }
  }
}

void RoceTransport::start_handshake(Instant now, Record& record, const wire::MacAddress& mac) {
  Attempt& attempt = *record.attempt;
  attempt.resolving = false;
  rc::RcOptions rc_options = options_.rc;
  rc_options.remote_access = verbs::RemoteAccess::kReadWrite;
  rc_options.responder_resources_max = responder_resources(attempt.options.depths);
  rc_options.receive_bytes_max = attempt.options.receive_bytes_max;
  rc_options.domain = attempt.options.domain;
  rc_options.user_data = record.context;
  const auto qp = node_.endpoint().create_qp(rc_options);
  if (!qp.ok()) {
    give_up(record, cm::RejectReason::kNoResources);
    return;
  }
  record.qp = *qp;
  attempt.first_receive_psn = wire::Psn(random_.next_u32());
  const link::StationOptions& station = node_.station(0).options();
  record.address = cm::CmAddress{.local = attempt.local,
                                 .remote = attempt.server,
                                 .remote_mac = mac,
                                 .vlan = station.vlan,
                                 .port = station.port,
                                 .remote_qpn = cm::kGsiQpn};
  cm::ConnectParameters parameters;
  parameters.local_qpn = record.qp->local_qpn();
  parameters.first_receive_psn = attempt.first_receive_psn;
  parameters.path_mtu = cm::path_mtu_for(options_.path_mtu_bytes);
  parameters.our_responder_resources = rc_options.responder_resources_max;
  parameters.our_initiator_depth = 0;
  parameters.ack_timeout_code = options_.ack_timeout;
  parameters.source_port = static_cast<uint16_t>(0x8000 | random_.next_below(0x7000));
  const ExtendedPrivateData private_data(attempt.private_data, offer());
  parameters.private_data = private_data.bytes();
  const auto id = node_.cm().connect(now, record.address, cm::ip_service_id(attempt.service_port), parameters);
  if (!id.ok() || !by_cm_id_.insert(id->value(), attempt.slot)) {
    give_up(record, cm::RejectReason::kNoResources);
    return;
  }
  record.cm_id = *id;
}

void RoceTransport::take_response(Instant now, Record& record, const cm::ConnectReply& reply, verbs::ConnectionEvent& out) {
  const Attempt& attempt = *record.attempt;
  rc::RcConnect connect =
      node_.connect_values(record.address, *record.qp, attempt.first_receive_psn, reply, {}, options_.ack_timeout);
  connect.path_mtu_bytes = options_.path_mtu_bytes;
  // A server that reads more at a time than it announced is served all the same.
  connect.responder_resources = responder_resources(attempt.options.depths);
  take_offer(connect, reply.private_data.bytes());
  record.remote_qpn = reply.remote_qpn;
  if (!node_.endpoint().connect_qp(*record.qp, connect).ok()) {
    node_.cm().disconnect(now, record.cm_id);
    out.kind = verbs::ConnectionEvent::Kind::kRejected;
    out.rejection = cm::rejection_of(cm::RejectReason::kNoResources);
    return;
  }
  out.kind = verbs::ConnectionEvent::Kind::kConnectResponse;
  out.private_data = reply.private_data.bytes();
  out.depths = {.initiator_depth = reply.peer_responder_resources, .responder_resources = reply.peer_initiator_depth};
  out.queue_pair = record.qp;
  out.limits = limits_of(connect.path_mtu_bytes);
}

// Before the connection manager has a part in it.
void RoceTransport::give_up(const Record& record, cm::RejectReason reason) {
  verbs::ConnectionEvent& event = own_events_.emplace_back();
  event.kind = verbs::ConnectionEvent::Kind::kRejected;
  event.connection = id_of(record);
  event.context = record.context;
  event.rejection = cm::rejection_of(reason);
}

void RoceTransport::establish(Instant now, verbs::ConnectionId connection) {
  if (Record* record = find(connection)) {
    (void)node_.cm().ready(now, record->cm_id);
    record->attempt.reset();
  }
}

void RoceTransport::disconnect(Instant now, verbs::ConnectionId connection) {
  const Record* record = find(connection);
  if (record != nullptr && !(record->attempt != nullptr && record->attempt->resolving)) {
    node_.cm().disconnect(now, record->cm_id);
  }
}

bool RoceTransport::pause(verbs::ConnectionId connection) {
  const Record* record = find(connection);
  if (record == nullptr || record->qp == nullptr || record->attempt != nullptr) {
    return false;
  }
  record->qp->pause();
  return true;
}

bool RoceTransport::save(verbs::ConnectionId connection, std::vector<uint8_t>& out) {
  const Record* record = find(connection);
  if (record == nullptr || record->qp == nullptr || !record->qp->is_idle()) {
    return false;
  }
  const std::optional<cm::EstablishedState> state = node_.cm().saved(record->cm_id);
  if (!state) {
    return false;
  }
  append(out, {.cm = *state, .rc = record->qp->connected()});
  node_.cm().forget(record->cm_id);
  return true;
}

Result<verbs::ResumedConnection> RoceTransport::resume(Instant now, Bytes saved, const verbs::ConnectionOptions& options) {
  const std::optional<SavedRoce> state = parse_saved_roce(saved);
  if (!state || state->cm.address.port >= node_.port_count() || !node_.is_own(state->cm.address)) {
    return fail(Error::kBadValue);
  }
  const Result<cm::ConnectionId> cm_id = node_.cm().resume(state->cm);
  if (!cm_id.ok()) {
    return fail(cm_id.error());
  }
  rc::RcOptions rc_options = options_.rc;
  rc_options.receive_bytes_max = options.receive_bytes_max;
  rc_options.user_data = options.context;
  Record* record = take_record();
  const auto qp = record != nullptr ? node_.endpoint().create_qp(rc_options, state->cm.local_qpn)
                                    : Result<rc::RcQp*>(fail(Error::kNoResources));
  rc::RcConnect connect = state->rc;
  connect.remote_qpn = state->cm.remote_qpn;
  connect.path = node_.path_for(state->cm.address, state->cm.local_qpn, state->cm.remote_qpn);
  connect.path.udp_source_port = state->rc.path.udp_source_port;
  if (qp.ok()) {
    record->qp = *qp;
  }
  if (!qp.ok() || !node_.endpoint().connect_qp(**qp, connect).ok()) {
    node_.cm().disconnect(now, *cm_id);
    if (record != nullptr) {
      release(*record);
    }
    return fail(Error::kNoResources);
  }
  const bool inserted = by_cm_id_.insert(cm_id->value(), slot_of(*record));
  CW_ASSERT(inserted);  // as much room as there are records, and a CM id comes once
  record->cm_id = *cm_id;
  record->address = state->cm.address;
  record->remote_qpn = state->cm.remote_qpn;
  record->context = options.context;
  return verbs::ResumedConnection{id_of(*record), *qp, limits_of(connect.path_mtu_bytes)};
}

bool RoceTransport::poll_ready(verbs::ReadyQueuePair& out) {
  rc::RcQp* qp = node_.endpoint().poll_ready();
  if (qp == nullptr) {
    return false;
  }
  out = {qp, qp->user_data()};
  return true;
}

uint32_t RoceTransport::peek_ready(std::span<uint64_t> out) const {
  uint32_t count = 0;
  node_.endpoint().for_each_ready([&](const rc::RcQp& qp) {
    if (count < out.size()) {
      out[count++] = qp.user_data();
    }
  });
  return count;
}

uint32_t RoceTransport::log_capacity() const {
  return node_.endpoint().log().capacity();
}

uint32_t RoceTransport::copy_log(std::span<verbs::TransportEvent> out) const {
  return node_.endpoint().log().copy(out);
}

verbs::QueuePairInfo RoceTransport::describe(verbs::ConnectionId connection) const {
  verbs::QueuePairInfo info;
  info.wire = "RoCE";
  const Record* record = find(connection);
  if (record == nullptr) {
    return info;
  }
  info.remote_qpn = record->remote_qpn;
  if (record->qp != nullptr) {
    const rc::RcQpInfo detail = record->qp->info();
    info.local_qpn = detail.local_qpn;
    info.error = error_of(detail.error);
    info.traffic = {.payload_bytes_in = detail.counters.payload_bytes_in,
                    .payload_bytes_out = detail.counters.payload_bytes_out,
                    .retransmits = detail.counters.packets_retransmitted,
                    .round_trip = detail.round_trip};
    info.set_detail(detail, rc::qp_fields());
  }
  return info;
}

verbs::ConnectionLimits RoceTransport::limits_of(uint32_t path_mtu_bytes) const {
  return {.packet_bytes = path_mtu_bytes,
          .read_bytes_wanted = uint64_t{options_.rc.read_window_packets} * 3 / 2 * path_mtu_bytes};
}

// Active side. At least one: a server of RPC-over-RDMA reads calls that are longer than a SEND.
uint8_t RoceTransport::responder_resources(const verbs::ReadDepths& wanted) const {
  return depth_of(std::max<uint8_t>(options_.rc.responder_resources_max, 1), wanted.responder_resources);
}

CausewayOffer RoceTransport::offer() const {
  return {.hold_packets = options_.rc.selective_recovery ? uint16_t{rc::HeldPackets::kSpan} : uint16_t{0}};
}

void RoceTransport::take_offer(rc::RcConnect& connect, Bytes peer_private_data) {
  connect.peer_hold_packets = CausewayOffer::of_peer(peer_private_data).hold_packets;
  if (connect.peer_hold_packets > 0) {
    // A secret between the two, for what that is worth: packets ahead of a gap are held from this port only.
    connect.path.udp_source_port = static_cast<uint16_t>(kFirstSourcePort | random_.next_below(kSourcePorts));
  }
}

}  // namespace cw::node
