// Call prediction: the next call most often begins as the last one did.
//
// What the general path has read in the headers of a small call, RPC-over-RDMA and RPC, is kept together with their bytes. A
// message that begins with the same bytes says the same, but for the XID, the credits that it asks for, and the procedure, which
// may be others: nothing has to be validated or decoded twice. There is no rule here that the general path does not have, and
// whatever differs is left to that.
//
// Only the common kind is learned: RDMA_MSG without chunks, in one Buffer, a well-formed call without RPCSEC_GSS, whose every
// credential is another. Each connection has a prediction of its own, since clients have credentials of their own. Those of a
// core lie in one table, so that an idle connection costs nothing; only with more connections than it has places some share one.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/bytes.h"
#include "rpcrdma/rpc/rpc_message.h"
#include "rpcrdma/wire/transport_header.h"

namespace cw::rpcrdma {

class CallPrediction {
 public:
  // `message`: transport header, and a call that read_rpc_call() has read as `header`. Longer headers than kBytesMax are not
  // learned.
  void learn(Bytes message, const RpcCallHeader& header);
  // Nothing matches until something has been learned again.
  void forget() { bytes_ = 0; }
  // Procedures may differ. False also when nothing has been learned.
  [[nodiscard]] bool matches(Bytes message) const;
  // Of a message that matches.
  [[nodiscard]] static uint32_t procedure_of(Bytes message) { return load_be32(message.data() + kProcedure); }
  // What read_rpc_call() would say of it.
  [[nodiscard]] RpcCallHeader header_of(Bytes message) const {
    RpcCallHeader header = header_;
    header.xid = load_be32(message.data());
    header.procedure = procedure_of(message);
    return header;
  }

 private:
  static constexpr uint32_t kRpc = kBareHeaderBytes;
  static constexpr uint32_t kProcedure = kRpc + 20;
  static constexpr uint32_t kCredential = kProcedure + 4;
  static constexpr uint32_t kWords = kProcedure / 8;  // in front of the procedure
  static constexpr uint32_t kBytesMax = 256;
  static_assert(kProcedure % 8 == 0);

  std::array<uint64_t, kWords> words_{};  // as they lie in memory; zero where calls differ
  std::array<uint8_t, kBytesMax> credential_{};
  uint32_t bytes_ = 0;  // of both headers; 0: nothing has been learned
  RpcCallHeader header_;
};

// Those of the endpoints of one core.
class CallPredictions {
 public:
  using Place = uint8_t;
  static constexpr uint32_t kPlaces = 256;  // 88 KiB: what the busiest of them touch stays near the processor

  CallPredictions() : predictions_(kPlaces) {}
  // The place that fewest endpoints have; another one has it from now on.
  [[nodiscard]] Place join();
  void leave(Place place) { --endpoints_[place]; }
  [[nodiscard]] CallPrediction& at(Place place) { return predictions_[place]; }
  [[nodiscard]] const CallPrediction& at(Place place) const { return predictions_[place]; }

  uint64_t calls_predicted = 0;  // that were not decoded
  uint64_t calls_learned = 0;    // that were, and might have been predicted

 private:
  std::vector<CallPrediction> predictions_;
  std::array<uint32_t, kPlaces> endpoints_{};
};

}  // namespace cw::rpcrdma
