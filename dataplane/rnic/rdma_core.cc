#include "dataplane/rnic/rdma_core.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "control/config/kernel_address.h"

namespace cw::dataplane {
namespace {

constexpr const char* kDevices = "/sys/class/infiniband";
constexpr const char* kConnectionManager = "/dev/infiniband/rdma_cm";

struct Loaded {
  RdmaCore core;
  std::string problem;
};

void* open_library(const char* name, Loaded& out) {
  void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr && out.problem.empty()) {
    out.problem =
        fmt::format("transport = \"verbs\" takes {}, which cannot be loaded ({}): apt-get install librdmacm1 ibverbs-providers",
                    name, dlerror());
  }
  return library;
}

template <typename Function>
void find(void* library, const char* name, Function& function, Loaded& out) {
  if (library == nullptr) {
    return;
  }
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (function == nullptr && out.problem.empty()) {
    out.problem = fmt::format("rdma-core on this host has no {}: it is older than 23; upgrade librdmacm1 and libibverbs1", name);
  }
}

// The device whose address it is; empty: none has it. nullopt: it cannot be told, or it is of no single device.
std::optional<std::string> owner_of(const RdmaCore& core, const IpAddress& address) {
  rdma_event_channel* channel = core.cm_create_event_channel();
  rdma_cm_id* id = nullptr;
  std::optional<std::string> owner;
  if (channel != nullptr && core.cm_create_id(channel, &id, nullptr, RDMA_PS_TCP) == 0) {
    sockaddr_storage raw{};
    (void)control::write_address({address, 0}, raw);
    if (core.cm_bind_addr(id, reinterpret_cast<sockaddr*>(&raw)) != 0) {
      owner = errno == ENODEV || errno == EADDRNOTAVAIL ? std::optional(std::string()) : std::nullopt;
    } else if (id->verbs != nullptr) {
      owner = core.get_device_name(id->verbs->device);
    }
    (void)core.cm_destroy_id(id);
  }
  if (channel != nullptr) {
    core.cm_destroy_event_channel(channel);
  }
  return owner;
}

Loaded load_libraries() {
  Loaded out;
  RdmaCore& core = out.core;
  void* verbs = open_library("libibverbs.so.1", out);
  void* cm = open_library("librdmacm.so.1", out);
  find(verbs, "ibv_open_device", core.open_device, out);
  find(verbs, "ibv_close_device", core.close_device, out);
  find(verbs, "ibv_alloc_pd", core.alloc_pd, out);
  find(verbs, "ibv_dealloc_pd", core.dealloc_pd, out);
  find(verbs, "ibv_reg_mr", core.reg_mr, out);
  find(verbs, "ibv_dereg_mr", core.dereg_mr, out);
  find(verbs, "ibv_create_comp_channel", core.create_comp_channel, out);
  find(verbs, "ibv_destroy_comp_channel", core.destroy_comp_channel, out);
  find(verbs, "ibv_create_cq", core.create_cq, out);
  find(verbs, "ibv_destroy_cq", core.destroy_cq, out);
  find(verbs, "ibv_get_cq_event", core.get_cq_event, out);
  find(verbs, "ibv_ack_cq_events", core.ack_cq_events, out);
  find(verbs, "ibv_create_qp", core.create_qp, out);
  find(verbs, "ibv_modify_qp", core.modify_qp, out);
  find(verbs, "ibv_query_qp", core.query_qp, out);
  find(verbs, "ibv_destroy_qp", core.destroy_qp, out);
  find(verbs, "ibv_query_device", core.query_device, out);
  find(verbs, "ibv_query_port", core.query_port, out);
  find(verbs, "ibv_get_async_event", core.get_async_event, out);
  find(verbs, "ibv_ack_async_event", core.ack_async_event, out);
  find(verbs, "ibv_get_device_name", core.get_device_name, out);
  if (verbs != nullptr) {
    core.get_device_index = reinterpret_cast<decltype(core.get_device_index)>(dlsym(verbs, "ibv_get_device_index"));
  }
  find(cm, "rdma_get_devices", core.cm_get_devices, out);
  find(cm, "rdma_free_devices", core.cm_free_devices, out);
  find(cm, "rdma_create_event_channel", core.cm_create_event_channel, out);
  find(cm, "rdma_destroy_event_channel", core.cm_destroy_event_channel, out);
  find(cm, "rdma_create_id", core.cm_create_id, out);
  find(cm, "rdma_destroy_id", core.cm_destroy_id, out);
  find(cm, "rdma_migrate_id", core.cm_migrate_id, out);
  find(cm, "rdma_set_option", core.cm_set_option, out);
  find(cm, "rdma_bind_addr", core.cm_bind_addr, out);
  find(cm, "rdma_listen", core.cm_listen, out);
  find(cm, "rdma_init_qp_attr", core.cm_init_qp_attr, out);
  find(cm, "rdma_resolve_addr", core.cm_resolve_addr, out);
  find(cm, "rdma_resolve_route", core.cm_resolve_route, out);
  find(cm, "rdma_connect", core.cm_connect, out);
  find(cm, "rdma_establish", core.cm_establish, out);
  find(cm, "rdma_accept", core.cm_accept, out);
  find(cm, "rdma_reject", core.cm_reject, out);
  find(cm, "rdma_notify", core.cm_notify, out);
  find(cm, "rdma_disconnect", core.cm_disconnect, out);
  find(cm, "rdma_get_cm_event", core.cm_get_event, out);
  find(cm, "rdma_ack_cm_event", core.cm_ack_event, out);
  return out;
}

}  // namespace

const RdmaCore* RdmaCore::load(std::string& problem) {
  static const Loaded kLoaded = load_libraries();
  problem = kLoaded.problem;
  return problem.empty() ? &kLoaded.core : nullptr;
}

std::string address_problem(const std::string& device, const IpAddress& address, const std::string& owner) {
  const std::string name = to_text(address).data();
  if (owner.empty()) {
    return fmt::format("no RDMA device has the address {}: rdma link shows which interfaces have one, ip address whose it is",
                       name);
  }
  if (!device.empty() && device != owner) {
    return fmt::format("the address {} is of RDMA device '{}' and not of '{}': name that device, or an address of this one", name,
                       owner, device);
  }
  return {};
}

std::string rdma_problem(const std::string& device, const std::optional<IpAddress>& address) {
  std::string problem;
  const RdmaCore* core = RdmaCore::load(problem);
  if (core == nullptr) {
    return problem;
  }
  std::error_code ignored;
  std::string known;
  for (const auto& entry : std::filesystem::directory_iterator(kDevices, ignored)) {
    known += (known.empty() ? "" : ", ") + entry.path().filename().string();
  }
  if (!device.empty() && !std::filesystem::exists(std::filesystem::path(kDevices) / device, ignored)) {
    return fmt::format(
        "there is no RDMA device '{}' ({}): rdma link shows what there is; "
        "a software one is made by: rdma link add {} type rxe netdev INTERFACE",
        device, known.empty() ? "there is none at all" : "there are " + known, device);
  }
  if (access(kConnectionManager, R_OK | W_OK) != 0) {
    return errno == EACCES
               ? fmt::format(
                     "{} may not be opened by this user: give it to the service (the drop-in verbs.conf), or to its group",
                     kConnectionManager)
               : fmt::format("there is no {}: modprobe rdma_ucm ib_uverbs; the service takes the drop-in verbs.conf",
                             kConnectionManager);
  }
  const auto owner = address ? owner_of(*core, *address) : std::nullopt;
  return owner ? address_problem(device, *address, *owner) : std::string();
}

}  // namespace cw::dataplane
