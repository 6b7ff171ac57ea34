// SourcePorts of poll cores on threads of their own. Touched when backend connections are made and given up.
#pragma once

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "base/time.h"
#include "dataplane/sockets/backend_stream.h"
#include "gateway/gateway_options.h"
#include "gateway/source_ports.h"

namespace cw::dataplane {

class SharedSourcePorts final : public gateway::SourcePorts {
 public:
  SharedSourcePorts(uint16_t first, uint16_t last, uint64_t key) : book_(first, last, key) {}

  void set_from_client(uint32_t backend) {
    const std::lock_guard lock(mutex_);
    book_.set_from_client(backend);
  }
  [[nodiscard]] bool depends_on_xid(const IpAddress& client, uint32_t backend) const override {
    const std::lock_guard lock(mutex_);
    return book_.depends_on_xid(client, backend);
  }
  [[nodiscard]] uint16_t take(const IpAddress& client, uint32_t backend, std::optional<uint32_t> xid = {}) override {
    const std::lock_guard lock(mutex_);
    return book_.take(client, backend, xid);
  }
  void give_back(const IpAddress& client, uint32_t backend, uint16_t port, std::optional<uint32_t> xid = {}) override {
    const std::lock_guard lock(mutex_);
    book_.give_back(client, backend, port, xid);
  }

 private:
  mutable std::mutex mutex_;
  gateway::PortBook book_;
};

// From where the backend connections of all workers are made that have a source port of their own, for as long as they live: also
// when the client is gone and only its last calls are waited for. Bounds: the connections.
class PortsHeld {
 public:
  struct Use {
    control::SocketAddress server;
    IpAddress source;  // unspecified: this host's
    uint16_t port = 0;
    friend bool operator==(const Use& a, const Use& b) {
      return a.port == b.port && a.server.port == b.server.port && a.server.address == b.server.address && a.source == b.source;
    }
  };

  [[nodiscard]] bool has(const Use& use) const {
    const std::lock_guard lock(mutex_);
    return std::ranges::find(of(use), use) != of(use).end();
  }

 private:
  friend class PortHold;
  // By the low bits of the port: a client's ports follow from a hash.
  static constexpr size_t kBuckets = 1024;
  [[nodiscard]] std::vector<Use>& of(const Use& use) { return uses_[use.port % kBuckets]; }
  [[nodiscard]] const std::vector<Use>& of(const Use& use) const { return uses_[use.port % kBuckets]; }
  void add(const Use& use) {
    const std::lock_guard lock(mutex_);
    of(use).push_back(use);
  }
  void remove(const Use& use) {
    const std::lock_guard lock(mutex_);
    of(use).erase(std::ranges::find(of(use), use));
  }
  mutable std::mutex mutex_;
  std::vector<std::vector<Use>> uses_ = std::vector<std::vector<Use>>(kBuckets);
};

// What a connection does next whose source port is busy.
enum class PortTry : uint8_t { kLater, kThis, kThisOrAny };

// Well below backend.connect_timeout_ms.
inline constexpr Duration kPortPatience = Duration::ms(1'000);
// The connection before has calls at the backend, and is closed when they are answered or orphan_max is over. From another port,
// what the backend has executed would be executed again.
inline constexpr Duration kHeldPortPatience = gateway::GatewayOptions{}.orphan_max + gateway::kPortSlack / 2;

// `held`: by a connection of ours, so that trying costs four system calls and leads to nothing.
[[nodiscard]] constexpr PortTry port_try(bool held, Duration waited) {
  if (waited >= (held ? kHeldPortPatience : kPortPatience)) {
    return PortTry::kThisOrAny;
  }
  return held ? PortTry::kLater : PortTry::kThis;
}

// One connection's entry.
class PortHold {
 public:
  PortHold(PortsHeld& ports, const PortsHeld::Use& use) : ports_(ports), use_(use) { ports_.add(use_); }
  ~PortHold() { ports_.remove(use_); }
  PortHold(const PortHold&) = delete;
  PortHold& operator=(const PortHold&) = delete;

 private:
  PortsHeld& ports_;
  PortsHeld::Use use_;
};

}  // namespace cw::dataplane
