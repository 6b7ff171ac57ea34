// The libraries of rdma-core, loaded when the first listener, or call, wants them: a gateway on other wires needs none of them.
// What verbs do per message (posting, polling) are inline functions of their header, through the device's own table, and need no
// symbol.
#pragma once

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <optional>
#include <string>

#include "base/ip_address.h"

namespace cw::dataplane {

// Named as the functions are, without ibv_, and with cm_ for rdma_. Whatever the headers do with macros is not done here.
struct RdmaCore {
  decltype(&::ibv_open_device) open_device = nullptr;
  decltype(&::ibv_close_device) close_device = nullptr;
  decltype(&::ibv_alloc_pd) alloc_pd = nullptr;
  decltype(&::ibv_dealloc_pd) dealloc_pd = nullptr;
  decltype(&::ibv_reg_mr) reg_mr = nullptr;
  decltype(&::ibv_dereg_mr) dereg_mr = nullptr;
  decltype(&::ibv_create_comp_channel) create_comp_channel = nullptr;
  decltype(&::ibv_destroy_comp_channel) destroy_comp_channel = nullptr;
  decltype(&::ibv_create_cq) create_cq = nullptr;
  decltype(&::ibv_destroy_cq) destroy_cq = nullptr;
  decltype(&::ibv_get_cq_event) get_cq_event = nullptr;
  decltype(&::ibv_ack_cq_events) ack_cq_events = nullptr;
  decltype(&::ibv_create_qp) create_qp = nullptr;
  decltype(&::ibv_modify_qp) modify_qp = nullptr;
  decltype(&::ibv_query_qp) query_qp = nullptr;
  decltype(&::ibv_destroy_qp) destroy_qp = nullptr;
  decltype(&::ibv_query_device) query_device = nullptr;
  decltype(&::ibv_query_port) query_port = nullptr;
  decltype(&::ibv_get_async_event) get_async_event = nullptr;
  decltype(&::ibv_ack_async_event) ack_async_event = nullptr;
  decltype(&::ibv_get_device_name) get_device_name = nullptr;
  // ibv_get_device_index(): the kernel's number of a device, which no other gets; -1: not known. Null before rdma-core 34.
  int (*get_device_index)(ibv_device* device) = nullptr;
  decltype(&::rdma_get_devices) cm_get_devices = nullptr;
  decltype(&::rdma_free_devices) cm_free_devices = nullptr;
  decltype(&::rdma_create_event_channel) cm_create_event_channel = nullptr;
  decltype(&::rdma_destroy_event_channel) cm_destroy_event_channel = nullptr;
  decltype(&::rdma_create_id) cm_create_id = nullptr;
  decltype(&::rdma_destroy_id) cm_destroy_id = nullptr;
  decltype(&::rdma_migrate_id) cm_migrate_id = nullptr;
  decltype(&::rdma_set_option) cm_set_option = nullptr;
  decltype(&::rdma_bind_addr) cm_bind_addr = nullptr;
  decltype(&::rdma_listen) cm_listen = nullptr;
  decltype(&::rdma_init_qp_attr) cm_init_qp_attr = nullptr;
  decltype(&::rdma_resolve_addr) cm_resolve_addr = nullptr;
  decltype(&::rdma_resolve_route) cm_resolve_route = nullptr;
  decltype(&::rdma_connect) cm_connect = nullptr;
  decltype(&::rdma_establish) cm_establish = nullptr;
  decltype(&::rdma_accept) cm_accept = nullptr;
  decltype(&::rdma_reject) cm_reject = nullptr;
  decltype(&::rdma_notify) cm_notify = nullptr;
  decltype(&::rdma_disconnect) cm_disconnect = nullptr;
  decltype(&::rdma_get_cm_event) cm_get_event = nullptr;
  decltype(&::rdma_ack_cm_event) cm_ack_event = nullptr;

  // Loaded once, and never given back. Null, and one sentence with what to do about it in `problem`, when something is missing.
  // Any thread.
  [[nodiscard]] static const RdmaCore* load(std::string& problem);
};

// Whether connections can be made here, the device is there (empty: any), and it has the address (absent: all that it has). One
// sentence with what to do about it; empty: yes.
[[nodiscard]] std::string rdma_problem(const std::string& device, const std::optional<IpAddress>& address);
// The same for devices that have been looked for already: who has the address (empty: none).
[[nodiscard]] std::string address_problem(const std::string& device, const IpAddress& address, const std::string& owner);

}  // namespace cw::dataplane
