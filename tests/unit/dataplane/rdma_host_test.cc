// RdmaHost on an rdma-core that the test plays: devices come and go, refuse, and fail; what is told of them is told once.
#include "dataplane/rnic/rdma_host.h"

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

#include "base/heap_buffer_pool.h"
#include "control/config/kernel_address.h"
#include "dataplane/monotonic_clock.h"

namespace cw::dataplane {
namespace {

using rnic::DeviceEvent;

constexpr uint16_t kRdmaPort = 20049;
const IpAddress kRdmaAddress = IpAddress::v4(0xc000'0201);

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
  };

  std::map<std::string, std::unique_ptr<Device>> devices;
  std::vector<std::unique_ptr<Context>> contexts;
  std::vector<std::unique_ptr<rdma_cm_id>> ids;    // that are alive
  std::vector<std::unique_ptr<rdma_cm_id>> ended;  // without what they had: whoever looks finds nothing
  std::vector<std::unique_ptr<Queue>> queues;
  std::vector<std::unique_ptr<QueuePair>> queue_pairs;
  std::vector<std::string> violations;
  uint32_t queues_made = 0;
  int lists = 0;  // of devices, that are not freed
  uint32_t binds = 0;
  uint32_t rejects = 0;
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
  void tell(rdma_cm_id* id, rdma_cm_event_type type, rdma_cm_id* listener = nullptr) {
    auto* event = new rdma_cm_event{};
    event->id = id;
    event->listen_id = listener;
    event->event = type;
    cm_events_.push_back(event);
    channel_bell_.ring();
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
    id->context = listener->context;
    (void)control::write_address({IpAddress::v4(0xc000'0209), 1234}, id->route.addr.dst_storage);
    tell(id, RDMA_CM_EVENT_CONNECT_REQUEST, listener);
    return id;
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

  Bell channel_bell_;
  rdma_event_channel channel_{};
  std::deque<rdma_cm_event*> cm_events_;
  int last_index_ = 0;
};

PlayedRdma::PlayedRdma() {
  self = this;
  channel_.fd = channel_bell_.fd;
  play_devices();
  play_queues();
  play_connections();
}

void PlayedRdma::play_devices() {
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
      self->violations.push_back("memory that peers may reach");
    }
    ++device.regions;
    return new ibv_mr{.context = pd->context, .pd = pd, .addr = begin, .length = bytes, .handle = 0, .lkey = 7, .rkey = 0};
  };
  core.dereg_mr = [](ibv_mr* mr) {
    --device_of(mr->context->device).regions;
    delete mr;
    return 0;
  };
}

void PlayedRdma::play_queues() {
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
    qp->state = attributes->qp_state;
    return 0;
  };
  core.query_qp = [](ibv_qp* qp, ibv_qp_attr* out, int, ibv_qp_init_attr*) {
    out->qp_state = qp->state;
    return 0;
  };
  core.destroy_qp = [](ibv_qp* qp) {
    queue_of(qp->recv_cq).left += pair_of(qp).entries;
    std::erase_if(self->queue_pairs, [qp](const auto& each) { return &each->qp == qp; });
    return 0;
  };
}

void PlayedRdma::play_connections() {
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
  core.cm_create_event_channel = [] { return &self->channel_; };
  core.cm_destroy_event_channel = [](rdma_event_channel*) {};
  core.cm_create_id = [](rdma_event_channel*, rdma_cm_id** out, void* context, rdma_port_space space) {
    self->ids.push_back(std::make_unique<rdma_cm_id>());
    *out = self->ids.back().get();
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
    *id = {};
    self->ended.push_back(std::move(*at));
    self->ids.erase(at);
    std::erase_if(self->cm_events_, [id](const rdma_cm_event* event) {
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
  core.cm_init_qp_attr = [](rdma_cm_id*, ibv_qp_attr*, int* mask) {
    *mask = 0;
    return 0;
  };
  core.cm_accept = [](rdma_cm_id*, rdma_conn_param*) { return 0; };
  core.cm_reject = [](rdma_cm_id*, const void*, uint8_t) {
    ++self->rejects;
    return 0;
  };
  core.cm_notify = [](rdma_cm_id*, ibv_event_type) { return 0; };
  core.cm_disconnect = [](rdma_cm_id*) { return 0; };
  core.cm_get_event = [](rdma_event_channel*, rdma_cm_event** out) {
    if (self->cm_events_.empty()) {
      self->channel_bell_.silence();
      errno = EAGAIN;
      return -1;
    }
    *out = self->cm_events_.front();
    self->cm_events_.pop_front();
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

// A core's host and transport on it, and a user that takes every connection.
struct RdmaRig {
  explicit RdmaRig(std::optional<IpAddress> address, const rnic::RnicOptions& options = {})
      : host({.listen = {{.port = kRdmaPort, .address = address}, {.port = kRdmaPort + 1, .address = address}}}, {pool.storage()},
             &rdma.core),
        transport(options, host, pool, random) {
    host.attach(transport);
  }
  ~RdmaRig() { EXPECT_EQ(rdma.violations, std::vector<std::string>()); }
  RdmaRig(const RdmaRig&) = delete;
  RdmaRig& operator=(const RdmaRig&) = delete;

  void turn(Duration pause = Duration::ms(1)) {
    now = now + pause;
    (void)host.receive(now);
    verbs::ConnectionEvent event;
    while (transport.poll_event(now, event)) {
      if (event.kind == verbs::ConnectionEvent::Kind::kConnectRequest) {
        const auto accepted = transport.accept(now, event.connection, {.receive_bytes_max = 1024});
        if (accepted.ok()) {
          accepted->queue_pair->post_receives(4);
          connections.push_back(event.connection);
        } else {
          transport.reject(now, event.connection, verbs::RejectReason::kNoResources, {});
        }
      }
    }
    (void)transport.flush(now);
    transport.on_deadline(now);
  }
  rdma_cm_id* connect(PlayedRdma::Device& device) {
    rdma_cm_id* const id = rdma.request(device);
    turn();
    if (rdma.is_alive(id)) {  // and not refused
      rdma.tell(id, RDMA_CM_EVENT_ESTABLISHED);
    }
    turn();
    return id;
  }
  void end(size_t which) {
    transport.disconnect(now, connections[which]);
    transport.destroy(connections[which]);
  }
  [[nodiscard]] uint64_t count(DeviceEvent event) const { return transport.stats().device_events[static_cast<size_t>(event)]; }
  // How often the log tells of it.
  [[nodiscard]] uint32_t told(DeviceEvent event) const {
    std::vector<verbs::TransportEvent> log(transport.log_capacity());
    log.resize(transport.copy_log(log));
    uint32_t sum = 0;
    for (const verbs::TransportEvent& each : log) {
      sum += each.event == "device_event" && each.reason == rnic::to_string(event) ? each.count : 0;
    }
    return sum;
  }
  [[nodiscard]] size_t ended_by(std::string_view cause) const {
    return static_cast<size_t>(std::ranges::count_if(
        connections, [&](verbs::ConnectionId each) { return transport.describe(each).error.cause == cause; }));
  }

  PlayedRdma rdma;
  HeapBufferPool pool{1024, 1024, 64};
  SeededRandom random{1};
  RdmaHost host;
  rnic::RnicTransport transport;
  std::vector<verbs::ConnectionId> connections;
  Instant now = monotonic_now();
};

// siw tells the connection manager of an IPv4 client at a listener for both by an address that no interface has.
TEST(RdmaHost, EveryAddressIsAListenerForEachFamily) {
  RdmaRig rig(std::nullopt);
  PlayedRdma::Device& device = rig.rdma.add("siw0", kRdmaAddress);
  ASSERT_TRUE(rig.transport.listen(kRdmaPort).ok());
  EXPECT_EQ(rig.rdma.families, (std::vector<std::pair<int, bool>>{{AF_INET, true}, {AF_INET6, true}}));
  EXPECT_EQ(device.opens, 1u);
  (void)rig.connect(device);
  EXPECT_EQ(rig.transport.stats().connections, 1u);
  rig.transport.unlisten(kRdmaPort);
  EXPECT_EQ(rig.rdma.ids.size(), 1u) << "the connection's";
}

TEST(RdmaHost, AHostWithoutIpv6IsListenedOnAllTheSame) {
  RdmaRig rig(std::nullopt);
  (void)rig.rdma.add("rxe0", kRdmaAddress);
  rig.rdma.has_ipv6 = false;
  EXPECT_TRUE(rig.transport.listen(kRdmaPort).ok());
  EXPECT_EQ(rig.rdma.ids.size(), 1u);
}

TEST(RdmaHost, SaysOnceThatItListensOnEveryAddress) {
  std::array<telemetry::VerbsListener, 3> rows{};
  RdmaRig any(std::nullopt);
  (void)any.rdma.add("rxe0", kRdmaAddress);
  ASSERT_TRUE(any.transport.listen(kRdmaPort).ok());
  any.host.describe(rows);
  EXPECT_EQ(rows[0].port, kRdmaPort);
  EXPECT_STREQ(rows[0].device.data(), "") << "of whatever device";
  EXPECT_EQ(rows[1].port, 0u) << "once for both families";
}

TEST(RdmaHost, SaysWhoseAddressItListensOn) {
  std::array<telemetry::VerbsListener, 3> rows{};
  RdmaRig rig(kRdmaAddress);
  PlayedRdma::Device& device = rig.rdma.add("rxe0", kRdmaAddress);
  ASSERT_TRUE(rig.transport.listen(kRdmaPort).ok());
  rig.host.describe(rows);
  EXPECT_STREQ(rows[0].device.data(), "rxe0");
  EXPECT_EQ(rows[0].is_lost, 0u);
  rig.rdma.remove(device);
  rig.turn();
  rig.host.describe(rows);
  EXPECT_EQ(rows[0].port, kRdmaPort);
  EXPECT_STREQ(rows[0].device.data(), "");
  EXPECT_EQ(rows[0].is_lost, 1u);
  rig.transport.unlisten(kRdmaPort);
  rig.host.describe(rows);
  EXPECT_EQ(rows[0].port, 0u);
}

TEST(RdmaHost, ADeviceThatIsRemovedUnderAListenerIsClosed) {
  RdmaRig rig(kRdmaAddress);
  PlayedRdma::Device& device = rig.rdma.add("rxe0", kRdmaAddress);
  ASSERT_TRUE(rig.transport.listen(kRdmaPort).ok());
  ASSERT_TRUE(rig.transport.listen(kRdmaPort + 1).ok());
  ASSERT_EQ(device.opens, 1u);
  ASSERT_GT(device.regions, 0);
  rig.rdma.remove(device);
  rig.turn();
  EXPECT_EQ(device.closes, 1u) << "the kernel waits for it";
  EXPECT_EQ(device.regions, 0);
  EXPECT_TRUE(rig.rdma.ids.empty());
  EXPECT_EQ(rig.count(DeviceEvent::kDeviceRemoved), 1u) << "of two listeners";
  EXPECT_EQ(rig.told(DeviceEvent::kDeviceRemoved), 1u);
}

TEST(RdmaHost, ARemovalIsToldOnceHoweverManyConnectionsItEnds) {
  for (const bool has_failed : {false, true}) {
    RdmaRig rig(kRdmaAddress);
    PlayedRdma::Device& device = rig.rdma.add("rxe0", kRdmaAddress);
    ASSERT_TRUE(rig.transport.listen(kRdmaPort).ok());
    ASSERT_TRUE(rig.transport.listen(kRdmaPort + 1).ok());
    for (int i = 0; i < 3; ++i) {
      (void)rig.connect(device);
    }
    ASSERT_EQ(rig.transport.stats().connections, 3u);
    if (has_failed) {
      rig.rdma.tell(device, IBV_EVENT_DEVICE_FATAL);
      rig.turn();
    }
    rig.rdma.remove(device);
    rig.turn();
    rig.turn();
    EXPECT_EQ(rig.count(DeviceEvent::kDeviceRemoved), 1u);
    EXPECT_EQ(rig.told(DeviceEvent::kDeviceRemoved), 1u);
    EXPECT_EQ(rig.ended_by(has_failed ? "device_fatal" : "device_removed"), 3u);
    EXPECT_EQ(device.closes, 1u);
  }
}

// When it has gone already, its listeners are told one after the other.
TEST(RdmaHost, ARemovalIsToldOnceWhenTheDeviceWasClosedBefore) {
  RdmaRig rig(kRdmaAddress);
  PlayedRdma::Device& device = rig.rdma.add("rxe0", kRdmaAddress);
  ASSERT_TRUE(rig.transport.listen(kRdmaPort).ok());
  ASSERT_TRUE(rig.transport.listen(kRdmaPort + 1).ok());
  rig.rdma.tell(device, IBV_EVENT_DEVICE_FATAL);
  rig.turn();
  ASSERT_EQ(device.closes, 1u);
  device.is_there = false;
  const std::vector<rdma_cm_id*> bound = {rig.rdma.ids[0].get(), rig.rdma.ids[1].get()};
  for (rdma_cm_id* id : bound) {
    if (rig.rdma.is_alive(id)) {
      rig.rdma.tell(id, RDMA_CM_EVENT_DEVICE_REMOVAL);
    }
    rig.turn();
  }
  EXPECT_EQ(rig.count(DeviceEvent::kDeviceRemoved), 1u);
  EXPECT_TRUE(rig.rdma.ids.empty());
}

// rxe and siw, when uverbs was loaded behind the connection manager: nobody is told before all have let go of the device.
TEST(RdmaHost, ADeviceWhoseNodeIsGoneIsLetGoOfBeforeAnybodySaysSo) {
  for (const auto& address : {std::optional<IpAddress>(), std::optional(kRdmaAddress)}) {
    for (const uint32_t connections : {0u, 3u}) {
      RdmaRig rig(address);
      PlayedRdma::Device& device = rig.rdma.add("rxe0", kRdmaAddress);
      rig.rdma.add_node(device);
      ASSERT_TRUE(rig.transport.listen(kRdmaPort).ok());
      for (uint32_t i = 0; i < connections; ++i) {
        (void)rig.connect(device);
      }
      ASSERT_EQ(rig.transport.stats().connections, connections);
      ASSERT_TRUE(device.files_of_cm->are_open());
      rig.turn(Duration::seconds(1));
      ASSERT_EQ(rig.count(DeviceEvent::kDeviceRemoved), 0u);
      PlayedRdma::remove_node(device);
      rig.turn(Duration::seconds(1));
      EXPECT_EQ(device.closes, 1u);
      EXPECT_EQ(device.regions, 0);
      EXPECT_FALSE(device.files_of_cm->are_open()) << "librdmacm's";
      EXPECT_EQ(rig.rdma.ids.size(), address ? 0u : 2u) << "listeners of any address stay";
      EXPECT_EQ(rig.ended_by("device_removed"), connections);
      EXPECT_EQ(rig.count(DeviceEvent::kDeviceRemoved), 1u);
      rig.turn(Duration::ms(100));
      rig.rdma.replace(device);
      rig.rdma.add_node(device);
      rig.turn(Duration::seconds(2));
      (void)rig.connect(device);
      EXPECT_EQ(rig.transport.stats().connections, connections + 1) << "nobody restarted anything";
      EXPECT_EQ(rig.count(DeviceEvent::kDeviceRemoved), 1u);
      EXPECT_TRUE(device.files_of_cm->are_open());
      EXPECT_EQ(rig.rdma.lists, 1);
      PlayedRdma::remove_node(device);
      rig.turn(Duration::seconds(1));
      EXPECT_EQ(device.closes, 2u) << "again";
      EXPECT_EQ(rig.count(DeviceEvent::kDeviceRemoved), 2u);
    }
  }
}

// Whose connection manager was told first, and while another device is there.
TEST(RdmaHost, WhatLibrdmacmHasOfARemovedDeviceIsLetGoOfAndNothingElse) {
  RdmaRig rig(std::nullopt);
  PlayedRdma::Device& device = rig.rdma.add("rxe0", kRdmaAddress);
  PlayedRdma::Device& other = rig.rdma.add("rxe1", IpAddress::v4(0xc000'0202));
  ASSERT_TRUE(rig.transport.listen(kRdmaPort).ok());
  (void)rig.connect(device);
  (void)rig.connect(other);
  rig.rdma.remove(device);
  rig.turn();
  EXPECT_FALSE(device.files_of_cm->are_open());
  EXPECT_TRUE(other.files_of_cm->are_open());
  EXPECT_EQ(rig.ended_by("device_removed"), 1u);
  EXPECT_EQ(other.closes, 0u);
}

// It is missing among librdmacm's devices already, and its node is not: before its successor is taken, it is let go of.
TEST(RdmaHost, ADeviceThatIsMissingWhenAnotherOneComesIsGone) {
  RdmaRig rig(std::nullopt);
  PlayedRdma::Device& device = rig.rdma.add("rxe0", kRdmaAddress);
  ASSERT_TRUE(rig.transport.listen(kRdmaPort).ok());
  (void)rig.connect(device);
  device.is_there = false;
  PlayedRdma::Device& other = rig.rdma.add("rxe1", IpAddress::v4(0xc000'0202));
  (void)rig.connect(other);
  EXPECT_EQ(rig.count(DeviceEvent::kDeviceRemoved), 1u);
  EXPECT_EQ(rig.ended_by("device_removed"), 1u);
  EXPECT_FALSE(device.files_of_cm->are_open());
  EXPECT_TRUE(other.files_of_cm->are_open());
  EXPECT_EQ(rig.rdma.queue_pairs.size(), 1u);
}

// No driver in software has these events; those of RNICs do.
TEST(RdmaHost, AnEventOfAQueuePairEndsItsConnectionAndNoOther) {
  for (const auto& [type, cause] : {std::pair(IBV_EVENT_QP_FATAL, "queue_pair"), std::pair(IBV_EVENT_QP_REQ_ERR, "request_error"),
                                    std::pair(IBV_EVENT_QP_ACCESS_ERR, "access_error")}) {
    RdmaRig rig(std::nullopt);
    PlayedRdma::Device& device = rig.rdma.add("rnic0", kRdmaAddress);
    ASSERT_TRUE(rig.transport.listen(kRdmaPort).ok());
    for (int i = 0; i < 3; ++i) {
      (void)rig.connect(device);
    }
    rig.rdma.tell(device, type, nullptr, &rig.rdma.queue_pairs[1]->qp);
    rig.turn();
    EXPECT_EQ(rig.ended_by(cause), 1u) << cause;
    EXPECT_EQ(rig.ended_by("none"), 2u) << cause;
    EXPECT_EQ(rig.transport.describe(rig.connections[1]).error.cause, cause);
    rig.end(1);
    rig.turn();
    EXPECT_EQ(rig.rdma.queue_pairs.size(), 2u);
    EXPECT_EQ(device.closes, 0u);
  }
}

TEST(RdmaHost, AFailedDeviceIsToldOnceWhetherAnybodyIsOnItOrNot) {
  for (const int connections : {0, 3}) {
    RdmaRig rig(std::nullopt);
    PlayedRdma::Device& device = rig.rdma.add("rxe0", kRdmaAddress);
    ASSERT_TRUE(rig.transport.listen(kRdmaPort).ok());
    for (int i = 0; i < connections; ++i) {
      (void)rig.connect(device);
    }
    rig.rdma.tell(device, IBV_EVENT_DEVICE_FATAL);
    rig.turn();
    EXPECT_EQ(rig.count(DeviceEvent::kDeviceFatal), 1u) << connections;
    EXPECT_EQ(rig.told(DeviceEvent::kDeviceFatal), 1u) << connections;
    EXPECT_EQ(rig.ended_by("device_fatal"), static_cast<size_t>(connections));
    EXPECT_EQ(device.closes, connections == 0 ? 1u : 0u);
  }
}

TEST(RdmaHost, AFailedCompletionQueueIsToldOnceAndEndsThoseThatAreOnIt) {
  RdmaRig rig(std::nullopt, {.send_queue_depth = 64, .receive_queue_depth = 32});
  PlayedRdma::Device& device = rig.rdma.add("rxe0", kRdmaAddress);
  device.max_cqe = 2 * (2 * 64 + 32);
  ASSERT_TRUE(rig.transport.listen(kRdmaPort).ok());
  for (int i = 0; i < 3; ++i) {
    (void)rig.connect(device);
  }
  ASSERT_EQ(rig.rdma.queues.size(), 2u);
  rig.rdma.tell(device, IBV_EVENT_CQ_ERR, &rig.rdma.queues[0]->cq);
  rig.turn();
  EXPECT_EQ(rig.count(DeviceEvent::kCompletionQueueError), 1u);
  EXPECT_EQ(rig.told(DeviceEvent::kCompletionQueueError), 1u);
  EXPECT_EQ(rig.ended_by("completion_queue"), 2u);
  rig.end(0);
  rig.end(1);
  rig.turn();
  rig.turn();
  EXPECT_EQ(rig.rdma.queues.size(), 1u) << "nobody is on it any more";
}

TEST(RdmaHost, EventsOfPortsAreCounted) {
  RdmaRig rig(kRdmaAddress);
  PlayedRdma::Device& device = rig.rdma.add("rxe0", kRdmaAddress);
  ASSERT_TRUE(rig.transport.listen(kRdmaPort).ok());
  (void)rig.connect(device);
  rig.rdma.tell(device, IBV_EVENT_PORT_ERR);
  rig.rdma.tell(device, IBV_EVENT_PORT_ACTIVE);
  rig.turn();
  EXPECT_EQ(rig.count(DeviceEvent::kPortDown), 1u);
  EXPECT_EQ(rig.count(DeviceEvent::kPortUp), 1u);
  EXPECT_EQ(rig.told(DeviceEvent::kPortDown), 1u);
  EXPECT_EQ(rig.rdma.queue_pairs.at(0)->qp.state, IBV_QPS_RTS) << "it goes on";
  EXPECT_EQ(device.closes, 0u);
}

TEST(RdmaHost, ADeviceThatDoesNotRegisterAtListenIsSaidAndNotAskedAgainAtOnce) {
  RdmaRig rig(std::nullopt);
  PlayedRdma::Device& device = rig.rdma.add("rxe0", kRdmaAddress);
  device.registers = false;
  EXPECT_FALSE(rig.transport.listen(kRdmaPort).ok());
  EXPECT_EQ(rig.count(DeviceEvent::kRefused), 1u);
  EXPECT_EQ(rig.told(DeviceEvent::kRefused), 1u);
  EXPECT_EQ(device.opens, 1u) << "for both families";
  EXPECT_EQ(device.closes, 1u);
  EXPECT_TRUE(rig.rdma.ids.empty()) << "a listener that can take nobody";
  EXPECT_FALSE(rig.transport.listen(kRdmaPort).ok());
  for (int i = 0; i < 1000; ++i) {
    rig.turn();
  }
  EXPECT_EQ(device.opens, 1u);
}

TEST(RdmaHost, ADeviceThatRefusedIsAskedAgainAfterTenSeconds) {
  RdmaRig rig(std::nullopt);
  ASSERT_TRUE(rig.transport.listen(kRdmaPort).ok()) << "devices may come later";
  PlayedRdma::Device& device = rig.rdma.add("rxe0", kRdmaAddress);
  device.registers = false;
  for (int i = 0; i < 20; ++i) {
    (void)rig.rdma.request(device);
    rig.turn();
  }
  EXPECT_EQ(device.opens, 1u) << "peers may ask as often as they like";
  EXPECT_EQ(rig.rdma.rejects, 20u);
  EXPECT_EQ(rig.count(DeviceEvent::kRefused), 1u);
  device.registers = true;
  rig.turn(Duration::seconds(11));
  (void)rig.connect(device);
  EXPECT_EQ(device.opens, 2u);
  EXPECT_EQ(rig.transport.stats().connections, 1u);
}

TEST(RdmaHost, AnotherDeviceDoesNotAnswerForTheOneThatLayThere) {
  RdmaRig rig(std::nullopt);
  ASSERT_TRUE(rig.transport.listen(kRdmaPort).ok());
  PlayedRdma::Device& device = rig.rdma.add("rxe0", kRdmaAddress);
  device.registers = false;
  (void)rig.rdma.request(device);
  rig.turn();
  ASSERT_EQ(rig.rdma.rejects, 1u);
  rig.rdma.replace(device);
  (void)rig.connect(device);
  EXPECT_EQ(rig.transport.stats().connections, 1u);
  EXPECT_EQ(rig.rdma.rejects, 1u);
}

// Before rdma-core 34 nobody tells which one it is: what goes is forgotten.
TEST(RdmaHost, ARefusalGoesWithItsDevice) {
  RdmaRig rig(kRdmaAddress);
  rig.rdma.core.get_device_index = nullptr;
  PlayedRdma::Device& device = rig.rdma.add("rxe0", kRdmaAddress);
  ASSERT_TRUE(rig.transport.listen(kRdmaPort).ok());
  rig.rdma.tell(device, IBV_EVENT_DEVICE_FATAL);
  rig.turn();
  device.registers = false;
  (void)rig.rdma.request(device);
  rig.turn();
  ASSERT_EQ(rig.count(DeviceEvent::kRefused), 1u);
  rig.rdma.remove(device);
  rig.turn();
  rig.rdma.replace(device);
  rig.turn(Duration::ms(1100));
  (void)rig.connect(device);
  EXPECT_EQ(rig.transport.stats().connections, 1u);
}

TEST(RdmaHost, AListenerThatComesBackHasItsDeviceOpenAndSaysSoOnce) {
  RdmaRig rig(kRdmaAddress);
  PlayedRdma::Device& device = rig.rdma.add("rxe0", kRdmaAddress);
  ASSERT_TRUE(rig.transport.listen(kRdmaPort).ok());
  rig.rdma.remove(device);
  rig.turn();
  rig.turn(Duration::seconds(2));
  EXPECT_EQ(rig.count(DeviceEvent::kListening), 0u);
  rig.rdma.replace(device);
  for (int i = 0; i < 10; ++i) {
    rig.turn(Duration::seconds(1));
  }
  EXPECT_EQ(device.opens, 2u) << "its first connection does not wait until memory is registered";
  EXPECT_GT(device.regions, 0);
  EXPECT_EQ(rig.count(DeviceEvent::kListening), 1u);
  EXPECT_EQ(rig.told(DeviceEvent::kListening), 1u);
  (void)rig.connect(device);
  EXPECT_EQ(rig.transport.stats().connections, 1u);
  EXPECT_EQ(device.opens, 2u);
}

TEST(RdmaHost, AListenerThatCameBackIsToldOfTheNextRemoval) {
  RdmaRig rig(kRdmaAddress);
  PlayedRdma::Device& device = rig.rdma.add("rxe0", kRdmaAddress);
  ASSERT_TRUE(rig.transport.listen(kRdmaPort).ok());
  for (uint32_t i = 1; i <= 3; ++i) {
    rig.rdma.remove(device);
    rig.turn();
    rig.rdma.replace(device);
    rig.turn(Duration::ms(1100));
    EXPECT_EQ(rig.count(DeviceEvent::kDeviceRemoved), i);
    EXPECT_EQ(rig.count(DeviceEvent::kListening), i) << "a second after each, however long the one before took";
    EXPECT_EQ(device.closes, i);
  }
}

TEST(RdmaHost, ALostListenerIsTriedLessAndLessOften) {
  RdmaRig rig(kRdmaAddress);
  PlayedRdma::Device& device = rig.rdma.add("rxe0", kRdmaAddress);
  ASSERT_TRUE(rig.transport.listen(kRdmaPort).ok());
  rig.rdma.remove(device);
  rig.turn();
  std::vector<int> pauses;  // in tenths of a second
  uint32_t binds = rig.rdma.binds;
  int since = 0;
  for (int i = 0; i < 1300; ++i) {
    rig.turn(Duration::ms(100));
    ++since;
    if (rig.rdma.binds != binds) {
      binds = rig.rdma.binds;
      pauses.push_back(std::exchange(since, 0));
    }
  }
  EXPECT_EQ(pauses, (std::vector<int>{10, 20, 40, 80, 160, 300, 300, 300}));
}

TEST(RdmaHost, ADeviceThatComesBackAndDoesNotRegisterIsNotListenedOn) {
  RdmaRig rig(kRdmaAddress);
  PlayedRdma::Device& device = rig.rdma.add("rxe0", kRdmaAddress);
  ASSERT_TRUE(rig.transport.listen(kRdmaPort).ok());
  rig.rdma.remove(device);
  rig.turn();
  rig.rdma.replace(device);
  device.registers = false;
  for (int i = 0; i < 6; ++i) {
    rig.turn(Duration::seconds(1));
  }
  EXPECT_TRUE(rig.rdma.ids.empty()) << "a listener that can take nobody";
  EXPECT_EQ(rig.count(DeviceEvent::kRefused), 1u);
  EXPECT_EQ(rig.count(DeviceEvent::kListening), 0u);
  device.registers = true;
  for (int i = 0; i < 60; ++i) {
    rig.turn(Duration::seconds(1));
  }
  EXPECT_EQ(rig.count(DeviceEvent::kListening), 1u);
}

// What the peer sent is looked at first, and may end the connection that the event is about.
TEST(RdmaHost, AnEventOfAConnectionThatItsFirstMessageHasEndedIsOfNobody) {
  RdmaRig rig(std::nullopt, {.connections_max = 1});
  PlayedRdma::Device& device = rig.rdma.add("rxe0", kRdmaAddress);
  ASSERT_TRUE(rig.transport.listen(kRdmaPort).ok());
  rdma_cm_id* const first = rig.rdma.request(device);
  rdma_cm_id* const second = rig.rdma.request(device);
  rig.turn();
  ASSERT_EQ(rig.rdma.queue_pairs.size(), 2u);
  rig.rdma.tell(first, RDMA_CM_EVENT_ESTABLISHED);
  rig.turn();
  PlayedRdma::QueuePair& late = *rig.rdma.queue_pairs[1];
  ASSERT_FALSE(late.receives.empty());
  rig.rdma.meanwhile = [&] { rig.rdma.complete(late, late.receives[0], 8); };
  rig.rdma.tell(second, RDMA_CM_EVENT_ESTABLISHED);
  rig.turn();
  EXPECT_FALSE(rig.rdma.is_alive(second)) << "there is room for one connection";
  EXPECT_TRUE(rig.rdma.is_alive(first));
}

TEST(RdmaHost, RoomForCompletionsIsTakenBeforeWorkIsPostedAndFreeOnceTheyAreDrained) {
  RdmaRig rig(std::nullopt, {.send_queue_depth = 64, .receive_queue_depth = 32});
  PlayedRdma::Device& device = rig.rdma.add("rxe0", kRdmaAddress);
  device.max_cqe = 2 * 64 + 32;  // one queue pair's
  ASSERT_TRUE(rig.transport.listen(kRdmaPort).ok());
  (void)rig.connect(device);
  EXPECT_EQ(rig.rdma.queues_made, 1u);
  (void)rig.connect(device);
  EXPECT_EQ(rig.rdma.queues_made, 2u) << "the first one could run over";
  // Its completions may lie there yet: a queue pair that is made before they are drained has another queue.
  (void)rig.rdma.request(device);
  rig.now = rig.now + Duration::ms(1);
  (void)rig.host.receive(rig.now);
  rig.end(0);
  verbs::ConnectionEvent asked;
  ASSERT_TRUE(rig.transport.poll_event(rig.now, asked) && asked.kind == verbs::ConnectionEvent::Kind::kConnectRequest);
  ASSERT_TRUE(rig.transport.accept(rig.now, asked.connection, {.receive_bytes_max = 1024}).ok());
  EXPECT_EQ(rig.rdma.queues_made, 3u);
  rig.turn();
  (void)rig.connect(device);
  EXPECT_EQ(rig.rdma.queues_made, 3u) << "the first one was found empty";
}

// What libsiw maps is told by where it begins, and one such place it takes for none: the queue lies over that.
TEST(RdmaHost, TheFirstQueueOfSiwLiesOverThePlaceThatItTakesForNone) {
  RdmaRig rig(std::nullopt);
  PlayedRdma::Device& device = rig.rdma.add("siw0", kRdmaAddress);
  device.device.transport_type = IBV_TRANSPORT_IWARP;
  device.max_cqe = 1 << 20;
  ASSERT_TRUE(rig.transport.listen(kRdmaPort).ok());
  (void)rig.connect(device);
  ASSERT_EQ(rig.rdma.queues.size(), 1u);
  constexpr int kSiwCqeBytes = 32;
  constexpr int kPageBytes = 4096;
  EXPECT_GT(rig.rdma.queues[0]->cq.cqe * kSiwCqeBytes / kPageBytes, 0x90);
}

TEST(RdmaHost, AKeyThatIsInvalidatedStandsWhereLibsiwLooks) {
  RdmaRig rig(std::nullopt);
  PlayedRdma::Device& device = rig.rdma.add("siw0", kRdmaAddress);
  ASSERT_TRUE(rig.transport.listen(kRdmaPort).ok());
  (void)rig.connect(device);
  const std::vector<rnic::SendWork> sends = {{.id = 1, .verb = rnic::WorkVerb::kSendWithInvalidate, .rkey = verbs::Rkey(0x1234)}};
  EXPECT_EQ(rig.host.post_sends(rnic::RnicId(rig.connections.at(0).value()), sends), 1u);
  EXPECT_EQ(rig.rdma.queue_pairs[0]->invalidated, (std::vector<std::pair<uint32_t, uint32_t>>{{0x1234, 0x1234}}));
}

TEST(RdmaHost, AFailedPostThatNamesNoRequestHasTakenAll) {
  for (const int taken : {-1, 1}) {
    RdmaRig rig(std::nullopt);
    PlayedRdma::Device& device = rig.rdma.add("siw0", kRdmaAddress);
    ASSERT_TRUE(rig.transport.listen(kRdmaPort).ok());
    (void)rig.connect(device);
    const rnic::RnicId id(rig.connections.at(0).value());
    const std::vector<rnic::SendWork> sends = {{.id = 1}, {.id = 2}, {.id = 3}};
    const std::vector<rnic::ReceiveWork> receives = {{.id = 4}, {.id = 5}, {.id = 6}};
    rig.rdma.post_fails = true;
    rig.rdma.posts_taken = taken;
    EXPECT_EQ(rig.host.post_sends(id, sends), taken < 0 ? 3u : 1u);
    EXPECT_EQ(rig.rdma.queue_pairs[0]->qp.state, IBV_QPS_ERR) << "what it has is flushed";
    rig.rdma.queue_pairs[0]->qp.state = IBV_QPS_RTS;
    EXPECT_EQ(rig.host.post_receives(id, receives), taken < 0 ? 3u : 1u);
    EXPECT_EQ(rig.rdma.queue_pairs[0]->qp.state, IBV_QPS_ERR);
  }
}

}  // namespace
}  // namespace cw::dataplane
