// An RnicTransport on a device, a connection manager and peers that the input plays, from the request, ours or the peer's, to the
// last word of every connection. The device completes what it has in any order that a real one may, or was seen to: in the order
// posted, with completions of signaled requests alone; or as siw does, SENDs and WRITEs in order and READs in order, but a SEND
// before the READ that it was posted behind. It fails, flushes, refuses, goes, and leaves completions of queue pairs that are
// gone. Buffers are few.
//
// No Buffer is given back while the device has it. What it sends is what was posted; a READ that is done has the peer's bytes,
// which the device places with the READ's own completion and not before. Works complete in the order posted, once; those that
// nobody wanted to hear of only if they fail. Messages arrive as they were sent, no grant is lost, requests stay within the
// device's queue, an end is told once, who is over is gone in time, and nothing is left. What a server may reach is registered
// for a connection that we asked for alone, and deregistered before its queue pair goes.
//
// Input: [start][device] and records of [what][who][how]. Bits of start: few works, few receives, peers are asked soon, it is not
// known what is exposed, no memory is exposed, users say that they go, (unused), and the process ends at once.
#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/heap_buffer_pool.h"
#include "rnic/transport.h"
#include "tests/fuzz/fuzz_target.h"

namespace cw::rnic {
namespace {

using Kind = verbs::ConnectionEvent::Kind;
using verbs::WcStatus;

constexpr size_t kInputBytesMax = 300;
constexpr uint16_t kPort = 20049;
constexpr uint32_t kBuffers = 1400;  // enough for whatever may be under way, so that it ends once all of them may be taken
constexpr uint32_t kAtFirst = 64;    // that may be taken before
constexpr uint32_t kBufferBytes = 256;
constexpr uint32_t kConnectionsMax = 3;
constexpr uint32_t kHalfOpenMax = 2;
constexpr uint32_t kPartingMax = 2;
constexpr size_t kPeersMax = 12;  // in one execution
constexpr uint32_t kReceiveBytesMax = 600;
constexpr uint32_t kInAdvance = 4;  // receives of a connection that we ask for
constexpr uint32_t kRegionsMax = 5;
constexpr uint32_t kPiecesMax = 4;
constexpr uint8_t kGarbage = 0xdd;
constexpr std::array<uint32_t, 8> kSizes{0, 1, 50, 256, 500, 900, 2500, 6000};
constexpr std::array<WcStatus, 8> kFailures{
    WcStatus::kRetryExceeded,        WcStatus::kRemoteAccessError,  WcStatus::kRnrRetryExceeded, WcStatus::kLocalProtectionError,
    WcStatus::kRemoteInvalidRequest, WcStatus::kWorkRequestFlushed, WcStatus::kGeneralError,     static_cast<WcStatus>(200)};

// Whatever moves is a part of this: a READ what lies at its address, others from where their number says.
constexpr uint32_t kPatternBytes = 8192 + kSizes.back();
Bytes pattern(uint64_t at, size_t size) {
  static const auto kPattern = [] {
    std::array<uint8_t, kPatternBytes> bytes{};
    uint32_t state = 1;
    for (uint8_t& byte : bytes) {
      state = state * 1'664'525 + 1'013'904'223;
      byte = static_cast<uint8_t>(state >> 24);
    }
    return bytes;
  }();
  return Bytes(kPattern).subspan(at % 8192, size);
}

bool is_pattern(const Chain& chain, uint64_t at) {
  size_t done = 0;
  for (const Buffer* one = chain.head(); one != nullptr; one = one->next) {
    if (!std::ranges::equal(one->bytes(), pattern(at, kSizes.back()).subspan(done, one->size))) {
      return false;
    }
    done += one->size;
  }
  return true;
}

HeapBufferPool& heap() {
  static HeapBufferPool pool(kBuffers, kBufferBytes, 1);
  return pool;
}

// Has as many Buffers as the input wants, and knows which of them the device has.
class WatchedPool final : public BufferPool {
 public:
  bool allocate(std::span<Buffer*> out) override {
    if (heap().in_use() + out.size() > may_be_taken || !heap().allocate(out)) {
      return false;
    }
    for (Buffer* one : out) {
      one->pool = this;
    }
    return true;
  }
  Buffer* share(const Buffer& /*of*/, uint32_t /*offset*/, uint32_t /*size*/) override { return nullptr; }
  void release(Buffer* list) override {
    for (Buffer* one = list; one != nullptr; one = one->next) {
      FUZZ_CHECK(!is_held_[place_of(one->data)]);
      std::memset(one->data, kGarbage, one->capacity_bytes);
      one->pool = &heap();
    }
    heap().release(list);
  }
  uint32_t buffer_bytes() const override { return kBufferBytes; }

  void hold(MutableBytes piece) {
    FUZZ_CHECK(!piece.empty() && place_of(piece.data()) == place_of(piece.data() + piece.size() - 1));
    FUZZ_CHECK(!std::exchange(is_held_[place_of(piece.data())], true));
  }
  void let_go(MutableBytes piece) { is_held_[place_of(piece.data())] = false; }

  uint32_t may_be_taken = kAtFirst;

 private:
  static size_t place_of(const uint8_t* byte) {
    const auto place = static_cast<size_t>(byte - heap().storage().data()) / (Buffer::kHeadroomBytes + kBufferBytes);
    FUZZ_CHECK(place < kBuffers);
    return place;
  }
  std::array<bool, kBuffers> is_held_{};
};

struct Pieces {
  explicit Pieces(std::span<const MutableBytes> given) : count(static_cast<uint32_t>(given.size())) {
    FUZZ_CHECK(count <= kPiecesMax);
    std::ranges::copy(given, all.begin());
  }
  [[nodiscard]] std::span<const MutableBytes> span() const { return std::span(all).first(count); }
  [[nodiscard]] size_t bytes() const {
    size_t sum = 0;
    for (const MutableBytes& each : span()) {
      sum += each.size();
    }
    return sum;
  }
  // The bytes there are those of the pattern.
  [[nodiscard]] bool holds(uint64_t at, size_t offset) const {
    const Bytes wanted = pattern(at, kSizes.back());
    for (const MutableBytes& each : span()) {
      if (!std::ranges::equal(each, wanted.subspan(offset, each.size()))) {
        return false;
      }
      offset += each.size();
    }
    return true;
  }
  void place(uint64_t at, size_t offset) const {
    const Bytes wanted = pattern(at, kSizes.back());
    for (const MutableBytes& each : span()) {
      std::ranges::copy(wanted.subspan(offset, each.size()), each.begin());
      offset += each.size();
    }
  }
  void fill() const {
    for (const MutableBytes& each : span()) {
      std::ranges::fill(each, kGarbage);
    }
  }

  std::array<MutableBytes, kPiecesMax> all;
  uint32_t count;
};

// What the user has posted and not heard of.
struct Work {
  verbs::WorkId id;
  WorkVerb verb = WorkVerb::kSend;
  verbs::Rkey rkey;
  uint64_t address = 0;  // its bytes, in the pattern
  uint32_t length = 0;
  bool fence = false;
  bool signaled = true;
  bool solicited = false;
  bool must_be_heard_of() const { return signaled || verb == WorkVerb::kRead; }

  uint32_t at_device = 0;       // bytes
  bool is_told = false;         // completions of the device tell that all of it is done
  bool may_be_flushed = false;  // silent, and the next that was told is a flush
  WcStatus status = WcStatus::kSuccess;
};

// A request that the device has, or had and nobody knows better.
struct Request {
  uint64_t id = 0;
  std::optional<uint64_t> work;  // by its place among all of the connection; none: the transport's own
  WorkVerb verb = WorkVerb::kSend;
  uint64_t address = 0;
  uint32_t offset = 0;
  bool signaled = false;
  bool fence = false;
  bool ends_work = false;
  bool is_done = false;
  bool is_told = false;  // to the transport, while one before it is not
  Pieces pieces;
};

struct Message {
  uint64_t number = 0;
  uint32_t length = 0;
  std::optional<verbs::Rkey> invalidated;
};

struct Receive {
  uint64_t id = 0;
  bool is_done = false;
  Message message;
  Pieces pieces;
};

// In the completion queue.
struct Entry {
  WorkDone done;
  size_t peer = 0;
  uint64_t request = 0;  // by its place among all of the connection
  bool is_receive = false;
};

// How far rdma-core has come with a connection that we ask for.
enum class Call : uint8_t { kNone, kAddress, kRoute, kQueuePair, kAsked, kAnswered };

// A connection: what rdma-core, the device and the user know of it.
struct Peer {
  RnicId id;
  uint8_t private_data = 0;
  Call call = Call::kNone;  // of a peer that asks us: none
  uint8_t answer = 0;       // the server's private data
  verbs::ProtectionDomain domain;
  bool is_final = false;          // establish() was called
  bool was_let_go = false;        // disconnect() was called
  bool exposes = false;           // its queue pair does
  uint32_t regions = 0;           // that the device has for it
  std::vector<verbs::Rkey> keys;  // that the user has

  // rdma-core
  bool is_attached = true;
  bool is_answered = false;
  bool is_rejected = false;
  bool is_established = false;  // and has said so
  bool has_left = false;
  bool said_goodbye = false;
  // The device
  bool has_queue_pair = false;
  bool was_made = false;
  bool is_failed = false;  // by the transport
  bool is_broken = false;
  bool has_refused = false;
  bool is_half_posted = false;
  Instant flushed_at = Instant::never();  // the first of its works, told to the transport
  uint16_t reads_max = 0;
  std::deque<Request> requests;
  uint64_t requests_gone = 0;
  std::deque<Receive> receives;
  // The user
  bool has_user = false;
  bool is_asked = false;
  bool was_told_established = false;
  bool owes_end = false;  // the transport, to the user
  bool end_was_told = false;
  verbs::QueuePair* qp = nullptr;
  std::deque<Work> works;
  uint64_t works_gone = 0;
  uint64_t works_at_device = 0;
  uint32_t granted = 0;
  uint32_t received = 0;
  std::deque<Message> messages;
  Instant over_since = Instant::never();

  [[nodiscard]] uint32_t requests_out() const {
    return static_cast<uint32_t>(std::ranges::count(requests, false, &Request::is_told));
  }
  [[nodiscard]] verbs::ConnectionId connection() const { return verbs::ConnectionId(id.value()); }
  [[nodiscard]] bool is_active() const { return call != Call::kNone; }
  // Receives that the transport is to post, or has posted.
  [[nodiscard]] uint32_t allowed(uint32_t depth) const {
    return is_active() ? std::max(granted, std::min(kInAdvance, depth)) : granted;
  }
  // iWARP: a message may overtake the answer.
  [[nodiscard]] bool may_be_sent_to() const { return is_answered || call >= Call::kAsked; }
};

RnicOptions options_of(uint8_t start) {
  RnicOptions options;
  options.connections_max = kConnectionsMax;
  options.half_open_max = kHalfOpenMax;
  options.parting_max = kPartingMax;
  options.prefix = {.half_open_max = kHalfOpenMax, .prefix_max = 4};
  options.keepalive = (start & 4) != 0 ? Duration::ms(200) : Duration();
  options.keepalive_patience = Duration::ms(300);
  options.reads_max = 4;
  options.send_queue_depth = (start & 1) != 0 ? 4 : 12;
  options.receive_queue_depth = (start & 2) != 0 ? 3 : 8;
  return options;
}

QueuePairMade made_of(uint8_t device) {
  static constexpr std::array<uint32_t, 4> kRequests{3, 8, 16, 64};
  return {.number = verbs::Qpn(17),
          .send_requests = kRequests[device >> 1 & 3],
          .receive_requests = 128,
          .send_pieces = 1u + (device >> 3 & 3),
          .read_pieces = 1u + (device >> 5 & 1),
          .receive_pieces = kPiecesMax,
          .inline_bytes = (device & 0x40) != 0 ? 64u : 0u,
          .can_invalidate = (device & 0x80) == 0,
          .acknowledges_writes = (device & 1) == 0};
}

class World final : public RnicHost {
 public:
  World(uint8_t start, uint8_t device)
      : start_(start),
        made_(made_of(device)),
        options_(options_of(start)),
        memory_(kRegionsMax, *this),
        transport_(std::in_place, options_, *this, pool_, random_, (start & 0x10) == 0 ? &memory_ : nullptr) {
    peers_.reserve(kPeersMax);  // the host is called back with references to them at hand
    FUZZ_CHECK(transport_->listen(kPort).ok());
  }
  ~World() override {
    kept_.clear();
    transport_.reset();
    for (const Peer& peer : peers_) {
      FUZZ_CHECK(!peer.is_attached && !peer.has_queue_pair && peer.regions == 0);
    }
    FUZZ_CHECK(memory_.region_count() == 0);
  }
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  void step(uint8_t what, uint8_t who, uint8_t how) {
    Peer* peer = peers_.empty() ? nullptr : &peers_[peers_.size() - 1 - who % peers_.size()];
    switch (what & 0x1f) {
      case 0:
        request(who, how);
        break;
      case 1:
        if (peer != nullptr) {
          establish(*peer);
        }
        break;
      case 2:
        (void)take_event(how);
        break;
      case 3:
        (void)take_completions(how % 2 == 0);
        break;
      case 4:
      case 5:
      case 6:
        if (peer != nullptr && peer->qp != nullptr && peer->was_told_established) {
          post(*peer, how, what);
        }
        break;
      case 7:
        if (peer != nullptr && peer->qp != nullptr) {
          grant(*peer, how % 4);
        }
        break;
      case 8:
        (void)transport_->flush(now_);
        break;
      case 9:
      case 10:
      case 11:
        if (peer != nullptr) {
          (void)work(*peer, how >> 4, how & 0xf);
        }
        break;
      case 12:
        (void)tell(how % 16);
        break;
      case 13:
        if (peer != nullptr) {
          send(*peer, how);
        }
        break;
      case 14:
        if (peer != nullptr) {
          break_down(*peer, how);
        }
        break;
      case 15:
        if (peer != nullptr && peer->is_broken) {
          (void)flush_device(*peer, how % 16, how / 16);
        }
        break;
      case 16:
        refuse(how);
        break;
      case 17:
        pool_.may_be_taken = kAtFirst * how / 0xff;
        break;
      case 18:
        kept_.clear();
        pool_.may_be_taken = (what & 0x80) != 0 ? kBuffers : kAtFirst;
        break;
      case 19:
        if (peer != nullptr && peer->qp != nullptr && how < 0x60) {
          peer->qp->close();
        }
        break;
      case 20:
        if (peer != nullptr && peer->has_user && !peer->is_asked) {
          disconnect(*peer);
        }
        break;
      case 21:
        if (peer != nullptr && peer->has_user && !peer->is_asked) {
          destroy(*peer);
        }
        break;
      case 22:
        if (peer != nullptr && peer->is_attached) {
          end(*peer, how);
        }
        break;
      case 23:
        if (peer != nullptr) {
          tell_of_device(*peer, how);
        }
        break;
      case 24:
      case 25:
        advance(how < 0x80 ? Duration::us(int64_t{how} * 100) : Duration::ms(int64_t{how - 0x7f} * 40));
        break;
      case 26:
        listen(how);
        break;
      case 27:
        look(how);
        break;
      case 28:
        call(who, how);
        break;
      case 29:
        if (peer != nullptr && peer->is_active() && peer->is_attached) {
          play_call(*peer, how);
        }
        break;
      case 30:
        if (peer != nullptr && peer->has_user && peer->is_active()) {
          expose(*peer, how);
        }
        break;
      default:
        (void)run(1 + how % 8, how / 8);
        break;
    }
    check();
  }

  // Everybody acts, and nothing is in the way: what was posted ends.
  void settle() {
    kept_.clear();
    pool_.may_be_taken = kBuffers;
    refuse(0);
    settle_once();
    advance(options_.flush_patience);  // why work was flushed is not looked for any longer
    settle_once();
    for (const Peer& peer : peers_) {
      if (peer.is_active() && peer.has_user) {
        // It came to something, unless its user did not want it to.
        FUZZ_CHECK(peer.qp != nullptr || peer.end_was_told || peer.was_let_go);
        FUZZ_CHECK(!peer.owes_end || peer.end_was_told);
      }
      if (peer.qp == nullptr) {
        continue;
      }
      FUZZ_CHECK(!peer.owes_end || peer.end_was_told);
      if (!peer.qp->in_error()) {
        FUZZ_CHECK(peer.requests.empty() && peer.qp->works_pending() == 0);
        FUZZ_CHECK(peer.is_broken || peer.receives.size() == std::min(peer.allowed(options_.receive_queue_depth) - peer.received,
                                                                      options_.receive_queue_depth));
      } else if (peer.has_queue_pair && (peer.has_refused || peer.is_half_posted)) {
        continue;  // what the device has a part of stays with it until its queue pair is destroyed
      }
      FUZZ_CHECK(std::ranges::all_of(peer.works, [](const Work& each) { return is_silent(each); }));
    }
  }
  // Every user goes, and the connection manager may say no more.
  void finish() {
    for (const Duration wait : {Duration(), options_.handshake_timeout, options_.parting_timeout}) {
      for (Peer& peer : peers_) {
        if (peer.has_user) {
          if ((start_ & 0x20) != 0) {
            disconnect(peer);
          }
          destroy(peer);
        }
      }
      advance(wait);
      while (take_event(6)) {
      }
    }
    const RnicStats& stats = transport_->stats();
    uint64_t failures = 0;
    for (const uint64_t each : stats.connect_failures) {
      failures += each;
    }
    FUZZ_CHECK(failures <= static_cast<uint64_t>(std::ranges::count_if(peers_, &Peer::is_active)));
    FUZZ_CHECK(transport_->live_count() == 0 && transport_->half_open_count() == 0 && transport_->parting_count() == 0);
    FUZZ_CHECK(stats.connections == 0 && stats.exposed == 0);
    FUZZ_CHECK(heap().in_use() == 0);
  }

  // ---- What the transport asks of rdma-core ----

  Status listen(uint16_t /*port*/) override { return {}; }
  void unlisten(uint16_t /*port*/) override {}
  Status resolve_address(RnicId id, const IpAddress& /*server*/, uint16_t port, Duration patience) override {
    FUZZ_CHECK(port == kPort && patience == options_.resolve_timeout);
    if (call_refusal(0)) {
      return cw::fail(Error::kBadValue);
    }
    Peer& peer = peers_.emplace_back();
    peer.id = id;
    peer.call = Call::kAddress;
    return {};
  }
  ConnectFailure resolve_route(RnicId id, Duration /*patience*/) override {
    FUZZ_CHECK(of(id).call == Call::kAddress);
    of(id).call = Call::kRoute;
    return call_refusal(1) ? ConnectFailure::kRouteUnresolved : ConnectFailure::kNone;
  }
  ConnectFailure connect(RnicId id, const RnicCall& call) override {
    Peer& peer = of(id);
    FUZZ_CHECK(peer.call == Call::kQueuePair && peer.has_queue_pair && !peer.receives.empty());
    FUZZ_CHECK(call.private_data.size() == 1 && call.private_data[0] == peer.private_data);
    FUZZ_CHECK(call.reads_max == options_.reads_max && (call.reads_of_peer_max > 0) == peer.exposes);
    if (call_refusal(2)) {
      return ConnectFailure::kNoListener;
    }
    peer.call = Call::kAsked;
    return ConnectFailure::kNone;
  }
  bool make_ready(RnicId id, uint16_t reads_max) override {
    Peer& peer = of(id);
    FUZZ_CHECK(peer.call == Call::kAnswered && peer.has_queue_pair && reads_max == peer.reads_max);
    peer.is_answered = !call_refusal(3);
    return peer.is_answered;
  }
  bool establish(RnicId id) override {
    Peer& peer = of(id);
    FUZZ_CHECK(peer.call == Call::kAnswered && peer.is_answered && !std::exchange(peer.is_established, true));
    return (refusals_ & 0x84) != 0x84;
  }
  Result<DeviceRegion> register_memory(RnicId id, MutableBytes memory, verbs::RemoteAccess access) override {
    Peer& peer = of(id);
    FUZZ_CHECK(!memory.empty() && (access == verbs::RemoteAccess::kRead || access == verbs::RemoteAccess::kWrite));
    if (!peer.has_queue_pair || (refusals_ & 0x88) == 0x88) {
      return cw::fail(Error::kNoResources);
    }
    FUZZ_CHECK(peer.exposes);
    ++peer.regions;
    const uint64_t number = next_number_++;
    return DeviceRegion{.remote = {.key = verbs::Rkey(static_cast<uint32_t>(number) << 8), .address = number},
                        .handle = static_cast<uint64_t>(&peer - peers_.data())};
  }
  bool deregister_memory(uint64_t handle) override {
    FUZZ_CHECK(handle < peers_.size() && peers_[handle].has_queue_pair && peers_[handle].regions > 0);
    --peers_[handle].regions;
    return true;
  }
  Result<QueuePairMade> make_queue_pair(RnicId id, const QueuePairWish& wish) override {
    Peer& peer = of(id);
    FUZZ_CHECK(!std::exchange(peer.was_made, true));
    FUZZ_CHECK(wish.exposes == (peer.is_active() && (start_ & 0x10) == 0));
    FUZZ_CHECK(!peer.is_active() || peer.call == Call::kRoute);
    peer.exposes = wish.exposes;
    if ((refusals_ & 3) == 1) {
      return cw::fail(Error::kNoResources);
    }
    if ((refusals_ & 3) == 2) {
      return cw::fail(Error::kLimit);
    }
    peer.has_queue_pair = true;
    peer.call = peer.is_active() ? Call::kQueuePair : Call::kNone;
    QueuePairMade made = made_;
    made.send_requests = std::min(made.send_requests, wish.send_requests);
    made.receive_requests = std::min(made.receive_requests, wish.receive_requests);
    made.receive_pieces = (refusals_ & 3) == 3 ? 1 : made.receive_pieces;
    return made;
  }
  Status accept(RnicId id, uint16_t reads_max, Bytes /*private_data*/) override {
    Peer& peer = of(id);
    FUZZ_CHECK(peer.has_queue_pair && !peer.is_answered && !peer.is_rejected && reads_max == peer.reads_max);
    if ((refusals_ & 4) != 0) {
      return cw::fail(Error::kNoResources);
    }
    peer.is_answered = true;
    return {};
  }
  void reject(RnicId id, Bytes /*private_data*/) override {
    Peer& peer = of(id);
    FUZZ_CHECK(!peer.is_active() && !peer.is_answered && !std::exchange(peer.is_rejected, true));
  }
  void notify(RnicId id) override { FUZZ_CHECK(of(id).is_answered); }
  uint32_t post_sends(RnicId id, std::span<const SendWork> works) override {
    Peer& peer = of(id);
    FUZZ_CHECK(peer.has_queue_pair && !peer.is_failed && !works.empty() && works.back().signaled);
    FUZZ_CHECK(!peer.is_active() || peer.is_answered);
    const size_t taken = std::min(works.size(), sends_taken_);
    for (const SendWork& each : works.first(taken)) {
      take_request(peer, each);
    }
    FUZZ_CHECK(peer.requests_out() <= std::min(made_.send_requests, 2 * options_.send_queue_depth));
    peer.is_half_posted = taken > 0 ? !WorkTag::of(works[taken - 1].id).is_last : peer.is_half_posted;
    peer.has_refused |= taken < works.size();
    return static_cast<uint32_t>(taken);
  }
  uint32_t post_receives(RnicId id, std::span<const ReceiveWork> works) override {
    Peer& peer = of(id);
    FUZZ_CHECK(peer.has_queue_pair && !peer.is_failed && !works.empty());
    const size_t taken = std::min(works.size(), receives_taken_);
    for (const ReceiveWork& each : works.first(taken)) {
      const Receive& receive = peer.receives.emplace_back(Receive{.id = each.id, .message = {}, .pieces = Pieces(each.pieces)});
      FUZZ_CHECK(receive.pieces.bytes() == kReceiveBytesMax);
      hold(receive.pieces);
      receive.pieces.fill();
    }
    FUZZ_CHECK(peer.receives.size() <= options_.receive_queue_depth);
    peer.has_refused |= taken < works.size();
    return static_cast<uint32_t>(taken);
  }
  void fail(RnicId id) override {
    Peer& peer = of(id);
    FUZZ_CHECK(peer.has_queue_pair);
    peer.is_failed = true;
    peer.is_broken = true;
  }
  void disconnect(RnicId id) override {
    Peer& peer = of(id);
    FUZZ_CHECK(peer.is_answered && !std::exchange(peer.said_goodbye, true));
  }
  void destroy_queue_pair(RnicId id) override {
    Peer& peer = of(id);
    FUZZ_CHECK(std::exchange(peer.has_queue_pair, false) && peer.regions == 0);
    for (const Request& each : peer.requests) {
      let_go(each.pieces);
    }
    for (const Receive& each : peer.receives) {
      let_go(each.pieces);
    }
    peer.requests_gone += peer.requests.size();
    peer.requests.clear();
    peer.receives.clear();
  }
  void release(RnicId id) override {
    Peer& peer = of(id);
    FUZZ_CHECK(!peer.has_queue_pair);
    peer.is_attached = false;
  }
  Exposure exposure(RnicId id) const override {
    (void)const_cast<World*>(this)->of(id);
    return (start_ & 8) != 0 ? Exposure::kUnknown : Exposure::kNone;
  }
  std::optional<QueuePairState> look(RnicId id) const override {
    (void)const_cast<World*>(this)->of(id);
    return QueuePairState{.state = "RTS"};
  }

 private:
  // Whether this step of a call is refused.
  [[nodiscard]] bool call_refusal(uint8_t step) const { return (refusals_ & 0x87) == (0x80 | step); }
  [[nodiscard]] bool keeps_order() const { return made_.acknowledges_writes; }
  [[nodiscard]] Peer& of(RnicId id) {
    const auto found = std::ranges::find(peers_, id, &Peer::id);
    FUZZ_CHECK(found != peers_.end() && found->is_attached);
    return *found;
  }
  void hold(const Pieces& pieces) {
    for (const MutableBytes& each : pieces.span()) {
      pool_.hold(each);
    }
  }
  void let_go(const Pieces& pieces) {
    for (const MutableBytes& each : pieces.span()) {
      pool_.let_go(each);
    }
  }
  // Done, and its user is not to hear of it.
  static bool is_silent(const Work& work) {
    return !work.must_be_heard_of() && work.is_told && work.status == WcStatus::kSuccess && !work.may_be_flushed;
  }

  // ---- The device ----

  void take_request(Peer& peer, const SendWork& given) {
    const bool is_read = given.verb == WorkVerb::kRead;
    const bool is_send = given.verb == WorkVerb::kSend || given.verb == WorkVerb::kSendWithInvalidate;
    Request request{.id = given.id,
                    .work = {},
                    .verb = given.verb,
                    .signaled = given.signaled,
                    .fence = given.fence,
                    .ends_work = WorkTag::of(given.id).is_last,
                    .pieces = Pieces(given.pieces)};
    FUZZ_CHECK(given.signaled || (keeps_order() && !(is_read && request.ends_work)));
    FUZZ_CHECK(request.pieces.count <= (is_read ? made_.read_pieces : made_.send_pieces));
    if (!is_send && given.rkey == verbs::Rkey()) {  // whether the peer is there
      FUZZ_CHECK(request.pieces.count == 0 && given.signaled && request.ends_work && options_.keepalive != Duration());
      FUZZ_CHECK(is_read == (!keeps_order() && peer.reads_max > 0));
    } else {
      const uint64_t place = peer.works_at_device - peer.works_gone;
      FUZZ_CHECK(place < peer.works.size());
      Work& work = peer.works[place];
      request.work = peer.works_at_device;
      request.address = work.address;
      request.offset = work.at_device;
      FUZZ_CHECK(given.verb == work.verb && given.rkey == work.rkey && given.solicited == work.solicited);
      FUZZ_CHECK(is_send || given.remote_address == work.address + work.at_device);
      FUZZ_CHECK(given.fence == (work.fence && work.at_device == 0));
      work.at_device += static_cast<uint32_t>(request.pieces.bytes());
      FUZZ_CHECK(request.ends_work ? work.at_device == work.length : work.at_device < work.length && !is_send);
      peer.works_at_device += request.ends_work ? 1 : 0;
    }
    if (given.is_inline) {
      FUZZ_CHECK(!is_read && request.pieces.bytes() <= made_.inline_bytes);
      FUZZ_CHECK(request.pieces.holds(request.address, request.offset));
      request.pieces = Pieces({});
    }
    hold(request.pieces);
    if (is_read) {
      request.pieces.fill();
    }
    peer.requests.push_back(request);
  }

  // The oldest one that is not done, of all or of READs or of others. nullptr: the device may not do it yet.
  static Request* oldest(Peer& peer) {
    const auto found = std::ranges::find(peer.requests, false, &Request::is_done);
    return found == peer.requests.end() ? nullptr : &*found;
  }
  static Request* oldest(Peer& peer, bool wants_read) {
    bool is_behind_other = false;
    for (Request& each : peer.requests) {
      const bool is_read = each.verb == WorkVerb::kRead;
      if (!each.is_done && is_read == wants_read) {
        return is_behind_other && (is_read || each.fence) ? nullptr : &each;
      }
      is_behind_other |= !each.is_done;
    }
    return nullptr;
  }
  void complete(Peer& peer, Request& request, WcStatus status) {
    request.is_done = true;
    if (request.signaled || status != WcStatus::kSuccess) {
      queue_.push_back({.done = {.id = request.id, .status = status},
                        .peer = static_cast<size_t>(&peer - peers_.data()),
                        .request = peer.requests_gone + place_of(peer, request)});
    }
  }
  static uint64_t place_of(const Peer& peer, const Request& request) {
    uint64_t place = 0;
    while (&peer.requests[place] != &request) {
      ++place;
    }
    return place;
  }
  void complete(Peer& peer, Receive& receive, WcStatus status) {
    receive.is_done = true;
    queue_.push_back({.done = {.id = receive.id,
                               .status = status,
                               .bytes = status == WcStatus::kSuccess ? receive.message.length : 0,
                               .invalidated = receive.message.invalidated},
                      .peer = static_cast<size_t>(&peer - peers_.data()),
                      .is_receive = true});
  }
  bool work(Peer& peer, uint32_t count, uint32_t order) {
    if (peer.is_broken || !peer.is_answered) {
      return false;
    }
    bool moved = false;
    for (uint32_t i = 0; i < count; ++i) {
      Request* request = oldest(peer);
      if (!keeps_order()) {
        const bool reads_first = (order >> i % 4 & 1) != 0;
        request = oldest(peer, reads_first);
        request = request != nullptr ? request : oldest(peer, !reads_first);
      }
      if (request == nullptr) {
        break;
      }
      if (request->verb == WorkVerb::kRead) {
        request->pieces.place(request->address, request->offset);
      } else {
        FUZZ_CHECK(request->pieces.holds(request->address, request->offset));
      }
      complete(peer, *request, WcStatus::kSuccess);
      moved = true;
    }
    return moved;
  }
  void send(Peer& peer, uint8_t how) {
    const auto receive = std::ranges::find(peer.receives, false, &Receive::is_done);
    if (peer.is_broken || !peer.may_be_sent_to() || receive == peer.receives.end()) {
      return;
    }
    receive->message = {.number = next_number_++ * 41,
                        .length = std::min(kSizes[how & 7], kReceiveBytesMax),
                        .invalidated = (how & 0x10) != 0 ? std::optional(verbs::Rkey(how)) : std::nullopt};
    size_t left = receive->message.length;
    const Bytes wanted = pattern(receive->message.number, left);
    for (const MutableBytes& each : receive->pieces.span()) {
      const size_t size = std::min(left, each.size());
      std::ranges::copy(wanted.subspan(wanted.size() - left, size), each.begin());
      left -= size;
    }
    complete(peer, *receive, WcStatus::kSuccess);
  }
  // By what it is about to do, or by itself.
  void break_down(Peer& peer, uint8_t how) {
    if (peer.is_broken || !peer.is_answered || !peer.has_queue_pair) {
      return;
    }
    const WcStatus status = kFailures[how & 7];
    const auto receive = std::ranges::find(peer.receives, false, &Receive::is_done);
    switch (how >> 3 & 3) {
      case 0:
      case 1:
        if (Request* one = keeps_order() ? oldest(peer) : oldest(peer, (how & 8) != 0); one != nullptr) {
          complete(peer, *one, status);
        }
        break;
      case 2:
        if (receive != peer.receives.end()) {
          complete(peer, *receive, status);
        }
        break;
      default:
        break;
    }
    peer.is_broken = true;
  }
  bool flush_device(Peer& peer, uint32_t count, uint32_t order) {
    bool moved = false;
    for (uint32_t i = 0; i < count; ++i) {
      Request* const request = oldest(peer);
      const auto receive = std::ranges::find(peer.receives, false, &Receive::is_done);
      const bool has_receive = receive != peer.receives.end();
      if (request != nullptr && (!has_receive || (order >> i % 4 & 1) == 0)) {
        if (request->verb == WorkVerb::kRead) {
          request->pieces.fill();
        }
        complete(peer, *request, WcStatus::kWorkRequestFlushed);
      } else if (has_receive) {
        complete(peer, *receive, WcStatus::kWorkRequestFlushed);
      } else {
        break;
      }
      moved = true;
    }
    return moved;
  }

  // The oldest in the completion queue reach the transport.
  bool tell(size_t count) {
    bool moved = false;
    for (; count > 0 && !queue_.empty(); --count) {
      const Entry entry = queue_.front();
      queue_.pop_front();
      Peer& peer = peers_[entry.peer];
      if (peer.has_queue_pair) {
        if (entry.is_receive) {
          take_receive(peer, entry);
        } else {
          take_done(peer, entry);
        }
        if (entry.done.status == WcStatus::kWorkRequestFlushed) {
          peer.flushed_at = earlier(peer.flushed_at, now_);
        }
      }
      transport_->on_completion(now_, entry.done);
      moved = true;
    }
    return moved;
  }
  void take_receive(Peer& peer, const Entry& entry) {
    const Receive& receive = peer.receives.front();
    FUZZ_CHECK(receive.is_done && receive.id == entry.done.id);
    let_go(receive.pieces);
    if (entry.done.status == WcStatus::kSuccess) {
      peer.messages.push_back(receive.message);
    }
    ++peer.received;
    peer.receives.pop_front();
  }
  // A device that keeps the order tells of all that was before, too.
  void take_done(Peer& peer, const Entry& entry) {
    const uint64_t place = entry.request - peer.requests_gone;
    for (uint64_t i = keeps_order() ? 0 : place; i <= place; ++i) {
      Request& request = peer.requests[i];
      FUZZ_CHECK(request.is_done);
      request.is_told = true;
      // What was lost is sent again until then.
      FUZZ_CHECK(request.verb == WorkVerb::kRead || request.pieces.holds(request.address, request.offset));
      let_go(request.pieces);
      request.pieces = Pieces({});
      if (request.work && *request.work >= peer.works_gone) {
        Work& work = peer.works[*request.work - peer.works_gone];
        if (i == place) {
          work.status = work.status == WcStatus::kSuccess ? entry.done.status : work.status;
        } else {
          work.may_be_flushed |= entry.done.status == WcStatus::kWorkRequestFlushed;
        }
        work.is_told |= request.ends_work;
      }
    }
    while (!peer.requests.empty() && peer.requests.front().is_told) {
      peer.requests.pop_front();
      ++peer.requests_gone;
    }
  }

  // What the transport is refused from now on.
  void refuse(uint8_t how) {
    refusals_ = how;
    sends_taken_ = (how & 8) != 0 ? how >> 4 & 3 : SIZE_MAX;
    receives_taken_ = (how & 0x40) != 0 ? how >> 4 & 3 : SIZE_MAX;
  }

  // ---- The connection manager ----

  void request(uint8_t who, uint8_t how) {
    if (peers_.size() == kPeersMax) {
      return;
    }
    const auto reads_max = static_cast<uint16_t>(7 - (who >> 1 & 7));
    const auto id = transport_->on_request(now_, {.peer = IpAddress::v4(0x0a00'0001 + (uint32_t{who} & 1) * 0x100),
                                                  .peer_port = 1000,
                                                  .listener_port = kPort,
                                                  .private_data = Bytes(&how, 1),
                                                  .reads_max = reads_max});
    if (id) {
      Peer& peer = peers_.emplace_back();
      peer.id = *id;
      peer.private_data = how;
      peer.reads_max = std::min(reads_max, options_.reads_max);
    }
  }
  void establish(Peer& peer) {
    if (!peer.is_active() && peer.is_attached && peer.is_answered && !std::exchange(peer.is_established, true)) {
      transport_->on_established(now_, peer.id);
    }
  }
  [[nodiscard]] size_t users() const { return static_cast<size_t>(std::ranges::count(peers_, true, &Peer::has_user)); }
  // A server is asked. It and rdma-core answer in play_call().
  void call(uint8_t who, uint8_t how) {
    if (peers_.size() == kPeersMax) {
      return;
    }
    const size_t before = peers_.size();
    const verbs::ProtectionDomain domain(who % 8);
    const bool is_taken = (start_ & 0x10) == 0 && std::ranges::any_of(peers_, [&](const Peer& each) {
                            return each.has_user && each.is_active() && each.domain == domain;
                          });
    const auto made = transport_->connect(
        now_, IpAddress::v4(0x0a00'0001), kPort,
        {.context = before, .receive_bytes_max = kReceiveBytesMax, .private_data = Bytes(&how, 1), .domain = domain});
    FUZZ_CHECK(made.ok() == (peers_.size() == before + 1));
    if (!made.ok()) {
      FUZZ_CHECK(is_taken || call_refusal(0) || users() >= kConnectionsMax);
      return;
    }
    FUZZ_CHECK(!is_taken);
    Peer& peer = peers_.back();
    FUZZ_CHECK(peer.connection() == *made);
    peer.domain = domain;
    peer.has_user = true;
    peer.private_data = how;
    peer.reads_max = options_.reads_max;
  }
  // The next step of a call. False: it has none.
  bool play_call(Peer& peer, uint8_t how) {
    if (!peer.is_attached) {
      return false;
    }
    switch (peer.call) {
      case Call::kAddress:
        transport_->on_address_resolved(now_, peer.id);
        return true;
      case Call::kRoute:
        transport_->on_route_resolved(now_, peer.id);
        return true;
      case Call::kAsked: {
        const auto said = static_cast<uint16_t>(how & 7);
        peer.call = Call::kAnswered;
        const uint16_t before = peer.reads_max;
        peer.reads_max = std::min(peer.reads_max, said);
        transport_->on_connected(now_, peer.id, {.private_data = Bytes(&how, 1), .reads_max = said, .reads_of_peer_max = 3});
        peer.answer = how;
        if (peer.is_attached && !peer.is_answered) {
          peer.reads_max = before;  // its queue pair has failed before
        }
        return true;
      }
      case Call::kNone:
      case Call::kQueuePair:
      case Call::kAnswered:
        break;
    }
    return false;
  }
  void end_call(Peer& peer, uint8_t how) {
    const bool is_being_made = peer.qp == nullptr && peer.has_user && !peer.is_answered && !peer.end_was_told;
    if ((how & 0x40) != 0) {
      transport_->on_rejected(now_, peer.id, {verbs::RejectReason::kRefused, "rejected"}, Bytes(&how, 1));
    } else {
      transport_->on_not_connected(now_, peer.id, static_cast<ConnectFailure>(1 + how % (kConnectFailureCount - 1)));
    }
    FUZZ_CHECK(!is_being_made || !peer.is_attached);
  }
  void expose(Peer& peer, uint8_t how) {
    if ((how & 1) != 0 && !peer.keys.empty()) {
      const verbs::Rkey key = peer.keys[how / 2 % peer.keys.size()];
      std::erase(peer.keys, key);
      FUZZ_CHECK(!memory_.invalidate(verbs::ProtectionDomain(99), key));
      FUZZ_CHECK(memory_.invalidate(peer.domain, key));
      FUZZ_CHECK(!memory_.invalidate(peer.domain, key));
      return;
    }
    const bool is_fit = peer.has_queue_pair && peer.exposes && (refusals_ & 0x88) != 0x88 && memory_.region_count() < kRegionsMax;
    const auto region =
        memory_.expose(peer.domain, exposed_, (how & 2) != 0 ? verbs::RemoteAccess::kRead : verbs::RemoteAccess::kWrite);
    FUZZ_CHECK(region.ok() == is_fit);
    if (region.ok()) {
      peer.keys.push_back(region->key);
    }
  }
  void end(Peer& peer, uint8_t how) {
    const bool owes_end = peer.qp != nullptr && !peer.qp->in_error();
    switch (how % 4) {
      case 0:
        if (peer.is_active() && peer.qp == nullptr) {
          end_call(peer, how);
          break;
        }
        if (!peer.is_established) {
          transport_->on_failed(now_, peer.id);
          break;
        }
        [[fallthrough]];
      case 1:
        peer.has_left = true;
        transport_->on_disconnected(now_, peer.id);
        break;
      case 2:
        if (peer.said_goodbye || peer.has_left) {
          transport_->on_parted(now_, peer.id);
        }
        return;
      default:
        peer.is_broken = true;
        transport_->on_device_event(now_, DeviceEvent::kDeviceRemoved);
        transport_->on_device_removed(now_, peer.id);
        FUZZ_CHECK(!peer.is_attached);
        break;
    }
    peer.owes_end |= owes_end;
  }
  void tell_of_device(Peer& peer, uint8_t how) {
    if (how % 8 == 7 || !peer.is_attached || !peer.has_queue_pair) {
      transport_->on_device_event(now_, DeviceEvent::kPortDown);
      return;
    }
    if (how % 8 >= 5) {
      if (peer.is_answered) {
        transport_->on_queue_pair_event(now_, peer.id, DeviceEvent::kEstablished);
      }
      return;
    }
    static constexpr std::array<DeviceEvent, 5> kEvents{DeviceEvent::kAccessError, DeviceEvent::kRequestError,
                                                        DeviceEvent::kQueuePairFatal, DeviceEvent::kDeviceFatal,
                                                        DeviceEvent::kCompletionQueueError};
    const bool owes_end = peer.qp != nullptr && !peer.qp->in_error();
    peer.is_broken = true;
    if (how % 8 < 3) {
      transport_->on_queue_pair_event(now_, peer.id, kEvents[how % 8]);
    } else {
      transport_->on_device_event(now_, kEvents[how % 8]);
      transport_->on_device_failed(now_, peer.id, kEvents[how % 8]);
    }
    FUZZ_CHECK(peer.qp == nullptr || peer.qp->in_error());
    peer.owes_end |= owes_end;
  }

  // ---- The user ----

  void listen(uint8_t how) {
    if (how % 2 == 0) {
      transport_->unlisten(kPort);
    } else {
      FUZZ_CHECK(transport_->listen(kPort).ok());
    }
  }
  // An operator, in between.
  void look(uint8_t how) {
    for (const Peer& peer : peers_) {
      const verbs::QueuePairInfo info = transport_->describe(peer.connection());
      FUZZ_CHECK(peer.qp == nullptr || info.error.any() == peer.qp->in_error());
    }
    std::array<uint64_t, 4> ready{};
    FUZZ_CHECK(transport_->peek_ready(ready) <= ready.size());
    std::array<verbs::TransportEvent, 4> events;
    FUZZ_CHECK(transport_->copy_log(events) <= events.size());
    if ((how & 1) != 0) {
      transport_->reconfigure(options_);
    }
  }
  // False: there was none, or a request waits for its answer first.
  bool take_event(uint8_t how) {
    if (const auto asked = std::ranges::find(peers_, true, &Peer::is_asked); asked != peers_.end()) {
      decide(*asked, how);
      return true;
    }
    const bool has_events = transport_->has_events();
    verbs::ConnectionEvent event;
    const bool is_there = transport_->poll_event(now_, event);
    FUZZ_CHECK(has_events == is_there);
    if (!is_there) {
      return false;
    }
    const auto found = std::ranges::find(peers_, event.connection, &Peer::connection);
    FUZZ_CHECK(found != peers_.end());
    Peer& peer = *found;
    if (event.kind == Kind::kConnectRequest) {
      FUZZ_CHECK(peer.is_attached && peer.over_since.is_never() && !std::exchange(peer.has_user, true));
      FUZZ_CHECK(event.private_data.size() == 1 && event.private_data[0] == peer.private_data);
      peer.is_asked = true;
      return true;
    }
    FUZZ_CHECK(peer.has_user && !peer.end_was_told);
    FUZZ_CHECK(event.context == static_cast<size_t>(&peer - peers_.data()));
    if (peer.is_active()) {
      take_call_event(peer, event, how);
      return true;
    }
    FUZZ_CHECK(peer.qp != nullptr);
    if (event.kind == Kind::kEstablished) {
      FUZZ_CHECK(!std::exchange(peer.was_told_established, true));
    } else {
      FUZZ_CHECK(event.kind == (peer.was_told_established ? Kind::kDisconnected : Kind::kUnreachable));
      FUZZ_CHECK(peer.qp->in_error());
      peer.end_was_told = true;
    }
    return true;
  }
  void take_call_event(Peer& peer, const verbs::ConnectionEvent& event, uint8_t how) {
    if (event.kind == Kind::kConnectResponse) {
      FUZZ_CHECK(peer.qp == nullptr && event.queue_pair != nullptr && peer.call == Call::kAnswered);
      FUZZ_CHECK(event.private_data.size() == 1 && event.private_data[0] == peer.answer);
      FUZZ_CHECK(event.depths.initiator_depth == peer.reads_max);
      peer.qp = event.queue_pair;
      peer.was_told_established = true;
      grant(peer, how >> 4);
      if (how % 4 != 3) {
        make_final(peer);
      }
      return;
    }
    const bool was_made = event.kind == Kind::kDisconnected;
    FUZZ_CHECK(was_made || event.kind == Kind::kUnreachable || (event.kind == Kind::kRejected && peer.qp == nullptr));
    FUZZ_CHECK(was_made == peer.is_final);
    FUZZ_CHECK(peer.qp == nullptr || peer.qp->in_error());
    peer.end_was_told = true;
  }
  void make_final(Peer& peer) {
    const bool owes_end = peer.is_attached && !peer.qp->in_error();
    peer.is_final = true;
    transport_->establish(now_, peer.connection());
    peer.owes_end |= owes_end && peer.qp->in_error();
  }
  void decide(Peer& peer, uint8_t how) {
    peer.is_asked = false;
    if (how % 8 == 7) {
      destroy(peer);
      return;
    }
    if (how % 8 != 6) {
      const auto accepted =
          transport_->accept(now_, peer.connection(),
                             {.context = static_cast<uint64_t>(&peer - peers_.data()), .receive_bytes_max = kReceiveBytesMax});
      if (accepted.ok()) {
        peer.qp = accepted->queue_pair;
        grant(peer, how >> 4);
        return;
      }
    }
    transport_->reject(now_, peer.connection(), verbs::RejectReason::kRefused, {});
    peer.has_user = false;
    peer.over_since = now_;
  }
  void disconnect(Peer& peer) {
    peer.was_let_go = true;
    transport_->disconnect(now_, peer.connection());
  }
  void destroy(Peer& peer) {
    transport_->destroy(peer.connection());
    FUZZ_CHECK(!peer.has_queue_pair && peer.regions == 0);
    FUZZ_CHECK(std::ranges::none_of(peer.keys, [&](verbs::Rkey key) { return memory_.invalidate(peer.domain, key); }));
    peer.keys.clear();
    peer.has_user = false;
    peer.is_asked = false;
    peer.qp = nullptr;
    peer.over_since = now_;
  }
  static void grant(Peer& peer, uint32_t count) {
    peer.qp->post_receives(count);
    peer.granted += count;
  }
  void post(Peer& peer, uint8_t how, uint8_t pieces) {
    const uint64_t number = next_number_++;
    Work work{.id = verbs::WorkId(number),
              .rkey = verbs::Rkey(static_cast<uint32_t>(number) | 0x8000),
              .address = number * 41 % 8192,
              .length = kSizes[how & 7],
              .fence = (how & 0x40) != 0,
              .signaled = (how & 0x20) == 0,
              .solicited = false};
    const uint32_t room = peer.qp->send_queue_room();
    const bool is_fit = !peer.qp->in_error() && room > 0;
    Status posted;
    if ((how >> 3 & 3) == 0) {
      work.verb = WorkVerb::kRead;
      posted = peer.qp->post_read(
          {.id = work.id, .rkey = work.rkey, .remote_address = work.address, .length = work.length, .fence = work.fence});
      FUZZ_CHECK(posted.ok() == (is_fit && peer.reads_max > 0));
    } else {
      Chain payload;
      if (!make_payload(payload, work, pieces)) {
        return;
      }
      const uint32_t count = payload.buffer_count();
      if ((how >> 3 & 3) == 1) {
        work.verb = WorkVerb::kWrite;
        posted = peer.qp->post_write({.id = work.id,
                                      .payload = std::move(payload),
                                      .rkey = work.rkey,
                                      .remote_address = work.address,
                                      .fence = work.fence,
                                      .signaled = work.signaled});
        FUZZ_CHECK(posted.ok() == is_fit);
      } else {
        const bool invalidates = (how >> 3 & 3) == 3;
        work.solicited = (how & 0x80) != 0;
        posted = peer.qp->post_send({.id = work.id,
                                     .payload = std::move(payload),
                                     .invalidate = invalidates ? std::optional(work.rkey) : std::nullopt,
                                     .solicited = work.solicited,
                                     .fence = work.fence,
                                     .signaled = work.signaled});
        work.verb = invalidates && made_.can_invalidate ? WorkVerb::kSendWithInvalidate : WorkVerb::kSend;
        work.rkey = work.verb == WorkVerb::kSend ? verbs::Rkey() : work.rkey;
        const bool is_long = count > made_.send_pieces && work.length > made_.send_pieces * kBufferBytes;
        FUZZ_CHECK(posted.ok() == (is_fit && !is_long));
      }
    }
    if (posted.ok()) {
      FUZZ_CHECK(peer.qp->send_queue_room() == room - 1);
      peer.works.push_back(work);
    }
  }
  // In pieces that may be short, one of them empty. False: the pool has not enough.
  bool make_payload(Chain& payload, const Work& work, uint8_t how) {
    const uint32_t piece = (how & 0x80) != 0 ? std::max(50u, work.length / 12) : kBufferBytes;
    bool wants_empty = (how & 0x40) != 0;
    while (payload.bytes() < work.length || wants_empty) {
      Buffer* one = pool_.allocate_one();
      if (one == nullptr) {
        return false;
      }
      const auto done = static_cast<uint32_t>(payload.bytes());
      if (done > 0 || work.length == 0) {
        one->size = std::exchange(wants_empty, false) ? 0 : std::min({piece, kBufferBytes, work.length - done});
      } else {
        one->size = std::min({piece, kBufferBytes, work.length});
      }
      std::ranges::copy(pattern(work.address, work.length).subspan(done, one->size), one->data);
      payload.push_back(one);
    }
    return true;
  }
  bool take_completions(bool keeps) {
    bool is_any = false;
    verbs::ReadyQueuePair ready;
    while (transport_->poll_ready(ready)) {
      is_any = true;
      FUZZ_CHECK(ready.context < peers_.size());
      Peer& peer = peers_[ready.context];
      FUZZ_CHECK(peer.has_user && peer.qp == ready.queue_pair);
      verbs::Completion completion;
      while (peer.qp->poll_completion(completion)) {
        take_completion(peer, completion);
        if (keeps && !completion.payload.empty()) {
          kept_.push_back(std::move(completion.payload));
        }
        completion.payload.clear();
      }
    }
    for (const Peer& peer : peers_) {
      verbs::Completion completion;
      FUZZ_CHECK(peer.qp == nullptr || !peer.qp->poll_completion(completion));
    }
    return is_any;
  }
  static void take_completion(Peer& peer, const verbs::Completion& completion) {
    const bool is_fine = completion.status == WcStatus::kSuccess;
    if (verbs::is_receive(completion.opcode)) {
      FUZZ_CHECK(is_fine && !peer.messages.empty());
      const Message& message = peer.messages.front();
      FUZZ_CHECK(completion.bytes == message.length && completion.payload.bytes() == message.length);
      FUZZ_CHECK(completion.invalidated == message.invalidated && is_pattern(completion.payload, message.number));
      peer.messages.pop_front();
      return;
    }
    while (!peer.works.empty() && peer.works.front().id != completion.id) {
      FUZZ_CHECK(is_silent(peer.works.front()));
      forget_oldest(peer);
    }
    FUZZ_CHECK(!peer.works.empty());
    const Work& work = peer.works.front();
    const bool is_read = work.verb == WorkVerb::kRead;
    FUZZ_CHECK(completion.opcode == (is_read                         ? verbs::WcOpcode::kRdmaRead
                                     : work.verb == WorkVerb::kWrite ? verbs::WcOpcode::kRdmaWrite
                                                                     : verbs::WcOpcode::kSend));
    if (is_fine) {
      FUZZ_CHECK(work.must_be_heard_of() && work.is_told && work.status == WcStatus::kSuccess);
      FUZZ_CHECK(completion.bytes == work.length && completion.payload.bytes() == (is_read ? work.length : 0));
      FUZZ_CHECK(is_pattern(completion.payload, work.address));
    } else {
      const bool is_flush = completion.status == WcStatus::kWorkRequestFlushed;
      const bool was_told = work.status != WcStatus::kSuccess && completion.status == work.status;
      FUZZ_CHECK(was_told || (is_flush && (work.may_be_flushed || peer.qp->in_error())));
      FUZZ_CHECK(completion.bytes == 0 && completion.payload.empty());
    }
    forget_oldest(peer);
  }
  static void forget_oldest(Peer& peer) {
    peer.works.pop_front();
    ++peer.works_gone;
  }

  // ---- Everybody ----

  bool run(uint32_t turns, uint32_t order) {
    bool has_moved = false;
    bool moved = true;
    for (uint32_t turn = 0; turn < turns && moved; ++turn) {
      moved = false;
      while (take_event(0x40)) {
        moved = true;
      }
      moved |= take_completions((order & 0x10) != 0);
      moved |= transport_->flush(now_);
      for (Peer& peer : peers_) {
        establish(peer);
        moved |= play_call(peer, static_cast<uint8_t>(order));
        if (peer.qp != nullptr && peer.is_active() && peer.has_user && !peer.is_final) {
          make_final(peer);
        }
        moved |= work(peer, 64, order + turn);
        moved |= peer.is_broken && flush_device(peer, 64, order + turn);
      }
      moved |= tell(SIZE_MAX);
      has_moved |= moved;
    }
    return has_moved;
  }
  void settle_once() {
    for (uint32_t idle = 0, rounds = 0; idle < 4; ++rounds) {
      FUZZ_CHECK(rounds < 1000);
      idle = run(64, rounds & 0xf) ? 0 : idle + 1;
      advance(Duration::ms(1));  // who found the pool empty looks again
    }
  }
  void advance(Duration time) {
    now_ = now_ + time;
    transport_->on_deadline(now_);
    for (const Peer& peer : peers_) {
      FUZZ_CHECK(!peer.is_attached || peer.over_since.is_never() ||
                 now_ < peer.over_since + options_.parting_timeout + Duration::ms(1));
      FUZZ_CHECK(peer.qp == nullptr || peer.qp->in_error() || peer.flushed_at.is_never() ||
                 now_ < peer.flushed_at + options_.flush_patience + Duration::ms(1));
    }
  }
  void check() {
    uint32_t attached = 0;
    for (const Peer& peer : peers_) {
      attached += peer.is_attached ? 1 : 0;
      if (!peer.has_queue_pair || peer.qp == nullptr) {
        continue;
      }
      const auto& qp = static_cast<const RnicQueuePair&>(*peer.qp);
      FUZZ_CHECK(qp.requests_out() <= made_.send_requests && qp.receives_posted() == peer.receives.size());
      FUZZ_CHECK(qp.in_error() || peer.is_broken || qp.requests_out() == peer.requests_out());
      FUZZ_CHECK(qp.in_error() ||
                 qp.receives_posted() + qp.receives_owed() + peer.received == peer.allowed(options_.receive_queue_depth));
    }
    FUZZ_CHECK(transport_->live_count() == attached);
    FUZZ_CHECK(transport_->half_open_count() <= kHalfOpenMax && transport_->parting_count() <= kPartingMax);
  }

  uint8_t start_;
  QueuePairMade made_;
  RnicOptions options_;
  Instant now_ = Instant::from_ns(1'000'000'000);
  WatchedPool pool_;
  SeededRandom random_{5};
  std::vector<Peer> peers_;
  std::deque<Entry> queue_;  // of completions
  std::vector<Chain> kept_;  // of completions
  uint8_t refusals_ = 0;
  size_t sends_taken_ = SIZE_MAX;
  size_t receives_taken_ = SIZE_MAX;
  uint64_t next_number_ = 1;
  std::array<uint8_t, 64> exposed_{};
  RnicMemory memory_;
  std::optional<RnicTransport> transport_;
};

void run(Bytes input) {
  {
    World world(input[0], input[1]);
    constexpr size_t kRecord = 3;
    for (size_t at = 2; at + kRecord <= input.size(); at += kRecord) {
      world.step(input[at], input[at + 1], input[at + 2]);
    }
    // The process may end at any time.
    if ((input[0] & 0x80) == 0) {
      world.settle();
      world.finish();
    }
  }
  FUZZ_CHECK(heap().in_use() == 0);
}

}  // namespace
}  // namespace cw::rnic

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 1 && size <= cw::rnic::kInputBytesMax) {
    cw::rnic::run({data, size});
  }
  return 0;
}
