// The kernel's TCP connections of an iWARP transport: accepted, connected, read and written without blocking, all by the thread
// of one core. Needs no DPDK.
//
// A socket is read straight into the buffers that the transport offers, and written straight from those that messages lie in.
// epoll tells of changes (edge-triggered), so that what waits costs nothing. A socket that was the only one with something to
// read is read without asking epoll first, for as long as it goes on; epoll is asked again within microseconds, for the others.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/intrusive_list.h"
#include "control/config/kernel_address.h"
#include "dataplane/wire_shell.h"
#include "iwarp/transport.h"

namespace cw::dataplane {

struct TcpStreamsOptions {
  // Where connections are taken. A port that is not listed is taken on every own address, of both families.
  std::vector<control::SocketAddress> listen;
  // Where iWARP has cores of its own, the others take nobody.
  bool listens = true;
  uint32_t backlog = 1024;
  // Nothing acknowledged for so long: the peer is gone.
  Duration user_timeout = Duration::seconds(30);
  // An idle peer is asked after so long whether it is there; 0: never.
  Duration keepalive = Duration::seconds(30);
};

class TcpStreams final : public iwarp::StreamHost, public WireShell {
 public:
  explicit TcpStreams(const TcpStreamsOptions& options);
  ~TcpStreams() override;
  TcpStreams(const TcpStreams&) = delete;
  TcpStreams& operator=(const TcpStreams&) = delete;

  // Before anything else. The transport lives as long as there are connections.
  void attach(iwarp::IwarpTransport& transport) { transport_ = &transport; }

  // For connections and listeners to come.
  void reconfigure(const TcpStreamsOptions& fresh) { options_ = fresh; }

  // WireShell
  bool receive(Instant now) override;
  bool transmit(Instant now) override;
  [[nodiscard]] int fd() const override { return epoll_fd_; }
  [[nodiscard]] bool in_use() const override { return in_use_ > 0; }
  // Readable sockets that have had their share of a turn: epoll does not tell of them again.
  [[nodiscard]] bool may_sleep(Instant /*now*/) override { return readable_.empty(); }

  // iwarp::StreamHost
  [[nodiscard]] Status listen(uint16_t port) override;
  void unlisten(uint16_t port) override;
  [[nodiscard]] Status connect(iwarp::StreamId stream, const IpAddress& server, uint16_t port) override;
  void finish(iwarp::StreamId stream) override;
  void release(iwarp::StreamId stream, iwarp::ReleaseKind kind) override;
  [[nodiscard]] std::optional<iwarp::TcpPath> path(iwarp::StreamId stream) const override;
  [[nodiscard]] iwarp::TcpStats look_at_tcp() override;

 private:
  // Buffers that a read is offered: the kernel looks at each of them, needed or not.
  static constexpr uint32_t kPiecesMin = 4;
  static constexpr uint32_t kPiecesMax = iwarp::SpareBuffers::kCount + 1;
  struct ReadableTag {};
  struct Socket : ListNode<ReadableTag> {
    int fd = -1;
    iwarp::StreamId stream;
    bool connecting = false;
    bool blocked = false;          // writing: until epoll says otherwise
    bool paused = false;           // reading: until the transport offers room again
    bool peer_finished = false;    // FIN has been seen, if not read
    uint32_t pieces = kPiecesMin;  // that the next read is offered: all of them to one that filled the last
    uint32_t retransmits = 0;      // as of the last look
  };
  struct Listener {
    int fd = -1;
    uint16_t port = 0;
  };

  [[nodiscard]] Socket* find(iwarp::StreamId stream);
  [[nodiscard]] const Socket* find(iwarp::StreamId stream) const;
  // The one that may be read before epoll is asked again. nullptr: ask.
  [[nodiscard]] Socket* favourite(Instant now);
  // True when something has changed.
  bool ask_epoll(Instant now);
  void count_retransmits(Socket& socket);
  [[nodiscard]] bool add(int fd, iwarp::StreamId stream, bool connecting);
  void remove(Socket& socket);
  void lose(Instant now, Socket& socket, int error);
  void set_options(int fd) const;
  [[nodiscard]] static uint32_t mss_of(int fd);
  [[nodiscard]] bool open_listener(const control::SocketAddress& address);
  void accept_some(Instant now, const Listener& listener);
  void on_event(Instant now, Socket& socket, uint32_t events);
  enum class Read : uint8_t { kNothing, kSome, kMore };  // kMore: it has had its share of the turn, and may have more
  [[nodiscard]] Read read_some(Instant now, iwarp::StreamId stream);
  void write_out(Instant now, iwarp::StreamId stream);

  TcpStreamsOptions options_;
  iwarp::IwarpTransport* transport_ = nullptr;
  int epoll_fd_;
  std::vector<std::unique_ptr<Socket>> sockets_;  // by the slot of their stream
  std::vector<Listener> listeners_;
  IntrusiveList<Socket, ReadableTag> readable_;
  uint32_t sampled_ = 0;  // the slot that look_at_tcp() goes on from
  uint32_t in_use_ = 0;   // descriptors, besides epoll's
  Instant accept_after_;  // descriptors had run out
  iwarp::StreamId favourite_;
  Instant favourite_until_;  // unless it goes on
  Instant ask_after_;        // epoll, also while there is a favourite
  iwarp::TcpStats stats_;
};

}  // namespace cw::dataplane
