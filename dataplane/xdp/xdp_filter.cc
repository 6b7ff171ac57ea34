#include "dataplane/xdp/xdp_filter.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fmt/format.h>
#include <linux/bpf.h>
#include <linux/if_link.h>
#include <net/if.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <vector>

#include "dataplane/xdp/xdp_program.h"

namespace cw::dataplane {
namespace {

namespace fs = std::filesystem;

constexpr const char* kProgramName = "causeway_xdp";
constexpr const char* kMapName = "own_addresses";
constexpr const char* kRights =
    "AF_XDP takes CAP_NET_RAW, CAP_BPF and CAP_NET_ADMIN (see the table of rights in deploy/README.md)";

// As in causeway_xdp.c.
struct OwnAddress {
  std::array<uint8_t, 16> raw;
  uint32_t vlan;
};
static_assert(sizeof(OwnAddress) == 20);

// The descriptor of this process that refers to the program ("prog_id") or map ("map_id") of this number; -1: there is none.
// Asking the kernel for one by its number takes CAP_SYS_ADMIN.
int own_descriptor(const std::string& kind, uint32_t id) {
  const std::string wanted = fmt::format("{}:\t{}", kind, id);
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/proc/self/fdinfo", error)) {
    std::ifstream file(entry.path());
    bool found = false;
    bool is_link = false;  // of a link, which names its program too
    for (std::string line; std::getline(file, line);) {
      found |= line == wanted;
      is_link |= line.starts_with("link_id:");
    }
    if (found && !is_link) {
      return std::atoi(entry.path().filename().c_str());
    }
  }
  return -1;
}

template <typename Info>
bool read_info(int fd, Info& info) {
  uint32_t size = sizeof(info);
  return bpf_obj_get_info_by_fd(fd, &info, &size) == 0;
}

// The map of this name that a program uses; -1: it has none, or it is not this process's.
int map_of(int program) {
  std::array<uint32_t, 8> ids{};
  bpf_prog_info info{};
  info.nr_map_ids = ids.size();
  info.map_ids = reinterpret_cast<uint64_t>(ids.data());
  if (!read_info(program, info)) {
    return -1;
  }
  for (uint32_t i = 0; i < std::min<uint32_t>(info.nr_map_ids, ids.size()); ++i) {
    const int map = own_descriptor("map_id", ids[i]);
    bpf_map_info map_info{};
    if (map >= 0 && read_info(map, map_info) && std::strcmp(map_info.name, kMapName) == 0) {
      return map;
    }
  }
  return -1;
}

struct Attached {
  uint32_t id = 0;     // 0 = no program
  uint32_t flags = 0;  // XDP_FLAGS_..._MODE
};

int query(int index, Attached& out) {
  bpf_xdp_query_opts options{};
  options.sz = sizeof(options);
  const int result = bpf_xdp_query(index, 0, &options);
  out.id = options.prog_id;
  out.flags = options.attach_mode == XDP_ATTACHED_SKB ? XDP_FLAGS_SKB_MODE : XDP_FLAGS_DRV_MODE;
  return result;
}

// Takes off what a gateway on a kernel without links left when it was killed. A link of one that lives is not taken off.
bool clear(const std::string& interface, int index, std::string& error) {
  Attached attached;
  if (const int result = query(index, attached); result != 0) {
    error = fmt::format("cannot ask for XDP programs on {}: {}", interface, std::strerror(-result));
    return false;
  }
  if (attached.id == 0) {
    return true;
  }
  const control::UniqueFd program(bpf_prog_get_fd_by_id(attached.id));
  bpf_prog_info info{};
  const bool is_known = program.valid() && read_info(program.get(), info);
  const bool is_ours = is_known && std::strcmp(info.name, kProgramName) == 0;
  if (is_ours && bpf_xdp_detach(index, attached.flags, nullptr) == 0) {
    return true;
  }
  const char* cause = is_ours ? "of another gateway that runs" : "already";
  error =
      fmt::format("{} has an XDP program {}: {}, number {}. End what it belongs to, or take it off: ip link set dev {} xdp off",
                  interface, cause, is_known && info.name[0] != 0 ? info.name : "name unknown", attached.id, interface);
  return false;
}

control::UniqueFd file_in_memory(Bytes raw) {
  control::UniqueFd file(memfd_create("causeway_xdp.o", MFD_CLOEXEC));
  if (!file.valid() || write(file.get(), raw.data(), raw.size()) != static_cast<ssize_t>(raw.size())) {
    return control::UniqueFd();
  }
  return file;
}

}  // namespace

std::unique_ptr<XdpFilter> XdpFilter::open(const std::string& interface, std::string& error) {
  const int index = static_cast<int>(if_nametoindex(interface.c_str()));
  if (index == 0) {
    error = fmt::format("there is no interface {}: ip -br link shows those there are", interface);
    return nullptr;
  }
  if (!clear(interface, index, error)) {
    return nullptr;
  }
  control::UniqueFd file = file_in_memory(xdp_program());
  if (!file.valid()) {
    error = fmt::format("cannot hold the XDP program in memory: {}", std::strerror(errno));
    return nullptr;
  }
  return std::unique_ptr<XdpFilter>(new XdpFilter(interface, index, std::move(file)));
}

XdpFilter::~XdpFilter() {
  if (link_.valid()) {
    (void)bpf_link_detach(link_.get());
  }
}

std::string XdpFilter::path() const {
  return fmt::format("/proc/self/fd/{}", file_.get());
}

bool XdpFilter::failed(const char* step, int result, std::string& error) const {
  error = fmt::format("{}: {}: {}; {}", interface_, step, std::strerror(result < 0 ? -result : result), kRights);
  return false;
}

bool XdpFilter::take_over(std::span<const IpAddress> addresses, uint16_t vlan, std::string& error) {
  Attached attached;
  const int queried = query(index_, attached);
  const int program = queried == 0 && attached.id != 0 ? own_descriptor("prog_id", attached.id) : -1;
  const int map = program >= 0 ? map_of(program) : -1;
  if (map < 0) {
    return failed("the XDP program that DPDK was to attach is not there", queried != 0 ? queried : ENOENT, error);
  }
  const uint32_t present = 1;
  for (const IpAddress& address : addresses) {
    const OwnAddress key{address.raw, vlan};
    if (const int result = bpf_map_update_elem(map, &key, &present, BPF_ANY); result != 0) {
      return failed("cannot tell the XDP program an address", result, error);
    }
  }
  if (const int result = bpf_xdp_detach(index_, attached.flags, nullptr); result != 0) {
    return failed("cannot attach the XDP program anew", result, error);
  }
  bpf_link_create_opts options{};
  options.sz = sizeof(options);
  options.flags = attached.flags;
  link_ = control::UniqueFd(std::max(bpf_link_create(program, index_, BPF_XDP, &options), -1));
  if (link_.valid()) {
    return true;
  }
  const int result = bpf_xdp_attach(index_, program, attached.flags, nullptr);
  return result == 0 || failed("cannot attach the XDP program anew", result, error);
}

}  // namespace cw::dataplane
