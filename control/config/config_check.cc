#include "control/config/config_check.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <map>
#include <set>

#include "control/config/buffer_plan.h"
#include "control/config/build_features.h"
#include "control/config/memory_plan.h"
#include "control/config/suggest.h"

namespace cw::control {
namespace {

const std::vector<std::string> kBuiltinPrograms = {"bench"};

// Without the host part.
IpPrefix network_of(IpPrefix prefix) {
  const uint32_t first_bit = prefix.address.is_v4() ? 96 : 0;
  for (uint32_t bit = first_bit + prefix.length_bits; bit < 128; ++bit) {
    prefix.address.raw[bit / 8] &= static_cast<uint8_t>(~(0x80u >> bit % 8));
  }
  return prefix;
}

class Checker {
 public:
  explicit Checker(const ParsedConfig& parsed) : parsed_(parsed), config_(parsed.config) {}

  std::vector<Problem> run() {
    check_lcores();
    check_iwarp_lcores();
    check_ports();
    check_path_mtu();
    check_backends();
    check_listeners();
    check_queue_pair_numbers();
    check_routes();
    check_clients();
    check_buffers();
    return std::move(problems_);
  }

 private:
  // `path` is where to point ("listener[0].credits"); where that key is absent, at its section.
  void add(const std::string& path, std::string message, std::string suggestion, Severity severity = Severity::kError) {
    SourcePosition at;
    for (const std::string& candidate : {path, path.substr(0, path.rfind('.'))}) {
      if (const auto found = parsed_.positions.find(candidate); found != parsed_.positions.end()) {
        at = found->second;
        break;
      }
    }
    std::string key = path;
    if (const size_t open = key.find('['); open != std::string::npos) {
      key.erase(open, key.find(']') + 1 - open);
    }
    problems_.push_back({parsed_.file, at.line, at.column, std::move(key), std::move(message), std::move(suggestion), severity});
  }

  // True when the file said something about this key, right or wrong: then a problem of it has been reported already.
  [[nodiscard]] bool was_given(const std::string& path) const { return parsed_.positions.contains(path); }

  // Parsing refused this key or section already: its absence from the Config says nothing.
  [[nodiscard]] bool was_refused(const char* key) const {
    return std::ranges::find(parsed_.problems, key, &Problem::key) != parsed_.problems.end();
  }

  void check_lcores() {
    const std::vector<uint32_t>& lcores = config_.dataplane.poll_lcores;
    if (lcores.empty() && !was_refused("dataplane.poll_lcores")) {
      add("dataplane.poll_lcores", "is empty", "name at least one CPU, for example poll_lcores = [1]");
    }
    check_each_once("dataplane.poll_lcores", lcores);
    const std::vector<uint32_t>& workers = config_.dataplane.worker_lcores;
    check_each_once("dataplane.worker_lcores", workers);
    const std::vector<uint32_t> all = poll_cpus(config_);
    for (const uint32_t lcore : workers) {
      if (config_.dataplane.idle == IdleMode::kSpin && std::ranges::find(all, lcore) != all.end()) {
        add("dataplane.worker_lcores",
            fmt::format("CPU {} is also that of a poll core: workers there run while it has nothing to do", lcore),
            "take another CPU where there are more than two; else this is as it should be", Severity::kWarning);
      }
    }
  }

  void check_iwarp_lcores() {
    const std::vector<uint32_t>& own = config_.iwarp.poll_lcores;
    check_each_once("iwarp.poll_lcores", own);
    for (const uint32_t lcore : own) {
      if (std::ranges::find(config_.dataplane.poll_lcores, lcore) != config_.dataplane.poll_lcores.end()) {
        add("iwarp.poll_lcores", fmt::format("CPU {} is also in dataplane.poll_lcores", lcore),
            "name it in one of the two; where iWARP may share the poll cores, leave iwarp.poll_lcores out");
      }
    }
    if (own.empty()) {
      return;
    }
    const auto is_on = [this](TransportKind wire) {
      return std::ranges::find(config_.listeners, wire, &ListenerConfig::transport) != config_.listeners.end();
    };
    if (!is_on(TransportKind::kIwarp)) {
      add("iwarp.poll_lcores", "serve nobody: no listener has transport = \"iwarp\"", "remove it, or add such a listener",
          Severity::kWarning);
    } else if (!is_on(TransportKind::kRoce) && !is_on(TransportKind::kVerbs)) {
      add("iwarp.poll_lcores", "leave dataplane.poll_lcores nothing to do: every listener is of iWARP",
          "name the CPUs in dataplane.poll_lcores instead", Severity::kWarning);
    }
  }

  void check_each_once(const char* key, const std::vector<uint32_t>& lcores) {
    std::set<uint32_t> seen;
    for (const uint32_t lcore : lcores) {
      if (!seen.insert(lcore).second) {
        add(key, fmt::format("CPU {} stands twice", lcore), "name each CPU once");
      }
    }
  }

  void check_ports() {
    const auto roce = std::ranges::find(config_.listeners, TransportKind::kRoce, &ListenerConfig::transport);
    if (config_.ports.empty() && !was_refused("port")) {
      if (config_.listeners.empty()) {
        add("port", "there is no port",
            "add a [[port]] section with device and addresses; listeners of iWARP and verbs need none");
      } else if (roce != config_.listeners.end()) {
        add("port", fmt::format("there is no port, and listener '{}' is RoCE", roce->name),
            "add a [[port]] section with device and addresses, or give the listener transport = \"iwarp\" or \"verbs\"");
      } else {
        check_keys_of_dpdk();
      }
    }
    std::set<std::string> devices;
    std::set<std::string> addresses;
    std::set<std::string> taps;
    for (size_t i = 0; i < config_.ports.size(); ++i) {
      const PortConfig& port = config_.ports[i];
      const std::string path = fmt::format("port[{}]", i);
      if (!port.device.empty() && !devices.insert(port.device).second) {
        add(path + ".device", fmt::format("'{}' is another port's device too", port.device), "name each device once");
      }
      check_port_addresses(port, path, addresses);
      check_shared_device(port, path);
      // When the link goes, DPDK's driver also closes descriptors that are not its own: there would be no second one.
      if (port.device.starts_with("net_memif") && device_argument(port.device, "zero-copy") == "yes") {
        add(path + ".device", "zero-copy=yes lets the other end of a memif link write to all of the gateway's memory",
            "remove zero-copy");
      }
      check_exception_tap(port, path, taps);
      check_gateway(port, port.gateway4, path + ".gateway4", true);
      check_gateway(port, port.gateway6, path + ".gateway6", false);
    }
  }

  void check_keys_of_dpdk() {
    for (const char* key : {"dataplane.hugepages", "dataplane.main_lcore", "metrics.dpdk_telemetry"}) {
      if (was_given(key)) {
        add(key, "has no effect: without a [[port]] DPDK is not started", "remove it, or add a [[port]] section",
            Severity::kWarning);
      }
    }
  }

  void check_port_addresses(const PortConfig& port, const std::string& path, std::set<std::string>& seen) {
    if (port.addresses.empty() && !port.beside_kernel && !was_refused("port.addresses")) {
      add(path + ".addresses", was_given(path + ".addresses") ? "is empty" : "is missing",
          "give the port at least one address, for example addresses = [\"192.0.2.1/24\"]");
    }
    for (const IpPrefix& prefix : port.addresses) {
      const std::string text = to_string(prefix.address);
      const bool unspecified = prefix.address == IpAddress{} || prefix.address == IpAddress::v4(0);
      if (unspecified || prefix.address.is_multicast() || is_loopback(prefix.address)) {
        add(path + ".addresses", fmt::format("{} cannot be a port's own address", text),
            "use a unicast address of the port's network");
      } else if (!seen.insert(text).second) {
        add(path + ".addresses", fmt::format("{} stands twice", text), "give each address to one port");
      }
    }
  }

  void check_shared_device(const PortConfig& port, const std::string& path) {
    const bool has_af_xdp = std::ranges::any_of(config_.ports, is_af_xdp, &PortConfig::device);
    if (has_af_xdp && port.mtu > kAfXdpMtuMax) {
      add(path + ".mtu",
          fmt::format("{} is too long for AF_XDP, whose buffers are a page each, and all ports have the same buffers", port.mtu),
          fmt::format("set it to {} or less; from 2132 on, RoCE packets carry 2048 bytes", kAfXdpMtuMax));
    }
    if (!port.beside_kernel) {
      return;
    }
    if (may_isolate(port.device)) {
      return;
    }
    if (!is_af_xdp(port.device) || port.device.find(",iface=") == std::string::npos) {
      add(path + ".beside_kernel", fmt::format("the kernel cannot keep an interface beside '{}'", port.device),
          "use device = \"net_af_xdp0,iface=eth0\", or the PCI address of a NIC that keeps its kernel driver (mlx5); "
          "a device that DPDK has whole gets an exception_tap instead");
    } else if (port.device.find(",xdp_prog=") != std::string::npos) {
      add(path + ".device", "xdp_prog= names another program than the gateway's own", "remove it, or beside_kernel");
    }
    if (!kHasXdpProgram) {
      add(path + ".beside_kernel", "this build has no XDP program: clang or libbpf-dev was missing when it was built",
          "apt install clang libbpf-dev; meson setup --reconfigure BUILD; build again");
    }
  }

  void check_exception_tap(const PortConfig& port, const std::string& path, std::set<std::string>& seen) {
    constexpr size_t kInterfaceNameMax = 15;
    if (port.exception_tap.empty()) {
      return;
    }
    if (port.exception_tap.size() > kInterfaceNameMax) {
      add(path + ".exception_tap", fmt::format("'{}' is too long for the name of an interface", port.exception_tap),
          fmt::format("use at most {} characters", kInterfaceNameMax));
    } else if (!seen.insert(port.exception_tap).second) {
      add(path + ".exception_tap", fmt::format("'{}' is another port's too", port.exception_tap), "give each port its own");
    }
    if (port.beside_kernel) {
      add(path + ".exception_tap", "does not go with beside_kernel: there the kernel has the interface itself",
          "remove one of them");
    }
  }

  void check_gateway(const PortConfig& port, const std::optional<IpAddress>& gateway, const std::string& path, bool want_v4) {
    if (!gateway) {
      return;
    }
    const std::string text = to_string(*gateway);
    if (gateway->is_v4() != want_v4) {
      add(path, fmt::format("{} is not an IPv{} address", text, want_v4 ? 4 : 6), fmt::format("use gateway{}", want_v4 ? 6 : 4));
      return;
    }
    // IPv6 routers tell of themselves by link-local addresses, which are in none of the port's networks.
    const bool link_local = !want_v4 && gateway->raw[0] == 0xfe && (gateway->raw[1] & 0xc0) == 0x80;
    const auto holds = [&](const IpPrefix& prefix) { return prefix.contains(*gateway); };
    if (!link_local && std::ranges::none_of(port.addresses, holds)) {
      add(path, fmt::format("{} is in none of the port's networks", text),
          "use a next hop inside one of the port's addresses' prefixes");
    } else if (std::ranges::find(port.addresses, *gateway, &IpPrefix::address) != port.addresses.end()) {
      add(path, fmt::format("{} is the port's own address", text), "use the router's address");
    }
  }

  void check_path_mtu() {
    if (!was_given("roce.path_mtu_max") || was_refused("roce.path_mtu_max") || config_.ports.empty()) {
      return;
    }
    uint32_t largest = 0;
    for (const PortConfig& port : config_.ports) {
      largest = std::max(largest, path_mtu_for(port.mtu, 4096));
    }
    if (config_.roce.path_mtu_max > largest) {
      add("roce.path_mtu_max", fmt::format("{} fits no port: the largest that does is {}", config_.roce.path_mtu_max, largest),
          // 84 bytes: the longest headers, for which path_mtu_for() leaves room.
          fmt::format("raise the port's mtu to {} or more", config_.roce.path_mtu_max + 84), Severity::kWarning);
    }
  }

  void check_backends() {
    if (config_.backends.empty() && !was_refused("backend")) {
      add("backend", "there is no backend", "add a [[backend]] section with name and address");
    }
    std::set<std::string> names;
    for (size_t i = 0; i < config_.backends.size(); ++i) {
      const BackendConfig& backend = config_.backends[i];
      const std::string path = fmt::format("backend[{}]", i);
      if (!backend.name.empty() && !names.insert(backend.name).second) {
        add(path + ".name", fmt::format("two backends are named '{}'", backend.name), "give each its own name");
      }
      check_backend_type(backend, path);
      if (std::ranges::find(config_.listeners, backend.name, &ListenerConfig::backend) == config_.listeners.end() &&
          std::ranges::find(config_.routes, backend.name, &RouteConfig::backend) == config_.routes.end()) {
        add(path, fmt::format("no listener uses '{}'", backend.name), "add a [[listener]] for it, or remove it",
            Severity::kWarning);
      }
    }
  }

  void check_backend_type(const BackendConfig& backend, const std::string& path) {
    if (backend.type == BackendType::kTcp) {
      if (!backend.address && !was_given(path + ".address")) {
        add(path + ".address", "is missing", "add for example address = \"127.0.0.1:2049\"");
      }
      check_servers(backend, path);
      if (!backend.programs.empty()) {
        add(path + ".programs", "belongs to backends of type \"builtin\"", "remove it, or set type = \"builtin\"");
      }
      return;
    }
    if (backend.address) {
      add(path + ".address", "belongs to backends of type \"tcp\"", "remove it, or set type = \"tcp\"");
    }
    if (!backend.backups.empty()) {
      add(path + ".backups", "belongs to backends of type \"tcp\"", "remove it, or set type = \"tcp\"");
    }
    if (backend.source != SourceKind::kGateway) {
      add(path + ".source", "belongs to backends of type \"tcp\"", "remove it, or set type = \"tcp\"");
    }
    if (backend.programs.empty()) {
      add(path + ".programs", was_given(path + ".programs") ? "names none" : "is missing", "add programs = [\"bench\"]");
    }
    for (const std::string& program : backend.programs) {
      if (std::ranges::find(kBuiltinPrograms, program) == kBuiltinPrograms.end()) {
        add(path + ".programs", fmt::format("there is no built-in program '{}'", program),
            fmt::format("there are {}", fmt::join(kBuiltinPrograms, ", ")));
      }
    }
  }

  void check_servers(const BackendConfig& backend, const std::string& path) {
    std::set<std::string> seen;
    for (const SocketAddress& server : servers_of(backend)) {
      if (!seen.insert(to_string(server)).second) {
        add(path + ".backups", fmt::format("{} stands twice", to_string(server)), "name each server once");
      }
    }
    if (!backend.backups.empty() && backend.check == CheckKind::kOff) {
      add(path + ".backups", "is never used: without checks no server is known to be down",
          "set check = \"rpc\" or \"tcp\", or remove it");
    }
  }

  void check_listeners() {
    if (config_.listeners.empty() && !was_refused("listener")) {
      add("listener", "there is no listener", "add a [[listener]] section with backend");
    }
    std::set<std::string> names;
    std::set<std::pair<TransportKind, uint32_t>> ports;
    for (size_t i = 0; i < config_.listeners.size(); ++i) {
      const ListenerConfig& listener = config_.listeners[i];
      const std::string path = fmt::format("listener[{}]", i);
      if (!listener.name.empty() && !names.insert(listener.name).second) {
        add(path + ".name", fmt::format("two listeners are named '{}'", listener.name), "give each its own name");
      }
      // Wires have ports of their own: RoCE's are no TCP ports, and what verbs' are depends on the device.
      if (!ports.emplace(listener.transport, listener.port).second) {
        add(path + ".port", fmt::format("two listeners have port {}", listener.port), "give each its own port");
      }
      check_backend_name(listener.backend, path + ".backend");
      if (listener.address && listener.transport == TransportKind::kRoce) {
        add(path + ".address", "RoCE listens on the addresses of the [[port]]s, not here",
            "remove it, or set transport = \"iwarp\" or \"verbs\"", Severity::kWarning);
      }
      if (!listener.device.empty() && listener.transport != TransportKind::kVerbs) {
        add(path + ".device", "an RDMA device is for transport = \"verbs\"", "remove it, or set transport = \"verbs\"",
            Severity::kWarning);
      }
      check_listener_routes(listener, path);
      check_listener_limits(listener, path);
      if (listener.transport == TransportKind::kRoce) {
        check_allow(listener, path);
      }
    }
  }

  void check_backend_name(const std::string& name, const std::string& path) {
    if (was_refused("backend") || was_refused("backend.name")) {
      return;
    }
    std::vector<std::string> known;
    std::ranges::transform(config_.backends, std::back_inserter(known), &BackendConfig::name);
    check_name("backend", name, known, path);
  }

  // `path` names a section of this kind; an empty name has been reported, or need not be there.
  void check_name(const char* kind, const std::string& name, const std::vector<std::string>& known, const std::string& path) {
    if (name.empty() || std::ranges::find(known, name) != known.end()) {
      return;
    }
    const auto near = nearest(name, known);
    std::string next = near            ? fmt::format("did you mean '{}'?", *near)
                       : known.empty() ? fmt::format("add a [[{}]] section of that name", kind)
                                       : fmt::format("there are {}", fmt::join(known, ", "));
    add(path, fmt::format("there is no {} '{}'", kind, name), std::move(next));
  }

  void check_listener_routes(const ListenerConfig& listener, const std::string& path) {
    if (!listener.backend.empty() || was_given(path + ".backend")) {
      return;
    }
    if (listener.name.empty() ||
        std::ranges::find(config_.routes, listener.name, &RouteConfig::listener) == config_.routes.end()) {
      add(path + ".backend", "is missing",
          "add for example backend = \"nfs\", or a name, and a [[route]] for each program with that listener");
    }
  }

  void check_routes() {
    std::vector<std::string> listeners;
    std::ranges::transform(config_.listeners, std::back_inserter(listeners), &ListenerConfig::name);
    std::set<std::pair<std::string, uint32_t>> seen;
    for (size_t i = 0; i < config_.routes.size(); ++i) {
      const RouteConfig& route = config_.routes[i];
      const std::string path = fmt::format("route[{}]", i);
      check_backend_name(route.backend, path + ".backend");
      if (!was_refused("listener") && !was_refused("listener.name")) {
        check_name("listener", route.listener, listeners, path + ".listener");
      }
      if (route.program != 0 && !seen.emplace(route.listener, route.program).second) {
        add(path + ".program", fmt::format("listener '{}' has two routes for program {}", route.listener, route.program),
            "route each program once");
      }
    }
  }

  void check_listener_limits(const ListenerConfig& listener, const std::string& path) {
    const LimitsConfig& limits = config_.limits;
    if (listener.connections_max > limits.connections_max) {
      add(path + ".connections_max",
          fmt::format("{} is more than limits.connections_max, {}", listener.connections_max, limits.connections_max),
          "lower it, or raise limits.connections_max");
    }
    if (listener.credits > limits.calls_in_flight_max) {
      add(path + ".credits",
          fmt::format("{} is more than limits.calls_in_flight_max, {}", listener.credits, limits.calls_in_flight_max),
          "lower it, or raise limits.calls_in_flight_max");
    }
  }

  void check_clients() {
    std::set<std::string> names;
    std::map<std::string, std::string> prefixes;  // and whose they are
    for (size_t i = 0; i < config_.clients.size(); ++i) {
      const ClientConfig& client = config_.clients[i];
      const std::string path = fmt::format("client[{}]", i);
      if (!client.name.empty() && !names.insert(client.name).second) {
        add(path + ".name", fmt::format("two client sections are named '{}'", client.name), "give each its own name");
      }
      if (client.prefixes.empty() && !was_refused("client.prefixes")) {
        add(path + ".prefixes", "is empty", "name at least one, for example prefixes = [\"192.0.2.0/24\"]");
      }
      for (const IpPrefix& prefix : client.prefixes) {
        const auto [other, is_new] = prefixes.emplace(to_string(network_of(prefix)), client.name);
        if (!is_new) {
          add(path + ".prefixes", fmt::format("{} stands in client '{}' already", to_string(prefix), other->second),
              "give each network to one section");
        }
      }
      if (client.connections_max > config_.limits.connections_max) {
        add(path + ".connections_max",
            fmt::format("{} is more than limits.connections_max, {}", client.connections_max, config_.limits.connections_max),
            "lower it, or raise limits.connections_max");
      }
      if (!client.allow && (client.connections_max != 0 || client.credits != 0 || client.bytes_in_flight_max != 0 ||
                            client.calls_per_second != 0 || client.bytes_per_second != 0 || client.weight != 1)) {
        add(path + ".allow", "is false: the section's limits mean nothing", "remove them, or set allow = true",
            Severity::kWarning);
      }
      const auto has_rates = [](const ListenerConfig& listener) {
        return listener.calls_per_second != 0 || listener.bytes_per_second != 0;
      };
      if (client.weight != 1 && std::ranges::none_of(config_.listeners, has_rates)) {
        add(path + ".weight", "means nothing: no listener has calls_per_second or bytes_per_second",
            "give a listener one of them, or remove the weight", Severity::kWarning);
      }
    }
  }

  // A family that no port has an address of can never connect.
  void check_allow(const ListenerConfig& listener, const std::string& path) {
    for (const IpPrefix& prefix : listener.allow) {
      const bool v4 = prefix.address.is_v4();
      const auto same_family = [&](const IpPrefix& own) { return own.address.is_v4() == v4; };
      const auto has_family = [&](const PortConfig& port) { return std::ranges::any_of(port.addresses, same_family); };
      if (!config_.ports.empty() && std::ranges::none_of(config_.ports, has_family)) {
        add(path + ".allow", fmt::format("{} matches nobody: no port has an IPv{} address", to_string(prefix), v4 ? 4 : 6),
            fmt::format("give a port an IPv{} address, or remove the entry", v4 ? 4 : 6), Severity::kWarning);
      }
    }
  }

  // A number says which core and which slot it belongs to, and has 24 bits. Two of them are kept so that a number is not used
  // again at once; there are twice as many slots as queue pairs.
  void check_queue_pair_numbers() {
    constexpr int kBits = 22;
    const uint32_t cores = poll_core_count(config_);
    const LimitsConfig& limits = config_.limits;
    const uint32_t most = (1u << (kBits - std::bit_width(cores - 1))) / 2;
    if (limits.connections_max + limits.half_open_max > most) {
      add("limits.connections_max",
          fmt::format("{} and half_open_max, {}, are too many for the queue pair numbers of {} poll cores",
                      limits.connections_max, limits.half_open_max, cores),
          fmt::format("set it to {} or less, or use fewer poll cores", most - limits.half_open_max));
    }
  }

  void check_buffers() {
    const DataplaneConfig& dataplane = config_.dataplane;
    const uint64_t needed = reserved_buffers(config_);
    if (needed > dataplane.rx_buffers) {
      add("dataplane.rx_buffers",
          fmt::format("{} cannot back the credits of {} connections, which reserve {} buffers at path MTU {}",
                      dataplane.rx_buffers, config_.limits.connections_max, needed, smallest_path_mtu(config_)),
          fmt::format("set it to {} or more, or lower limits.connections_max or the listeners' credits", needed));
      return;
    }
    if (!needs_dpdk(config_)) {
      return;  // the kernel gives memory when it is used
    }
    Config fitting = config_;
    const auto wanted_mb = [&] { return (memory_bytes(fitting) + (1u << 20) - 1) >> 20; };
    const uint64_t wanted = wanted_mb();
    if (wanted <= dataplane.memory_mb) {
      return;
    }
    // Replies of backends take a share of memory_mb, so that more of it wants more.
    while (wanted_mb() > fitting.dataplane.memory_mb) {
      fitting.dataplane.memory_mb = static_cast<uint32_t>(wanted_mb());
    }
    const PoolSizes sizes = pool_sizes(config_);
    add("dataplane.memory_mb",
        fmt::format(
            "{} does not hold the buffers, which take {} MiB: {} of {} bytes for packets, {} of {} for replies of backends",
            dataplane.memory_mb, wanted, sizes.packet_buffers, sizes.a_page_each ? kPageBytes : sizes.packet_data_bytes,
            sizes.large_buffers, kLargeBufferBytes),
        fmt::format("set it to {} or more, or lower dataplane.rx_buffers", fitting.dataplane.memory_mb));
  }

  const ParsedConfig& parsed_;
  const Config& config_;
  std::vector<Problem> problems_;
};

}  // namespace

std::vector<Problem> config_check(const ParsedConfig& parsed) {
  return Checker(parsed).run();
}

}  // namespace cw::control
