// The active side of an RdmaHost: servers that are called, and memory that they may reach.
#include <algorithm>
#include <cerrno>
#include <utility>

#include "control/cm/reject_reason.h"
#include "control/config/kernel_address.h"
#include "dataplane/monotonic_clock.h"
#include "dataplane/rnic/rdma_host.h"

namespace cw::dataplane {
namespace {

using rnic::ConnectFailure;

constexpr uint8_t kRetries = 7;  // of the device: as patient as there is; rnr_retry_count 7 is without end

int milliseconds(Duration patience) {
  return static_cast<int>(std::max<int64_t>(patience.to_us() / 1'000, 1));
}

// What librdmacm says at once, or by the status of an event. `otherwise`: what it is if it says nothing that is known.
ConnectFailure failure_of(int error, ConnectFailure otherwise) {
  switch (error) {
    case ENODEV:
    case ENETUNREACH:
    case EHOSTUNREACH:
    case EADDRNOTAVAIL:
    case EAFNOSUPPORT:
      return ConnectFailure::kNoRoute;
    case ECONNREFUSED:
      return ConnectFailure::kNoListener;
    default:
      return otherwise;
  }
}

// IBTA's reason; of iWARP the kernel's error with its sign.
verbs::Rejection rejection_of(int status) {
  if (status < 0) {
    return rnic::rejection_of(failure_of(-status, ConnectFailure::kRejected));
  }
  return cm::rejection_of(static_cast<cm::RejectReason>(status));
}

// An answer that comes just when a request is being queued wakes nobody in the kernel (drivers/infiniband/core/addr.c), which
// looks again only when the request's time is over. So it gets little time, and there are several requests.
constexpr Duration kAddressTry = Duration::seconds(1);

bool is_iwarp(const RdmaDevice& device) {
  return device.device()->transport_type == IBV_TRANSPORT_IWARP;
}

uint8_t bounded(uint16_t wanted, int device_max) {
  return static_cast<uint8_t>(std::min<int>({wanted, std::max(device_max, 0), UINT8_MAX}));
}

}  // namespace

Status RdmaHost::resolve_address(rnic::RnicId connection, const IpAddress& server, uint16_t port, Duration patience) {
  if (!start()) {
    return cw::fail(Error::kNoResources);
  }
  Peer& peer = add_peer(connection);
  peer.is_active = true;
  if (core_->cm_create_id(channel_, &peer.id, &peer, RDMA_PS_TCP) != 0) {
    peer.id = nullptr;
    return cw::fail(Error::kNoResources);
  }
  sockaddr_storage raw{};
  (void)control::write_address({server, port}, raw);
  peer.address_tries = static_cast<int>(std::max<int64_t>(patience.to_ns() / kAddressTry.to_ns(), 1));
  if (!try_address(peer, raw)) {
    const int why = errno;
    (void)core_->cm_destroy_id(std::exchange(peer.id, nullptr));
    const bool has_no_way = failure_of(why, ConnectFailure::kNone) == ConnectFailure::kNoRoute;
    return cw::fail(has_no_way ? Error::kBadValue : Error::kNoResources);
  }
  return {};
}

bool RdmaHost::try_address(Peer& peer, sockaddr_storage server) {
  --peer.address_tries;
  return core_->cm_resolve_addr(peer.id, nullptr, reinterpret_cast<sockaddr*>(&server), milliseconds(kAddressTry)) == 0;
}

ConnectFailure RdmaHost::resolve_route(rnic::RnicId connection, Duration patience) {
  const Peer* peer = find(connection);
  return peer != nullptr && core_->cm_resolve_route(peer->id, milliseconds(patience)) == 0 ? ConnectFailure::kNone
                                                                                           : ConnectFailure::kRouteUnresolved;
}

ConnectFailure RdmaHost::connect(rnic::RnicId connection, const rnic::RnicCall& call) {
  Peer* peer = find(connection);
  if (peer == nullptr || peer->qp == nullptr) {
    return ConnectFailure::kRequestFailed;
  }
  const ibv_device_attr& limits = peer->device->attributes();
  peer->reads_of_peer_max = bounded(call.reads_of_peer_max, limits.max_qp_rd_atom);
  rdma_conn_param request{};
  request.private_data = call.private_data.data();
  request.private_data_len = static_cast<uint8_t>(call.private_data.size());
  request.responder_resources = peer->reads_of_peer_max;
  request.initiator_depth = bounded(call.reads_max, limits.max_qp_init_rd_atom);
  request.retry_count = kRetries;
  request.rnr_retry_count = kRetries;
  request.qp_num = peer->qp->qp_num;
  if (core_->cm_connect(peer->id, &request) != 0) {
    return errno == ETIMEDOUT ? ConnectFailure::kUnreachable : failure_of(errno, ConnectFailure::kRequestFailed);
  }
  return ConnectFailure::kNone;
}

// The kernel has done so where iWARP has its connection.
bool RdmaHost::make_ready(rnic::RnicId connection, uint16_t reads_max) {
  const Peer* peer = find(connection);
  if (peer == nullptr || peer->qp == nullptr) {
    return false;
  }
  const auto depth = static_cast<uint8_t>(std::min<uint16_t>(reads_max, UINT8_MAX));
  return is_iwarp(*peer->device) || (modify(*peer, IBV_QPS_RTR, depth) && modify(*peer, IBV_QPS_RTS, depth));
}

bool RdmaHost::establish(rnic::RnicId connection) {
  const Peer* peer = find(connection);
  return peer != nullptr && peer->device != nullptr && (is_iwarp(*peer->device) || core_->cm_establish(peer->id) == 0);
}

bool RdmaHost::on_call_event(Instant now, Peer& peer, const CmEvent& event) {
  const rnic::RnicId connection = peer.connection;
  switch (event.type) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
      on_address_resolved(now, peer);
      return true;
    case RDMA_CM_EVENT_ADDR_ERROR:
      if (event.status == -ETIMEDOUT && peer.address_tries > 0 && try_address(peer, peer.id->route.addr.dst_storage)) {
        return true;
      }
      transport_->on_not_connected(now, connection, failure_of(-event.status, ConnectFailure::kAddressUnresolved));
      return true;
    case RDMA_CM_EVENT_ROUTE_RESOLVED:
      transport_->on_route_resolved(now, connection);
      return true;
    case RDMA_CM_EVENT_ROUTE_ERROR:
      transport_->on_not_connected(now, connection, ConnectFailure::kRouteUnresolved);
      return true;
    case RDMA_CM_EVENT_CONNECT_RESPONSE:  // RoCE and InfiniBand: establish() makes it final
    case RDMA_CM_EVENT_ESTABLISHED:       // iWARP
      transport_->on_connected(now, connection, response_of(peer, event));
      return true;
    case RDMA_CM_EVENT_REJECTED:
      transport_->on_rejected(now, connection, rejection_of(event.status), Bytes(event.private_data).first(event.private_bytes));
      return true;
    case RDMA_CM_EVENT_UNREACHABLE:
      transport_->on_not_connected(now, connection, ConnectFailure::kUnreachable);
      return true;
    case RDMA_CM_EVENT_CONNECT_ERROR:
      transport_->on_not_connected(now, connection, failure_of(-event.status, ConnectFailure::kRequestFailed));
      return true;
    case RDMA_CM_EVENT_DEVICE_REMOVAL:
      if (peer.device != nullptr) {
        return false;
      }
      transport_->on_device_removed(now, connection);  // it is bound to the device, and has not opened it
      return true;
    default:
      return false;
  }
}

void RdmaHost::on_address_resolved(Instant now, Peer& peer) {
  ibv_device* const which = peer.id->verbs == nullptr ? nullptr : peer.id->verbs->device;
  if (which == nullptr || !is_there(now, which)) {
    transport_->on_not_connected(now, peer.connection, ConnectFailure::kDeviceGone);
    return;
  }
  if (!options_.device.empty() && options_.device != core_->get_device_name(which)) {
    transport_->on_not_connected(now, peer.connection, ConnectFailure::kOtherDevice);
    return;
  }
  RdmaDevice* device = device_of(now, which);
  if (device == nullptr) {
    transport_->on_not_connected(now, peer.connection, ConnectFailure::kDeviceRefused);
    return;
  }
  peer.device = device;
  ++device->connections;
  transport_->on_address_resolved(now, peer.connection);
}

// The kernel (read in 6.1: cma_iw_handler) gives the two depths of iWARP in each other's place: the smaller one is right in
// either.
rnic::RnicResponse RdmaHost::response_of(const Peer& peer, const CmEvent& event) const {
  const bool is_swapped = peer.device != nullptr && is_iwarp(*peer.device);
  const uint8_t least = std::min(event.initiator_depth, event.responder_resources);
  return {.private_data = Bytes(event.private_data).first(event.private_bytes),
          .reads_max = is_swapped ? least : event.initiator_depth,
          .reads_of_peer_max = std::min(peer.reads_of_peer_max, is_swapped ? event.initiator_depth : event.responder_resources)};
}

// ---- Memory that servers may reach ----

Result<rnic::DeviceRegion> RdmaHost::register_memory(rnic::RnicId connection, MutableBytes memory, verbs::RemoteAccess access) {
  const Peer* peer = find(connection);
  if (peer == nullptr || peer->qp == nullptr || !peer->exposes || peer->device->is_gone) {
    return cw::fail(Error::kBadState);
  }
  ibv_mr* const region = peer->device->expose(memory, access);
  if (region == nullptr) {
    return cw::fail(Error::kNoResources);
  }
  return rnic::DeviceRegion{.remote = {.key = verbs::Rkey(region->rkey), .address = reinterpret_cast<uintptr_t>(memory.data())},
                            .handle = reinterpret_cast<uintptr_t>(region)};
}

bool RdmaHost::deregister_memory(uint64_t handle) {
  return core_->dereg_mr(reinterpret_cast<ibv_mr*>(static_cast<uintptr_t>(handle))) == 0;  // NOLINT(performance-no-int-to-ptr)
}

}  // namespace cw::dataplane
