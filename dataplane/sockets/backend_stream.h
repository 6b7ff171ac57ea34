// One TCP connection to a backend: record-marked RPC messages out, messages in. Owned by one worker thread.
//
// Out: messages queue as Chains and leave by sendmsg straight from their buffers, many messages per call. In: the socket is read
// into large Buffers; messages come out as views of them. Nothing is copied. A stream that fails says so once and is then
// destroyed by its owner.
#pragma once

#include <array>
#include <cstdint>
#include <deque>

#include "base/buffer.h"
#include "base/ip_address.h"
#include "control/config/kernel_address.h"
#include "rpcrdma/rpc/record_mark.h"

namespace cw::dataplane {

class BackendStream {
 public:
  // kPortBusy: the source port has another connection to the server, or had one lately: reconnect() tries again.
  enum class State : uint8_t { kPortBusy, kConnecting, kOpen, kFailed };
  // Which ones it may take: a client's connection leaves the last ones to the operator (control/socket/descriptor_reserve.h).
  enum class Descriptors : uint8_t { kNotReserved, kReservedToo };

  // Starts connecting: from `source`, any address of the server's family, also one that this host does not have (may_borrow());
  // the unspecified address is this host's. What is read takes memory of `admission`, which knows the stream by `backend` and
  // `owner`, as RecordReader says.
  BackendStream(const control::SocketAddress& server, const IpAddress& source, rpcrdma::RecordAdmission& admission,
                const rpcrdma::RecordLimits& limits, uint32_t backend = 0, uint64_t owner = 0, uint16_t source_port = 0,
                Descriptors descriptors = Descriptors::kNotReserved);
  ~BackendStream();
  BackendStream(const BackendStream&) = delete;
  BackendStream& operator=(const BackendStream&) = delete;

  [[nodiscard]] int fd() const { return fd_; }
  [[nodiscard]] State state() const { return state_; }
  // errno of the failure, for the log; 0 = the backend closed the connection; ETIMEDOUT also: a record did not go on.
  [[nodiscard]] int failure() const { return failure_; }

  // Whether this process may connect from addresses that the host does not have (CAP_NET_RAW, or CAP_NET_ADMIN).
  [[nodiscard]] static bool may_borrow();

  // kPortBusy: once more, from that port (0: any).
  void reconnect(uint16_t source_port);
  // The socket became writable while connecting: finds out whether it worked.
  void finish_connect();
  // Queues a message; flush() sends.
  void queue(Chain&& message);
  void flush();
  [[nodiscard]] bool wants_write() const { return state_ == State::kConnecting || (state_ == State::kOpen && !out_.empty()); }
  // Reads what is there, up to a budget; messages are then polled. True when there may be more.
  bool read();
  // The next record waits for memory: nothing is read until the admission has named this stream.
  [[nodiscard]] bool is_waiting() const { return reader_.is_waiting(); }
  // Behind read() and poll_message(): gives back what is not needed.
  void end_turn() { reader_.end_turn(); }
  // A record has begun that is not complete. Who asks at the end of each turn learns by due() when it has to have gone on;
  // stall() fails the stream then.
  [[nodiscard]] bool is_unfinished() const { return state_ == State::kOpen && reader_.is_unfinished(); }
  [[nodiscard]] Instant due(Instant now) { return reader_.due(now); }
  void stall();
  [[nodiscard]] bool poll_message(Chain& out) { return reader_.poll_message(out); }
  // A message is complete but found no view: poll again later.
  [[nodiscard]] bool has_message() const { return reader_.has_message(); }

 private:
  struct Outgoing {
    std::array<uint8_t, rpcrdma::kRecordMarkBytes> mark;
    uint32_t mark_sent = 0;
    Chain message;
  };
  void fail(int error);
  [[nodiscard]] bool bind_to(const IpAddress& source, uint16_t port);
  void start_connecting();
  void consume(size_t bytes);

  control::SocketAddress server_;
  control::SocketAddress source_;
  Descriptors descriptors_;
  int fd_ = -1;
  State state_ = State::kConnecting;
  int failure_ = 0;
  std::deque<Outgoing> out_;
  rpcrdma::RecordReader reader_;
};

}  // namespace cw::dataplane
