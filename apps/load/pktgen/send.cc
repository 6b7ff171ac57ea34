#include "apps/load/pktgen/send.h"

#include "apps/load/pktgen/packets.h"
#include "base/random.h"
#include "rpcrdma/rpc/rpc_message.h"
#include "rpcrdma/wire/transport_header.h"

namespace cw::pktgen {
namespace {

constexpr uint32_t kBareHeaderBytes = 28;
static_assert(kSendPayloadMin == kBareHeaderBytes + rpcrdma::kAcceptedReplyBytes);

}  // namespace

Profile make_sends(const Target& target, const QueuePairTarget& qp, const SendOptions& options) {
  CW_ASSERT(options.payload_bytes >= kSendPayloadMin && options.payload_bytes <= target.path_mtu_bytes);
  Profile profile{.name = "send", .kinds = {}, .frames = {}, .further_pass = {}, .remarks = {}};
  const std::vector<Count> counts = {
      {"causeway_rpcrdma_messages_total", {{"direction", "rx"}, {"procedure", "rdma_msg"}}},
      {"causeway_rpcrdma_reverse_dropped_total", {}},
      {"causeway_roce_payload_bytes_total", {{"direction", "rx"}}, options.payload_bytes},
  };
  SeededRandom random(target.seed);
  PacketMaker maker;
  wire::Psn psn = qp.first_psn;
  for (uint32_t i = 0; i < options.count; ++i) {
    ByteVector message(options.payload_bytes);
    const uint32_t xid = random.next_u32();
    const auto written = rpcrdma::write_call_header(message, {.xid = xid, .credit = 1}, rpcrdma::ChunkList{});
    CW_ASSERT(written.ok() && *written == kBareHeaderBytes);
    rpcrdma::write_accepted_reply(
        std::span<uint8_t, rpcrdma::kAcceptedReplyBytes>(&message[kBareHeaderBytes], rpcrdma::kAcceptedReplyBytes), xid,
        rpcrdma::AcceptStatus::kSuccess);
    for (size_t at = kSendPayloadMin; at < message.size(); ++at) {
      message[at] = static_cast<uint8_t>(random.next_u32());
    }
    add_frame(profile, "send", maker.send(target, qp.qpn, psn, message).front(), counts);
  }
  profile.further_pass = {
      {"causeway_port_packets_total", {{"direction", "rx"}}, options.count},
      {"causeway_roce_packets_total", {{"direction", "rx"}}, options.count},
      {"causeway_roce_duplicate_requests_total", {}, options.count},
      {"causeway_roce_payload_bytes_total", {{"direction", "rx"}}, uint64_t{options.count} * options.payload_bytes},
  };
  profile.remarks = {
      "PSNs repeat with the file: only the first pass carries new messages. "
      "In every later pass each packet is a duplicate, which causewayd parses, checks (iCRC, path, PSN) and acknowledges again, "
      "one ACK per burst and queue pair, without executing it. "
      "A replay in a loop is therefore a stress of duplicates and ACKs, not a message rate.",
      "A frame lost in the first pass makes the rest of that pass out_of_sequence; the next pass fills the gap.",
      "The listener needs more credits than a burst has packets (32): "
      "with fewer, a burst meets no posted receive and is told so by RNR NAK.",
  };
  return profile;
}

}  // namespace cw::pktgen
