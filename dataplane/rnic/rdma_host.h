// The connections of a transport on rdma-core: listened for or asked for, answered, worked for and ended without blocking, all by
// the thread of one core. Needs no DPDK. siw alone blocks: it connects TCP within rdma_connect().
//
// Queue pairs are made here and not by librdmacm, which would give them the kernel's access flags: so they are 0 from INIT on, or
// read and write where memory is exposed, and librdmacm is told the number alone. Completion queues are polled while there is
// work, and armed before the core sleeps.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/ip_address.h"
#include "dataplane/rnic/rdma_core.h"
#include "dataplane/rnic/rdma_device.h"
#include "dataplane/rnic/request_dealer.h"
#include "dataplane/wire_shell.h"
#include "rnic/retry_limits.h"
#include "rnic/transport.h"
#include "telemetry/core_snapshot.h"

namespace cw::dataplane {

struct RdmaListen {
  uint16_t port = 0;
  std::optional<IpAddress> address;  // absent: every own address, of both families
  std::string device;                // empty: whatever device the request comes by
};

struct RdmaHostOptions {
  // A port that is not listed is taken on every address and device.
  std::vector<RdmaListen> listen;
  // Librdmacm gives a port to one listener: other cores of the process have none, and what share_with() brings them.
  bool listens = true;
  int backlog = 1024;
  // Active side: by which device servers have to be reached; empty: whichever.
  std::string device;
  rnic::RetryLimits retries;
  // How long a peer waits before it sends again what found no receive, as ibv_qp_attr has it: 12 = 0.64 ms. The kernel's own 0 is
  // 655 ms.
  uint8_t min_rnr_timer = 12;
};

class RdmaHost final : public rnic::RnicHost, public WireShell {
 public:
  // What buffers lie in: `memory` of each pool, registered with each device that is used. `core`: null, it is loaded with the
  // first listener or call; or a test's.
  RdmaHost(const RdmaHostOptions& options, std::vector<MutableBytes> memory, const RdmaCore* core = nullptr);
  ~RdmaHost() override;
  RdmaHost(const RdmaHost&) = delete;
  RdmaHost& operator=(const RdmaHost&) = delete;

  // Before anything else. The transport lives as long as there are connections.
  void attach(rnic::RnicTransport& transport) { transport_ = &transport; }
  // Likewise, where there are several cores: they share the requests that the listening one hears. The dealer outlives all of
  // them, and one thread destroys them.
  void share_with(RequestDealer& dealer, uint32_t core) {
    dealer_ = &dealer;
    dealt_to_ = core;
  }
  // For listeners and connections to come.
  void reconfigure(const RdmaHostOptions& fresh) { options_ = fresh; }
  // What it listens on, as far as `out` has room; the rest of it is cleared.
  void describe(std::span<telemetry::VerbsListener> out) const;

  // WireShell
  bool receive(Instant now) override;
  bool transmit(Instant now) override { return transport_->flush(now); }
  [[nodiscard]] int fd() const override { return epoll_fd_; }
  [[nodiscard]] bool in_use() const override { return core_ != nullptr; }
  [[nodiscard]] bool may_sleep(Instant now) override;

  // rnic::RnicHost
  [[nodiscard]] Status listen(uint16_t port) override;
  void unlisten(uint16_t port) override;
  [[nodiscard]] Status resolve_address(rnic::RnicId connection, const IpAddress& server, uint16_t port,
                                       Duration patience) override;
  [[nodiscard]] rnic::ConnectFailure resolve_route(rnic::RnicId connection, Duration patience) override;
  [[nodiscard]] rnic::ConnectFailure connect(rnic::RnicId connection, const rnic::RnicCall& call) override;
  [[nodiscard]] bool make_ready(rnic::RnicId connection, uint16_t reads_max) override;
  [[nodiscard]] bool establish(rnic::RnicId connection) override;
  [[nodiscard]] Result<rnic::QueuePairMade> make_queue_pair(rnic::RnicId connection, const rnic::QueuePairWish& wish) override;
  [[nodiscard]] Status accept(rnic::RnicId connection, uint16_t reads_max, Bytes private_data) override;
  void reject(rnic::RnicId connection, Bytes private_data) override;
  void notify(rnic::RnicId connection) override;
  [[nodiscard]] uint32_t post_sends(rnic::RnicId connection, std::span<const rnic::SendWork> works) override;
  [[nodiscard]] uint32_t post_receives(rnic::RnicId connection, std::span<const rnic::ReceiveWork> works) override;
  void fail(rnic::RnicId connection) override;
  void disconnect(rnic::RnicId connection) override;
  void destroy_queue_pair(rnic::RnicId connection) override;
  void release(rnic::RnicId connection) override;
  [[nodiscard]] Result<rnic::DeviceRegion> register_memory(rnic::RnicId connection, MutableBytes memory,
                                                           verbs::RemoteAccess access) override;
  [[nodiscard]] bool deregister_memory(uint64_t handle) override;
  [[nodiscard]] rnic::Exposure exposure(rnic::RnicId connection) const override;
  [[nodiscard]] std::optional<rnic::QueuePairState> look(rnic::RnicId connection) const override;
  [[nodiscard]] std::string_view device(rnic::RnicId connection) const override;

 private:
  struct Peer {
    rdma_cm_id* id = nullptr;
    rnic::RnicId connection;
    bool is_active = false;
    int address_tries = 0;  // active: how often its server's address may be asked for once more
    bool exposes = false;
    uint8_t reads_of_peer_max = 0;  // if it exposes
    RdmaDevice* device = nullptr;   // active: none before the server's address is resolved
    ibv_qp* qp = nullptr;
    CompletionQueue* queue = nullptr;
    uint32_t queue_entries = 0;
  };
  // It could not be opened, or not register what it must.
  struct Refusal {
    const ibv_device* device = nullptr;  // another one may lie there when this one is gone
    int index = -1;                      // the kernel's number of it, where that is known
    Instant again;
  };
  struct Listener {
    RdmaListen wanted;
    IpAddress address;
    rdma_cm_id* id = nullptr;  // nullptr: the device that had its address has gone
  };
  // A device that librdmacm has open. It opens all that ids are bound to, and closes none before it sees another one there.
  struct CmDevice {
    ibv_context* context = nullptr;
    ino_t node = 0;  // of its directory in sysfs, which no other gets; 0: not known
    bool is_gone = false;
  };
  // Of an event, what outlives its acknowledgement.
  struct CmEvent {
    rdma_cm_event_type type = RDMA_CM_EVENT_ADDR_RESOLVED;
    rdma_cm_id* id = nullptr;
    rdma_cm_id* listener = nullptr;
    // Whose id it is, of a connection: messages that came before may end it, and then there is no id any more.
    rnic::RnicId connection;
    // Of a request that another core is to have, which will find out by itself what has become of it.
    bool is_dealt = false;
    const ibv_device* device = nullptr;  // DEVICE_REMOVAL
    int status = 0;
    uint8_t initiator_depth = 0;
    uint8_t responder_resources = 0;
    std::array<uint8_t, 256> private_data{};
    size_t private_bytes = 0;
  };

  [[nodiscard]] bool start();
  [[nodiscard]] Peer* find(rnic::RnicId connection);
  [[nodiscard]] const Peer* find(rnic::RnicId connection) const;
  [[nodiscard]] bool open_listener(const RdmaListen& wanted, const IpAddress& address);
  [[nodiscard]] bool listen_on(Instant now, Listener& listener);
  void listen_again(Instant now);
  void lose(Instant now, Listener& listener);
  [[nodiscard]] bool serves(const RdmaListen& wanted, ibv_device* device) const;
  [[nodiscard]] bool open_devices(Instant now, const RdmaListen& wanted, ibv_context* bound_to);
  [[nodiscard]] bool open_devices_early(const RdmaListen& wanted);
  [[nodiscard]] RdmaDevice* device_of(Instant now, ibv_device* device);
  void forget_refusals(const ibv_device* device);
  void watch(int fd);
  [[nodiscard]] bool poll_queues(Instant now);
  [[nodiscard]] bool poll_events(Instant now);
  [[nodiscard]] bool take_cm_event(CmEvent& out);
  void on_cm_event(Instant now, const CmEvent& event);
  void on_request(Instant now, const CmEvent& event);
  void take_dealt(Instant now);
  void take_back(Instant now);
  void serve_request(Instant now, const DealtRequest& request);
  void refuse_dealt(uint32_t core);
  [[nodiscard]] Peer& add_peer(rnic::RnicId connection);
  // False: the event is of no call alone, and has not been looked at.
  [[nodiscard]] bool try_address(Peer& peer, sockaddr_storage server);
  [[nodiscard]] bool on_call_event(Instant now, Peer& peer, const CmEvent& event);
  void on_address_resolved(Instant now, Peer& peer);
  [[nodiscard]] rnic::RnicResponse response_of(const Peer& peer, const CmEvent& event) const;
  [[nodiscard]] bool is_there(Instant now, const ibv_device* device);
  void look_for_devices(Instant now);
  void look_for_removals(Instant now);
  void on_removal(Instant now, const ibv_device* which);
  void refuse(rdma_cm_id* id);
  // What concerns all cores is told by one.
  [[nodiscard]] bool tells_of_devices() const { return dealer_ == nullptr || options_.listens; }
  void take_async_events(Instant now, RdmaDevice& device);
  void close_idle_devices();
  template <typename Work>
  [[nodiscard]] uint32_t post(rnic::RnicId connection, std::span<const Work> works);
  [[nodiscard]] bool modify(const Peer& peer, ibv_qp_state state, uint8_t reads_max) const;

  RdmaHostOptions options_;
  std::vector<MutableBytes> memory_;
  rnic::RnicTransport* transport_ = nullptr;
  const RdmaCore* given_core_;
  const RdmaCore* core_ = nullptr;  // once something listens, or calls
  rdma_event_channel* channel_ = nullptr;
  RequestDealer* dealer_ = nullptr;  // nullptr: this core has all
  uint32_t dealt_to_ = 0;            // this core's number there
  int epoll_fd_;
  std::vector<std::unique_ptr<Peer>> peers_;  // by the slot of their connection
  std::vector<std::unique_ptr<Listener>> listeners_;
  std::vector<std::unique_ptr<RdmaDevice>> devices_;
  std::vector<Refusal> refusals_;
  std::list<std::string> names_;             // of devices that are, or were: whoever describes a connection keeps them
  ibv_context** cm_list_ = nullptr;          // librdmacm's: what is in it stays
  std::vector<CmDevice> cm_devices_;         // of the list
  Instant look_after_;                       // when they are looked at next
  Instant events_after_;                     // when the descriptors are looked at next
  Instant listen_after_ = Instant::never();  // when lost listeners are tried again
  Duration listen_pause_;                    // and how long after that
};

}  // namespace cw::dataplane
