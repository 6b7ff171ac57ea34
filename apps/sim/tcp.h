// TCP of a simulation: the hosts of iWARP transports, and the byte streams between them, under the simulated clock. What the
// kernel's TCP may do to a stream happens here: segments of any size, delay, buffers that fill up and so take a part of a write,
// RST and FIN at any byte, connects that are refused or never answered, peers whose machine has died. Loss and reordering on a
// real TCP are delay, so they are stalls.
//
//   TcpHost::receive()   accepts, connects, reads into the transport's buffers         as dataplane/sockets does
//   TcpHost::transmit()  writes what the transport has, as far as the peer's window reaches
//   TcpNet::advance()    what arrives by now, and who has to be served for it
//
// Faults (fault.h) act on the streams that one host has called, each with draws of its own.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "apps/sim/fault.h"
#include "base/random.h"
#include "iwarp/transport.h"

namespace cw::sim {

struct TcpOptions {
  Duration delay = Duration::us(5);  // one way
  uint32_t mss_bytes = 1460;
  uint32_t buffer_bytes = 65536;                  // of a direction: written, and not read by the peer
  Duration user_timeout = Duration::seconds(30);  // a peer that says nothing for so long is gone
  Duration connect_again = Duration::seconds(1);  // until the next attempt of a connect without an answer
};

// What becomes of a process' streams when it ends.
enum class Death : uint8_t {
  kClosed,  // the kernel closes them
  kReset,   // and has RST for each
  kSilent,  // the machine is gone: nobody says anything, until it is there again and knows nothing of them
};

// How a host breaks the rules on each of its streams, counted from when it begins to.
struct TcpLie {
  uint64_t read_bytes_max = UINT64_MAX;   // then its window stays closed
  uint64_t write_bytes_max = UINT64_MAX;  // then it says nothing more
  uint32_t honest_writes = UINT32_MAX;    // then it writes `instead`, and nothing more
  std::vector<uint8_t> instead;
};

class TcpNet;

class TcpHost final : public iwarp::StreamHost {
 public:
  // `index`: of the host; one of an index lives at a time. The net outlives it.
  TcpHost(TcpNet& net, uint32_t index, const IpAddress& address);
  ~TcpHost() override;
  TcpHost(const TcpHost&) = delete;
  TcpHost& operator=(const TcpHost&) = delete;

  // Before anything else.
  void attach(iwarp::IwarpTransport& transport) { transport_ = &transport; }
  // Takes what has come. `now`: of the host's own clock.
  void receive(Instant now);
  void transmit(Instant now);
  // Another turn would find something to do.
  [[nodiscard]] bool has_work() const;
  // The process ends, before its transport goes.
  void die(Death death);
  void begin_lie(TcpLie lie) { lie_ = std::move(lie); }
  // A TCP connection in the name of `from` that says `bytes` and nothing else, not even when it ends.
  void knock(const IpAddress& from, const IpAddress& server, uint16_t port, Bytes bytes);

  // iwarp::StreamHost
  [[nodiscard]] Status listen(uint16_t port) override;
  void unlisten(uint16_t port) override;
  [[nodiscard]] Status connect(iwarp::StreamId stream, const IpAddress& server, uint16_t port) override;
  void finish(iwarp::StreamId stream) override;
  void release(iwarp::StreamId stream, iwarp::ReleaseKind kind) override;
  [[nodiscard]] std::optional<iwarp::TcpPath> path(iwarp::StreamId stream) const override;
  [[nodiscard]] iwarp::TcpStats look_at_tcp() override { return stats_; }

 private:
  friend class TcpNet;
  struct Place {
    uint64_t connection = 0;
    uint32_t end = 0;
  };

  struct Lied {
    uint64_t read = 0;
    uint64_t written = 0;
    uint32_t writes = 0;
    bool is_done = false;
  };

  [[nodiscard]] uint64_t open_connection(const IpAddress& server, uint16_t port);
  // Instead of the stream's own bytes. False: these are to be written, up to `most`.
  [[nodiscard]] bool write_lie(Place place, uint64_t stream, uint64_t& most);
  void read_some(Instant now, Place place);
  void write_out(Instant now, Place place);
  void lose(Instant now, Place place);

  TcpNet& net_;
  uint32_t index_;
  IpAddress address_;
  iwarp::IwarpTransport* transport_ = nullptr;
  std::vector<uint16_t> ports_;
  std::map<uint64_t, Place> sockets_;  // by stream
  std::deque<uint64_t> backlog_;       // connections to be accepted
  std::set<uint64_t> pending_;         // streams that have news
  std::vector<uint64_t> knocks_;       // connections
  bool has_more_to_send_ = false;
  std::optional<TcpLie> lie_;
  std::map<uint64_t, Lied> lied_;  // by stream
  iwarp::TcpStats stats_;
};

class TcpNet {
 public:
  // Told of whatever arrives: at which host, and the bytes, if any.
  using Arrived = std::function<void(uint32_t host, Bytes bytes)>;

  TcpNet(const TcpOptions& options, uint64_t seed) : options_(options), random_(seed) {}
  TcpNet(const TcpNet&) = delete;
  TcpNet& operator=(const TcpNet&) = delete;

  // To the streams that this host calls. Precondition: is_stream_fault(fault.kind). at_frame counts bytes of the direction.
  void add_fault(uint32_t host, const Fault& fault, Instant start);

  [[nodiscard]] Instant now() const { return now_; }
  // When the next thing arrives.
  [[nodiscard]] Instant next_at() const { return events_.empty() ? Instant::never() : events_.begin()->first.at; }
  // Moves time. Calls `arrived` for each thing that arrives until `now`, in order.
  void advance(Instant now, const Arrived& arrived);
  // Nobody has a connection, and none is on its way.
  [[nodiscard]] bool is_quiet() const { return connections_.empty(); }
  [[nodiscard]] uint32_t connection_count() const { return static_cast<uint32_t>(connections_.size()); }
  // Of all connections that this host has called, by direction: 0 from it, 1 to it.
  [[nodiscard]] uint64_t bytes_of(uint32_t host, uint32_t direction) const;
  // Of the cable of this host, each way.
  void limit(uint32_t host, uint64_t bits_per_second) { paths_[host].bits_per_second = bits_per_second; }
  // Drawn anew each time.
  [[nodiscard]] Death draw_death();

 private:
  friend class TcpHost;

  enum class EndState : uint8_t { kConnecting, kBacklog, kOpen, kClosed, kSilent };
  struct Segment {
    std::vector<uint8_t> bytes;
    bool fin = false;
    bool reset = false;
  };
  struct End {
    EndState state = EndState::kConnecting;
    uint32_t host = 0;
    std::optional<iwarp::StreamId> stream;
    bool paused = false;      // reading: the transport has no room
    bool blocked = false;     // writing: the peer's window is closed
    bool is_told_up = false;  // a connecting one: the answer has come
    bool fin_told = false;
    // What has arrived here
    std::deque<uint8_t> arrived;
    bool fin_arrived = false;
    bool reset_arrived = false;
    bool timed_out = false;
    // What has left from here
    std::deque<Segment> flight;
    uint64_t written = 0;
    uint64_t unread = 0;  // of it, by the peer
    Instant last_at;
    bool fin_sent = false;
    bool swallows = false;  // it was cut: nothing more arrives
    uint64_t cut_at = UINT64_MAX;
    FaultKind cut = FaultKind::kStreamReset;
    uint64_t faults_drawn = 0;  // a bit for each fault of the path
  };
  struct Connection {
    uint32_t caller = 0;  // host
    uint16_t port = 0;
    uint16_t peer_port = 0;
    IpAddress from;
    std::array<End, 2> ends;  // 0: who called
  };
  enum class EventKind : uint8_t { kSyn, kUp, kRefused, kSegment, kWritable, kReset, kTimeout };
  struct EventKey {
    Instant at;
    uint64_t number = 0;
    [[nodiscard]] bool operator<(const EventKey& other) const { return at != other.at ? at < other.at : number < other.number; }
  };
  struct Event {
    uint64_t connection = 0;
    uint32_t end = 0;  // whom it happens to
    EventKind kind = EventKind::kSyn;
  };
  struct Trouble {
    Fault fault;
    Window window;
    SeededRandom random;
    bool is_over = false;
  };
  struct Path {
    std::deque<Trouble> troubles;
    std::array<uint64_t, 2> bytes{};
    uint64_t bits_per_second = 0;         // 0: no limit
    std::array<Instant, 2> busy_until{};  // by direction
  };

  [[nodiscard]] Connection* find(uint64_t id);
  void post(Instant at, uint64_t connection, uint32_t end, EventKind kind);
  void happen(uint64_t id, Connection& connection, const Event& event, const Arrived& arrived);
  void on_syn(uint64_t id, Connection& connection, const Arrived& arrived);
  void on_segment(uint64_t id, Connection& connection, uint32_t to, const Arrived& arrived);
  void wake(const End& end);
  // Takes as much as there is room for.
  [[nodiscard]] uint64_t write(uint64_t id, uint32_t end, std::span<const Bytes> pieces, uint64_t at_most = UINT64_MAX);
  void send(uint64_t id, Connection& connection, uint32_t from, std::span<const uint8_t> bytes);
  void push(uint64_t id, Connection& connection, uint32_t from, Segment&& segment);
  void read(uint64_t id, uint32_t end, uint64_t bytes);
  void finish(uint64_t id, uint32_t end);
  void close(uint64_t id, uint32_t end, Death how);
  void erase_if_over(uint64_t id);
  void draw_cuts(Path& path, End& end, uint32_t direction);
  // The byte of the direction before which the stream is cut.
  [[nodiscard]] uint64_t cut_in(Path& path, const End& end, uint32_t direction, Trouble*& by);
  [[nodiscard]] uint32_t segment_bytes(Path& path, uint32_t direction, uint32_t number, bool& is_tiny);
  [[nodiscard]] Duration hold_of(Path& path, uint32_t direction);
  [[nodiscard]] uint64_t buffer_bytes(Path& path) const;
  [[nodiscard]] bool acts(const Trouble& trouble, FaultKind kind, uint32_t direction) const;
  [[nodiscard]] bool has_trouble(uint32_t caller, FaultKind kind);

  TcpOptions options_;
  SeededRandom random_;
  Instant now_;
  uint64_t number_ = 0;
  uint64_t next_connection_ = 1;
  uint16_t next_port_ = 40'000;
  std::map<EventKey, Event> events_;
  std::map<uint64_t, Connection> connections_;
  std::map<uint32_t, Path> paths_;      // by the host that calls
  std::map<uint32_t, TcpHost*> hosts_;  // that live, by index
  std::map<uint32_t, bool> is_silent_;  // machines that are gone
  std::map<uint32_t, IpAddress> addresses_;
};

}  // namespace cw::sim
