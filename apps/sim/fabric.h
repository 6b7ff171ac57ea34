// The simulated installation: a gateway, clients, a cable from each client to the gateway, a clock for each host, and the faults
// of a scenario. It owns everything that is outside of the processes and moves time from one event to the next.
//
// A host is served when a frame has arrived for it or a deadline of its own is due, as a poll core would find it; a core that
// polls all the time sees nothing more, except where objects wait for memory, and then it is served often.
#pragma once

#include <array>
#include <cstdio>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "apps/sim/caller.h"
#include "apps/sim/coverage.h"
#include "apps/sim/fault.h"
#include "apps/sim/hostile_peer.h"
#include "apps/sim/ledger.h"
#include "apps/sim/link/pcap_writer.h"
#include "apps/sim/link/wire.h"
#include "apps/sim/plain_peer.h"
#include "apps/sim/scenario.h"
#include "apps/sim/trace_hash.h"
#include "apps/sim/watch.h"
#include "rocev2/wire/tx_batch.h"

namespace cw::sim {

struct FabricTaps {
  test::PcapFile* pcap = nullptr;
  std::FILE* trace = nullptr;  // one line per event
};

class Fabric {
 public:
  static constexpr uint32_t kGateway = 0;  // host index; client i is 1 + i, and behind the clients come the hostiles

  Fabric(const Scenario& scenario, Verdict& verdict, const FabricTaps& taps);
  ~Fabric();
  Fabric(const Fabric&) = delete;
  Fabric& operator=(const Fabric&) = delete;

  // One event. False when nothing happens until `limit`: then it is that time.
  bool step(Instant limit);
  [[nodiscard]] Instant now() const { return now_; }
  [[nodiscard]] Instant start() const { return start_; }
  [[nodiscard]] uint64_t frames() const { return frames_; }
  [[nodiscard]] uint64_t segments() const { return segments_; }
  // Of the first client's streams, both directions.
  [[nodiscard]] std::array<uint64_t, 2> stream_bytes() const { return {tcp_.bytes_of(1, 0), tcp_.bytes_of(1, 1)}; }
  [[nodiscard]] uint64_t hash() const { return hash_.value(); }

  // Every call of every plan has been answered.
  [[nodiscard]] bool all_answered() const;
  // No fault is at work or still to come.
  [[nodiscard]] bool faults_over() const;
  // The end of phase one: endless plans end.
  void stop_repeating();
  // How each client has been served until now.
  [[nodiscard]] std::vector<Service> services() const;
  // Phase three: clients hang up, then the gateway shuts down. Whoever starts again later does the same.
  void close_clients();
  void close_gateway();
  [[nodiscard]] bool gateway_is_empty() const;
  [[nodiscard]] bool is_quiet() const;
  // What only a quiet installation has to fulfil.
  void check_end();
  // Adds what all hosts counted. Once, as the last thing: it ends them.
  void collect(Coverage& coverage);
  // What is still undone, for the report of a run that did not finish.
  [[nodiscard]] std::string unfinished() const;
  [[nodiscard]] const Ledger& ledger() const { return ledger_; }

 private:
  struct HostClock {
    Duration offset;  // of its own clock from the simulation's; only ever grows
    Instant paused_until;
    Instant next;  // to be served, simulation time
    bool dirty = true;
    std::vector<Arrival> queue;  // frames that came while it was paused
  };
  struct ClientSlot {
    std::unique_ptr<ClientStack> stack;
    std::unique_ptr<Caller> caller;
    PlainPeer plain;  // of a standard one
    std::deque<uint32_t> pending;
    std::unique_ptr<Link> to_gateway;
    std::unique_ptr<Link> to_client;
  };
  struct HostileSlot {
    std::unique_ptr<HostilePeer> peer;  // while it is there
    bool turned = false;                // its backend too is what it says
    std::unique_ptr<Link> to_gateway;
    std::unique_ptr<Link> to_hostile;
    std::unique_ptr<Link> bare;  // for what it forges
  };
  struct Happening {  // a fault that is not the link's
    uint32_t fault = 0;
    Instant begins = Instant::never();  // never: waits for its frame
    Instant ends = Instant::never();
    bool begun = false;
    bool over = false;
  };

  void make_gateway();
  void make_client(uint32_t index);
  void kill_gateway();
  void end_hand_over();
  void kill_client(uint32_t index);
  void make_cables();
  [[nodiscard]] Instant next_event() const;
  void deliver(Arrival&& frame);
  // What waits for its frame or segment.
  void begin_at_count();
  void hand_over(uint32_t host, const Arrival& frame);
  void take_burst();
  // The frame is one that a standard client refuses although ours would not: it has been answered, and the client's connection
  // is over.
  [[nodiscard]] bool refuses(uint32_t index, const Arrival& frame);
  void serve(uint32_t host);
  void serve_gateway(Instant host_now);
  void serve_client(uint32_t index, Instant host_now);
  void serve_hostile(uint32_t index);
  void plan_next(uint32_t host);
  template <typename Send>
  void transmit(node::Node& node, BufferPool& pool, Instant host_now, Send&& send);
  void run_happenings();
  void run_hostiles();
  void begin(Happening& happening);
  void end(Happening& happening);
  void reload(gateway::GatewayOptions fresh);
  void set_backend_mood();
  void starve(uint32_t permille);
  [[nodiscard]] uint32_t host_of_hostile(uint32_t index) const { return 1 + static_cast<uint32_t>(clients_.size()) + index; }
  // Turns by the streams alone.
  void advance_streams();
  [[nodiscard]] TcpHost* tcp_of(uint32_t host) const;
  [[nodiscard]] const iwarp::IwarpTransport* iwarp_of(uint32_t host) const;
  [[nodiscard]] Link& cable_to(uint32_t host) const;
  [[nodiscard]] Instant clock_of(uint32_t host) const { return now_ + hosts_[host].offset; }
  [[nodiscard]] bool is_up(uint32_t host) const;
  void trace(const char* what, uint32_t host, uint64_t number);

  const Scenario& scenario_;
  Verdict& verdict_;
  FabricTaps taps_;
  Instant start_ = Instant::from_ns(1'000'000'000);
  Instant now_ = start_;
  Ledger ledger_;
  WatchedProgram program_;
  WorldOptions options_;
  Flight flight_;
  TcpNet tcp_;
  std::vector<HostClock> hosts_;
  std::unique_ptr<GatewayHost> gateway_;
  GatewayWatch watch_;
  std::vector<ClientSlot> clients_;
  std::vector<HostileSlot> hostiles_;
  std::vector<Happening> happenings_;
  Chain starved_;
  bool clients_close_ = false;
  bool gateway_closes_ = false;
  bool shut_down_ = false;                         // this life of the gateway has been told to end
  bool handing_over_ = false;                      // likewise, and to hand over its connections
  std::vector<std::vector<uint8_t>> handed_over_;  // by the last process, for the next one
  bool draining_ = false;                          // and may start again as soon as it is quiet
  bool clients_timed_out_ = false;                 // some client, alive or dead, gave up waiting for an answer
  TraceHash hash_;
  uint64_t frames_ = 0;
  uint64_t segments_ = 0;  // of streams, that arrived
  uint64_t generation_ = 0;
  Coverage coverage_;
  uint64_t service_turns_ = 0;
  std::vector<std::vector<uint8_t>> burst_;  // what the gateway's core finds at its port with its next turn
  uint64_t undelivered_ = 0;                 // frames that found no Buffer, or were longer
  uint64_t reads_refused_ = 0;               // by standard clients, of keys that were dead
  uint64_t left_over_ = 0;                   // connections of dead clients that nobody had noticed until the gateway shut down
};

}  // namespace cw::sim
