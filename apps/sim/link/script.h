// Faults as a script: which packet of which connection suffers what, said in one line (the idea of Lumina, SIGCOMM 2023).
//
//   qp 0 out psn +5 #1 drop; qp 1 in response +7 #1 behind 64
//
//   qp N                  the connection, by its index
//   out, in               the direction: from host 0 to host 1, or back
//   psn, request,         what kind of packet: any, a request, a READ response, an acknowledgement (ACK, NAK or gap report)
//   response, ack
//   +PSN                  from the first PSN of the requester whose request it is, or which it answers; modulo 2^24
//   #K                    the Kth packet of that kind with that PSN; without it the first
//   drop
//   duplicate             it comes twice
//   corrupt               a bit of its payload, or else of its iCRC, is wrong
//   mark                  Congestion Experienced
//   behind K              it waits until K packets that left later in its direction have gone past, or kBehindAtMost
//
// Each event happens once. When several fit a packet, all of them happen, in the order of the script.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "apps/sim/link/link.h"
#include "rocev2/wire/packet_view.h"
#include "rocev2/wire/psn.h"
#include "verbs/ids.h"

namespace cw::sim {

enum class PacketDirection : uint8_t { kOut, kIn, kCount };
enum class PacketClass : uint8_t { kAny, kRequest, kResponse, kAcknowledgement, kCount };
enum class ScriptAction : uint8_t { kDrop, kDuplicate, kCorrupt, kMark, kBehind, kCount };
[[nodiscard]] const char* to_string(PacketDirection direction) noexcept;
[[nodiscard]] const char* to_string(PacketClass packet) noexcept;
[[nodiscard]] const char* to_string(ScriptAction action) noexcept;

struct ScriptEvent {
  uint32_t qp = 0;
  PacketDirection direction = PacketDirection::kOut;
  PacketClass packet = PacketClass::kAny;
  uint32_t psn = 0;  // relative
  uint32_t transmission = 1;
  ScriptAction action = ScriptAction::kDrop;
  uint32_t behind = 0;  // kBehind: packets that go past
  friend bool operator==(const ScriptEvent&, const ScriptEvent&) = default;
};
using FaultScript = std::vector<ScriptEvent>;

[[nodiscard]] std::string to_string(const ScriptEvent& event);
[[nodiscard]] std::string to_string(const FaultScript& script);
// Nothing, and `error` says which word of which event is wrong and what would be right.
[[nodiscard]] std::optional<FaultScript> parse_script(const std::string& text, std::string& error);

// What the link has to know of a connection to recognize its packets. By host.
struct ScriptedConnection {
  verbs::Qpn qpn[2];
  wire::Psn first_psn[2];
};

// A packet of one of these connections.
struct PacketIdentity {
  uint32_t qp = 0;
  PacketDirection direction = PacketDirection::kOut;
  PacketClass packet = PacketClass::kAny;  // kAny: none of the others, such as a CNP
  uint32_t psn = 0;                        // relative
  friend auto operator<=>(const PacketIdentity&, const PacketIdentity&) = default;
};
// Nothing when it is not for any of them. `to`: the host that it goes to.
[[nodiscard]] std::optional<PacketIdentity> identify(const wire::PacketView& view, uint32_t to,
                                                     const std::vector<ScriptedConnection>& connections);

// Acts out a script on what passes. Counts packets as they were sent, so that it belongs on top of whatever else loses some.
class ScriptedFaults final : public Link {
 public:
  static constexpr Duration kBehindAtMost = Duration::us(100);

  struct Firing {
    size_t event = 0;  // index in the script
    Instant at;
    PacketIdentity packet;
  };

  ScriptedFaults(std::unique_ptr<Link> inner, FaultScript script, std::vector<ScriptedConnection> connections)
      : inner_(std::move(inner)),
        script_(std::move(script)),
        connections_(std::move(connections)),
        has_fired_(script_.size(), false) {}
  void push(Instant now, Transit&& frame) override;
  [[nodiscard]] Instant next_at() const override;
  [[nodiscard]] bool poll(Instant now, Arrival& out) override;
  [[nodiscard]] const std::vector<Firing>& firings() const { return firings_; }

 private:
  struct Held {
    Instant until;
    uint32_t behind = 0;
    Transit frame;
  };
  // What the script does to a packet.
  struct Fate {
    uint32_t copies = 1;
    uint32_t behind = 0;
  };
  [[nodiscard]] Fate fate_of(Instant now, Transit& frame);
  void go_past(Instant now, uint32_t to);
  void release(Instant now, size_t index);

  std::unique_ptr<Link> inner_;
  FaultScript script_;
  std::vector<ScriptedConnection> connections_;
  std::vector<bool> has_fired_;
  std::vector<Firing> firings_;
  std::map<PacketIdentity, uint32_t> sent_;  // transmissions so far
  std::vector<Held> held_;
};

}  // namespace cw::sim
