#include "dataplane/rnic/work_requests.h"

#include <array>
#include <cstddef>

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

// What requests of both kinds have in common: each names its work, its pieces, and the request behind it.
template <typename Request>
class RequestChain {
 public:
  template <typename Work>
  RequestChain(std::span<const Work> works, const RdmaDevice& device) : size_(works.size()) {
    CW_ASSERT(works.size() <= kRequestsAtOnce);
    for (size_t i = 0; i < works.size(); ++i) {
      requests_[i] = {};
      requests_[i].wr_id = works[i].id;
      requests_[i].next = i + 1 < works.size() ? &requests_[i + 1] : nullptr;
      requests_[i].sg_list = &entries_[used_];  // some devices look there, however few there are
      for (const MutableBytes& piece : works[i].pieces) {
        add(i, entry_of(piece, device));
      }
    }
  }

  [[nodiscard]] Request& operator[](size_t index) { return requests_[index]; }
  // Of the last request that has pieces, or of one that has none.
  void add(size_t index, const ibv_sge& entry) {
    Request& request = requests_[index];
    request.sg_list = request.num_sge == 0 ? &entries_[used_] : request.sg_list;
    entries_[used_++] = entry;
    ++request.num_sge;
  }
  [[nodiscard]] Request* head() { return requests_.data(); }

  // Some devices (rxe, siw) take all of a chain, cannot ring their doorbell, say that they failed, and name no request.
  [[nodiscard]] ChainPosted posted(int error, const Request* refused) const {
    const size_t taken = refused == nullptr ? size_ : static_cast<size_t>(refused - requests_.data());
    return {.taken = static_cast<uint32_t>(taken), .failed = error != 0};
  }

 private:
  size_t size_;
  size_t used_ = 0;  // of the entries
  std::array<Request, kRequestsAtOnce> requests_;
  std::array<ibv_sge, size_t{kRequestsAtOnce} * kPiecesMax> entries_;
};

}  // namespace

ChainPosted post_chain(ibv_qp& qp, const RdmaDevice& device, std::span<const SendWork> works) {
  RequestChain<ibv_send_wr> chain(works, device);
  for (size_t i = 0; i < works.size(); ++i) {
    const SendWork& work = works[i];
    ibv_send_wr& request = chain[i];
    if (work.pieces.empty() && work.verb == WorkVerb::kRead) {
      // Its request names a sink whatever the length. Some devices (siw) take that from the first entry, without a look at how
      // many there are.
      chain.add(i, entry_of(device.any_memory().first(0), device));
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
  const int error = ibv_post_send(&qp, chain.head(), &refused);
  return chain.posted(error, refused);
}

ChainPosted post_chain(ibv_qp& qp, const RdmaDevice& device, std::span<const ReceiveWork> works) {
  RequestChain<ibv_recv_wr> chain(works, device);
  ibv_recv_wr* refused = nullptr;
  const int error = ibv_post_recv(&qp, chain.head(), &refused);
  return chain.posted(error, refused);
}

}  // namespace cw::dataplane
