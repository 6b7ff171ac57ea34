// In a build without clang or libbpf, where the configuration refuses beside_kernel already.
#include "dataplane/xdp/xdp_filter.h"
#include "dataplane/xdp/xdp_program.h"

namespace cw::dataplane {

Bytes xdp_program() {
  return {};
}

std::unique_ptr<XdpFilter> XdpFilter::open(const std::string&, std::string& error) {
  error = "this causewayd was built without clang or libbpf-dev, hence without its XDP program";
  return nullptr;
}

XdpFilter::~XdpFilter() = default;

std::string XdpFilter::path() const {
  return {};
}

bool XdpFilter::take_over(std::span<const IpAddress>, uint16_t, std::string&) {
  return false;
}

}  // namespace cw::dataplane
