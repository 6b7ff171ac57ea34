// What an NFSv4 COMPOUND asks for, operation by operation (RFC 8881 16.2). For counting only: nothing is decided by it.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "base/buffer.h"
#include "rpcrdma/rpc/rpc_message.h"

namespace cw::rpcrdma {

inline constexpr uint32_t kNfs4Operations = 76;  // numbers: 3 ACCESS .. 75 REMOVEXATTR (RFC 8276)
// The operation's name in lower case; nullptr for a number that no minor version knows.
[[nodiscard]] const char* nfs4_operation_name(uint32_t number);

// Numbers of operations; 0 is none.
struct CompoundCall {
  // Linux's longest, of a rename, has 10. What comes behind so many is not looked at.
  static constexpr uint32_t kOperationsMax = 16;

  uint8_t count = 0;
  // What the client wanted, the others lead there or look at what came of it: READ of SEQUENCE, PUTFH, READ, GETATTR. 0: nothing
  // is known of it.
  uint8_t principal = 0;
  std::array<uint8_t, kOperationsMax> numbers;  // uninitialised beyond `count`

  void clear() { count = principal = 0; }
  [[nodiscard]] std::span<const uint8_t> operations() const { return {numbers.data(), count}; }
};

// `header` was read from `call`, which is whole again. Ends with the first operation that no minor version knows, since its
// arguments cannot be passed over. Nothing is found in what is no COMPOUND, or is protected by RPCSEC_GSS (RFC 8166 8.2.2).
void read_compound_call(const RpcCallHeader& header, const Chain& call, CompoundCall& out);

}  // namespace cw::rpcrdma
