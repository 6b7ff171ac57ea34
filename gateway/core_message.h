// What the gateways of a process's poll cores say to each other about clients, whose connections may lie on several of them, and
// about backends. Values only: they cross a ring between threads.
#pragma once

#include <cstdint>
#include <deque>

#include "base/core_share.h"
#include "base/ip_address.h"
#include "gateway/backend_link.h"

namespace cw::gateway {

struct CoreMessage {
  enum class Kind : uint32_t {
    kFence,        // tell `link` (kFenceDone, to its core) when the calls that `client` has at `index`, a backend, are answered
    kFenceDone,    // that is so
    kBrokenCall,   // call `xid` of `client` at `index`, a listener, has broken its connection: see BrokenCalls
    kBackendUp,    // backend `index` has taken a connection (`value` 1) or not (0), where it had not or had before
    kServerState,  // server number `server` of backend `index` is in the control::ServerState `value`
  };
  Kind kind = Kind::kFence;
  uint32_t index = 0;
  LinkId link;
  IpAddress client;
  uint32_t xid = 0;
  uint32_t value = 0;  // kFenceDone: 1 = there were calls
  uint32_t server = 0;
  uint32_t reserved = 0;
};

// What waits to be sent to gateways of other cores. Grows with connections, never with calls.
class CoreMails {
 public:
  struct Mail {
    uint32_t to = 0;  // the core
    CoreMessage message;
  };

  explicit CoreMails(const CoreShare& core) : core_(core) {}

  [[nodiscard]] const CoreShare& core() const { return core_; }
  void tell(uint32_t core, const CoreMessage& message) { mails_.push_back({core, message}); }
  void tell_others(const CoreMessage& message) {
    for (uint32_t core = 0; core < core_.count; ++core) {
      if (core != core_.index) {
        mails_.push_back({core, message});
      }
    }
  }
  // The next one, nullptr when there is none.
  [[nodiscard]] const Mail* next() const { return mails_.empty() ? nullptr : &mails_.front(); }
  void pop() { mails_.pop_front(); }

 private:
  CoreShare core_;
  std::deque<Mail> mails_;
};

}  // namespace cw::gateway
