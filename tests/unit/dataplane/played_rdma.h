// Rdma-core that a test plays, for RdmaHost: devices come and go, refuse, and fail; peers ask, and servers answer.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "control/config/kernel_address.h"
#include "dataplane/rnic/rdma_core.h"

namespace cw::dataplane {

inline constexpr uint16_t kRdmaPort = 20049;
inline const IpAddress kRdmaAddress = IpAddress::v4(0xc000'0201);

// A descriptor that is readable while something is queued.
struct Bell {
  int fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  Bell() = default;
  ~Bell() { close(fd); }
  Bell(const Bell&) = delete;
  Bell& operator=(const Bell&) = delete;
  void ring() const { (void)eventfd_write(fd, 1); }
  void silence() const {
    eventfd_t ignored = 0;
    (void)eventfd_read(fd, &ignored);
  }
};

// Two descriptors, and whether anybody has them yet.
struct OpenFiles {
  std::array<int, 2> pipe{};
  int second = -1;
  OpenFiles() {
    EXPECT_EQ(pipe2(pipe.data(), O_CLOEXEC), 0);
    second = fcntl(pipe[1], F_DUPFD_CLOEXEC, 0);
  }
  ~OpenFiles() {
    for (const int fd : {pipe[0], pipe[1], second}) {
      close(fd);
    }
  }
  OpenFiles(const OpenFiles&) = delete;
  OpenFiles& operator=(const OpenFiles&) = delete;
  [[nodiscard]] bool are_open() const {
    pollfd end{pipe[0], POLLIN, 0};
    return poll(&end, 1, 0) == 0;
  }
};

// Rdma-core and its devices. One at a time: its functions have no other way to find it.
class PlayedRdma {
 public:
  struct Device {
    ibv_device device{};
    int index = 0;
    IpAddress address;
    bool is_there = true;
    bool registers = true;
    int max_cqe = 4096;
    uint32_t opens = 0;
    uint32_t closes = 0;
    int regions = 0;
    ibv_context of_cm{};
    std::unique_ptr<OpenFiles> files_of_cm;
  };
  struct Context {
    ibv_context context{};
    Device* device = nullptr;
    Bell bell;
    std::deque<ibv_async_event> events;
  };
  struct Queue {
    ibv_cq cq{};
    std::deque<ibv_wc> done;
    uint32_t promised = 0;
    uint32_t left = 0;  // by queue pairs that are destroyed, since the queue was found empty
  };
  struct QueuePair {
    ibv_qp qp{};
    uint32_t entries = 0;
    std::vector<uint64_t> receives;
    std::vector<uint64_t> sends;
    std::vector<std::pair<uint32_t, uint32_t>> invalidated;  // by the key of the request, and by what libsiw takes for it
    std::vector<std::pair<ibv_qp_state, unsigned>> states;   // it was moved to, with which access flags
    uint8_t reads_of_peer_max = 0;
    uint8_t reads_max = 0;
    uint8_t min_rnr_timer = 0;
  };
  struct Channel {
    Bell bell;
    rdma_event_channel channel{bell.fd};
    std::deque<rdma_cm_event*> events;
  };
  // Of an id that calls a server.
  struct Call {
    IpAddress server;
    uint16_t port = 0;
    int address_requests = 0;
    int address_patience_ms = 0;
    bool wants_route = false;
    std::optional<rdma_conn_param> request;
    std::vector<uint8_t> private_data;
    size_t receives_when_asked = 0;
    bool established = false;
  };

  std::map<std::string, std::unique_ptr<Device>> devices;
  std::vector<std::unique_ptr<Context>> contexts;
  std::vector<std::unique_ptr<Channel>> channels;
  bool migrates = true;
  std::vector<std::unique_ptr<rdma_cm_id>> ids;    // that are alive
  std::vector<std::unique_ptr<rdma_cm_id>> ended;  // without what they had: whoever looks finds nothing
  std::vector<std::unique_ptr<Queue>> queues;
  std::vector<std::unique_ptr<QueuePair>> queue_pairs;
  std::vector<std::string> violations;
  uint32_t queues_made = 0;
  int lists = 0;  // of devices, that are not freed
  uint32_t binds = 0;
  uint32_t rejects = 0;
  std::map<const rdma_cm_id*, Call> calls;
  int resolve_error = 0;
  int route_error = 0;
  int connect_error = 0;
  bool establishes = true;
  std::vector<int> exposed;  // access flags of memory that peers may reach
  bool has_ipv6 = true;
  std::map<const rdma_cm_id*, bool> of_one_family;
  std::vector<std::pair<int, bool>> families;  // that were bound to, and whether for that one alone
  bool post_fails = false;
  int posts_taken = -1;             // when it fails, before the request that it names; -1: it names none
  std::function<void()> meanwhile;  // when the host takes the next event of the connection manager
  RdmaCore core;

  PlayedRdma();
  ~PlayedRdma() { self = nullptr; }
  PlayedRdma(const PlayedRdma&) = delete;
  PlayedRdma& operator=(const PlayedRdma&) = delete;

  Device& add(const std::string& name, const IpAddress& address) {
    auto device = std::make_unique<Device>();
    device->address = address;
    device->index = ++last_index_;
    device->device.transport_type = IBV_TRANSPORT_IB;
    name.copy(device->device.name, sizeof(device->device.name) - 1);
    device->of_cm.device = &device->device;
    open_by_cm(*device);
    return *(devices[name] = std::move(device));
  }
  // Its node in sysfs, which goes before anybody is told.
  void add_node(Device& device) {
    const std::string path = testing::TempDir() + "node_of_" + device.device.name + "_" + std::to_string(getpid());
    std::filesystem::remove(path);
    ASSERT_TRUE(std::filesystem::create_directory(path));
    path.copy(device.device.dev_path, sizeof(device.device.dev_path) - 1);
  }
  static void remove_node(Device& device) {
    device.is_there = false;
    std::filesystem::remove(device.device.dev_path);
  }
  // Another one of the same name and address, where it has lain.
  void replace(Device& device) {
    device.is_there = true;
    device.registers = true;
    device.index = ++last_index_;
    open_by_cm(device);
  }
  rdma_cm_event& tell(rdma_cm_id* id, rdma_cm_event_type type, rdma_cm_id* listener = nullptr) {
    auto* event = new rdma_cm_event{};
    event->id = id;
    event->listen_id = listener;
    event->event = type;
    Channel& channel = channel_of(*id);
    channel.events.push_back(event);
    channel.bell.ring();
    return *event;
  }
  // The server's address is by `device`.
  void resolve(rdma_cm_id* id, Device& device) {
    id->verbs = &device.of_cm;
    id->port_num = 1;
    tell(id, RDMA_CM_EVENT_ADDR_RESOLVED);
  }
  // The connection manager tells every id that is bound to it.
  void remove(Device& device) {
    device.is_there = false;
    for (const auto& id : ids) {
      if (id->verbs == &device.of_cm) {
        tell(id.get(), RDMA_CM_EVENT_DEVICE_REMOVAL);
      }
    }
  }
  // A peer asks by `device`.
  rdma_cm_id* request(Device& device) {
    rdma_cm_id* const listener = first_listener();
    ids.push_back(std::make_unique<rdma_cm_id>());
    rdma_cm_id* const id = ids.back().get();
    id->verbs = &device.of_cm;
    id->channel = listener->channel;
    id->context = listener->context;
    (void)control::write_address({IpAddress::v4(0xc000'0209), 1234}, id->route.addr.dst_storage);
    tell(id, RDMA_CM_EVENT_CONNECT_REQUEST, listener);
    return id;
  }
  [[nodiscard]] Channel& channel_of(const rdma_cm_id& id) { return channel_of(id.channel); }
  [[nodiscard]] Channel& channel_of(const rdma_event_channel* channel) {
    const auto found = std::ranges::find_if(channels, [channel](const auto& each) { return &each->channel == channel; });
    EXPECT_TRUE(found != channels.end()) << "a channel that has gone";
    return **found;
  }
  [[nodiscard]] bool is_alive(const rdma_cm_id* id) const {
    return std::ranges::any_of(ids, [id](const auto& each) { return each.get() == id; });
  }
  void tell(const Device& device, ibv_event_type type, ibv_cq* cq = nullptr, ibv_qp* qp = nullptr) {
    for (const auto& context : contexts) {
      if (context->device == &device) {
        ibv_async_event event{};
        event.event_type = type;
        if (qp != nullptr) {
          event.element.qp = qp;
        } else {
          event.element.cq = cq;
        }
        context->events.push_back(event);
        context->bell.ring();
      }
    }
  }
  void complete(QueuePair& qp, uint64_t id, uint32_t bytes) {
    ibv_wc done{};
    done.wr_id = id;
    done.byte_len = bytes;
    queue_of(qp.qp.recv_cq).done.push_back(done);
  }

 private:
  static void open_by_cm(Device& device) {
    device.files_of_cm = std::make_unique<OpenFiles>();
    device.of_cm.cmd_fd = device.files_of_cm->pipe[1];
    device.of_cm.async_fd = device.files_of_cm->second;
  }
  static inline PlayedRdma* self = nullptr;
  static Queue& queue_of(ibv_cq* cq) {
    return **std::ranges::find_if(self->queues, [cq](const auto& each) { return &each->cq == cq; });
  }
  static QueuePair& pair_of(ibv_qp* qp) {
    return **std::ranges::find_if(self->queue_pairs, [qp](const auto& each) { return &each->qp == qp; });
  }
  static Context& context_of(ibv_context* context) {
    return **std::ranges::find_if(self->contexts, [context](const auto& each) { return &each->context == context; });
  }
  static Device& device_of(const ibv_device* device) {
    return *std::ranges::find_if(self->devices, [device](const auto& each) { return &each.second->device == device; })->second;
  }
  [[nodiscard]] rdma_cm_id* first_listener() const {
    return std::ranges::find_if(ids, [](const auto& each) { return each->ps == RDMA_PS_TCP; })->get();
  }

  void play_devices();
  void play_queues();
  void play_connections();
  void play_calls();

  int last_index_ = 0;
};

inline PlayedRdma::PlayedRdma() {
  self = this;
  play_devices();
  play_queues();
  play_connections();
}

inline void PlayedRdma::play_devices() {
  core.open_device = [](ibv_device* which) -> ibv_context* {
    Device& device = device_of(which);
    ++device.opens;
    self->contexts.push_back(std::make_unique<Context>());
    Context& made = *self->contexts.back();
    made.device = &device;
    made.context.device = which;
    made.context.async_fd = made.bell.fd;
    made.context.ops.poll_cq = [](ibv_cq* cq, int most, ibv_wc* out) {
      Queue& queue = queue_of(cq);
      int count = 0;
      for (; count < most && !queue.done.empty(); ++count) {
        out[count] = queue.done.front();
        queue.done.pop_front();
      }
      if (count < most) {
        queue.promised -= std::exchange(queue.left, 0);
      }
      return count;
    };
    made.context.ops.req_notify_cq = [](ibv_cq*, int) { return 0; };
    made.context.ops.post_send = [](ibv_qp* qp, ibv_send_wr* first, ibv_send_wr** bad) {
      int taken = 0;
      for (ibv_send_wr* each = first; each != nullptr; each = each->next) {
        if (self->post_fails && taken++ == self->posts_taken) {
          *bad = each;
          break;
        }
        pair_of(qp).sends.push_back(each->wr_id);
        if (each->opcode == IBV_WR_SEND_WITH_INV) {
          pair_of(qp).invalidated.push_back({each->invalidate_rkey, each->wr.rdma.rkey});
        }
      }
      return self->post_fails ? ENOMEM : 0;
    };
    made.context.ops.post_recv = [](ibv_qp* qp, ibv_recv_wr* first, ibv_recv_wr** bad) {
      int taken = 0;
      for (ibv_recv_wr* each = first; each != nullptr; each = each->next) {
        if (self->post_fails && taken++ == self->posts_taken) {
          *bad = each;
          break;
        }
        pair_of(qp).receives.push_back(each->wr_id);
      }
      return self->post_fails ? ENOMEM : 0;
    };
    return &made.context;
  };
  core.close_device = [](ibv_context* context) {
    ++context_of(context).device->closes;
    std::erase_if(self->contexts, [context](const auto& each) { return &each->context == context; });
    return 0;
  };
  core.get_device_name = [](ibv_device* device) -> const char* { return device->name; };
  core.get_device_index = [](ibv_device* device) { return device_of(device).index; };
  core.query_device = [](ibv_context* context, ibv_device_attr* out) {
    *out = {};
    out->max_sge = 16;
    out->max_sge_rd = 16;
    out->max_qp_wr = 4096;
    out->max_cqe = context_of(context).device->max_cqe;
    out->max_qp_init_rd_atom = 16;
    out->max_qp_rd_atom = 16;
    return 0;
  };
  core.query_port = [](ibv_context*, uint8_t, _compat_ibv_port_attr*) { return -1; };
  core.get_async_event = [](ibv_context* context, ibv_async_event* out) {
    Context& from = context_of(context);
    if (from.events.empty()) {
      from.bell.silence();
      errno = EAGAIN;
      return -1;
    }
    *out = from.events.front();
    from.events.pop_front();
    return 0;
  };
  core.ack_async_event = [](ibv_async_event*) {};
  core.alloc_pd = [](ibv_context* context) { return new ibv_pd{.context = context, .handle = 0}; };
  core.dealloc_pd = [](ibv_pd* pd) {
    delete pd;
    return 0;
  };
  core.reg_mr = [](ibv_pd* pd, void* begin, size_t bytes, int access) -> ibv_mr* {
    Device& device = device_of(pd->context->device);
    if (!device.registers) {
      errno = ENOMEM;
      return nullptr;
    }
    if (access != IBV_ACCESS_LOCAL_WRITE) {
      self->exposed.push_back(access);
    }
    ++device.regions;
    return new ibv_mr{.context = pd->context,
                      .pd = pd,
                      .addr = begin,
                      .length = bytes,
                      .handle = 0,
                      .lkey = 7,
                      .rkey = 0x100 + static_cast<uint32_t>(self->exposed.size())};
  };
  core.dereg_mr = [](ibv_mr* mr) {
    --device_of(mr->context->device).regions;
    delete mr;
    return 0;
  };
}

inline void PlayedRdma::play_queues() {
  core.create_comp_channel = [](ibv_context* context) {
    return new ibv_comp_channel{.context = context, .fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC), .refcnt = 0};
  };
  core.destroy_comp_channel = [](ibv_comp_channel* channel) {
    close(channel->fd);
    delete channel;
    return 0;
  };
  core.create_cq = [](ibv_context* context, int entries, void* owner, ibv_comp_channel* channel, int) -> ibv_cq* {
    ++self->queues_made;
    self->queues.push_back(std::make_unique<Queue>());
    ibv_cq& cq = self->queues.back()->cq;
    cq.context = context;
    cq.channel = channel;
    cq.cq_context = owner;
    cq.cqe = entries;
    return &cq;
  };
  core.destroy_cq = [](ibv_cq* cq) {
    std::erase_if(self->queues, [cq](const auto& each) { return &each->cq == cq; });
    return 0;
  };
  core.get_cq_event = [](ibv_comp_channel*, ibv_cq**, void**) {
    errno = EAGAIN;
    return -1;
  };
  core.ack_cq_events = [](ibv_cq*, unsigned) {};
  core.create_qp = [](ibv_pd* pd, ibv_qp_init_attr* wanted) -> ibv_qp* {
    self->queue_pairs.push_back(std::make_unique<QueuePair>());
    QueuePair& made = *self->queue_pairs.back();
    made.qp.context = pd->context;
    made.qp.qp_context = wanted->qp_context;
    made.qp.send_cq = wanted->send_cq;
    made.qp.recv_cq = wanted->recv_cq;
    made.qp.qp_num = static_cast<uint32_t>(self->queue_pairs.size()) + 16;
    made.entries = wanted->cap.max_send_wr + wanted->cap.max_recv_wr;
    Queue& queue = queue_of(wanted->recv_cq);
    queue.promised += made.entries;
    if (queue.promised > static_cast<uint32_t>(queue.cq.cqe)) {
      self->violations.push_back("a completion queue that can run over");
    }
    return &made.qp;
  };
  core.modify_qp = [](ibv_qp* qp, ibv_qp_attr* attributes, int) {
    QueuePair& pair = pair_of(qp);
    qp->state = attributes->qp_state;
    pair.states.push_back({qp->state, attributes->qp_access_flags});
    if (qp->state == IBV_QPS_RTR) {
      pair.reads_of_peer_max = attributes->max_dest_rd_atomic;
      pair.min_rnr_timer = attributes->min_rnr_timer;
    } else if (qp->state == IBV_QPS_RTS) {
      pair.reads_max = attributes->max_rd_atomic;
    }
    return 0;
  };
  core.query_qp = [](ibv_qp* qp, ibv_qp_attr* out, int, ibv_qp_init_attr*) {
    out->qp_state = qp->state;
    out->qp_access_flags = pair_of(qp).states.empty() ? 0 : pair_of(qp).states.front().second;
    return 0;
  };
  core.destroy_qp = [](ibv_qp* qp) {
    queue_of(qp->recv_cq).left += pair_of(qp).entries;
    std::erase_if(self->queue_pairs, [qp](const auto& each) { return &each->qp == qp; });
    return 0;
  };
}

inline void PlayedRdma::play_connections() {
  core.cm_get_devices = [](int* count) -> ibv_context** {
    if (std::ranges::none_of(self->devices, [](const auto& each) { return each.second->is_there; })) {
      errno = ENODEV;
      return nullptr;
    }
    auto* list = new ibv_context* [self->devices.size() + 1] {};
    ++self->lists;
    *count = 0;
    for (const auto& [name, device] : self->devices) {
      if (device->is_there) {
        list[(*count)++] = &device->of_cm;
      }
    }
    return list;
  };
  core.cm_free_devices = [](ibv_context** list) {
    --self->lists;
    delete[] list;
  };
  core.cm_create_event_channel = [] {
    self->channels.push_back(std::make_unique<Channel>());
    return &self->channels.back()->channel;
  };
  core.cm_destroy_event_channel = [](rdma_event_channel* channel) {
    EXPECT_TRUE(std::ranges::none_of(self->ids, [channel](const auto& id) { return id->channel == channel; }));
    std::erase_if(self->channels, [channel](const auto& each) { return &each->channel == channel; });
  };
  core.cm_migrate_id = [](rdma_cm_id* id, rdma_event_channel* to) {
    if (!self->migrates) {
      errno = EINVAL;
      return -1;
    }
    Channel& from = self->channel_of(*id);
    id->channel = to;
    for (rdma_cm_event* event : from.events) {
      if (event->id == id) {
        self->channel_of(to).events.push_back(event);
        self->channel_of(to).bell.ring();
      }
    }
    std::erase_if(from.events, [id](const rdma_cm_event* event) { return event->id == id; });
    return 0;
  };
  core.cm_create_id = [](rdma_event_channel* channel, rdma_cm_id** out, void* context, rdma_port_space space) {
    self->ids.push_back(std::make_unique<rdma_cm_id>());
    *out = self->ids.back().get();
    (*out)->channel = channel;
    (*out)->context = context;
    (*out)->ps = space;
    return 0;
  };
  core.cm_destroy_id = [](rdma_cm_id* id) {
    const auto at = std::ranges::find_if(self->ids, [id](const auto& each) { return each.get() == id; });
    if (at == self->ids.end()) {
      self->violations.push_back("an id that is destroyed twice");
      return -1;
    }
    Channel& channel = self->channel_of(*id);
    *id = {};
    self->ended.push_back(std::move(*at));
    self->ids.erase(at);
    std::erase_if(channel.events, [id](const rdma_cm_event* event) {
      const bool is_its = event->id == id;
      if (is_its) {
        delete event;
      }
      return is_its;
    });
    return 0;
  };
  core.cm_set_option = [](rdma_cm_id* id, int level, int name, void* value, size_t bytes) {
    if (level == RDMA_OPTION_ID && name == RDMA_OPTION_ID_AFONLY && bytes == sizeof(int)) {
      self->of_one_family[id] = *static_cast<int*>(value) != 0;
    }
    return 0;
  };
  core.cm_bind_addr = [](rdma_cm_id* id, sockaddr* raw) {
    ++self->binds;
    if (raw->sa_family == AF_INET6 && !self->has_ipv6) {
      errno = EAFNOSUPPORT;
      return -1;
    }
    self->families.push_back({raw->sa_family, raw->sa_family == AF_INET || self->of_one_family[id]});
    sockaddr_storage storage{};
    std::memcpy(&storage, raw, raw->sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
    const IpAddress address = control::read_address(storage).address;
    if (address == IpAddress() || address == IpAddress::v4(0)) {
      return 0;
    }
    const auto at = std::ranges::find_if(
        self->devices, [&](const auto& each) { return each.second->is_there && each.second->address == address; });
    if (at == self->devices.end()) {
      errno = ENODEV;
      return -1;
    }
    id->verbs = &at->second->of_cm;
    return 0;
  };
  core.cm_listen = [](rdma_cm_id*, int) { return 0; };
  // As the kernel has it: every peer may reach everything.
  core.cm_init_qp_attr = [](rdma_cm_id*, ibv_qp_attr* attributes, int* mask) {
    attributes->qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
    attributes->max_dest_rd_atomic = 200;
    *mask = 0;
    return 0;
  };
  play_calls();
  core.cm_accept = [](rdma_cm_id*, rdma_conn_param*) { return 0; };
  core.cm_reject = [](rdma_cm_id*, const void*, uint8_t) {
    ++self->rejects;
    return 0;
  };
  core.cm_notify = [](rdma_cm_id*, ibv_event_type) { return 0; };
  core.cm_disconnect = [](rdma_cm_id*) { return 0; };
  core.cm_get_event = [](rdma_event_channel* of, rdma_cm_event** out) {
    Channel& channel = self->channel_of(of);
    if (channel.events.empty()) {
      channel.bell.silence();
      errno = EAGAIN;
      return -1;
    }
    *out = channel.events.front();
    channel.events.pop_front();
    if (self->meanwhile) {
      std::exchange(self->meanwhile, nullptr)();
    }
    return 0;
  };
  core.cm_ack_event = [](rdma_cm_event* event) {
    delete event;
    return 0;
  };
}

inline void PlayedRdma::play_calls() {
  const auto refused = [](int error) {
    errno = error;
    return error == 0 ? 0 : -1;
  };
  static constexpr auto kRefused = refused;
  core.cm_resolve_addr = [](rdma_cm_id* id, sockaddr* own, sockaddr* server, int patience_ms) {
    if (own != nullptr) {
      self->violations.push_back("an own address that nobody has named");
    }
    sockaddr_storage storage{};
    std::memcpy(&storage, server, server->sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
    const control::SocketAddress to = control::read_address(storage);
    id->route.addr.dst_storage = storage;
    Call& call = self->calls[id];
    call.server = to.address;
    call.port = to.port;
    call.address_patience_ms = patience_ms;
    ++call.address_requests;
    return kRefused(self->resolve_error);
  };
  core.cm_resolve_route = [](rdma_cm_id* id, int) {
    self->calls[id].wants_route = true;
    return kRefused(self->route_error);
  };
  core.cm_connect = [](rdma_cm_id* id, rdma_conn_param* request) {
    Call& call = self->calls[id];
    call.request = *request;
    const auto* bytes = static_cast<const uint8_t*>(request->private_data);
    call.private_data.assign(bytes, bytes + request->private_data_len);
    call.receives_when_asked = self->queue_pairs.back()->receives.size();
    return kRefused(self->connect_error);
  };
  core.cm_establish = [](rdma_cm_id* id) {
    self->calls[id].established = true;
    return kRefused(self->establishes ? 0 : EINVAL);
  };
}

}  // namespace cw::dataplane
