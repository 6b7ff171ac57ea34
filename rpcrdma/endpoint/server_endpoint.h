// The server side of one RPC-over-RDMA connection: SENDs become RPC calls, RPC replies become RDMA Writes and SENDs.
//
// Life of a call: a receive completion brings the header and inline part; the header is validated whole; Read chunks are pulled
// (pipelined) and spliced in at their Positions; the rebuilt XDR stream is polled as a Call. The owner answers with reply(): the
// upper-layer binding finds reducible items, plan_reply() decides, Writes and the SEND are posted together. Buffers of the call
// belong to whoever polled it; the reply's buffers belong to the queue pair until the client has acknowledged them.
//
// How it fails: a bad header is answered with RDMA_ERROR (or dropped where RFC 8166 says so) and counted; a failed RDMA operation
// or a queue pair in Error fails the endpoint: all its calls are void, failed() tells, replies to them are dropped.
// Credits: `options.credits` receives are posted at start and one more with each reply, so that the grant is always backed. A
// client that has more calls in flight than were granted fails the endpoint: RFC 8166 3.3.1 owes it nothing, and dropping the
// one message would leave its call waiting for a reply that never comes.
// The grant can be lowered and raised again while calls are outstanding (3.3.1): each reply with a lower grant keeps the receive
// that it would post, since the client may use its former grant until it has read that reply.
// Order: calls are polled as their data come, so that a small one may overtake one that is being pulled. Once a call has had a
// credential of RPCSEC_GSS they are polled in the order of their SENDs: servers drop calls that lag behind the sequence window of
// their context (RFC 2203 5.3.3.1), and clients then break the connection. RDMA Reads of several calls still overlap.
// Nor is a call polled as long as the owner has one of the same context that is a whole window older: a Linux client takes a
// sequence number before it computes the checksum of a body, so it sends large calls up to a window late. The server's threads
// must not delay such a call further behind newer ones.
// Reverse direction: submit_reverse() and poll_reverse() belong to the ReverseCaller, which shares nothing with the calls of the
// client but the queue pair. Its Replies are told apart before a call slot is taken: neither direction can block the other.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/buffer.h"
#include "base/intrusive_list.h"
#include "base/prefetch.h"
#include "base/ring.h"
#include "base/time.h"
#include "rpcrdma/endpoint/call_prediction.h"
#include "rpcrdma/endpoint/direct_calls.h"
#include "rpcrdma/endpoint/header_view.h"
#include "rpcrdma/endpoint/rate_lines.h"
#include "rpcrdma/endpoint/reply_holdings.h"
#include "rpcrdma/endpoint/reply_poster.h"
#include "rpcrdma/endpoint/reverse_caller.h"
#include "rpcrdma/endpoint/rpcrdma_options.h"
#include "rpcrdma/endpoint/rpcrdma_stats.h"
#include "rpcrdma/endpoint/send_window.h"
#include "rpcrdma/endpoint/server_call.h"
#include "rpcrdma/endpoint/stage_durations.h"
#include "rpcrdma/ulb/binding.h"
#include "verbs/queue_pair.h"

namespace cw::rpcrdma {

struct Call {
  CallId id;
  const CallContext* context = nullptr;  // the endpoint's, until the call has been answered
  Chain message;                         // the RPC call, XID first, every chunk in its place
  Instant received;                      // when the first packet of its SEND arrived
};

// What happened to calls that were answered, for the owner's histograms: those of one turn are often alike in all of this.
struct CallDone {
  uint32_t client = 0;     // ServerOptions::client
  uint32_t procedure = 0;  // procedure_row()
  Instant received;
  Instant replied;     // the reply was posted
  uint32_t count = 1;  // of such calls
};

// Why an endpoint has failed.
enum class EndpointFailure : uint8_t {
  kNone,
  kProtocol,      // the client broke a rule, its queue pair failed, or the owner gave it up
  kCallTimeout,   // the owner kept a call for call_timeout
  kReadTimeout,   // the client answered no RDMA Read for read_timeout, or was slower than kReadBytesPerSecondMin
  kSlowReads,     // the client's RDMA Reads were slow, and others waited for the units that they held
  kReplyTimeout,  // the client did not acknowledge a reply for reply_timeout
  kStarved,       // what all share was not to be had for wait_timeout
};
[[nodiscard]] const char* to_string(EndpointFailure failure) noexcept;

class ServerEndpoint;
struct HeaderCheck;
struct PullTag {};      // endpoints that wait for their turn to pull
struct SlowLineTag {};  // those of slow clients that wait for their turn among these
struct SlowTag {};      // endpoints whose RDMA Reads are slow

// Per-call state lives in one table per core, shared by all its connections; bounded there. When it is full, messages wait in
// their endpoint (as many as it granted credits) until a slot is free. Where there are several backends, the calls to one may
// have four times as many slots as are free, and the same of units to pull into and of bytes for replies (leaves_others): one
// alone gets four fifths, and one that hangs leaves the rest to the others. Where there are several clients, each may have as
// many slots as are free; a client alone leaves a sixteenth of them, so that the next one finds some at once.
// Who waits for a slot stands in line, as who waits for units does: in that of the client when only the client can give one back,
// then in that of the backend, then in that of all. An endpoint takes one slot, then it is the next one's turn.
struct ServerShared {
  // `pull_units_max`: receive buffers that pulled call data may hold over all connections, from the first RDMA Read of a call
  // until it has been answered. A call is pulled whole or waits: calls that were begun can always be finished, so that many
  // clients that write much at once wait for one another instead of starving each other of buffers. One call is always admitted.
  // Who waits stands in line: one call of the first, then it is the next one's turn. Each client has one connection in this line;
  // among themselves its connections take turns the same way (ClientShare::line).
  // A client that answers no RDMA Read, or whose backend is slow, leaves room to the others: one client may have as much as is
  // free (may_pull), and a quarter of all for calls whose RDMA Reads are not all answered. One call of each client is admitted
  // however long it is.
  static constexpr uint64_t kUnreadPart = 4;  // of pull_units_max
  ServerShared(uint32_t calls_in_flight_max, BufferPool& pool, uint64_t pull_units_max = UINT64_MAX);
  ~ServerShared();
  std::unique_ptr<ServerCallTable> calls;
  BufferPool& pool;           // for headers and small copies
  uint32_t header_bytes_max;  // that one of its Buffers holds
  HeaderView header_view;
  ChunkList looked_at;  // of a message that has no slot yet
  // Calls that begin as the connection's last one did, and short replies to calls without chunks, take the express paths.
  // Without, every outcome is the same: for tests.
  bool express = true;
  CallPredictions predictions;
  DirectCalls direct;
  RpcRdmaStats stats;
  StageDurations durations;
  Ring<CallDone> done;  // as many as calls in flight; while it is full, further calls leave no record
  void note_done(uint32_t client, uint32_t procedure, Instant received, Instant replied, uint32_t count = 1) {
    if (!done.empty()) {
      CallDone& last = done.back();
      if (last.procedure == procedure && last.client == client && last.received == received && last.replied == replied) {
        last.count += count;
        return;
      }
    }
    (void)done.push({.client = client, .procedure = procedure, .received = received, .replied = replied, .count = count});
  }
  // Bytes of Buffers that replies may keep over all connections: those of replies that clients have not acknowledged, and what
  // polled calls offer room for. One client may have as much of them as is free. One call of each client is always polled.
  uint64_t reply_bytes_max = UINT64_MAX;
  uint64_t reply_bytes = 0;
  Slab<ReplyHoldings::Entry> held_replies;  // as many as calls in flight
  [[nodiscard]] bool may_keep(const ClientShare& client, const BackendShare* backend, uint64_t bytes) const {
    return is_within_free(client.reply_bytes, bytes, reply_bytes, reply_bytes_max) &&
           (client.reply_bytes == 0 || backend == nullptr ||
            leaves_others(backend->reply_bytes, bytes, reply_bytes, reply_bytes_max));
  }
  uint64_t pull_units_max;
  uint64_t pulled_units = 0;
  [[nodiscard]] bool may_pull(const ClientShare& client, uint64_t units) const {
    return is_within_free(client.pulled_units, units, pulled_units, pull_units_max) && may_read(client, units);
  }
  [[nodiscard]] bool may_read(const ClientShare& client, uint64_t units) const {
    return client.unread_units == 0 || client.unread_units + units <= pull_units_max / kUnreadPart;
  }
  // Modulo 2^64: `change` may stand for fewer.
  void count_unread(ClientShare& client, uint64_t change) {
    client.unread_units += change;
    slow_units += client.is_slow ? change : 0;
  }
  // A client is slow when a call of one of its connections has not got all of its data kSlowAfter after its first RDMA Read. Many
  // slow clients together hold no more than one of them could: a quarter of all units, or one call, for calls whose RDMA Reads
  // are not all answered. They stand in a line of their own before they stand in that of all, so that nobody else waits behind
  // them. A client that turns slow may hold more: as long as others wait, its connections end, those first that have been slow
  // for longest, until the part is kept. A client stays slow for a while, so that it does not begin anew with each connection.
  static constexpr uint64_t kSlowPart = 4;  // of pull_units_max
  static constexpr Duration kSlowAfter = Duration::ms(750);
  static constexpr Duration kSlowFor = Duration::seconds(10);  // since one of its connections was last found slow
  static constexpr Duration kSlowCheck = Duration::ms(20);     // how often a slow connection looks whether others wait
  static constexpr Duration kWaitFresh = Duration::ms(2);      // who waits asks again sooner: ServerEndpoint::kRetryInterval
  uint64_t slow_units = 0;                                     // unread units of slow clients
  IntrusiveList<ServerEndpoint, SlowLineTag> slow_line;        // longest waiting first
  IntrusiveList<ServerEndpoint, SlowTag> slow_endpoints;       // longest slow first
  std::optional<Instant> waited_at;                            // a client that is not slow last found no units
  [[nodiscard]] bool may_pull_slowly(uint64_t units) const {
    return slow_units == 0 || slow_units + units <= pull_units_max / kSlowPart;
  }
  [[nodiscard]] bool slow_ones_are_in_the_way(Instant now) const {
    return slow_units > pull_units_max / kSlowPart && waited_at.has_value() && now < *waited_at + kWaitFresh;
  }
  void set_slow(ClientShare& client, bool slow) {
    if (client.is_slow != slow) {
      client.is_slow = slow;
      slow_units += slow ? client.unread_units : 0 - client.unread_units;
    }
  }
  void return_units(ClientShare& client, BackendShare* backend, uint64_t units) {
    pulled_units -= units;
    client.pulled_units -= units;
    if (backend != nullptr) {
      backend->pulled_units -= units;
    }
  }
  [[nodiscard]] bool may_pull(const BackendShare& backend, uint64_t units) const {
    return leaves_others(backend.pulled_units, units, pulled_units, pull_units_max);
  }
  static constexpr uint64_t kBackendWeight = 4;  // a backend that hangs is not enough for the owner to lower all grants
  uint32_t backends = 1;                         // that the owner passes calls on to
  [[nodiscard]] bool may_begin(const BackendShare& backend) const {
    return leaves_others(backend.slots, 1, calls->in_use(), calls->capacity());
  }
  uint32_t clients = 1;                          // that share the slots
  static constexpr uint32_t kReservedPart = 16;  // of the slots: not for a client that is alone
  // How many more slots the client, or the calls to the backend, may take now. At least one to who has none.
  [[nodiscard]] uint32_t slots_left_to(const ClientShare& client) const {
    const uint32_t reserved = clients < 2 ? calls->capacity() / kReservedPart : client.slots;
    const uint32_t left = calls->free_count() - std::min(calls->free_count(), reserved);
    return std::max(clients < 2 ? left : (left + 1) / 2, client.slots == 0 ? 1u : 0u);
  }
  [[nodiscard]] uint32_t slots_left_to(const BackendShare* backend) const {
    if (backend == nullptr || !may_begin(*backend)) {
      return backend == nullptr ? UINT32_MAX : 0;
    }
    const uint64_t most = kBackendWeight * calls->free_count();
    const uint64_t left = most - std::min<uint64_t>(most, backend->slots);
    return backends < 2 ? UINT32_MAX : static_cast<uint32_t>(left / (kBackendWeight + 1)) + 1;
  }
  SlotWaiters slot_line;
  uint32_t slot_waiters = 0;  // endpoints in this line and in those of clients and backends
  // Nothing tells an endpoint that its turn has come, it asks every kRetryInterval. So the first few of a line may take what is
  // free in any order, when it is enough for all before them: 16 in 200 us are 80,000 calls a second.
  static constexpr uint32_t kTogether = 16;
  [[nodiscard]] bool leaves_others(uint64_t held, uint64_t more, uint64_t all_hold, uint64_t max) const {
    return backends < 2 || is_within_free(held, more, all_hold, max, kBackendWeight);
  }
  // The rule of all shares (a dynamic threshold): an owner that holds `held` may have `more` if both together are at most
  // `weight` times what is free. With weight 1, one alone gets half, two get a third each, and so on: as much stays free as each
  // of them holds. With weight 4, one alone gets four fifths, two get four ninths each.
  [[nodiscard]] static bool is_within_free(uint64_t held, uint64_t more, uint64_t all_hold, uint64_t max, uint64_t weight = 1) {
    return held == 0 || held + more <= weight * (max - std::min(all_hold, max));
  }
  IntrusiveList<ServerEndpoint, PullTag> pull_line;  // longest waiting first
  // The first in the line may want much and wait until that is free. Small calls behind it that find room go before it, until
  // these have taken a sixteenth of all units; then they wait, too. So the first waits for no more than that on top of what was
  // there before it, and a small call for no longer than the first, whose time is bounded by the time-outs of those that hold
  // units.
  static constexpr uint64_t kPassPart = 16;    // of pull_units_max: for calls that go before the first in the line
  static constexpr uint64_t kSmallPart = 256;  // of pull_units_max: the longest of these
  uint64_t passed_units = 0;                   // of calls that went before it
  [[nodiscard]] bool may_pass(uint64_t units) const {
    return units <= pull_units_max / kSmallPart && passed_units + units <= pull_units_max / kPassPart;
  }
};

class ServerEndpoint : public ListNode<PullTag>,
                       public ListNode<ShareTag>,
                       public ListNode<BackendTag>,
                       public ListNode<SlowLineTag>,
                       public ListNode<SlowTag> {
 public:
  static constexpr uint32_t kCreditsMax = 1024;
  // How soon an endpoint asks again for a slot, Buffer, view or shared work request that was not to be had. Nothing announces
  // those.
  static constexpr Duration kRetryInterval = Duration::us(200);

  ServerEndpoint(ServerShared& shared, verbs::QueuePair& qp, const ServerOptions& options, const InlineThresholds& thresholds);
  ~ServerEndpoint();
  ServerEndpoint(const ServerEndpoint&) = delete;
  ServerEndpoint& operator=(const ServerEndpoint&) = delete;

  // The shortest sequence window of the servers in use, in calls: Ganesha's. knfsd has 128. The server tells only the client.
  static constexpr int32_t kGssWindow = 32;
  // A server has checked the sequence number of a call that it has had for so long: the call holds up nobody any more.
  static constexpr Duration kGssPatience = Duration::seconds(1);

  // Each answered RDMA Read gives a client read_timeout for the next one, and a call may take 64 of them. So that nobody holds
  // units for 64 read_timeouts, each connection has to be this fast, too, from where it began to have Reads to answer: it has the
  // time that takes, and two read_timeouts on top for pauses. One client is asked for a quarter of all units at once: of 16,384
  // with 4096 bytes each that is 16 MiB, 16 s and 36 s in all. 1 MiB/s is a hundredth of the slowest Ethernet with RoCE in use,
  // 1 Gb/s: an honest client gets below it only with a hundred connections that all write at once.
  static constexpr uint64_t kReadBytesPerSecondMin = 1 << 20;

  // Posts the receives, but for `posted` ones that the queue pair has already. The peer may send one message before
  // (RFC 8166 3.3.3), more when it has been granted credits.
  void start(uint32_t posted = 0);
  // Drains the queue pair's completions. Call when the queue pair has some.
  void on_completions(Instant now);
  // The same for an owner that answers calls as it takes them. When all that has come are predicted calls, for which nothing has
  // to wait, so many are left to be opened and answered one by one, without a slot. All are of one program and version. The owner
  // goes through them in their order, as far as it can, and ends that with end_direct() before anything else happens to the
  // endpoint. What comes of it is the same (direct_calls.h). 0: as on_completions().
  [[nodiscard]] uint32_t take_direct(Instant now);
  // What the next one is about; valid until the one behind it is looked at. Precondition: there is a next one.
  [[nodiscard]] const CallContext& look_at_direct();
  // The RPC call, XID first, of the one that was looked at.
  [[nodiscard]] Chain open_direct();
  // The reply to the one that was opened; takes it. False, and nothing has happened: it does not leave at once, as it is.
  [[nodiscard]] bool answer_direct(Instant now, Chain& reply);
  // Posts the replies. Those that have not been opened become calls for poll_call(), and before them, if `opened_bytes` is not 0,
  // the last one that was opened, which has no answer yet. So long was its message, and `opened` is what is left of it.
  void end_direct(Instant now, Chain& opened, uint64_t opened_bytes);
  // Takes the next rebuilt call.
  [[nodiscard]] bool poll_call(Instant now, Call& out);
  // The XID of a call that poll_call() has not given out yet, or nothing. Before the first poll_call() it is the first call's.
  [[nodiscard]] std::optional<uint32_t> next_xid() const;
  // Answers a call. A reply to a call that is gone is released silently (counted).
  void reply(Instant now, CallId id, Chain&& message);
  // The backend will not answer (for example it closed the connection): the endpoint fails, so that the client reconnects and
  // retransmits; RFC 8166 has no way to fail a single call for such a reason.
  void fail(EndpointFailure why = EndpointFailure::kProtocol);
  [[nodiscard]] bool failed() const { return failed_; }
  [[nodiscard]] EndpointFailure failure() const { return failure_; }
  // A call that was polled leaves its units behind when the endpoint fails, since the owner may still have its message. From
  // this call on the units are the owner's: they count in ClientShare and in `backend` until ServerShared::return_units. Units
  // that the owner does not take go back with the endpoint.
  [[nodiscard]] uint32_t take_units(CallId id, BackendShare& backend);

  [[nodiscard]] Instant next_deadline() const;
  void on_deadline(Instant now);

  // RateLines::next() has named it: one call goes, if its share of the budget is free, and the endpoint stands in line again if
  // others of its calls wait.
  void on_rate_turn(Instant now);

  // Grants so many credits from the next reply on: 1..options.credits.
  void set_grant(uint32_t credits);
  // Calls that the client may have in flight: what was granted last, until replies have told it of less.
  [[nodiscard]] uint32_t credits_granted() const { return credits_; }
  // A call under this XID has broken the client's last connection: it is answered with ERR_CHUNK once, so that repeating it does
  // not break this one too (RFC 8166 4.5.3). At most kRefusedXidsMax; more are not remembered.
  static constexpr uint32_t kRefusedXidsMax = 8;
  void refuse_xid(uint32_t xid);
  // The call that this connection broke at: the client refused an RDMA operation on its memory.
  [[nodiscard]] std::optional<uint32_t> broken_xid() const {
    return aftermath_ == nullptr ? std::nullopt : aftermath_->broken_xid;
  }
  // Calls received and not yet answered, those that wait for a slot included.
  [[nodiscard]] uint32_t calls_in_flight() const { return in_flight_ + (backlog_ == nullptr ? 0 : backlog_->waiting.size()); }
  // Of these, polled by the owner and not yet answered by a posted reply.
  [[nodiscard]] uint32_t calls_taken() const { return taken_; }
  // Calls to the client (RFC 8167): see ReverseCaller. The upper layer has learned that the client is ready. Does nothing when
  // there is no reverse direction.
  void enable_reverse();
  [[nodiscard]] bool reverse_enabled() const { return reverse_ != nullptr; }
  // As ReverseCaller::submit; kBadState: not enabled. What is submitted is sent at once when a credit is there.
  [[nodiscard]] Status submit_reverse(Instant now, Chain&& call);
  [[nodiscard]] bool poll_reverse(ReverseOutcome& out) { return reverse_ != nullptr && reverse_->poll_outcome(out); }
  // Calls that the client has granted, and those that it has not answered: 0 until enabled.
  [[nodiscard]] uint32_t reverse_credits_granted() const { return reverse_ == nullptr ? 0 : reverse_->credits_granted(); }
  [[nodiscard]] uint32_t reverse_in_flight() const { return reverse_ == nullptr ? 0 : reverse_->in_flight(); }
  // Calls of the owner that have been answered, each with a record in ServerShared::done.
  [[nodiscard]] uint64_t calls_answered() const { return answered_; }
  // What every call looks at, of the endpoint at this place, if there is one.
  static void prefetch(const void* place);
  // The invariants of the class comment; for tests and simulation.
  [[nodiscard]] bool is_consistent() const;

 private:
  void on_completion(Instant now, verbs::Completion& completion);
  void end_completions(Instant now, verbs::Completion& last);
  void on_message(Instant now, Instant begun, Chain&& message);
  [[nodiscard]] bool predicts(const Chain& message) const;
  void learn_from(Bytes message, const HeaderCheck& check, const ServerCall& call);
  void take_call(Instant now, Instant begun, Chain&& message, bool predicted);
  [[nodiscard]] BackendShare* share_for(const Chain& message);
  [[nodiscard]] ServerCall* acquire_slot(BackendShare* backend);
  enum class SlotLine : uint8_t { kNone, kClient, kBackend, kAll };  // in the order in which an endpoint gets on
  [[gnu::noinline]] [[nodiscard]] bool has_turn_to_begin(BackendShare* backend);
  [[nodiscard]] bool is_among_first(SlotLine which, SlotWaiters& line, uint32_t count) const;
  void stand_in_slot_line(SlotLine which, SlotWaiters& line);
  void leave_slot_line();
  void make_backlog();
  void release(ServerCall& call);
  void accept(Instant now, Instant begun, ServerCall& call, Chain&& message, bool predicted);
  void make_predicted_ready(ServerCall& call, const RpcCallHeader& header, Chain&& message);
  void enlist(Instant now, Instant begun, ServerCall& call);
  [[nodiscard]] bool may_answer_directly() const;
  [[nodiscard]] bool has_slots_for(uint32_t count) const;
  [[nodiscard]] bool are_direct(uint32_t from, uint32_t count) const;
  void take_rest(Instant now);
  void note_direct_done(Instant now);
  void post_direct(Instant now);
  [[nodiscard]] EndpointFailure expired(Instant now) const;
  [[nodiscard]] Instant pull_deadline() const;
  [[nodiscard]] Instant earliest_pull_end(Instant now) const;
  void advance_reverse(Instant now);
  void on_read(Instant now, const verbs::Completion& completion, Chain&& data);
  void on_sent(Instant now, const verbs::Completion& completion);
  void note_broken(const verbs::Completion& completion);
  [[nodiscard]] bool is_refused(uint32_t xid);
  void drop_message();
  void drop_call(ServerCall& call);

  void advance(Instant now);
  // Small calls and replies pass advance() by without these; neither is inlined there.
  [[gnu::noinline]] void take_waiting(Instant now);
  [[gnu::noinline]] void post_reads(Instant now);
  [[nodiscard]] bool post_reads_of(Instant now, ServerCall& call);
  [[gnu::noinline]] void admit_waiting(Instant now);
  // False: it waits, and whoever has to be woken for it will be.
  [[nodiscard]] bool admit(Instant now, ServerCall& call);
  // nullptr: there is nothing to keep to.
  [[nodiscard]] RateLine* rates() const {
    return options_.rates != nullptr && options_.rates->are_on() ? options_.rates : nullptr;
  }
  void settle_rate(Instant now, ServerCall& call, uint64_t reply_bytes);
  void count_postponed();
  [[nodiscard]] bool admit_reads(Instant now, ServerCall& call);
  [[nodiscard]] bool has_turn_to_pull(Instant now, BackendShare* backend, uint64_t units);
  [[nodiscard]] bool has_slow_turn(uint64_t units);
  void note_wait(Instant now);
  void watch_slowness();
  [[nodiscard]] bool is_in_the_way(Instant now) const;
  [[nodiscard]] bool note_slow(Instant now);
  void watch_replies(Instant now);
  [[nodiscard]] bool is_reply_late(Instant now);
  [[gnu::noinline]] [[nodiscard]] bool may_poll(Instant now, ServerCall& call);
  [[nodiscard]] bool reply_has_room(Instant now, ServerCall& call);
  void set_reply_bytes(ServerCall& call, uint64_t bytes);
  [[gnu::noinline]] void hold_reply(ServerCall& call);
  void settle_replies();
  void await_data(Instant now, ServerCall& call);
  template <typename Tag>
  void stand_in(IntrusiveList<ServerEndpoint, Tag>& line, bool in_front = false) {
    if (static_cast<ListNode<Tag>&>(*this).is_linked()) {
      return;
    }
    if (in_front) {
      line.push_front(*this);
    } else {
      line.push_back(*this);
    }
  }
  template <typename Tag>
  void leave_line() {
    static_cast<ListNode<Tag>&>(*this).unlink_if_linked();
  }
  void leave_lines() {
    leave_line<PullTag>();
    leave_line<ShareTag>();
    leave_line<BackendTag>();
    leave_line<SlowLineTag>();
  }
  [[gnu::noinline]] void return_units(ServerCall& call);
  void leave_units(ServerCall& call);
  // Gauges of all endpoints, and of those that share the budget; negative: fewer.
  void count_granted(int64_t change) {
    shared_.stats.credits_granted += static_cast<uint64_t>(change);
    if (options_.budget != nullptr) {
      options_.budget->credits_granted += static_cast<uint64_t>(change);
    }
  }
  // Modulo 2^64: `change` may stand for fewer.
  void count_reply_bytes(uint64_t change) {
    reply_bytes_ += change;
    share_.reply_bytes += change;
    shared_.reply_bytes += change;
  }
  static void count_for_backend(ServerCall& call, uint64_t change) {
    if (call.share != nullptr) {
      call.share->reply_bytes += change;
    }
  }
  void count_in_use(int64_t change) {
    shared_.stats.credits_in_use += static_cast<uint64_t>(change);
    if (options_.budget != nullptr) {
      options_.budget->credits_in_use += static_cast<uint64_t>(change);
    }
  }
  void read_finished(ServerCall& call);
  [[gnu::noinline]] void splice_calls(Instant now);
  [[nodiscard]] bool has_turn(Instant now, const ServerCall& call);
  [[nodiscard]] bool leaves_window(Instant now, const ServerCall& call);
  [[gnu::noinline]] void enqueue_in_order(ServerCall& call);
  void make_ready(ServerCall& call);
  void enter_ready(ServerCall& call);
  void has_data(Instant now, ServerCall& call);
  void plan(ServerCall& call, Chain&& answer, const ReducibleItems& items);
  void answer_garbage(ServerCall& call);
  void refuse(ServerCall& call, ReplyForm form);
  [[nodiscard]] bool post_replies(Instant now);
  [[nodiscard]] PostResult post_reply(Instant now, ServerCall& call);
  [[nodiscard]] bool goes_plainly(const ServerCall& call, const Chain& message) const;
  [[nodiscard]] bool leaves_as_it_is(uint32_t xid, const Chain& message) const;
  [[nodiscard]] bool post_plainly(Instant now, uint32_t xid, Chain&& message, uint32_t room);
  void answered(Instant now, ServerCall& call);
  void note_answered(Instant now, const CallContext& context, Instant received);
  void finish(ServerCall& call);
  void wait_for_memory() { memory_wanted_ = true; }
  void wait_for_room();

  // Nothing but calls that the owner has or can poll: no message, reverse call, Read, splice or reply waits for anything.
  [[nodiscard]] bool nothing_waits() const {
    return replying_.empty() && in_flight_ == taken_ + ready_calls_ && (backlog_ == nullptr || backlog_->waiting.empty()) &&
           (reverse_ == nullptr || !reverse_->has_waiting());
  }

  // Messages that wait for a slot. Made when the first has to wait.
  struct Backlog {
    struct Message {
      uint32_t bytes = 0;
      Instant begun;  // as Call::received
      BackendShare* share = nullptr;
    };
    explicit Backlog(uint32_t messages_max) : waiting(messages_max) {}
    Chain messages;  // one behind the other
    Ring<Message> waiting;
    SlotWaiter waiter;
  };
  // Of calls that ended badly, on this connection or the client's last one. Made when there is one.
  struct Aftermath {
    // Of calls that were polled when the endpoint failed; nobody has taken them.
    struct UnitsLeft {
      CallId call;
      BackendShare* backend = nullptr;
      uint64_t units = 0;
    };
    std::vector<uint32_t> refused_xids;
    std::vector<UnitsLeft> units_left;
    std::optional<uint32_t> broken_xid;
  };
  [[nodiscard]] Aftermath& aftermath();

  // Seldom looked at, and in front because the lists that an endpoint can be in are.
  RateWaiter rate_waiter_;
  IntrusiveList<ServerCall, QueueTag> unadmitted_;  // wait for their share of the budget or for the rates, oldest first
  Instant read_progress_;                           // when an RDMA Read last completed, or the first of them was posted

  // What every call looks at lies together, from here up to the owner's numbers in `options_`: with thousands of connections the
  // cache lines are what a call costs. prefetch() counts them.
  ServerShared& shared_;
  verbs::QueuePair& qp_;
  SendWindow window_;
  InlineThresholds thresholds_;
  uint32_t plain_reply_bytes_max_;  // see leaves_as_it_is(); 0: none does
  bool started_ = false;
  bool failed_ = false;
  EndpointFailure failure_ = EndpointFailure::kNone;
  bool memory_wanted_ = false;            // something waits for what nothing announces
  uint32_t credits_;                      // receives stand behind them, or calls that are held
  uint32_t grant_;                        // what replies say: at most credits_
  uint32_t receives_posted_ = 0;          // for calls and for the Replies to reverse calls
  uint32_t in_flight_ = 0;                // slots held
  uint32_t taken_ = 0;                    // of these, polled
  uint32_t ready_calls_ = 0;              // of these, in ready_
  uint32_t arrivals_ = 0;                 // calls received, modulo 2^32
  bool in_order_ = false;                 // a call had a credential of RPCSEC_GSS
  SlotLine slot_line_ = SlotLine::kNone;  // that Backlog::waiter is in
  CallPredictions::Place prediction_;     // of ServerShared::predictions
  uint64_t answered_ = 0;
  Instant retry_at_ = Instant::never();
  Instant replies_watched_until_ = Instant::never();  // then the first replies_watched_ works have to be done; never: no watch
  std::unique_ptr<ClientShare> own_share_;            // of a connection that is a client of its own; else nullptr
  ClientShare& share_;
  std::unique_ptr<ReverseCaller> reverse_;  // nullptr until enabled
  std::unique_ptr<Backlog> backlog_;
  std::unique_ptr<Aftermath> aftermath_;
  IntrusiveList<ServerCall, ArrivalTag> calls_;    // in flight with all their data, the first to get them first
  IntrusiveList<ServerCall, ArrivalTag> pulling_;  // in flight without, in the order of arrival
  IntrusiveList<ServerCall, QueueTag> ready_;
  IntrusiveList<ServerCall, QueueTag> replying_;
  uint64_t replies_watched_ = 0;
  uint64_t reply_bytes_ = 0;  // of share_.reply_bytes: this connection's
  ServerOptions options_;

  bool has_rate_turn_ = false;    // for one call
  uint32_t reads_in_flight_ = 0;  // RDMA Reads posted and not completed
  uint64_t read_bytes_in_flight_ = 0;
  IntrusiveList<ServerCall, QueueTag> reading_;   // with read segments to post
  IntrusiveList<ServerCall, QueueTag> splicing_;  // wait for memory
  Instant pull_progress_;                         // when a call of pulling_ last came further
  uint64_t unread_bytes_ = 0;                     // of calls that were begun: not answered yet
  Instant pull_end_;                              // at kReadBytesPerSecondMin they are all there by then
  Instant slow_at_ = Instant::never();            // when to look whether the oldest of these calls is slow
  ReplyHoldings holdings_;                        // of reply_bytes_, the replies that are posted
};

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Winvalid-offsetof"  // compilers that we have support it
inline void ServerEndpoint::prefetch(const void* place) {
  constexpr size_t kBegin = offsetof(ServerEndpoint, window_);
  constexpr size_t kEnd = offsetof(ServerEndpoint, options_) + offsetof(ServerOptions, credits);
  static_assert((kEnd - 1) / kCacheLineBytes - kBegin / kCacheLineBytes < 5, "a call would cost a line more");
  prefetch_range(static_cast<const char*>(place) + kBegin, static_cast<const char*>(place) + kEnd);
}
#pragma GCC diagnostic pop

}  // namespace cw::rpcrdma
