// The bench program as an ONC RPC server over TCP on the loopback interface: the backend of tests and benches. One thread serves
// all connections; it starts in the constructor and ends in the destructor.
#pragma once

#include <atomic>
#include <cstdint>
#include <list>
#include <thread>

#include "base/heap_buffer_pool.h"
#include "rpcrdma/backend/bench_program.h"
#include "rpcrdma/rpc/record_mark.h"

namespace cw::test {

struct TcpBenchServerOptions {
  uint16_t port = 0;               // 0 = any that is free
  uint32_t write_bytes_max = 0;    // per write, to make replies trickle; 0 = as many as go
  uint32_t close_after_calls = 0;  // closes each connection after so many calls, the last of them unanswered; 0 = never
  bool answers = true;             // false: reads calls and says nothing
  bool spin = false;               // never sleep
  uint32_t buffer_bytes = 65536;   // of replies and of what is read
  uint32_t buffer_count = 512;
};

class TcpBenchServer {
 public:
  explicit TcpBenchServer(const TcpBenchServerOptions& options = {});
  ~TcpBenchServer();
  TcpBenchServer(const TcpBenchServer&) = delete;
  TcpBenchServer& operator=(const TcpBenchServer&) = delete;

  [[nodiscard]] uint16_t port() const { return port_; }
  // Any thread. Closes every connection as a server that dies would; goes on listening.
  void drop_connections();
  [[nodiscard]] uint64_t calls() const { return calls_.load(); }
  [[nodiscard]] uint64_t connections() const { return connections_made_.load(); }

 private:
  struct Connection;
  void run();
  [[nodiscard]] bool serve_alone();
  void accept_all();
  [[nodiscard]] bool has_room(const Connection& connection) const;
  // False when the connection has to go.
  [[nodiscard]] bool read(Connection& connection);
  [[nodiscard]] bool answer(Connection& connection, const Chain& call);
  [[nodiscard]] bool write(Connection& connection);

  TcpBenchServerOptions options_;
  int listener_ = -1;
  int wake_ = -1;
  uint32_t turns_alone_ = 0;
  uint16_t port_ = 0;
  HeapBufferPool pool_;
  rpcrdma::RecordAdmission admission_{pool_};
  rpcrdma::BenchProgram bench_;
  rpcrdma::ProgramRegistry programs_;
  std::list<Connection> clients_;
  std::atomic<bool> stop_{false};
  std::atomic<bool> drop_{false};
  std::atomic<uint64_t> calls_{0};
  std::atomic<uint64_t> connections_made_{0};
  std::thread thread_;
};

}  // namespace cw::test
