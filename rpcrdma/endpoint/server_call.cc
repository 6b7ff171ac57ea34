#include "rpcrdma/endpoint/server_call.h"

#include "base/assert.h"

namespace cw::rpcrdma {

const char* to_string(CallState state) noexcept {
  switch (state) {
    case CallState::kFree:
      return "free";
    case CallState::kWaiting:
      return "waiting";
    case CallState::kReading:
      return "reading";
    case CallState::kSplicing:
      return "splicing";
    case CallState::kReady:
      return "ready";
    case CallState::kPolled:
      return "polled";
    case CallState::kReplying:
      return "replying";
  }
  return "unknown state";
}

ServerCallTable::ServerCallTable(uint32_t capacity) : slots_(std::make_unique<ServerCall[]>(capacity)), capacity_(capacity) {
  CW_ASSERT(capacity <= kSlotsMax);
  for (uint32_t i = capacity; i > 0; --i) {
    ServerCall& call = slots_[i - 1];
    call.slot = i - 1;
    call.next_free = free_;
    free_ = &call;
  }
}

ServerCallTable::~ServerCallTable() {
  CW_ASSERT(in_use_ == 0);
}

ServerCall* ServerCallTable::acquire(ServerEndpoint& owner, BackendShare* share) {
  ServerCall* call = free_;
  if (call == nullptr) {
    return nullptr;
  }
  free_ = call->next_free;
  ++in_use_;
  call->endpoint = &owner;
  call->share = share;
  if (share != nullptr) {
    ++share->slots;
  }
  call->chunks.clear();
  return call;
}

void ServerCallTable::release(ServerCall& call) {
  --in_use_;
  if (call.share != nullptr) {
    --call.share->slots;
  }
  // What the call held goes back now, and the next one starts with nothing of it.
  CallWork* work = &call;
  std::destroy_at(work);
  std::construct_at(work);
  end_generation(call);
  call.endpoint = nullptr;
  call.next_free = free_;
  free_ = &call;
}

ServerCall* ServerCallTable::find(CallId id) {
  const uint64_t slot = id.value() >> 32;
  if (slot >= capacity_) {
    return nullptr;
  }
  ServerCall& call = slots_[slot];
  return call.generation == static_cast<uint32_t>(id.value()) && call.state != CallState::kFree ? &call : nullptr;
}

void ServerCallTable::end_generation(ServerCall& call) {
  // Generation 0 is never used, so that a zero CallId names nothing.
  if (++call.generation == 0) {
    call.generation = 1;
  }
}

}  // namespace cw::rpcrdma
