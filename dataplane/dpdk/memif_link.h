// What a memif relay decides (memif_relay.h): who is let in and when, what passes, when the poll core gets the device and when it
// is taken from it. The relay asks it what to wait for, says what is ready, and does what it is told by way of Ends: this class
// makes no system call, has no thread and reads no clock.
//
//   client role: kNoDriver -> kNoPeer -> kHandshake -> kUp -> kTaking -> kLeaving -> kNoDriver, the driver being started again
//   server role:              kNoPeer -> kHandshake -> kUp -> kTaking -> kLeaving -> kNoPeer
//
// The device is the core's in kUp and, until it hands it over, in kTaking. The driver hears of the other end's going in kLeaving
// only, since that makes it take its rings away.
#pragma once

#include <cstdint>
#include <optional>

#include "base/time.h"
#include "dataplane/dpdk/device_lease.h"
#include "dataplane/dpdk/memif_handshake.h"

namespace cw::dataplane {

class MemifLink {
 public:
  static constexpr Duration kHandshakeMax = Duration::ms(1000);

  enum class State : uint8_t {
    kNoDriver,   // client role: the driver has not connected
    kNoPeer,     // nobody at the other end
    kHandshake,  // both there, messages pass
    kUp,         // the device is the core's
    kTaking,     // the link has ended: the core has been asked for the device
    kLeaving,    // the driver's end is shut down: it takes its rings away
  };
  enum class End : uint8_t { kPeer, kDriver };

  struct Received {
    Bytes message;
    std::optional<uint64_t> file_bytes;  // of the file that came with it, if one came
  };

  // The sockets, as the relay has them. There is one peer and one driver at most.
  class Ends {
   public:
    // From the line of those who knock. False: nobody, or nobody who is welcome.
    [[nodiscard]] virtual bool accept(End end) = 0;
    // Calls them. False: not there, or not welcome.
    [[nodiscard]] virtual bool connect(End end) = 0;
    // Takes the next message, which is kept until the next one. nullopt: the end has closed, or sent what no message can be.
    [[nodiscard]] virtual std::optional<Received> receive(End from) = 0;
    // Sends the message that was taken, with what came along. False: the end does not take it.
    [[nodiscard]] virtual bool pass_on(End to) = 0;
    virtual void close(End end) = 0;
    // The driver hears that nothing more comes.
    virtual void shut_down_driver() = 0;
    // Tells the peer that it is sent away, and why.
    virtual void refuse(const char* reason) = 0;
    // Client role: the driver is to connect anew.
    virtual void restart_driver() = 0;

   protected:
    ~Ends() = default;
  };

  // Client role: the peer is there already. The leases are the keeper's.
  MemifLink(bool server, DeviceLeases& leases, Ends& ends);

  [[nodiscard]] State state() const { return state_; }
  // What this state cares for. Another end that knocks waits while there is one.
  struct Ready {
    bool listener = false;
    bool peer = false;
    bool driver = false;
    [[nodiscard]] bool any() const { return listener || peer || driver; }
  };
  [[nodiscard]] Ready watched() const;
  // When advance() is to be called though nothing is ready.
  [[nodiscard]] Instant deadline(Instant now) const;
  // `ready`: of what was watched. Nothing is: the deadline has passed.
  void advance(Instant now, Ready ready);

 private:
  void on_driver_connected(Instant now);
  void on_peer_connected(Instant now);
  void begin_handshake(Instant now);
  // Returns false when the link has ended.
  [[nodiscard]] bool pass(End from);
  void leave();
  void on_driver_left();

  bool server_;
  DeviceLeases& leases_;
  Ends& ends_;
  State state_;
  bool has_peer_;
  MemifHandshake handshake_;
  Instant handshake_ends_;
};

}  // namespace cw::dataplane
