// Stands for the workers, their sockets and the server behind them: runs a program on what it is sent, after a while, and can be
// as slow, silent, closed or talkative as servers are. Messages come as records in a byte stream, cut into fragments and reads of
// any size, through the reader and the admission that workers have. A CALLBACK of the bench program is answered and, on the same
// connection, followed or overtaken by the call that it asks for, whose reply is judged.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/heap_buffer_pool.h"
#include "base/random.h"
#include "base/time.h"
#include "gateway/backend_link.h"
#include "rpcrdma/backend/backend.h"
#include "rpcrdma/backend/bench_callback.h"
#include "rpcrdma/rpc/record_mark.h"

namespace cw::sim {

class SimBackend {
 public:
  // The memory into which the workers read replies.
  struct Memory {
    uint32_t buffers = 0;                                               // that `pool` has
    uint64_t record_bytes = rpcrdma::RecordLimits().message_bytes_max;  // of the longest reply, if the pool can hold it
  };
  // `backends` share the pool. Both references must outlive the backend.
  SimBackend(BufferPool& pool, rpcrdma::Program& program, const Memory& memory, uint32_t backends = 1);
  ~SimBackend();

  Duration open_delay = Duration::us(50);
  Duration port_busy_for;  // opens wait for their source port, and say so; none: they have it
  Duration call_delay = Duration::us(20);
  Duration call_jitter;                    // replies overtake each other
  bool refuses = false;                    // opens fail
  uint32_t refusing_backends = 0;          // opens to these fail, one bit per backend
  std::vector<IpAddress> refused_clients;  // opens for these fail
  uint32_t silent_backends = 0;            // take calls and say nothing
  uint32_t hung_backends = 0;              // stop in the middle of the next reply of each connection, one bit per backend
  uint32_t slow_backends = 0;              // answer `slow_by` later
  Duration slow_by;
  bool repeats_itself = false;     // says every reply twice
  bool silent = false;             // takes calls and opens, says nothing
  bool talks_nonsense = false;     // sends what nobody asked for beside each reply
  uint32_t close_after_calls = 0;  // close each connection after so many calls; 0 = never

  void on_request(Instant now, gateway::BackendRequest&& request);
  [[nodiscard]] Instant next_at() const;
  [[nodiscard]] bool poll(Instant now, gateway::BackendEvent& out);
  // The server goes: every open connection is closed.
  void close_all(Instant now);
  [[nodiscard]] size_t open_count() const { return open_.size(); }

  // Its open connections, and the XID of the last call that came.
  [[nodiscard]] std::vector<gateway::LinkId> links() const;
  [[nodiscard]] uint32_t last_xid() const { return last_xid_; }
  // That connections were asked for from, in order.
  [[nodiscard]] const std::vector<uint16_t>& source_ports() const { return source_ports_; }

  // Of each connection that carried calls: where it came from, and the XID of its first call.
  struct FirstCall {
    uint16_t source_port = 0;
    uint32_t xid = 0;
  };
  [[nodiscard]] const std::vector<FirstCall>& first_calls() const { return first_calls_; }

  struct CallbackStats {
    uint64_t sent = 0;
    uint64_t right = 0;    // answered with the data sent
    uint64_t refused = 0;  // answered with SYSTEM_ERR: the gateway could not deliver it
    uint64_t wrong = 0;    // answered otherwise, or more than once
  };
  [[nodiscard]] const CallbackStats& callbacks() const { return callbacks_; }
  // Of the workers: replies that had to wait for memory, and connections closed since a reply did not go on.
  [[nodiscard]] uint64_t replies_waited() const { return replies_waited_ + (admission_ ? admission_->waited() : 0); }
  [[nodiscard]] uint64_t replies_stalled() const { return replies_stalled_; }
  // Called back and not answered yet, over the open connections.
  [[nodiscard]] size_t callbacks_pending() const;

 private:
  struct Link {
    gateway::LinkId id;
    uint32_t backend = 0;
    uint32_t calls = 0;
    uint16_t source_port = 0;
    bool has_called = false;
    Instant open_at;
    std::unique_ptr<rpcrdma::RecordReader> reader;
    std::vector<uint8_t> stream;  // sent by the server and not read yet
    size_t stops_at = SIZE_MAX;   // in `stream`: the server hangs there
    Instant due = Instant::never();
    uint32_t nonsense_calls = 0;                                           // sent and not answered yet
    std::vector<std::pair<uint32_t, rpcrdma::BenchCallback>> called_back;  // by XID
  };
  void call_back(Instant now, const gateway::BackendRequest& request, const rpcrdma::CallContext& context);
  void on_reply(const gateway::BackendRequest& request);
  void on_open(Instant now, const gateway::BackendRequest& request);
  // False: the connection is closed or closes now, so that the call has no answer.
  [[nodiscard]] bool take_call(Instant now, const gateway::BackendRequest& request);
  void talk_nonsense(Instant now, const gateway::BackendRequest& request, uint32_t xid);
  void later(Instant at, gateway::BackendEvent&& event);
  [[nodiscard]] Link* find(gateway::LinkId id);
  void forget(gateway::LinkId id);
  void write(Link& link, const Chain& message);
  // What a worker does when a socket has something; false: the connection is over.
  bool read(Instant now, Link& link);
  void settle(Instant now, Link& link);
  void work(Instant now);

  BufferPool& pool_;
  HeapBufferPool server_memory_;
  rpcrdma::LocalRecordBudget budget_;
  rpcrdma::RecordLimits limits_;
  uint32_t reserve_;
  std::optional<rpcrdma::RecordAdmission> admission_;  // while there are connections
  uint64_t replies_waited_ = 0;
  uint64_t replies_stalled_ = 0;
  Instant worked_at_;
  bool pending_ = false;  // the workers have something to look at again
  rpcrdma::ProgramRegistry programs_;
  SeededRandom random_{1};
  SeededRandom cuts_{2};  // of the byte streams
  CallbackStats callbacks_;
  std::vector<Link> open_;
  std::vector<uint16_t> source_ports_;
  std::vector<FirstCall> first_calls_;
  uint32_t last_xid_ = 0;
  std::deque<std::pair<Instant, gateway::BackendEvent>> events_;  // that the servers bring about
  std::deque<gateway::BackendEvent> ready_;                       // that the workers tell of
};

}  // namespace cw::sim
