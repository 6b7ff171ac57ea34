// SourcePorts of poll cores on threads of their own. Touched when backend connections are made and given up.
#pragma once

#include <mutex>

#include "control/gateway/source_ports.h"

namespace cw::dataplane {

class SharedSourcePorts final : public gateway::SourcePorts {
 public:
  SharedSourcePorts(uint16_t first, uint16_t last) : book_(first, last) {}

  void set_from_client(uint32_t backend) {
    const std::lock_guard lock(mutex_);
    book_.set_from_client(backend);
  }
  [[nodiscard]] uint16_t take(const wire::IpAddress& client, uint32_t backend) override {
    const std::lock_guard lock(mutex_);
    return book_.take(client, backend);
  }
  void give_back(const wire::IpAddress& client, uint32_t backend, uint16_t port) override {
    const std::lock_guard lock(mutex_);
    book_.give_back(client, backend, port);
  }

 private:
  std::mutex mutex_;
  gateway::PortBook book_;
};

}  // namespace cw::dataplane
