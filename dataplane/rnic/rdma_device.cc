#include "dataplane/rnic/rdma_device.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>

#include "base/assert.h"

namespace cw::dataplane {
namespace {

// Another queue is made when one is full; none is ever resized, which some devices cannot.
constexpr uint32_t kQueueEntries = 16384;
// libsiw (read in rdma-core 44) takes the mapping that begins at page 0x90 of its device's for none at all: its key is
// SIW_INVAL_UOBJ_KEY. A queue of 16384 entries has 0x81 pages, and the send queue behind it 15, so no queue pair could be made.
// The first queue is so long that no mapping begins there.
constexpr uint32_t kQueueEntriesOfIwarp = 32768;

static_assert(static_cast<int>(verbs::RemoteAccess::kRead) == IBV_ACCESS_REMOTE_READ &&
              static_cast<int>(verbs::RemoteAccess::kWrite) == IBV_ACCESS_REMOTE_WRITE &&
              static_cast<int>(verbs::RemoteAccess::kAtomic) == IBV_ACCESS_REMOTE_ATOMIC);

void make_nonblocking(int fd) {
  (void)fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
}

}  // namespace

std::unique_ptr<RdmaDevice> RdmaDevice::open(const RdmaCore& core, ibv_device* which, std::span<const MutableBytes> memory) {
  ibv_context* const context = core.open_device(which);
  if (context == nullptr) {
    return nullptr;
  }
  std::unique_ptr<RdmaDevice> device(new RdmaDevice(core, context));
  device->name_ = core.get_device_name(which);
  if (core.query_device(context, &device->attributes_) != 0) {
    return nullptr;
  }
  device->pd_ = core.alloc_pd(context);
  device->channel_ = core.create_comp_channel(context);
  if (device->pd_ == nullptr || device->channel_ == nullptr) {
    return nullptr;
  }
  make_nonblocking(device->channel_->fd);
  make_nonblocking(context->async_fd);
  for (const MutableBytes& piece : memory) {
    ibv_mr* mr = core.reg_mr(device->pd_, piece.data(), piece.size(), IBV_ACCESS_LOCAL_WRITE);
    if (mr == nullptr) {
      const int why = errno;
      device.reset();  // which has calls of its own
      errno = why;
      return nullptr;
    }
    device->regions_.push_back({piece.data(), piece.data() + piece.size(), mr});
  }
  return device;
}

RdmaDevice::~RdmaDevice() {
  queues_.clear();
  if (channel_ != nullptr) {
    (void)core_.destroy_comp_channel(channel_);
  }
  for (const Region& region : regions_) {
    (void)core_.dereg_mr(region.mr);
  }
  if (pd_ != nullptr) {
    (void)core_.dealloc_pd(pd_);
  }
  (void)core_.close_device(context_);
}

CompletionQueue* RdmaDevice::reserve(uint32_t entries) {
  for (const auto& queue : queues_) {
    if (!queue->is_broken && queue->room.reserve(entries)) {
      return queue.get();
    }
  }
  const auto most = static_cast<uint32_t>(std::max(attributes_.max_cqe, 0));
  const bool is_iwarp = context_->device->transport_type == IBV_TRANSPORT_IWARP;
  const uint32_t wanted = std::min(std::max(is_iwarp ? kQueueEntriesOfIwarp : kQueueEntries, entries), most);
  if (entries > wanted) {
    return nullptr;
  }
  auto queue = CompletionQueue::make(core_, context_, channel_, wanted);
  if (queue == nullptr) {
    return nullptr;
  }
  queues_.push_back(std::move(queue));
  return queues_.back()->room.reserve(entries) ? queues_.back().get() : nullptr;
}

uint32_t RdmaDevice::lkey_of(const uint8_t* address) const {
  for (const Region& region : regions_) {
    if (address >= region.begin && address < region.end) {
      return region.mr->lkey;
    }
  }
  CW_ASSERT(false);  // a buffer of no pool that was registered
  return 0;
}

ibv_mr* RdmaDevice::expose(MutableBytes memory, verbs::RemoteAccess access) {
  // A device writes for a peer only where it may write for us.
  const bool is_written = (static_cast<int>(access) & ~IBV_ACCESS_REMOTE_READ) != 0;
  const int flags = static_cast<int>(access) | (is_written ? int{IBV_ACCESS_LOCAL_WRITE} : 0);
  return core_.reg_mr(pd_, memory.data(), memory.size(), flags);
}

void RdmaDevice::arm() {
  for (const auto& queue : queues_) {
    queue->arm();
  }
}

void RdmaDevice::take_events() {
  ibv_cq* cq = nullptr;
  void* ignored = nullptr;
  while (core_.get_cq_event(channel_, &cq, &ignored) == 0) {
    core_.ack_cq_events(cq, 1);
    CompletionQueue::of(*cq).on_event();
  }
}

void RdmaDevice::drop_broken_queues() {
  std::erase_if(queues_, [](const auto& queue) { return queue->is_broken && queue->room.reserved() == 0; });
}

bool RdmaDevice::is_infiniband(uint8_t port) const {
  ibv_port_attr attributes{};
  return core_.query_port(context_, port, reinterpret_cast<_compat_ibv_port_attr*>(&attributes)) == 0 &&
         attributes.link_layer == IBV_LINK_LAYER_INFINIBAND;
}

}  // namespace cw::dataplane
