#include "dataplane/client_wire.h"

namespace cw::dataplane {

ClientWire::ClientWire(OnePort& port, const node::NodeOptions& node, const node::RoceOptions& roce, verbs::MemoryTable& memory,
                       RandomSource& random)
    : port_(&port), pools_(port.pools()), node_(node, random, &memory) {
  roce_.emplace(roce, node_, random);
  node_.station(0).announce();
}

ClientWire::ClientWire(BufferPools& pools, const iwarp::IwarpOptions& options, verbs::MemoryTable& memory, RandomSource& random)
    : pools_(pools), node_(node::without_ports(), random, nullptr) {
  tcp_.emplace(TcpStreamsOptions{});
  iwarp_.emplace(options, *tcp_, pools.packets(), random, &memory);
  tcp_->attach(*iwarp_);
}

verbs::Transport& ClientWire::transport() {
  return iwarp_ ? static_cast<verbs::Transport&>(*iwarp_) : *roce_;
}

void ClientWire::make_loop(std::optional<CoreLoop>& loop, const TscClock& clock, CoreApp& app, Wakeup& wakeup,
                           const IdlePolicy& idle) {
  const std::span<const std::unique_ptr<PortQueue>> queues =
      port_ == nullptr ? std::span<const std::unique_ptr<PortQueue>>() : port_->queues();
  loop.emplace(node_, queues, pools_, clock, app, wakeup, idle);
  if (tcp_) {
    loop->serve_sockets(*tcp_);
  }
}

}  // namespace cw::dataplane
