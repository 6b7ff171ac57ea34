#include "gateway/node/saved_roce.h"

#include <array>

#include "base/assert.h"
#include "rpcrdma/xdr/xdr_reader.h"
#include "rpcrdma/xdr/xdr_writer.h"

namespace cw::node {
namespace {

constexpr size_t kBytesMax = 256;

// Writes, or reads, the same members in the same order.
struct Write {
  rpcrdma::XdrWriter& to;
  template <typename T>
  void operator()(const T& value) {
    to.u64(static_cast<uint64_t>(value));
  }
  void operator()(const IpAddress& address) { to.fixed_opaque(address.raw); }
  void operator()(const wire::MacAddress& mac) { to.fixed_opaque(mac.raw); }
  void operator()(const verbs::Qpn& qpn) { to.u64(qpn.value()); }
  void operator()(const wire::Psn& psn) { to.u64(psn.value()); }
};

struct Read {
  rpcrdma::XdrReader& from;
  template <typename T>
  void operator()(T& value) {
    const uint64_t word = from.u64();
    value = static_cast<T>(word);
    if (static_cast<uint64_t>(value) != word) {
      from.set_failed();
    }
  }
  void operator()(IpAddress& address) { from.copy(address.raw); }
  void operator()(wire::MacAddress& mac) {
    from.copy(mac.raw);
    from.skip(rpcrdma::xdr_pad(mac.raw.size()));
  }
  void operator()(verbs::Qpn& qpn) { qpn = verbs::Qpn(word24()); }
  void operator()(wire::Psn& psn) { psn = wire::Psn(word24()); }

 private:
  uint32_t word24() {
    uint32_t value = 0;
    (*this)(value);
    if (value > 0xff'ffff) {
      from.set_failed();
    }
    return value & 0xff'ffff;
  }
};

template <typename Visit, typename State>
void for_each_member(Visit&& visit, State& state) {
  visit(state.cm.address.local);
  visit(state.cm.address.remote);
  visit(state.cm.address.remote_mac);
  visit(state.cm.address.vlan);
  visit(state.cm.address.port);
  visit(state.cm.local_comm_id);
  visit(state.cm.remote_comm_id);
  visit(state.cm.local_qpn);
  visit(state.cm.remote_qpn);
  visit(state.cm.transaction_id);
  visit(state.cm.peer_transaction_id);
  visit(state.cm.passive);
  visit(state.cm.ack_timeout_code);
  visit(state.rc.path.udp_source_port);
  visit(state.rc.remote_first_psn);
  visit(state.rc.local_first_psn);
  visit(state.rc.pkey);
  visit(state.rc.path_mtu_bytes);
  visit(state.rc.initiator_depth);
  visit(state.rc.responder_resources);
  visit(state.rc.retry_count);
  visit(state.rc.rnr_retry);
  visit(state.rc.ack_timeout);
  visit(state.rc.peer_hold_packets);
  visit(state.rc.msn);
}

}  // namespace

void append(std::vector<uint8_t>& out, const SavedRoce& state) {
  std::array<uint8_t, kBytesMax> raw;
  rpcrdma::XdrWriter writer(raw);
  for_each_member(Write{writer}, state);
  CW_ASSERT(writer.ok());
  const Bytes written = writer.written();
  out.insert(out.end(), written.begin(), written.end());
}

std::optional<SavedRoce> parse_saved_roce(Bytes bytes) {
  SavedRoce state;
  rpcrdma::XdrReader reader(bytes);
  for_each_member(Read{reader}, state);
  if (!reader.ok() || reader.remaining() > 0) {
    return std::nullopt;
  }
  state.rc.resumes = true;
  return state;
}

}  // namespace cw::node
