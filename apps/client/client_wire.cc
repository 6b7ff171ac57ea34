#include "apps/client/client_wire.h"

#include <algorithm>

namespace cw::client {
namespace {

// READs of the server that are answered at a time; further ones wait at the server.
constexpr uint16_t kReadsOfServerMax = 64;

}  // namespace

ClientWire::ClientWire(dataplane::OnePort& link, const node::NodeOptions& options, uint32_t regions)
    : pools_(link.pools()), queues_(link.queues()), memory_(regions, random_), node_(options, random_, &memory_) {}

ClientWire::ClientWire(dataplane::BufferPools& pools, const IwarpClientOptions& options, uint32_t regions)
    : pools_(pools), memory_(regions, random_), node_(node::without_ports(), random_, nullptr), iwarp_(options) {
  tcp_.emplace(dataplane::TcpStreamsOptions{});
}

ClientWire::ClientWire(dataplane::BufferPools& pools, const VerbsClientOptions& options, uint32_t regions)
    : pools_(pools), memory_(0, random_), node_(node::without_ports(), random_, nullptr), verbs_(options) {
  rdma_.emplace(dataplane::RdmaHostOptions{.listens = false, .device = options.device}, pools.memory());
  device_memory_.emplace(regions, *rdma_);
}

std::unique_ptr<verbs::Transport> ClientWire::make_transport(const node::RoceOptions& roce) {
  if (rdma_) {
    rnic::RnicOptions options;
    options.connections_max = std::max(verbs_.connections_max, roce.connections_max);
    options.half_open_max = 0;  // nobody asks us
    options.parting_max = options.connections_max;
    options.reads_of_peer_max = kReadsOfServerMax;
    options.receive_queue_depth = std::max(options.receive_queue_depth, 2 * verbs_.window);
    options.send_queue_depth = std::max(options.send_queue_depth, 2 * verbs_.window);
    auto transport = std::make_unique<rnic::RnicTransport>(options, *rdma_, pools_.packets(), random_, &*device_memory_);
    rdma_->attach(*transport);
    return transport;
  }
  if (!tcp_) {
    return std::make_unique<node::RoceTransport>(roce, node_, random_);
  }
  iwarp::IwarpOptions options;
  options.connections_max = std::max(iwarp_.connections_max, roce.connections_max);
  options.half_open_max = options.connections_max;
  options.send_queue_depth = iwarp_.send_queue_depth;
  options.crc = iwarp_.crc;
  options.ird = kReadsOfServerMax;
  options.send_work_max = std::max(options.send_work_max, 4 * iwarp_.calls_max + 1024);
  options.receive_work_max = std::max(options.receive_work_max, 4 * iwarp_.calls_max + 1024);
  auto transport = std::make_unique<iwarp::IwarpTransport>(options, *tcp_, pools_.packets(), random_, &memory_);
  tcp_->attach(*transport);
  return transport;
}

std::unique_ptr<dataplane::CoreLoop> ClientWire::make_loop(const dataplane::TscClock& clock, dataplane::CoreApp& app,
                                                           dataplane::Wakeup& wakeup, const dataplane::IdlePolicy& idle) {
  auto loop = std::make_unique<dataplane::CoreLoop>(node_, queues_, pools_, clock, app, wakeup, idle);
  if (tcp_) {
    loop->add_wire(*tcp_);
  }
  if (rdma_) {
    loop->add_wire(*rdma_);
  }
  return loop;
}

void ClientWire::announce() {
  if (!queues_.empty()) {
    node_.station(0).announce();
  }
}

std::string_view to_string(Wire wire) noexcept {
  switch (wire) {
    case Wire::kRoce:
      return "roce";
    case Wire::kIwarp:
      return "iwarp";
    case Wire::kVerbs:
      return "verbs";
  }
  return "";
}

std::string advice_for(const verbs::Rejection& rejection, Wire wire) {
  switch (rejection.reason) {
    case verbs::RejectReason::kNoListener:
      return wire == Wire::kIwarp
                 ? "nobody listens at that TCP port: look for transport = \"iwarp\" and the port in the server's listeners"
                 : "no listener of the server has that port";
    case verbs::RejectReason::kNoAnswer:
      switch (wire) {
        case Wire::kRoce:
          return "is causewayd ready, do both ends share the link? Its log and causewayctl status say so";
        case Wire::kIwarp:
          return "no answer in time: is the address reachable, does a firewall let the TCP port through, "
                 "does the listener speak iWARP?";
        case Wire::kVerbs:
          return "no answer in time: rdma link shows the RDMA devices and their interfaces; "
                 "is one of them on the way to the server, and does the server speak its wire (rxe: RoCEv2, siw: iWARP)?";
      }
      return "";
    case verbs::RejectReason::kNoResources:
      return "the server has no room for more connections, or its backend is down: its log and causewayctl status say which";
    case verbs::RejectReason::kRefused:
      return "the server does not take this client: look at its access lists";
    case verbs::RejectReason::kOther:
      if (rejection.name == to_string(rnic::ConnectFailure::kOtherDevice)) {
        return "the way to the server is not by that RDMA device: name another one, or leave out --device";
      }
      if (rejection.name == to_string(rnic::ConnectFailure::kDeviceRefused)) {
        return "the RDMA device does not register the program's memory: run it as root, or raise its limit (ulimit -l)";
      }
      return "";
  }
  return "";
}

}  // namespace cw::client
