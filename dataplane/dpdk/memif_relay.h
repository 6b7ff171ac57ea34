// Stands on the control socket of a memif link, between DPDK's driver and the link's other end, so that the driver never takes
// the rings away while the poll core uses them.
//
// The driver handles its control socket on DPDK's interrupt thread. When the other end goes, it unmaps the rings there and then,
// and a poll core in the midst of a burst reads freed memory (SIGSEGV; DPDK 22.11, and no lock of the driver's stands between the
// two). So the driver's socket leads to this relay. It passes the handshake on in both directions and gives the device to the
// core when the link is up. When the other end speaks again or is gone, which after the handshake both mean the end of the
// link, it takes the device back first and closes the driver's end then. The driver's closing says that the rings are gone.
//
// It also makes the client role come back: the driver connects once, when the device is started. The relay has it started again
// and keeps its connection until the other end is there.
//
// Nobody but the relay reaches the driver's socket. The driver ends the process when somebody connects to it and goes before he
// has been greeted, so its name lives only until the relay has got hold of the socket. Messages of the other end pass when
// MemifHandshake has nothing against them, and a handshake that takes too long ends, so that the next end gets its turn.
//
// What happens when is decided by MemifLink; here are the sockets and the thread.
//
// A thread of its own, since the link's peers come and go at any time and none of this is the poll core's work.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "control/socket/unique_fd.h"
#include "dataplane/dpdk/device_lease.h"
#include "dataplane/dpdk/memif_device.h"
#include "dataplane/dpdk/memif_link.h"

namespace cw::dataplane {

class MemifRelay final : private MemifLink::Ends {
 public:
  // Client role: connects to the other end, and it is an error when nobody is there. Server role: the name has to be free.
  // restart: stops and starts the device, so that the driver connects anew (client role); called from the relay's thread while
  // the device is the keeper's. The leases have to be the keeper's, and to outlive the relay.
  [[nodiscard]] static std::unique_ptr<MemifRelay> open(const MemifDevice& device, DeviceLeases& leases,
                                                        std::function<bool()> restart, std::string& error);
  ~MemifRelay();
  MemifRelay(const MemifRelay&) = delete;
  MemifRelay& operator=(const MemifRelay&) = delete;

  // What the driver is to be given instead of the device.
  [[nodiscard]] const MemifDevice& for_driver() const { return for_driver_; }
  [[nodiscard]] bool is_client() const { return !device_.server; }
  // To be called when the driver has made its device. Takes the name of the driver's socket away. False, and one sentence in
  // `error`: the driver does not listen.
  [[nodiscard]] bool hide_driver(std::string& error);
  // To be called when the driver has started.
  void start();
  // Ends the thread; the sockets stay as they are.
  void stop();
  // Any thread. Ends that were sent away: who they are, what they said, or that they took too long.
  [[nodiscard]] uint64_t refused() const { return refused_.load(std::memory_order_relaxed); }

 private:
  // A message that was received, and what came with it.
  struct Message;

  MemifRelay(const MemifDevice& device, DeviceLeases& leases, std::function<bool()> restart);
  [[nodiscard]] bool listen_for_driver(std::string& error);
  [[nodiscard]] bool listen_for_peer(std::string& error);
  [[nodiscard]] bool make_driver_directory(std::string& error);
  [[nodiscard]] control::UniqueFd connect_to_driver() const;
  // Names in the abstract space have no permissions: whoever is on this machine may knock, or listen first.
  [[nodiscard]] bool is_welcome(const control::UniqueFd& peer);
  void run();

  // MemifLink::Ends
  [[nodiscard]] bool accept(MemifLink::End end) override;
  [[nodiscard]] bool connect(MemifLink::End end) override;
  [[nodiscard]] std::optional<MemifLink::Received> receive(MemifLink::End from) override;
  [[nodiscard]] bool pass_on(MemifLink::End to) override;
  void close(MemifLink::End end) override;
  void shut_down_driver() override;
  void refuse(const char* reason) override;
  void restart_driver() override { (void)restart_(); }

  [[nodiscard]] const control::UniqueFd& socket_of(MemifLink::End end) const {
    return end == MemifLink::End::kPeer ? peer_ : driver_;
  }

  MemifDevice device_;
  MemifDevice for_driver_;
  std::function<bool()> restart_;
  MemifLink link_;
  std::unique_ptr<Message> message_;  // the one that is being passed on
  std::atomic<uint64_t> refused_{0};
  std::unique_ptr<NameClaim> claim_;  // server role: the name that the other end knows
  std::string driver_directory_;      // where the driver's name is; empty when it is gone
  control::UniqueFd driver_socket_;   // server role: the file of the driver's socket, also when it has no name any more
  control::UniqueFd listener_;        // server role: for the other end; client role: for the driver
  control::UniqueFd peer_;
  control::UniqueFd driver_;
  control::UniqueFd stop_event_;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace cw::dataplane
