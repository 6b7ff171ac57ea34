#include "rocev2/rc/rc_options.h"

#include <bit>

namespace cw::rc {

Status check(const RcOptions& options) {
  const bool ranges_hold = options.send_window_packets >= 1 && options.send_window_packets <= 4096 &&
                           options.send_queue_depth >= 1 && options.send_queue_depth <= 65535 &&
                           options.receive_bytes_max <= kMessageBytesMax && options.min_rnr_timer <= 31 &&
                           options.responder_resources_max <= kReadsMax && options.initiator_depth_max <= kReadsMax &&
                           options.psn_window_packets >= (1u << 10) && options.psn_window_packets <= (1u << 22) &&
                           options.rate.floor_rate >= kRateMin && options.rate.line_rate >= options.rate.floor_rate &&
                           options.rate.line_rate <= kRateMax;
  const bool reads_fit =
      std::has_single_bit(options.read_request_packets) && options.read_request_packets <= kReadRequestPacketsMax &&
      options.read_window_packets >= options.read_request_packets && options.read_window_packets <= kReadWindowPacketsMax;
  const bool keepalive_fits =
      options.keepalive == Duration() || (options.keepalive >= kKeepaliveMin && options.keepalive <= kKeepaliveMax);
  if (!ranges_hold || !reads_fit || !keepalive_fits || options.send_window_packets > options.psn_window_packets) {
    return fail(Error::kBadValue);
  }
  return {};
}

Status check(const RcConnect& connect) {
  const uint32_t mtu = connect.path_mtu_bytes;
  const bool mtu_exists = std::has_single_bit(mtu) && mtu >= 256 && mtu <= 4096;
  const uint32_t qpn = connect.remote_qpn.value();
  const bool qpn_is_connectable = qpn > 1 && qpn < 0xff'ffff;
  const bool one_family = connect.path.local.is_v4() == connect.path.remote.is_v4();
  if (!mtu_exists || !qpn_is_connectable || !one_family || connect.retry_count > 7 || connect.rnr_retry > 7 ||
      connect.ack_timeout > 31) {
    return fail(Error::kBadValue);
  }
  return {};
}

}  // namespace cw::rc
