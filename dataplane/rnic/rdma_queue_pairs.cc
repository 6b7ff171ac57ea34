// The queue pairs of an RdmaHost: made, posted to, looked at, ended.
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/assert.h"
#include "dataplane/rnic/rdma_host.h"
#include "dataplane/rnic/work_requests.h"
#include "telemetry/log.h"

namespace cw::dataplane {
namespace {

// Pieces of one work request that are asked for: each takes room in the device's queue.
constexpr uint32_t kSendPieces = 16;
constexpr uint32_t kRemoteAccess =
    IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND;
// Of a mask of attributes: old kernels set them on InfiniBand, too, which refuses them.
constexpr int kRoceBits = 0xe00000;

// The trace has the client.
void log_refusal(const RdmaDevice& device, const char* what) {
  telemetry::log_warning("RDMA device {} has no {} for a client: {}", device.name(), what, std::strerror(errno));
}

std::string_view name_of(ibv_qp_state state) {
  static constexpr std::array<std::string_view, 7> kNames = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERROR"};
  return static_cast<size_t>(state) < kNames.size() ? kNames[static_cast<size_t>(state)] : "unknown";
}

}  // namespace

// Access flags are the kernel's in what librdmacm says, and ours in what the device is told. Times and counts are the peer's
// there, as it wrote them in its request or its answer.
bool RdmaHost::modify(const Peer& peer, ibv_qp_state state, uint8_t reads_max) const {
  ibv_qp_attr attributes{};
  int mask = 0;
  attributes.qp_state = state;
  if (core_->cm_init_qp_attr(peer.id, &attributes, &mask) != 0) {
    return false;
  }
  attributes.qp_access_flags = peer.exposes ? IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE : 0;
  if (state == IBV_QPS_RTR) {
    attributes.min_rnr_timer = options_.min_rnr_timer;
    attributes.max_dest_rd_atomic = peer.exposes ? std::min(attributes.max_dest_rd_atomic, peer.reads_of_peer_max) : uint8_t{0};
    if (peer.device->is_infiniband(peer.id->port_num)) {
      mask &= ~kRoceBits;
    }
  } else if (state == IBV_QPS_RTS) {
    attributes.max_rd_atomic = reads_max;
    const rnic::RetryTimes times = rnic::within(
        {.timeout = attributes.timeout, .retries = attributes.retry_cnt, .rnr_retries = attributes.rnr_retry}, options_.retries);
    attributes.timeout = times.timeout;
    attributes.retry_cnt = times.retries;
    attributes.rnr_retry = times.rnr_retries;
  }
  return core_->modify_qp(peer.qp, &attributes, mask) == 0;
}

Result<rnic::QueuePairMade> RdmaHost::make_queue_pair(rnic::RnicId connection, const rnic::QueuePairWish& wish) {
  Peer* peer = find(connection);
  if (peer == nullptr || peer->device == nullptr || peer->device->is_gone) {
    return cw::fail(Error::kNoResources);
  }
  peer->exposes = wish.exposes;
  const ibv_device_attr& limits = peer->device->attributes();
  const auto max_sge = static_cast<uint32_t>(std::max(limits.max_sge, 1));
  const auto max_wr = static_cast<uint32_t>(std::max(limits.max_qp_wr, 1));
  if (wish.receive_pieces > std::min(max_sge, kPiecesMax)) {
    return cw::fail(Error::kLimit);
  }
  ibv_qp_init_attr attributes{};
  attributes.qp_context = peer;  // for whom its events are
  attributes.qp_type = IBV_QPT_RC;
  attributes.cap.max_send_wr = std::min(wish.send_requests, max_wr);
  attributes.cap.max_recv_wr = std::min(wish.receive_requests, max_wr);
  attributes.cap.max_send_sge = std::min(kSendPieces, max_sge);
  attributes.cap.max_recv_sge = wish.receive_pieces;
  const uint32_t entries = attributes.cap.max_send_wr + attributes.cap.max_recv_wr;
  CompletionQueue* queue = peer->device->reserve(entries);
  if (queue == nullptr) {
    log_refusal(*peer->device, "room for completions");
    return cw::fail(Error::kNoResources);
  }
  attributes.send_cq = queue->cq();
  attributes.recv_cq = queue->cq();
  const ibv_qp_cap wanted = attributes.cap;
  for (const uint32_t inline_bytes : {wish.inline_bytes, uint32_t{0}}) {
    attributes.cap = wanted;
    attributes.cap.max_inline_data = inline_bytes;
    peer->qp = core_->create_qp(peer->device->pd(), &attributes);
    if (peer->qp != nullptr) {
      break;
    }
  }
  if (peer->qp == nullptr) {
    log_refusal(*peer->device, "queue pair");
    queue->room.cancel(entries);
    return cw::fail(Error::kNoResources);
  }
  peer->queue = queue;
  peer->queue_entries = entries;
  if (!modify(*peer, IBV_QPS_INIT, 0)) {
    log_refusal(*peer->device, "queue pair in state INIT");
    destroy_queue_pair(connection);
    return cw::fail(Error::kNoResources);
  }
  const bool is_iwarp = peer->device->context()->device->transport_type == IBV_TRANSPORT_IWARP;
  const bool can_invalidate = (limits.device_cap_flags & IBV_DEVICE_MEM_MGT_EXTENSIONS) != 0 || is_iwarp;
  const auto read_pieces = static_cast<uint32_t>(std::max(limits.max_sge_rd, 1));
  // More than was asked for may have been given: it is not used, so that the completion queue cannot run over.
  return rnic::QueuePairMade{.number = verbs::Qpn(peer->qp->qp_num),
                             .send_requests = wanted.max_send_wr,
                             .receive_requests = wanted.max_recv_wr,
                             .send_pieces = wanted.max_send_sge,
                             .read_pieces = std::min(wanted.max_send_sge, read_pieces),
                             .receive_pieces = wanted.max_recv_sge,
                             .inline_bytes = attributes.cap.max_inline_data,
                             .can_invalidate = can_invalidate,
                             .acknowledges_writes = !is_iwarp};
}

Status RdmaHost::accept(rnic::RnicId connection, uint16_t reads_max, Bytes private_data) {
  const Peer* peer = find(connection);
  const auto depth = static_cast<uint8_t>(std::min<uint16_t>(reads_max, UINT8_MAX));
  if (peer == nullptr || peer->qp == nullptr || !modify(*peer, IBV_QPS_RTR, depth) || !modify(*peer, IBV_QPS_RTS, depth)) {
    return cw::fail(Error::kNoResources);
  }
  rdma_conn_param answer{};
  answer.private_data = private_data.data();
  answer.private_data_len = static_cast<uint8_t>(private_data.size());
  answer.responder_resources = 0;  // the server exposes no memory
  answer.initiator_depth = depth;
  answer.rnr_retry_count = 7;
  answer.qp_num = peer->qp->qp_num;
  return core_->cm_accept(peer->id, &answer) == 0 ? Status{} : cw::fail(Error::kNoResources);
}

void RdmaHost::reject(rnic::RnicId connection, Bytes private_data) {
  if (const Peer* peer = find(connection)) {
    (void)core_->cm_reject(peer->id, private_data.data(), static_cast<uint8_t>(private_data.size()));
  }
}

void RdmaHost::notify(rnic::RnicId connection) {
  if (const Peer* peer = find(connection)) {
    (void)core_->cm_notify(peer->id, IBV_EVENT_COMM_EST);
  }
}

template <typename Work>
uint32_t RdmaHost::post(rnic::RnicId connection, std::span<const Work> works) {
  const Peer* peer = find(connection);
  if (peer == nullptr || peer->qp == nullptr) {
    return 0;
  }
  const ChainPosted posted = post_chain(*peer->qp, *peer->device, works);
  if (posted.failed) {
    fail(connection);
  }
  return posted.taken;
}

uint32_t RdmaHost::post_sends(rnic::RnicId connection, std::span<const rnic::SendWork> works) {
  return post(connection, works);
}

uint32_t RdmaHost::post_receives(rnic::RnicId connection, std::span<const rnic::ReceiveWork> works) {
  return post(connection, works);
}

void RdmaHost::fail(rnic::RnicId connection) {
  if (const Peer* peer = find(connection); peer != nullptr && peer->qp != nullptr) {
    ibv_qp_attr attributes{};
    attributes.qp_state = IBV_QPS_ERR;
    (void)core_->modify_qp(peer->qp, &attributes, IBV_QP_STATE);
  }
}

void RdmaHost::disconnect(rnic::RnicId connection) {
  if (const Peer* peer = find(connection)) {
    (void)core_->cm_disconnect(peer->id);
  }
}

void RdmaHost::destroy_queue_pair(rnic::RnicId connection) {
  Peer* peer = find(connection);
  if (peer != nullptr && peer->qp != nullptr) {
    (void)core_->destroy_qp(std::exchange(peer->qp, nullptr));
    peer->queue->room.leave(peer->queue_entries);
    peer->queue = nullptr;
  }
}

void RdmaHost::release(rnic::RnicId connection) {
  Peer* peer = find(connection);
  if (peer != nullptr) {
    destroy_queue_pair(connection);
    if (peer->device != nullptr) {
      --peer->device->connections;
    }
    (void)core_->cm_destroy_id(std::exchange(peer->id, nullptr));
    if (dealer_ != nullptr && !peer->is_active) {
      dealer_->remove_connection(dealt_to_);
    }
  }
}

rnic::Exposure RdmaHost::exposure(rnic::RnicId connection) const {
  const Peer* peer = find(connection);
  ibv_qp_attr attributes{};
  ibv_qp_init_attr ignored{};
  if (peer == nullptr || peer->qp == nullptr || core_->query_qp(peer->qp, &attributes, IBV_QP_ACCESS_FLAGS, &ignored) != 0) {
    return rnic::Exposure::kUnknown;
  }
  return (static_cast<uint32_t>(attributes.qp_access_flags) & kRemoteAccess) == 0 ? rnic::Exposure::kNone
                                                                                  : rnic::Exposure::kExposed;
}

std::optional<rnic::QueuePairState> RdmaHost::look(rnic::RnicId connection) const {
  const Peer* peer = find(connection);
  ibv_qp_attr attributes{};
  ibv_qp_init_attr ignored{};
  constexpr int kWanted = IBV_QP_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_DEST_QPN | IBV_QP_PATH_MTU | IBV_QP_SQ_PSN | IBV_QP_RQ_PSN |
                          IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY;
  if (peer == nullptr || peer->qp == nullptr || core_->query_qp(peer->qp, &attributes, kWanted, &ignored) != 0) {
    return std::nullopt;
  }
  return rnic::QueuePairState{.state = name_of(attributes.qp_state),
                              .access_flags = static_cast<uint32_t>(attributes.qp_access_flags),
                              .remote = verbs::Qpn(attributes.dest_qp_num),
                              .path_mtu = attributes.path_mtu == 0 ? 0 : 128u << attributes.path_mtu,
                              .send_psn = attributes.sq_psn,
                              .receive_psn = attributes.rq_psn,
                              .reads_max = attributes.max_rd_atomic,
                              .timeout = attributes.timeout,
                              .retries_max = attributes.retry_cnt,
                              .rnr_retries_max = attributes.rnr_retry};
}

std::string_view RdmaHost::device(rnic::RnicId connection) const {
  const Peer* peer = find(connection);
  const auto name = peer == nullptr || peer->device == nullptr ? names_.end() : std::ranges::find(names_, peer->device->name());
  return name == names_.end() ? std::string_view() : std::string_view(*name);
}

}  // namespace cw::dataplane
