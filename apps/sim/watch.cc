#include "apps/sim/watch.h"

#include <algorithm>
#include <numeric>

namespace cw::sim {
namespace {

using gateway::ConnectionResult;

void check_node(node::Node& node, Verdict& verdict) {
  verdict.expect(node.cm().is_consistent(), Oracle::kConsistency, "a connection manager's tables are inconsistent");
  node.endpoint().for_each_qp(
      [&](rc::RcQp& qp) { verdict.expect(qp.is_consistent(), Oracle::kConsistency, "a queue pair is inconsistent"); });
}

// Faults that only a wrong peer can commit: the iCRC keeps the wire from faking them. A client that gave up waiting
// withdraws its memory, so that a READ or WRITE on its way is refused.
void check_blame(const rc::RcStats& stats, bool timed_out, Verdict& verdict) {
  // [0] PSN sequence, [1] invalid request, [2] remote access, [3] remote operational, [4] invalid RD request
  verdict.expect(stats.naks_sent[1] == 0, Oracle::kBlame, "a responder found an invalid request");
  verdict.expect(stats.naks_sent[2] == 0 || timed_out, Oracle::kBlame, "a responder refused access to memory");
  verdict.expect(stats.naks_sent[3] == 0 || timed_out, Oracle::kBlame, "a responder had an operational error");
  verdict.expect(stats.bad_responses == 0, Oracle::kBlame, "a requester got a READ response that does not fit");
}

void check_rpc_blame(const rpcrdma::RpcRdmaStats& stats, Verdict& verdict) {
  const uint64_t malformed = std::accumulate(stats.malformed.begin(), stats.malformed.end(), uint64_t{0});
  verdict.expect(malformed == 0, Oracle::kBlame, "an RPC-over-RDMA header was found malformed");
  verdict.expect(stats.short_messages == 0 && stats.xid_mismatch == 0 && stats.bad_replies == 0 && stats.reverse_dropped == 0,
                 Oracle::kBlame, "an RPC-over-RDMA message was found wrong");
  verdict.expect(stats.errors_in_version == 0 && stats.errors_out_version == 0, Oracle::kBlame, "versions do not agree");
  verdict.expect(stats.credit_violations == 0, Oracle::kCredits, "more calls in flight than granted");
}

// TCP repeats what is lost and MPA's CRC sees what is damaged: no peer ends a stream by a Terminate but for memory that a client
// withdrew.
void check_streams(const iwarp::IwarpTransport* iwarp, bool timed_out, Verdict& verdict) {
  if (iwarp == nullptr) {
    return;
  }
  const iwarp::StreamStats& stats = iwarp->stream_stats();
  for (const auto& terminates : {stats.terminates_sent, stats.terminates_received}) {
    verdict.expect(timed_out || std::ranges::all_of(terminates, [](uint64_t count) { return count == 0; }), Oracle::kBlame,
                   "an iWARP stream was terminated");
    verdict.expect(terminates[iwarp::index_of(iwarp::TerminateCause::kUntaggedNoBuffer)] == 0, Oracle::kCredits,
                   "an iWARP SEND or READ came without room for it");
  }
  verdict.expect(stats.crc_errors == 0, Oracle::kBlame, "an iWARP stream found a wrong CRC");
}

// What is left of the wire in the end.
void check_iwarp_end(const iwarp::IwarpTransport* iwarp, const TcpHost* tcp, Verdict& verdict) {
  if (iwarp == nullptr) {
    return;
  }
  verdict.expect(iwarp->live_count() == 0 && iwarp->half_open_count() == 0, Oracle::kLeak,
                 "an iWARP transport has connections left");
  verdict.expect(iwarp->next_deadline().is_never(), Oracle::kTimers, "an iWARP transport waits for a deadline");
  verdict.expect(!iwarp->has_events() && !tcp->has_work(), Oracle::kLeak, "an iWARP transport has events that nobody took");
}

uint32_t spares_of(const iwarp::IwarpTransport* iwarp) {
  return iwarp == nullptr ? 0 : iwarp->spare_buffer_count();
}

}  // namespace

void GatewayWatch::look(GatewayHost& gateway) {
  while (const gateway::Notice* notice = gateway.gateway.next_notice()) {
    on_notice(*notice);
    gateway.gateway.pop_notice();
  }
  const rpcrdma::RpcRdmaStats& stats = gateway.gateway.rpcrdma_stats();
  if (stats.credits_in_use > stats.credits_granted) {
    verdict_.fail(Oracle::kCredits, "the gateway has more credits in use than granted");
  }
  const auto& sections = gateway.gateway.stats().clients;
  if (std::ranges::any_of(sections, [](const auto& s) { return s.credits_in_use > s.credits_granted; })) {
    verdict_.fail(Oracle::kCredits, "a section of clients has more credits in use than granted");
  }
  if (stats.reverse_credits_in_use > stats.reverse_credits_granted) {
    verdict_.fail(Oracle::kCredits, "the gateway has more calls to clients in flight than they granted");
  }
}

void GatewayWatch::on_notice(const gateway::Notice& notice) {
  const bool has_qpn = notice.local_qpn.value() != 0;
  const Name name{notice.local_qpn, has_qpn ? IpAddress() : notice.peer, has_qpn ? uint16_t{0} : notice.peer_port};
  const auto open = std::find(open_.begin(), open_.end(), name);
  if (notice.result == ConnectionResult::kAccepted || notice.result == ConnectionResult::kTakenOver) {
    verdict_.expect(open == open_.end(), Oracle::kEndState, "a connection was accepted twice");
    open_.push_back(name);
    return;
  }
  if (notice.result == ConnectionResult::kFailedTransport) {
    verdict_.expect(notice.qp_error.any(), Oracle::kEndState, "a transport failure without a cause");
  }
  if (open != open_.end()) {
    open_.erase(open);
    return;
  }
  const bool before_accept =
      notice.result == ConnectionResult::kRefusedAcl || notice.result == ConnectionResult::kRefusedLimit ||
      notice.result == ConnectionResult::kRefusedClientDenied || notice.result == ConnectionResult::kRefusedClientLimit ||
      notice.result == ConnectionResult::kRefusedBackend || notice.result == ConnectionResult::kRefusedResources ||
      notice.result == ConnectionResult::kRefusedDraining || notice.result == ConnectionResult::kFailedHandshake ||
      notice.result == ConnectionResult::kClosedByPeer || notice.result == ConnectionResult::kClosedByUs ||
      notice.result == ConnectionResult::kFailedBackend || notice.result == ConnectionResult::kFailedTransport ||
      notice.result == ConnectionResult::kFailedProtocol || notice.result == ConnectionResult::kDrained ||
      notice.result == ConnectionResult::kHandedOver;
  verdict_.expect(before_accept, Oracle::kEndState, "a connection ended that was never accepted, or ended twice");
}

void GatewayWatch::check_consistency(GatewayHost& gateway) {
  check_node(gateway.node, verdict_);
}

void GatewayWatch::check_end(GatewayHost& host, bool clients_timed_out, bool peers_are_honest) {
  look(host);
  check_consistency(host);
  const gateway::GatewayStats& stats = host.gateway.stats();
  const rpcrdma::RpcRdmaStats& rpc = host.gateway.rpcrdma_stats();
  verdict_.expect(open_.empty(), Oracle::kEndState, "the gateway accepted a connection and never said how it ended");
  verdict_.expect(stats.connections_open == 0, Oracle::kLeak, "the gateway has connections left");
  verdict_.expect(host.node.endpoint().qp_count() == 0, Oracle::kLeak, "the gateway has queue pairs left");
  verdict_.expect(host.node.cm().live_count() == 0, Oracle::kLeak, "the gateway's connection manager has connections left");
  check_iwarp_end(host.iwarp.get(), host.tcp.get(), verdict_);
  verdict_.expect(host.packets.in_use() == spares_of(host.iwarp.get()), Oracle::kLeak, "the gateway has packet buffers left");
  verdict_.expect(host.large.in_use() == 0, Oracle::kLeak, "the gateway has reply buffers left");
  verdict_.expect(host.backend.open_count() == 0, Oracle::kLeak, "the gateway left a backend connection open");
  verdict_.expect(host.source_ports.used_count() == 0, Oracle::kLeak, "the gateway has source ports left");
  verdict_.expect(rpc.credits_in_use == 0 && rpc.credits_granted == 0, Oracle::kLeak, "the gateway has credits left");
  verdict_.expect(host.gateway.slots_in_use() == 0, Oracle::kLeak, "the gateway has slots for calls left");
  verdict_.expect(host.gateway.pulled_units() == 0, Oracle::kLeak, "the gateway counts units of pulled data without any");
  verdict_.expect(host.gateway.reply_bytes() == 0, Oracle::kLeak, "the gateway counts bytes of replies without any");
  for (const gateway::BackendStats& backend : stats.backends) {
    verdict_.expect(backend.calls_in_flight == 0, Oracle::kLeak, "the gateway counts calls in flight without any");
    verdict_.expect(backend.links == 0, Oracle::kLeak, "the gateway counts backend links without any");
  }
  for (const gateway::ClientClassStats& clients : stats.clients) {
    verdict_.expect(clients.connections == 0, Oracle::kLeak, "a section of clients counts connections without any");
    verdict_.expect(clients.bytes_in_flight == 0, Oracle::kLeak, "a section of clients has bytes left in its budget");
    verdict_.expect(clients.credits_granted == 0 && clients.credits_in_use == 0, Oracle::kLeak,
                    "a section of clients has credits left");
  }
  verdict_.expect(host.node.next_deadline().is_never() && host.gateway.next_deadline().is_never(), Oracle::kTimers,
                  "the gateway waits for a deadline");
  if (!peers_are_honest) {
    return;
  }
  check_blame(host.node.endpoint().stats(), clients_timed_out, verdict_);
  check_streams(host.iwarp.get(), clients_timed_out, verdict_);
  check_rpc_blame(rpc, verdict_);
  verdict_.expect(host.node.endpoint().stats().rnr_naks_sent == 0, Oracle::kCredits, "a SEND came without a posted receive");
}

void check_consistency(ClientStack& client, Verdict& verdict) {
  check_node(client.node, verdict);
}

void check_end(ClientStack& client, bool timed_out, Verdict& verdict) {
  check_consistency(client, verdict);
  verdict.expect(client.node.endpoint().qp_count() == 0, Oracle::kLeak, "a client has queue pairs left");
  verdict.expect(client.node.cm().live_count() == 0, Oracle::kLeak, "a client's connection manager has connections left");
  check_iwarp_end(client.iwarp.get(), client.tcp.get(), verdict);
  verdict.expect(client.packets.in_use() == spares_of(client.iwarp.get()), Oracle::kLeak, "a client has packet buffers left");
  verdict.expect(client.memory.region_count() == 0, Oracle::kLeak, "a client has memory keys left");
  verdict.expect(client.client.connected_count() == 0, Oracle::kLeak, "a client counts connections without any");
  verdict.expect(client.node.next_deadline().is_never() && client.client.next_deadline().is_never(), Oracle::kTimers,
                 "a client waits for a deadline");
  check_blame(client.node.endpoint().stats(), timed_out, verdict);
  check_streams(client.iwarp.get(), timed_out, verdict);
  check_rpc_blame(client.client.rpcrdma_stats(), verdict);
  verdict.expect(client.node.endpoint().stats().rnr_naks_sent == 0, Oracle::kCredits, "a reply came without a posted receive");
}

}  // namespace cw::sim
