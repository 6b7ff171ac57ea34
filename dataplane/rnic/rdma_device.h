// An RDMA device as one core uses it: its memory, its completion queues, its events. Opened with the listener whose connections
// can come by it, or with its first connection when it appears later; closed behind the last one when it goes.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "dataplane/rnic/completion_queue.h"
#include "dataplane/rnic/rdma_core.h"
#include "verbs/memory_region.h"

namespace cw::dataplane {

class RdmaDevice {
 public:
  // Registers `memory`, for the device alone. nullptr when the device refuses something; errno says why. The context is one of
  // its own: librdmacm closes those that it opens when the device has gone, whoever uses them.
  [[nodiscard]] static std::unique_ptr<RdmaDevice> open(const RdmaCore& core, ibv_device* device,
                                                        std::span<const MutableBytes> memory);
  ~RdmaDevice();
  RdmaDevice(const RdmaDevice&) = delete;
  RdmaDevice& operator=(const RdmaDevice&) = delete;

  // Room for so many completions; nullptr: there is none. The queue stays where it is.
  [[nodiscard]] CompletionQueue* reserve(uint32_t entries);
  // Of registered memory.
  [[nodiscard]] uint32_t lkey_of(const uint8_t* address) const;
  // Some that is registered.
  [[nodiscard]] Bytes any_memory() const { return {regions_.front().begin, regions_.front().end}; }
  // For peers, beside that. nullptr: the device registers no more.
  [[nodiscard]] ibv_mr* expose(MutableBytes memory, verbs::RemoteAccess access);
  // Their next completions make the channel readable.
  void arm();
  // Takes the events of the channel.
  void take_events();
  void drop_broken_queues();

  [[nodiscard]] const ibv_device* device() const { return context_->device; }
  [[nodiscard]] ibv_context* context() const { return context_; }
  [[nodiscard]] ibv_pd* pd() const { return pd_; }
  [[nodiscard]] const ibv_device_attr& attributes() const { return attributes_; }
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] int channel_fd() const { return channel_->fd; }
  [[nodiscard]] int async_fd() const { return context_->async_fd; }
  [[nodiscard]] std::span<const std::unique_ptr<CompletionQueue>> queues() const { return queues_; }
  [[nodiscard]] bool is_infiniband(uint8_t port) const;

  uint32_t connections = 0;
  bool is_gone = false;  // nothing new on it

 private:
  struct Region {
    const uint8_t* begin = nullptr;
    const uint8_t* end = nullptr;
    ibv_mr* mr = nullptr;
  };
  RdmaDevice(const RdmaCore& core, ibv_context* context) : core_(core), context_(context) {}

  const RdmaCore& core_;
  ibv_context* context_;
  std::string name_;
  ibv_device_attr attributes_{};
  ibv_pd* pd_ = nullptr;
  ibv_comp_channel* channel_ = nullptr;
  std::vector<Region> regions_;
  std::vector<std::unique_ptr<CompletionQueue>> queues_;
};

}  // namespace cw::dataplane
