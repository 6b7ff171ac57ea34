// One side of perftest (-R: everything over RDMA CM): a control connection over which both sides go through the plan in step, and
// the data connections that the test is about. Client and server differ by their plan and by who speaks first.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "tests/peers/peer.h"
#include "tests/peers/perftest_plan.h"
#include "tests/peers/perftest_traffic.h"
#include "tests/peers/perftest_wire.h"

namespace cw::peers {

// What one size took, as this side saw it.
struct PerftestResult {
  uint64_t message_bytes = 0;
  uint64_t messages = 0;  // all queue pairs together
  Duration time;
};

class PerftestPeer final : public Peer {
 public:
  // `memory` and the pools must outlive it. `large` is where long payload is made; it may be `pool`.
  PerftestPeer(const PerftestOptions& options, uint32_t path_mtu_bytes, verbs::ProtectionDomain domain,
               verbs::MemoryTable& memory, BufferPool& pool, BufferPool& large);
  ~PerftestPeer() override;
  PerftestPeer(const PerftestPeer&) = delete;
  PerftestPeer& operator=(const PerftestPeer&) = delete;

  [[nodiscard]] uint32_t connections_wanted() const override { return wants_data_ ? 1 + options_.qps : 1; }
  [[nodiscard]] QpProfile profile(uint32_t index) const override;
  void attach(uint32_t index, verbs::QueuePair& qp) override;
  void detach(uint32_t index) override;
  void on_connected(Instant now, uint32_t index) override;
  void on_disconnected(Instant now, uint32_t index) override;
  void run(Instant now) override;
  // The other side's last message may wait for our acknowledgement once more, and perftest gives up without it.
  [[nodiscard]] Duration linger() const override { return Duration::seconds(5); }

  [[nodiscard]] const std::vector<PerftestResult>& results() const { return results_; }
  [[nodiscard]] const PerftestVersion& other_version() const { return other_version_; }

 private:
  struct Message {
    std::array<uint8_t, kPerftestMessageMax> raw{};
    uint32_t bytes = 0;
    [[nodiscard]] Bytes view() const { return Bytes(raw).first(bytes); }
  };
  [[nodiscard]] bool advance(Instant now);
  [[nodiscard]] bool exchange();
  [[nodiscard]] bool speak();
  [[nodiscard]] Message ours() const;
  [[nodiscard]] bool take(const Message& message);
  [[nodiscard]] Message report_field(uint64_t field) const;
  void collect_control();
  void make_memory();
  [[nodiscard]] bool run_traffic(Instant now);
  void check_memory();
  void end_plan();
  void check_sum();

  PerftestOptions options_;
  uint32_t path_mtu_bytes_;
  verbs::ProtectionDomain domain_;
  verbs::MemoryTable& memory_;
  BufferPool& pool_;
  PatternSource source_;
  std::vector<PerftestStep> plan_;
  size_t position_ = 0;
  bool spoken_ = false;    // of the present step: our message is out
  bool listened_ = false;  // and the other side's is in
  verbs::QueuePair* control_ = nullptr;
  bool control_connected_ = false;
  std::deque<Message> inbox_;  // at most kControlReceives
  bool wants_data_ = false;
  uint32_t data_connected_ = 0;
  std::vector<std::vector<uint8_t>> regions_;  // by data queue pair
  std::vector<verbs::Rkey> keys_;
  std::vector<PerftestLane> lanes_;
  std::unique_ptr<PerftestTraffic> traffic_;
  Instant traffic_begin_ = Instant::never();
  std::vector<PerftestResult> results_;
  PerftestVersion other_version_;
};

}  // namespace cw::peers
