#include "dataplane/rnic/work_requests.h"

#include <array>
#include <cstddef>
#include <iterator>

#include "base/assert.h"

namespace cw::dataplane {
namespace {

using rnic::ReceiveWork;
using rnic::SendWork;
using rnic::WorkVerb;

ibv_wr_opcode opcode_of(WorkVerb verb) {
  switch (verb) {
    case WorkVerb::kSend:
      return IBV_WR_SEND;
    case WorkVerb::kSendWithInvalidate:
      return IBV_WR_SEND_WITH_INV;
    case WorkVerb::kWrite:
      return IBV_WR_RDMA_WRITE;
    case WorkVerb::kRead:
      return IBV_WR_RDMA_READ;
  }
  return IBV_WR_SEND;
}

unsigned flags_of(const SendWork& work) {
  unsigned flags = 0;
  flags |= work.signaled ? unsigned{IBV_SEND_SIGNALED} : 0;
  flags |= work.solicited ? unsigned{IBV_SEND_SOLICITED} : 0;
  flags |= work.fence ? unsigned{IBV_SEND_FENCE} : 0;
  flags |= work.is_inline ? unsigned{IBV_SEND_INLINE} : 0;
  return flags;
}

ibv_sge entry_of(Bytes piece, const RdmaDevice& device) {
  return {.addr = reinterpret_cast<uintptr_t>(piece.data()),
          .length = static_cast<uint32_t>(piece.size()),
          .lkey = device.lkey_of(piece.data())};
}

// Some devices (rxe, siw) take all of a chain, cannot ring their doorbell, say that they failed, and name no request.
template <typename Request>
ChainPosted posted_of(int error, std::span<const Request> chain, const Request* refused) {
  const ptrdiff_t taken = refused == nullptr ? std::ssize(chain) : refused - chain.data();
  return {.taken = static_cast<uint32_t>(taken), .failed = error != 0};
}

}  // namespace

ChainPosted post_chain(ibv_qp& qp, const RdmaDevice& device, std::span<const SendWork> works) {
  CW_ASSERT(works.size() <= kRequestsAtOnce);
  std::array<ibv_send_wr, kRequestsAtOnce> requests;
  std::array<ibv_sge, size_t{kRequestsAtOnce} * kPiecesMax> entries;
  size_t used = 0;
  for (size_t i = 0; i < works.size(); ++i) {
    const SendWork& work = works[i];
    ibv_send_wr& request = requests[i];
    request = {};
    request.wr_id = work.id;
    request.next = i + 1 < works.size() ? &requests[i + 1] : nullptr;
    request.sg_list = entries.data() + used;
    request.num_sge = static_cast<int>(work.pieces.size());
    for (const MutableBytes& piece : work.pieces) {
      entries[used++] = entry_of(piece, device);
    }
    if (work.pieces.empty() && work.verb == WorkVerb::kRead) {
      // Its request names a sink whatever the length. Some devices (siw) take that from the first entry, without a look at how
      // many there are.
      entries[used++] = entry_of(device.any_memory().first(0), device);
      request.num_sge = 1;
    }
    request.opcode = opcode_of(work.verb);
    request.send_flags = flags_of(work);
    if (work.verb == WorkVerb::kSendWithInvalidate) {
      request.invalidate_rkey = work.rkey.value();
      request.wr.rdma.rkey = work.rkey.value();  // where libsiw takes it from (read in rdma-core 44); nobody else looks there
    } else if (work.verb != WorkVerb::kSend) {
      request.wr.rdma = {.remote_addr = work.remote_address, .rkey = work.rkey.value()};
    }
  }
  ibv_send_wr* refused = nullptr;
  const int error = ibv_post_send(&qp, requests.data(), &refused);
  return posted_of(error, std::span<const ibv_send_wr>(requests).first(works.size()), refused);
}

ChainPosted post_chain(ibv_qp& qp, const RdmaDevice& device, std::span<const ReceiveWork> works) {
  CW_ASSERT(works.size() <= kRequestsAtOnce);
  std::array<ibv_recv_wr, kRequestsAtOnce> requests;
  std::array<ibv_sge, size_t{kRequestsAtOnce} * kPiecesMax> entries;
  size_t used = 0;
  for (size_t i = 0; i < works.size(); ++i) {
    requests[i] = {.wr_id = works[i].id,
                   .next = i + 1 < works.size() ? &requests[i + 1] : nullptr,
                   .sg_list = entries.data() + used,
                   .num_sge = static_cast<int>(works[i].pieces.size())};
    for (const MutableBytes& piece : works[i].pieces) {
      entries[used++] = entry_of(piece, device);
    }
  }
  ibv_recv_wr* refused = nullptr;
  const int error = ibv_post_recv(&qp, requests.data(), &refused);
  return posted_of(error, std::span<const ibv_recv_wr>(requests).first(works.size()), refused);
}

}  // namespace cw::dataplane
