// Both sides of rping (rdma-core, librdmacm/examples), each one connection.
//
//   client                                   server
//     SEND  where the text is         ────>    READs the text
//     gets the signal                 <────    SEND
//     SEND  where the echo shall go   ────>    WRITEs the text back, up to and with its terminating zero
//     compares, begins again          <────    SEND
//
// The client leaves after its last comparison.
#pragma once

#include <cstdint>
#include <vector>

#include "base/buffer.h"
#include "tests/peers/peer.h"
#include "tests/peers/rping_message.h"

namespace cw::peers {

// What both sides share: the queue pair, sending the message, and its completions.
class RpingPeer : public Peer {
 public:
  [[nodiscard]] uint32_t connections_wanted() const override { return 1; }
  void attach(uint32_t index, verbs::QueuePair& qp) override;
  void detach(uint32_t /*index*/) override { qp_ = nullptr; }
  void run(Instant now) override;

  // Rounds that are complete.
  [[nodiscard]] uint64_t pings() const { return pings_; }

 protected:
  explicit RpingPeer(BufferPool& pool) : pool_(pool) {}
  virtual void on_message(const RpingMessage& message) = 0;
  virtual void on_work_done(verbs::Completion& done) = 0;
  // Posts the message, at once or as soon as there is room.
  void send(const RpingMessage& message);
  [[nodiscard]] bool is_sending() const { return sends_waiting_; }
  void refused(const char* what);

  BufferPool& pool_;
  verbs::QueuePair* qp_ = nullptr;
  uint64_t pings_ = 0;

 private:
  void post_waiting();
  void on_completion(verbs::Completion& done);

  RpingMessage waiting_;
  bool sends_waiting_ = false;
};

class RpingServer final : public RpingPeer {
 public:
  explicit RpingServer(BufferPool& pool) : RpingPeer(pool) {}

  [[nodiscard]] QpProfile profile(uint32_t index) const override;
  void on_connected(Instant /*now*/, uint32_t /*index*/) override {}
  void on_disconnected(Instant now, uint32_t index) override;
  [[nodiscard]] Duration linger() const override { return Duration(); }  // it is done when the client has left

 private:
  enum class State : uint8_t { kWaitSource, kReading, kWaitSink, kWriting };
  void on_message(const RpingMessage& message) override;
  void on_work_done(verbs::Completion& done) override;

  State state_ = State::kWaitSource;
  Chain text_;
};

class RpingClient final : public RpingPeer {
 public:
  struct Options {
    uint32_t bytes = 64;  // of the text, its zero included: 1..kRpingBytesMax
    uint32_t count = 1;   // rounds
    verbs::ProtectionDomain domain;
  };
  RpingClient(const Options& options, verbs::MemoryTable& memory, BufferPool& pool);
  ~RpingClient() override;

  [[nodiscard]] QpProfile profile(uint32_t index) const override;
  void on_connected(Instant now, uint32_t index) override;
  void on_disconnected(Instant now, uint32_t index) override;
  [[nodiscard]] Duration linger() const override { return Duration::ms(20); }  // the last acknowledgement goes out first

 private:
  enum class State : uint8_t { kUnconnected, kOffersSource, kOffersSink };
  void begin_round();
  void offer(verbs::Rkey key);
  void on_message(const RpingMessage& message) override;
  void on_work_done(verbs::Completion& /*done*/) override {}

  Options options_;
  verbs::MemoryTable& memory_;
  std::vector<uint8_t> source_;
  std::vector<uint8_t> sink_;
  verbs::Rkey source_key_;  // grants reading only
  verbs::Rkey sink_key_;    // grants writing only
  State state_ = State::kUnconnected;
};

}  // namespace cw::peers
