#include "dataplane/rnic/rdma_host.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/assert.h"
#include "control/config/kernel_address.h"
#include "dataplane/monotonic_clock.h"
#include "telemetry/log.h"

namespace cw::dataplane {
namespace {

constexpr uint32_t kCompletionsInTurn = 512;  // of one queue
constexpr uint32_t kCmEventsInTurn = 16;
constexpr int kAsyncEventsInTurn = 64;
// Looking at the descriptors is a system call; completions are not.
constexpr Duration kQuietEvents = Duration::us(20);
// A device that is made anew is soon there; one that is not costs system calls with each attempt.
constexpr Duration kListenRetry = Duration::seconds(1);
constexpr Duration kListenRetryMax = Duration::seconds(30);
constexpr Duration kOpenRetry = Duration::seconds(10);
constexpr Duration kRemovalLook = Duration::ms(500);
// A core that takes nothing for so long has other trouble, and clients wait some seconds.
constexpr Duration kDealtPatience = Duration::ms(500);
constexpr IpAddress kWildcardV6{};
const IpAddress kWildcardV4 = IpAddress::v4(0);

rnic::DeviceEvent event_of(ibv_event_type type) {
  switch (type) {
    case IBV_EVENT_QP_ACCESS_ERR:
      return rnic::DeviceEvent::kAccessError;
    case IBV_EVENT_QP_REQ_ERR:
      return rnic::DeviceEvent::kRequestError;
    case IBV_EVENT_QP_FATAL:
      return rnic::DeviceEvent::kQueuePairFatal;
    case IBV_EVENT_CQ_ERR:
      return rnic::DeviceEvent::kCompletionQueueError;
    case IBV_EVENT_DEVICE_FATAL:
      return rnic::DeviceEvent::kDeviceFatal;
    case IBV_EVENT_COMM_EST:
      return rnic::DeviceEvent::kEstablished;
    case IBV_EVENT_PORT_ERR:
      return rnic::DeviceEvent::kPortDown;
    case IBV_EVENT_PORT_ACTIVE:
      return rnic::DeviceEvent::kPortUp;
    case IBV_EVENT_LID_CHANGE:
    case IBV_EVENT_PKEY_CHANGE:
    case IBV_EVENT_GID_CHANGE:
    case IBV_EVENT_SM_CHANGE:
    case IBV_EVENT_CLIENT_REREGISTER:
      return rnic::DeviceEvent::kPortChange;
    default:
      return rnic::DeviceEvent::kOther;
  }
}

bool is_of_queue_pair(ibv_event_type type) {
  switch (type) {
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_COMM_EST:
    case IBV_EVENT_SQ_DRAINED:
    case IBV_EVENT_PATH_MIG:
    case IBV_EVENT_PATH_MIG_ERR:
    case IBV_EVENT_QP_LAST_WQE_REACHED:
      return true;
    default:
      return false;
  }
}

// What ends connections, or keeps clients out, without a word of theirs. Only what no client can bring about.
void log_device_event(rnic::DeviceEvent event, const char* device, int port) {
  using enum telemetry::LogFieldName;
  switch (event) {
    case rnic::DeviceEvent::kPortDown:
      return telemetry::log_warning({{kDevice, device}, {kState, "down"}}, "RDMA device {}: port {} is down", device, port);
    case rnic::DeviceEvent::kPortUp:
      return telemetry::log_info({{kDevice, device}, {kState, "up"}}, "RDMA device {}: port {} is ACTIVE", device, port);
    case rnic::DeviceEvent::kDeviceFatal:
      return telemetry::log_error({{kDevice, device}}, "RDMA device {} has failed: its connections end", device);
    case rnic::DeviceEvent::kCompletionQueueError:
      return telemetry::log_error({{kDevice, device}}, "RDMA device {}: a completion queue has failed: the connections on it end",
                                  device);
    default:
      return;
  }
}

ino_t node_of(const ibv_device& device) {
  struct stat found {};
  return device.dev_path[0] != '\0' && stat(device.dev_path, &found) == 0 ? found.st_ino : 0;
}

// The kernel waits for a device of librdmacm's until its descriptors are closed, and librdmacm has no function that does so: it
// will close their numbers, which have to stay its own until then.
void let_go(const ibv_context& context) {
  const int nothing = eventfd(0, EFD_CLOEXEC);
  if (nothing >= 0) {
    for (const int fd : {context.cmd_fd, context.async_fd}) {
      (void)dup3(nothing, fd, O_CLOEXEC);
    }
    close(nothing);
  }
}

}  // namespace

RdmaHost::RdmaHost(const RdmaHostOptions& options, std::vector<MutableBytes> memory, const RdmaCore* core)
    : options_(options), memory_(std::move(memory)), given_core_(core), epoll_fd_(epoll_create1(EPOLL_CLOEXEC)) {
  CW_ASSERT(epoll_fd_ >= 0);
}

RdmaHost::~RdmaHost() {
  // Ids that nobody has taken yet are of the listening core's channel.
  for (uint32_t core = 0; dealer_ != nullptr && channel_ != nullptr && core < dealer_->cores(); ++core) {
    if (options_.listens || core == dealt_to_) {
      refuse_dealt(core);
    }
  }
  for (const auto& listener : listeners_) {
    if (listener->id != nullptr) {
      (void)core_->cm_destroy_id(listener->id);
    }
  }
  for (const auto& peer : peers_) {
    if (peer != nullptr && peer->id != nullptr) {
      release(peer->connection);
    }
  }
  devices_.clear();
  if (cm_list_ != nullptr) {
    core_->cm_free_devices(cm_list_);
  }
  if (channel_ != nullptr) {
    core_->cm_destroy_event_channel(channel_);
  }
  close(epoll_fd_);
}

const RdmaHost::Peer* RdmaHost::find(rnic::RnicId connection) const {
  const auto slot = static_cast<uint32_t>(connection.value());
  return slot < peers_.size() && peers_[slot] != nullptr && peers_[slot]->id != nullptr && peers_[slot]->connection == connection
             ? peers_[slot].get()
             : nullptr;
}

RdmaHost::Peer* RdmaHost::find(rnic::RnicId connection) {
  return const_cast<Peer*>(static_cast<const RdmaHost*>(this)->find(connection));
}

void RdmaHost::watch(int fd) {
  epoll_event event{.events = EPOLLIN, .data = {.fd = fd}};
  (void)epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, fd, &event);
}

// ---- Listening ----

// With the first listener, or call: who has none needs no library.
bool RdmaHost::start() {
  if (channel_ != nullptr) {
    return true;
  }
  std::string problem;
  const RdmaCore* core = given_core_ != nullptr ? given_core_ : RdmaCore::load(problem);
  channel_ = core == nullptr ? nullptr : core->cm_create_event_channel();
  if (channel_ == nullptr) {
    return false;
  }
  core_ = core;
  (void)fcntl(channel_->fd, F_SETFL, fcntl(channel_->fd, F_GETFL) | O_NONBLOCK);
  watch(channel_->fd);
  if (dealer_ != nullptr) {
    watch(dealer_->fd(dealt_to_));
  }
  return true;
}

Status RdmaHost::listen(uint16_t port) {
  const auto has_port = [port](const auto& listener) { return listener->wanted.port == port; };
  if ((!options_.listens && dealer_ == nullptr) || std::ranges::any_of(listeners_, has_port)) {
    return {};
  }
  if (!start()) {
    return cw::fail(Error::kNoResources);
  }
  const auto listed = std::ranges::find(options_.listen, port, &RdmaListen::port);
  const RdmaListen wanted = listed == options_.listen.end() ? RdmaListen{.port = port} : *listed;
  if (!options_.listens) {
    return open_devices_early(wanted) ? Status{} : cw::fail(Error::kNoResources);
  }
  if (wanted.address) {
    return open_listener(wanted, *wanted.address) ? Status{} : cw::fail(Error::kNoResources);
  }
  // One for each family. At a listener for both, siw names the address that an IPv4 client calls as IPv6 writes it
  // (::ffff:192.0.2.1), and the connection manager drops the request: no interface has that.
  bool is_open = false;
  for (const IpAddress& any : {kWildcardV4, kWildcardV6}) {
    if (open_listener(wanted, any)) {
      is_open = true;
    } else {
      telemetry::log_warning("port {} of rdma-core has no listener for {}: {}", port, any.is_v4() ? "IPv4" : "IPv6",
                             std::strerror(errno));
    }
  }
  return is_open ? Status{} : cw::fail(Error::kNoResources);
}

bool RdmaHost::listen_on(Instant now, Listener& listener) {
  if (core_->cm_create_id(channel_, &listener.id, &listener, RDMA_PS_TCP) != 0) {
    listener.id = nullptr;
    return false;
  }
  sockaddr_storage raw{};
  (void)control::write_address({listener.address, listener.wanted.port}, raw);
  int yes = 1;
  const bool is_of_one_family = listener.address.is_v4() ||
                                core_->cm_set_option(listener.id, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &yes, sizeof(yes)) == 0;
  // An address of another device than the one that is named would take no connection, nor does one of a device that is going.
  if (!is_of_one_family || core_->cm_bind_addr(listener.id, reinterpret_cast<sockaddr*>(&raw)) != 0 ||
      (listener.id->verbs != nullptr &&
       (!serves(listener.wanted, listener.id->verbs->device) || !is_there(now, listener.id->verbs->device))) ||
      core_->cm_listen(listener.id, options_.backlog) != 0) {
    const int why = errno;
    (void)core_->cm_destroy_id(std::exchange(listener.id, nullptr));
    errno = why;
    return false;
  }
  return true;
}

bool RdmaHost::open_listener(const RdmaListen& wanted, const IpAddress& address) {
  const Instant now = monotonic_now();
  auto listener = std::make_unique<Listener>(Listener{.wanted = wanted, .address = address});
  if (!listen_on(now, *listener)) {
    return false;
  }
  const bool can_serve = open_devices(now, wanted, listener->id->verbs);
  if (!can_serve) {
    (void)core_->cm_destroy_id(listener->id);
    return false;
  }
  listeners_.push_back(std::move(listener));
  return true;
}

bool RdmaHost::serves(const RdmaListen& wanted, ibv_device* device) const {
  return wanted.device.empty() || wanted.device == core_->get_device_name(device);
}

// All that a listener's connections can come by, which may be bound to one device: memory takes long to register, and a core that
// does so for the first connection keeps its others waiting. False: there are some, and none can be used. Those that appear later
// are opened with their first connection.
bool RdmaHost::open_devices(Instant now, const RdmaListen& wanted, ibv_context* bound_to) {
  if (bound_to != nullptr) {
    return device_of(now, bound_to->device) != nullptr;
  }
  look_for_devices(now);
  uint32_t found = 0;
  uint32_t opened = 0;
  for (const CmDevice& each : cm_devices_) {
    if (!each.is_gone && serves(wanted, each.context->device)) {
      ++found;
      opened += device_of(now, each.context->device) != nullptr ? 1 : 0;
    }
  }
  return found == 0 || opened > 0;
}

// On a core that another one listens for: by the device that has the address, if one has it by now.
bool RdmaHost::open_devices_early(const RdmaListen& wanted) {
  const Instant now = monotonic_now();
  if (!wanted.address) {
    return open_devices(now, wanted, nullptr);
  }
  rdma_cm_id* id = nullptr;
  if (core_->cm_create_id(channel_, &id, nullptr, RDMA_PS_TCP) != 0) {
    return false;
  }
  sockaddr_storage raw{};
  (void)control::write_address({*wanted.address, 0}, raw);
  const bool is_bound =
      core_->cm_bind_addr(id, reinterpret_cast<sockaddr*>(&raw)) == 0 && id->verbs != nullptr && is_there(now, id->verbs->device);
  const bool can_serve = !is_bound || open_devices(now, wanted, id->verbs);
  (void)core_->cm_destroy_id(id);
  return can_serve;
}

// An address is a device's. Listeners of any address are not asked: the kernel adds and removes devices under them.
// One whose device cannot be used stays lost, as it would not have been opened: it would refuse everybody.
void RdmaHost::listen_again(Instant now) {
  bool has_lost = false;
  for (const auto& listener : listeners_) {
    if (listener->id != nullptr) {
      continue;
    }
    if (!listen_on(now, *listener)) {
      has_lost = true;
    } else if (!open_devices(now, listener->wanted, listener->id->verbs)) {
      (void)core_->cm_destroy_id(std::exchange(listener->id, nullptr));
      has_lost = true;
    } else {
      telemetry::log_info("listening on port {} of {} again", listener->wanted.port, to_text(listener->address).data());
      transport_->on_device_event(now, rnic::DeviceEvent::kListening);
    }
  }
  listen_pause_ = std::min(listen_pause_ * 2, kListenRetryMax);
  listen_after_ = has_lost ? now + listen_pause_ : Instant::never();
}

// Its device has gone, and its address with it.
void RdmaHost::lose(Instant now, Listener& listener) {
  telemetry::log_warning("not listening on port {} of {} until an RDMA device has the address", listener.wanted.port,
                         to_text(listener.address).data());
  (void)core_->cm_destroy_id(std::exchange(listener.id, nullptr));
  listen_pause_ = kListenRetry;
  listen_after_ = now + listen_pause_;
}

void RdmaHost::unlisten(uint16_t port) {
  for (const auto& listener : listeners_) {
    if (listener->wanted.port == port && listener->id != nullptr) {
      (void)core_->cm_destroy_id(listener->id);
    }
  }
  std::erase_if(listeners_, [port](const auto& listener) { return listener->wanted.port == port; });
}

void RdmaHost::describe(std::span<telemetry::VerbsListener> out) const {
  std::ranges::fill(out, telemetry::VerbsListener());
  size_t used = 0;
  for (const auto& listener : listeners_) {
    const auto rows = out.first(used);
    if (used == out.size() || std::ranges::find(rows, listener->wanted.port, &telemetry::VerbsListener::port) != rows.end()) {
      continue;  // of the other family
    }
    telemetry::VerbsListener& row = out[used++];
    row.port = listener->wanted.port;
    row.is_lost = listener->id == nullptr ? 1 : 0;
    if (listener->id != nullptr && listener->id->verbs != nullptr) {
      const std::string_view name = core_->get_device_name(listener->id->verbs->device);
      name.copy(row.device.data(), row.device.size() - 1);
    }
  }
}

// ---- A core's turn ----

bool RdmaHost::receive(Instant now) {
  if (channel_ == nullptr) {
    return false;
  }
  bool worked = poll_queues(now);
  if (now >= look_after_) {
    look_for_removals(now);
    if (dealer_ != nullptr && options_.listens) {
      take_back(now);
    }
  }
  if (now >= listen_after_) {
    listen_again(now);
  }
  if (now >= events_after_) {
    const bool had_events = poll_events(now);
    events_after_ = had_events ? now : now + kQuietEvents;
    worked |= had_events;
  }
  return worked;
}

bool RdmaHost::poll_queues(Instant now) {
  bool worked = false;
  for (const auto& device : devices_) {
    for (const auto& queue : device->queues()) {
      std::array<rnic::WorkDone, CompletionQueue::kAtOnce> done;
      uint32_t count = CompletionQueue::kAtOnce;
      for (uint32_t sum = 0; count == CompletionQueue::kAtOnce && sum < kCompletionsInTurn; sum += count) {
        count = queue->poll(done);
        worked |= count > 0;
        if (count < CompletionQueue::kAtOnce) {
          queue->room.settle();  // before anybody leaves by what is told here
        }
        for (const rnic::WorkDone& each : std::span(done).first(count)) {
          transport_->on_completion(now, each);
        }
      }
    }
  }
  return worked;
}

bool RdmaHost::poll_events(Instant now) {
  std::array<epoll_event, 16> ready;
  const int count = epoll_wait(epoll_fd_, ready.data(), static_cast<int>(ready.size()), 0);
  for (int i = 0; i < count; ++i) {
    const int fd = ready[static_cast<size_t>(i)].data.fd;
    if (fd == channel_->fd) {
      CmEvent event;
      for (uint32_t taken = 0; taken < kCmEventsInTurn && take_cm_event(event); ++taken) {
        (void)poll_queues(now);  // messages came before their connection ended
        on_cm_event(now, event);
      }
      continue;
    }
    if (dealer_ != nullptr && fd == dealer_->fd(dealt_to_)) {
      take_dealt(now);
      continue;
    }
    for (const auto& device : devices_) {
      if (fd == device->channel_fd()) {
        device->take_events();
      } else if (fd == device->async_fd()) {
        take_async_events(now, *device);
      }
    }
  }
  close_idle_devices();
  return count > 0;
}

bool RdmaHost::may_sleep(Instant now) {
  for (const auto& device : devices_) {
    device->arm();
  }
  events_after_ = now;
  return !poll_queues(now);  // what came before they were armed makes no event
}

// ---- Events of the connection manager ----

bool RdmaHost::take_cm_event(CmEvent& out) {
  rdma_cm_event* event = nullptr;
  if (core_->cm_get_event(channel_, &event) != 0) {
    return false;
  }
  out = {};
  out.type = event->event;
  out.id = event->id;
  out.listener = event->listen_id;
  if (event->event != RDMA_CM_EVENT_CONNECT_REQUEST) {
    const bool is_listener = std::ranges::any_of(listeners_, [&](const auto& each) { return each->id == event->id; });
    out.is_dealt = !is_listener && event->id->context == nullptr;
    out.connection = is_listener || out.is_dealt ? rnic::RnicId() : static_cast<const Peer*>(event->id->context)->connection;
    out.device = event->id->verbs == nullptr ? nullptr : event->id->verbs->device;
  }
  out.status = event->status;
  const bool has_parameters = event->event == RDMA_CM_EVENT_CONNECT_REQUEST || event->event == RDMA_CM_EVENT_CONNECT_RESPONSE ||
                              event->event == RDMA_CM_EVENT_ESTABLISHED || event->event == RDMA_CM_EVENT_REJECTED;
  if (has_parameters) {
    out.initiator_depth = event->param.conn.initiator_depth;
    out.responder_resources = event->param.conn.responder_resources;
    if (event->param.conn.private_data != nullptr) {
      out.private_bytes = std::min<size_t>(event->param.conn.private_data_len, out.private_data.size());
      std::copy_n(static_cast<const uint8_t*>(event->param.conn.private_data), out.private_bytes, out.private_data.begin());
    }
  }
  (void)core_->cm_ack_event(event);  // before its id may be destroyed
  return true;
}

void RdmaHost::on_cm_event(Instant now, const CmEvent& event) {
  if (event.type == RDMA_CM_EVENT_CONNECT_REQUEST) {
    on_request(now, event);
    return;
  }
  if (event.is_dealt) {
    return;
  }
  const auto listener = std::ranges::find_if(listeners_, [&](const auto& each) { return each->id == event.id; });
  if (listener != listeners_.end()) {
    if (event.type == RDMA_CM_EVENT_DEVICE_REMOVAL) {
      on_removal(now, event.device);
    } else {
      transport_->on_device_event(now, rnic::DeviceEvent::kOther);
    }
    return;
  }
  const rnic::RnicId connection = event.connection;
  if (Peer* peer = find(connection); peer != nullptr && peer->is_active && on_call_event(now, *peer, event)) {
    return;
  }
  switch (event.type) {
    case RDMA_CM_EVENT_ESTABLISHED:
      transport_->on_established(now, connection);
      return;
    case RDMA_CM_EVENT_DISCONNECTED:
      transport_->on_disconnected(now, connection);
      return;
    case RDMA_CM_EVENT_TIMEWAIT_EXIT:
      transport_->on_parted(now, connection);
      return;
    case RDMA_CM_EVENT_DEVICE_REMOVAL:
      on_removal(now, event.device);
      return;
    case RDMA_CM_EVENT_CONNECT_ERROR:
    case RDMA_CM_EVENT_UNREACHABLE:
    case RDMA_CM_EVENT_REJECTED:
    case RDMA_CM_EVENT_ADDR_ERROR:
    case RDMA_CM_EVENT_ROUTE_ERROR:
      transport_->on_failed(now, connection);
      return;
    default:
      transport_->on_device_event(now, rnic::DeviceEvent::kOther);
      return;
  }
}

// ---- Devices that come and go ----

// The connection manager tells each id that is bound to a device that it goes: all there is of it goes with the first. The last
// are librdmacm's own descriptors: it may have no other device, and closes none then.
void RdmaHost::on_removal(Instant now, const ibv_device* which) {
  if (tells_of_devices()) {
    telemetry::log_warning("RDMA device {} has gone: its connections end", which->name);
    transport_->on_device_event(now, rnic::DeviceEvent::kDeviceRemoved);
  }
  for (const auto& device : devices_) {
    device->is_gone |= device->device() == which;
  }
  for (const auto& each : peers_) {
    // One that is bound to the device, and has not opened it yet, goes by its own event.
    if (each != nullptr && each->id != nullptr && each->device != nullptr && each->device->device() == which) {
      transport_->on_device_removed(now, each->connection);
    }
  }
  for (const auto& listener : listeners_) {
    if (listener->id != nullptr && listener->id->verbs != nullptr && listener->id->verbs->device == which) {
      lose(now, *listener);
    }
  }
  forget_refusals(which);
  close_idle_devices();
  for (CmDevice& each : cm_devices_) {
    if (each.context->device == which && !std::exchange(each.is_gone, true)) {
      let_go(*each.context);
    }
  }
}

// A software device (rxe, siw) is kept until nobody has it open. Only then does the connection manager hear that it goes, if it
// was loaded before uverbs; a listener of any address never does. But the device's node goes at once.
void RdmaHost::look_for_removals(Instant now) {
  look_after_ = now + kRemovalLook;
  for (size_t i = 0; i < cm_devices_.size(); ++i) {
    const CmDevice& each = cm_devices_[i];
    if (!each.is_gone && each.node != 0 && node_of(*each.context->device) != each.node) {
      on_removal(now, each.context->device);
    }
  }
}

// What librdmacm has open now. A device stays in the list until the next one is taken, whatever comes of it.
void RdmaHost::look_for_devices(Instant now) {
  int count = 0;
  ibv_context** const list = core_->cm_get_devices(&count);
  if (list == nullptr) {
    return;  // it has none, or cannot say
  }
  const std::span fresh(list, static_cast<size_t>(count));
  for (size_t i = 0; i < cm_devices_.size(); ++i) {
    if (!cm_devices_[i].is_gone && std::ranges::find(fresh, cm_devices_[i].context) == fresh.end()) {
      on_removal(now, cm_devices_[i].context->device);
    }
  }
  cm_devices_.clear();
  for (ibv_context* context : fresh) {
    cm_devices_.push_back({.context = context, .node = node_of(*context->device)});
  }
  if (ibv_context** const old = std::exchange(cm_list_, list)) {
    core_->cm_free_devices(old);
  }
}

// Of an id that is bound to it.
bool RdmaHost::is_there(Instant now, const ibv_device* device) {
  const auto knows = [&] {
    return std::ranges::any_of(cm_devices_,
                               [device](const CmDevice& each) { return each.context->device == device && !each.is_gone; });
  };
  if (!knows()) {
    look_for_devices(now);
  }
  return knows();
}

void RdmaHost::refuse(rdma_cm_id* id) {
  (void)core_->cm_reject(id, nullptr, 0);
  (void)core_->cm_destroy_id(id);
}

// By the listening core.
void RdmaHost::on_request(Instant now, const CmEvent& event) {
  const auto listener = std::ranges::find_if(listeners_, [&](const auto& each) { return each->id == event.listener; });
  ibv_device* const which = event.id->verbs->device;
  if (listener == listeners_.end() || !serves((*listener)->wanted, which) || !is_there(now, which)) {
    refuse(event.id);
    return;
  }
  event.id->context = nullptr;
  const DealtRequest request{.id = event.id,
                             .listener_port = (*listener)->wanted.port,
                             .initiator_depth = event.initiator_depth,
                             .private_data = event.private_data,
                             .private_bytes = event.private_bytes,
                             .dealt_at = now};
  const uint32_t core = dealer_ == nullptr ? dealt_to_ : dealer_->choose(dealt_to_);
  if (core == dealt_to_) {
    serve_request(now, request);
  } else if (!dealer_->give(core, request)) {
    refuse(event.id);
  }
}

void RdmaHost::take_dealt(Instant now) {
  for (uint32_t taken = 0; taken < kCmEventsInTurn; ++taken) {
    const auto request = dealer_->take(dealt_to_);
    if (!request) {
      return;
    }
    if (core_->cm_migrate_id(request->id, channel_) == 0) {
      serve_request(now, *request);
    } else {
      refuse(request->id);
    }
  }
}

// By the listening core, whose channel an id is on until another core takes it over.
void RdmaHost::take_back(Instant now) {
  for (uint32_t taken = 0; taken < kCmEventsInTurn; ++taken) {
    const auto request = dealer_->take_late(now, dealt_to_, kDealtPatience);
    if (!request) {
      return;
    }
    serve_request(now, *request);
  }
}

void RdmaHost::refuse_dealt(uint32_t core) {
  while (const auto request = dealer_->take(core)) {
    refuse(request->id);
  }
}

void RdmaHost::serve_request(Instant now, const DealtRequest& request) {
  ibv_device* const which = request.id->verbs->device;
  RdmaDevice* const device = is_there(now, which) ? device_of(now, which) : nullptr;
  if (device == nullptr) {
    refuse(request.id);
    return;
  }
  const control::SocketAddress peer = control::read_address(request.id->route.addr.dst_storage);
  const auto connection =
      transport_->on_request(now, {.peer = peer.address,
                                   .peer_port = peer.port,
                                   .listener_port = request.listener_port,
                                   .private_data = Bytes(request.private_data).first(request.private_bytes),
                                   .reads_max = static_cast<uint16_t>(std::min<int>(
                                       request.initiator_depth, std::max(device->attributes().max_qp_init_rd_atom, 0)))});
  if (!connection) {
    refuse(request.id);
    return;
  }
  Peer& added = add_peer(*connection);
  added.id = request.id;
  added.device = device;
  request.id->context = &added;
  ++device->connections;
  if (dealer_ != nullptr) {
    dealer_->add_connection(dealt_to_);
  }
}

RdmaHost::Peer& RdmaHost::add_peer(rnic::RnicId connection) {
  const auto slot = static_cast<uint32_t>(connection.value());
  if (slot >= peers_.size()) {
    peers_.resize(slot + 1);
  }
  if (peers_[slot] == nullptr) {
    peers_[slot] = std::make_unique<Peer>();
  }
  CW_ASSERT(peers_[slot]->id == nullptr);
  *peers_[slot] = {.connection = connection};
  return *peers_[slot];
}

RdmaDevice* RdmaHost::device_of(Instant now, ibv_device* which) {
  const auto known = std::ranges::find_if(devices_, [&](const auto& each) { return each->device() == which && !each->is_gone; });
  if (known != devices_.end()) {
    return known->get();
  }
  // To pin memory and find that it is too much takes long, and peers may ask for it as often as they like.
  const int index = core_->get_device_index == nullptr ? -1 : core_->get_device_index(which);
  std::erase_if(refusals_, [&](const Refusal& refusal) {
    return now >= refusal.again || (refusal.device == which && refusal.index != index);
  });
  if (std::ranges::find(refusals_, which, &Refusal::device) != refusals_.end()) {
    return nullptr;
  }
  auto device = RdmaDevice::open(*core_, which, memory_);
  if (device == nullptr) {
    telemetry::log_error("RDMA device {} cannot be used: {}; causewayctl doctor says more", which->name, std::strerror(errno));
    refusals_.push_back({which, index, now + kOpenRetry});
    transport_->on_device_event(now, rnic::DeviceEvent::kRefused);
    return nullptr;
  }
  watch(device->channel_fd());
  watch(device->async_fd());
  if (std::ranges::find(names_, device->name()) == names_.end()) {
    names_.push_back(device->name());
  }
  devices_.push_back(std::move(device));
  return devices_.back().get();
}

// Of a device that goes: another one may come to lie where it has lain.
void RdmaHost::forget_refusals(const ibv_device* device) {
  std::erase_if(refusals_, [device](const Refusal& refusal) { return refusal.device == device; });
}

void RdmaHost::take_async_events(Instant now, RdmaDevice& device) {
  ibv_async_event event{};
  for (int i = 0; i < kAsyncEventsInTurn && core_->get_async_event(device.context(), &event) == 0; ++i) {
    const rnic::DeviceEvent kind = event_of(event.event_type);
    // A queue pair that was destroyed has no events left, so there is one, and whose it is stands there. A client can have it
    // make many: who they are for is not looked for.
    const Peer* peer = is_of_queue_pair(event.event_type) ? static_cast<const Peer*>(event.element.qp->qp_context) : nullptr;
    const ibv_cq* cq = event.event_type == IBV_EVENT_CQ_ERR ? event.element.cq : nullptr;
    const bool is_of_all = peer == nullptr && cq == nullptr;
    if (tells_of_devices() || !is_of_all) {
      log_device_event(kind, device.name().c_str(), event.element.port_num);
    }
    core_->ack_async_event(&event);  // before its queue pair may be destroyed
    if (peer != nullptr) {
      transport_->on_queue_pair_event(now, peer->connection, kind);
      continue;
    }
    if (tells_of_devices() || !is_of_all) {
      transport_->on_device_event(now, kind);
    }
    const bool ends_all = event.event_type == IBV_EVENT_DEVICE_FATAL;
    device.is_gone |= ends_all;
    if (cq != nullptr) {
      CompletionQueue::of(*cq).is_broken = true;
    }
    if (!ends_all && cq == nullptr) {
      continue;
    }
    // All of a queue or a device end with it: once, and then nothing more comes of it.
    for (const auto& each : peers_) {
      if (each != nullptr && each->id != nullptr && each->qp != nullptr && each->device == &device &&
          (ends_all || each->queue->cq() == cq)) {
        transport_->on_device_failed(now, each->connection, kind);
      }
    }
  }
}

// The kernel keeps a device that goes until nothing refers to it.
void RdmaHost::close_idle_devices() {
  for (const auto& device : devices_) {
    device->drop_broken_queues();
  }
  std::erase_if(devices_, [&](const std::unique_ptr<RdmaDevice>& device) {
    if (!device->is_gone || device->connections > 0) {
      return false;
    }
    (void)epoll_ctl(epoll_fd_, EPOLL_CTL_DEL, device->channel_fd(), nullptr);
    (void)epoll_ctl(epoll_fd_, EPOLL_CTL_DEL, device->async_fd(), nullptr);
    forget_refusals(device->device());
    return true;
  });
}

}  // namespace cw::dataplane
