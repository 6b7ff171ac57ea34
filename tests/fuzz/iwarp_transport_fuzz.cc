// Two IwarpTransports on a network that the input plays, from connect() to the last word of every connection: TCP comes up on
// either side first or is refused, bytes arrive in pieces or not at all, halves end, connections are reset. Both users call,
// accept, refuse, post, close, disconnect and destroy in any order, beside peers that say a part of a Request and then nothing.
// Pools are short, and run dry. The first side has memory that the other one reads and writes; the second has none, as in the
// gateway.
//
// Every work that was posted completes at most once, and in the end exactly once; messages and READs arrive as they were posted;
// an event names a connection that its user has, and its end is told once; who is over is gone within parting_timeout; what
// waited for buffers, room or a turn goes on when there is some; and nothing is left.
//
// Input: [start] and records of [what][who][how]. Bits of start: CRCs are wanted, the segment size (2), few works, (2 unused),
// users say that they go, and the process ends at once.
#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/heap_buffer_pool.h"
#include "iwarp/transport.h"
#include "tests/fuzz/fuzz_target.h"

namespace cw::iwarp {
namespace {

using Kind = verbs::ConnectionEvent::Kind;

constexpr size_t kInputBytesMax = 400;
constexpr uint16_t kPort = 20049;
constexpr uint32_t kBuffers = 768;  // enough for whatever may be under way, so that it ends once all of them may be taken
constexpr uint32_t kAtFirst = 48;   // that may be taken before
constexpr uint32_t kViews = 512;
constexpr uint32_t kBufferBytes = 1024;
constexpr uint32_t kWiresMax = 12;             // in one execution
constexpr size_t kOnTheirWayMax = 40'000;      // bytes of one direction
constexpr uint32_t kReceiveBytesMax = 20'000;  // long enough for FPDUs that wait for room
constexpr uint32_t kRegion = 20'000;
constexpr uint32_t kGuard = 64;
constexpr uint8_t kCanary = 0xc5;
constexpr uint8_t kRegionByte = 0x3a;
constexpr verbs::ProtectionDomain kDomain(7);
constexpr std::array<uint32_t, 8> kSizes{0, 1, 30, 300, 1000, 1500, 4000, 18'000};
// A Request as siw sends it.
constexpr std::array<uint8_t, 32> kRequest{'M', 'P', 'A', ' ', 'I', 'D', ' ', 'R', 'e',  'q',  ' ',  'F',  'r', 'a', 'm', 'e',
                                           16,  2,   0,   12,  0,   128, 0,   0,   0xf6, 0xab, 0x0e, 0x18, 1,   0,   3,   3};

HeapBufferPool& heap_of(uint32_t side) {
  static std::array<HeapBufferPool, 2> pools{HeapBufferPool(kBuffers, kBufferBytes, kViews),
                                             HeapBufferPool(kBuffers, kBufferBytes, kViews)};
  return pools[side];
}

// Has as many Buffers as the input wants.
class ShortPool final : public BufferPool {
 public:
  explicit ShortPool(HeapBufferPool& heap) : heap_(heap) {}
  bool allocate(std::span<Buffer*> out) override {
    return kBuffers - heap_.buffer_usage().available + out.size() <= may_be_taken && heap_.allocate(out);
  }
  Buffer* share(const Buffer& of, uint32_t offset, uint32_t size) override { return heap_.share(of, offset, size); }
  void release(Buffer* list) override { heap_.release(list); }
  uint32_t buffer_bytes() const override { return kBufferBytes; }

  uint32_t may_be_taken = kAtFirst;

 private:
  HeapBufferPool& heap_;
};

bool is_all(const Chain& chain, uint8_t byte) {
  for (const Buffer* at = chain.head(); at != nullptr; at = at->next) {
    const Bytes bytes(at->data, at->size);
    if (!bytes.empty() && (bytes[0] != byte || !std::equal(bytes.begin() + 1, bytes.end(), bytes.begin()))) {
      return false;
    }
  }
  return true;
}

// One end of a TCP connection, as the kernel and the host know it.
struct End {
  std::optional<StreamId> stream;  // from the first word about it to release() or on_lost()
  std::vector<uint8_t> arriving;   // written by the other end, not read by this one
  bool is_up = false;
  bool is_paused = false;    // receive_space() had none: not read before poll_sendable() says so
  bool is_writable = false;  // poll_sendable() named it, and not everything has been written
  bool is_finished = false;  // nothing may be written
  bool fin_arriving = false;
  bool fin_told = false;
  bool hears_nothing = false;  // the network has ended its half
  bool reset_arriving = false;
  Instant over_since = Instant::never();
};

// [0] called [1].
struct Wire {
  std::array<End, 2> ends;
  uint32_t caller_side = 0;
  bool is_foreign = false;                                        // nobody of ours has called
  uint8_t private_data = 0;                                       // of the caller, if it is ours
  std::array<std::deque<std::pair<uint8_t, uint32_t>>, 2> sends;  // by the end that posted them: the byte, and how many
  [[nodiscard]] uint32_t side_of(uint32_t end) const { return end == 0 ? caller_side : 1 - caller_side; }
};

// What the user of one side knows of a connection.
struct Known {
  verbs::ConnectionId id;
  uint32_t wire = 0;
  uint32_t end = 0;
  verbs::QueuePair* qp = nullptr;
  bool is_gone = false;  // destroyed or rejected
  bool is_asked = false;
  bool is_established = false;
  bool has_outcome = false;  // of the set-up
  bool end_was_told = false;
  bool error_was_told = false;
  std::map<uint64_t, bool> pending;    // works that owe a completion, or if false: only when they fail
  std::map<uint64_t, uint32_t> reads;  // bytes
};

class World;

class Host final : public StreamHost {
 public:
  Host(World& world, uint32_t side) : world_(world), side_(side) {}
  Status listen(uint16_t /*port*/) override { return {}; }
  void unlisten(uint16_t /*port*/) override {}
  Status connect(StreamId stream, const IpAddress& server, uint16_t port) override;
  void finish(StreamId stream) override;
  void release(StreamId stream, ReleaseKind kind) override;

 private:
  World& world_;
  uint32_t side_;
};

bool has_few_works(uint8_t start) {
  return (start & 8) != 0;
}

IwarpOptions options_of(uint8_t start) {
  IwarpOptions options;
  options.connections_max = 3;
  options.half_open_max = 2;
  options.parting_max = 2;
  options.prefix.half_open_max = 2;
  options.input_bytes_max = 20'000;
  options.crc = (start & 1) != 0;
  options.ird = 2;
  options.ord = 2;
  options.send_queue_depth = 6;
  // Answers take of the same works as posts: with few of them, a stream that may not speak yet can be in the way of its peer.
  options.send_work_max = has_few_works(start) ? 12 : 3 * (6 + 2);
  options.receive_work_max = 6;
  return options;
}

struct Side {
  Side(World& world, uint32_t index, uint8_t start)
      : heap(heap_of(index)),
        pool(heap),
        random(index + 5),
        memory(2, random),
        host(world, index),
        transport(options_of(start), host, pool, random, index == 0 ? &memory : nullptr) {
    FUZZ_CHECK(transport.listen(kPort).ok());
  }

  HeapBufferPool& heap;
  ShortPool pool;
  SeededRandom random;
  verbs::MemoryTable memory;
  Host host;
  IwarpTransport transport;
  std::vector<Known> known;   // by their context
  std::vector<Buffer*> held;  // views
  std::vector<Chain> kept;    // of completions
  bool listens = true;
};

class World {
 public:
  explicit World(uint8_t start) : mss_bytes_(kMssBytes[start >> 1 & 3]), sides_{Side(*this, 0, start), Side(*this, 1, start)} {
    region_.fill(kCanary);
    std::fill_n(region_.begin() + kGuard, kRegion, kRegionByte);
    expose();
  }
  ~World() {
    for (const Side& side : sides_) {
      FUZZ_CHECK(side.kept.empty() && side.held.empty());
    }
  }
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  void step(uint8_t what, uint8_t who, uint8_t how) {
    const uint32_t s = who & 1;
    Side& side = sides_[s];
    const uint32_t which = who >> 1;
    Known* known = side.known.empty() ? nullptr : &side.known[side.known.size() - 1 - which % side.known.size()];
    if (known != nullptr && known->is_gone) {
      known = nullptr;
    }
    Wire* wire = wires_.empty() ? nullptr : &wires_[wires_.size() - 1 - which % wires_.size()];
    switch (what & 0x1f) {
      case 0:
        connect(s, how);
        break;
      case 1:
        if (wire != nullptr) {
          bring_up(*wire, how);
        }
        break;
      case 2:
        if (how % 4 == 0) {
          call_as_foreigner(s, how);
        } else if (wire != nullptr && wire->is_foreign) {
          say_as_foreigner(*wire, how);
        }
        break;
      case 3:
        (void)take_event(s, how);
        break;
      case 4:
        decide(s, how);
        break;
      case 5:
      case 6:
        if (wire != nullptr) {
          (void)deliver(*wire, s, how == 0xff ? kOnTheirWayMax : size_t{how} * (what & 0x80 ? 64 : 1));
        }
        break;
      case 7:
      case 8:
        if (wire != nullptr) {
          (void)write_out(*wire, s, how == 0xff ? kOnTheirWayMax : size_t{how} * (what & 0x80 ? 64 : 1));
        }
        break;
      case 9:
        if (wire != nullptr) {
          end_half(*wire, s);
        }
        break;
      case 10:
        if (wire != nullptr && how < 64) {
          for (End& end : wire->ends) {
            end.reset_arriving = true;
          }
        }
        break;
      case 11:
      case 12:
      case 13:
        if (known != nullptr && known->qp != nullptr) {
          post(s, *known, how, what & 0x80);
        }
        break;
      case 14:
        if (known != nullptr && known->qp != nullptr) {
          known->qp->post_receives(how % 4);
        }
        break;
      case 15:
        (void)take_completions(s, how % 2 == 0);
        break;
      case 16:
        side.kept.clear();
        break;
      case 17:
        if (known != nullptr && known->qp != nullptr && how < 96) {
          known->qp->close();
        }
        break;
      case 18:
        if (known != nullptr) {
          side.transport.disconnect(now_, known->id);
        }
        break;
      case 19:
        if (known != nullptr && !known->is_asked) {
          destroy(s, *known);
        }
        break;
      case 20:
        if (known != nullptr && known->qp != nullptr && known->end == 0) {
          establish(s, *known);
        }
        break;
      case 21:
      case 22:
        advance(how < 0x80 ? Duration::us(int64_t{how} * 100) : Duration::ms(int64_t{how - 0x7f} * 40));
        break;
      case 23:
        if ((what & 0x80) != 0) {
          hold_views(side, how);
        } else {
          side.pool.may_be_taken = kAtFirst * how / 0xff;
        }
        break;
      case 24:
        give_back(side);
        side.pool.may_be_taken = kAtFirst;
        break;
      case 25:
        side.listens = !side.listens;
        if (side.listens) {
          FUZZ_CHECK(side.transport.listen(kPort).ok());
        } else {
          side.transport.unlisten(kPort);
        }
        break;
      case 26:
        if (how % 2 == 0) {
          (void)sides_[0].memory.invalidate(kDomain, key_);
        } else if (sides_[0].memory.region_count() == 0) {
          expose();
        }
        break;
      case 27:
        if (known != nullptr) {
          (void)side.transport.describe(known->id);
        }
        break;
      default:
        for (Wire& each : wires_) {
          if (how >= 0x80) {
            bring_up(each, 3);
          }
        }
        (void)run(how % 8);
        break;
    }
    if ((what & 0x40) == 0) {
      look_for_work(0);
      look_for_work(1);
    }
    check();
  }

  // Everybody acts, and everything that was in the way is gone: what was posted ends.
  void settle(bool works_wait) {
    for (Side& side : sides_) {
      give_back(side);
      side.pool.may_be_taken = kBuffers;
    }
    for (Wire& wire : wires_) {
      bring_up(wire, 3);
    }
    for (uint32_t idle = 0, rounds = 0; idle < 4; ++rounds) {
      FUZZ_CHECK(rounds < 1000);
      idle = run(64) ? 0 : idle + 1;
      advance(Duration::ms(1));  // who found the pool empty looks again
    }
    for (uint32_t s = 0; s < 2; ++s) {
      for (const Known& known : sides_[s].known) {
        if (known.is_gone || wires_[known.wire].is_foreign) {
          continue;
        }
        FUZZ_CHECK(known.has_outcome || (known.qp != nullptr && known.qp->in_error()));
        if (known.qp == nullptr) {
          continue;
        }
        const auto& stream = static_cast<const RdmapStream&>(*known.qp);
        if (stream.in_error()) {
          FUZZ_CHECK(known.error_was_told);
          FUZZ_CHECK(std::ranges::none_of(known.pending, [](const auto& each) { return each.second; }));
        } else if (!works_wait && (stream.heard_peer() || stream.options().speaks_first)) {
          FUZZ_CHECK(stream.works_pending() == 0);
          FUZZ_CHECK(std::ranges::none_of(known.pending, [](const auto& each) { return each.second; }));
        }
      }
    }
  }
  void finish(bool says_so) {
    for (uint32_t s = 0; s < 2; ++s) {
      for (Known& known : sides_[s].known) {
        if (!known.is_gone) {
          if (says_so) {
            sides_[s].transport.disconnect(now_, known.id);
          }
          destroy(s, known);
        }
      }
    }
    for (const Duration wait : {Duration(), IwarpOptions().handshake_timeout, IwarpOptions().parting_timeout}) {
      advance(wait);
      (void)run(64);
      for (uint32_t s = 0; s < 2; ++s) {
        for (Known& known : sides_[s].known) {  // that came in the last moment
          if (!known.is_gone) {
            destroy(s, known);
          }
        }
      }
    }
    advance(IwarpOptions().parting_timeout);
    for (uint32_t s = 0; s < 2; ++s) {
      look_for_work(s);
      const IwarpTransport& transport = sides_[s].transport;
      FUZZ_CHECK(transport.live_count() == 0 && transport.half_open_count() == 0 && transport.parting_count() == 0);
      FUZZ_CHECK(sides_[s].heap.in_use() <= SpareBuffers::kCount);
    }
  }
  // Before the transports end, whatever their state.
  void drop_all() {
    for (Side& side : sides_) {
      give_back(side);
    }
    FUZZ_CHECK(std::all_of(region_.begin(), region_.begin() + kGuard, [](uint8_t byte) { return byte == kCanary; }));
    FUZZ_CHECK(std::all_of(region_.end() - kGuard, region_.end(), [](uint8_t byte) { return byte == kCanary; }));
  }

 private:
  friend class Host;
  static constexpr std::array<uint32_t, 4> kMssBytes{300, 1460, 6000, 20'000};

  void expose() {
    key_ = *sides_[0].memory.register_region(kDomain, MutableBytes(region_).subspan(kGuard, kRegion),
                                             verbs::RemoteAccess::kReadWrite);
  }
  static void hold_views(Side& side, uint32_t left) {
    Buffer* one = side.heap.allocate_one();
    if (one == nullptr) {
      return;
    }
    one->size = 1;
    while (side.heap.view_usage().available > left) {
      side.held.push_back(side.heap.share(*one, 0, 1));
    }
    side.held.push_back(one);
  }
  static void give_back(Side& side) {
    side.kept.clear();
    for (Buffer* one : side.held) {
      side.pool.release(one);
    }
    side.held.clear();
  }

  // ---- The network ----

  [[nodiscard]] std::pair<Wire*, uint32_t> find(uint32_t side, StreamId stream) {
    for (Wire& wire : wires_) {
      for (uint32_t end = 0; end < 2; ++end) {
        if (wire.ends[end].stream == stream && wire.side_of(end) == side && !(wire.is_foreign && end == 0)) {
          return {&wire, end};
        }
      }
    }
    return {nullptr, 0};
  }
  [[nodiscard]] IwarpTransport& transport_of(const Wire& wire, uint32_t end) { return sides_[wire.side_of(end)].transport; }

  void bring_up(Wire& wire, uint8_t how) {
    End& caller = wire.ends[0];
    End& called = wire.ends[1];
    if (how >= 0xf0 && caller.stream && !caller.is_up) {
      const StreamId stream = *std::exchange(caller.stream, std::nullopt);
      called.reset_arriving = true;
      transport_of(wire, 0).on_lost(now_, stream, how % 2 == 0 ? StreamErrorCause::kTcpReset : StreamErrorCause::kTcpTimeout);
      return;
    }
    const auto port = static_cast<uint16_t>(&wire - wires_.data());
    if ((how & 1) != 0 && !called.is_up) {
      called.is_up = true;
      called.stream = transport_of(wire, 1).on_accepted(now_, IpAddress::v4(1 + wire.caller_side), port, kPort, mss_bytes_);
      caller.reset_arriving |= !called.stream;
    }
    if ((how & 2) != 0 && caller.stream && !caller.is_up && !caller.reset_arriving) {
      caller.is_up = true;
      transport_of(wire, 0).on_connected(now_, *caller.stream, mss_bytes_);
    }
  }
  void call_as_foreigner(uint32_t side, uint8_t how) {
    if (wires_.size() == kWiresMax) {
      return;
    }
    Wire& wire = wires_.emplace_back();
    wire.is_foreign = true;
    wire.caller_side = 1 - side;
    bring_up(wire, 1);
    say_as_foreigner(wire, how);
  }
  // The next bytes of its Request; nothing behind it.
  void say_as_foreigner(Wire& wire, uint8_t how) {
    const size_t size = std::min<size_t>(how >> 2, kRequest.size() - wire.private_data);
    std::vector<uint8_t>& arriving = wire.ends[1].arriving;
    arriving.insert(arriving.end(), kRequest.begin() + wire.private_data, kRequest.begin() + wire.private_data + size);
    wire.private_data = static_cast<uint8_t>(wire.private_data + size);
  }
  // Towards one end.
  void end_half(Wire& wire, uint32_t end) {
    wire.ends[end].fin_arriving = true;
    wire.ends[end].hears_nothing = true;
  }

  bool deliver(Wire& wire, uint32_t e, size_t limit) {
    End& end = wire.ends[e];
    if (!end.stream || (!end.is_up && !end.reset_arriving)) {
      return false;
    }
    IwarpTransport& transport = transport_of(wire, e);
    if (end.reset_arriving) {
      transport.on_lost(now_, *std::exchange(end.stream, std::nullopt), StreamErrorCause::kTcpReset);
      return true;
    }
    bool moved = false;
    while (end.stream && !end.is_paused && limit > 0 && !end.fin_told && (!end.arriving.empty() || end.fin_arriving)) {
      std::array<MutableBytes, SpareBuffers::kCount + 1> space;
      const uint32_t pieces = transport.receive_space(now_, *end.stream, space);
      if (pieces == 0) {
        end.is_paused = true;
        return moved;
      }
      moved = true;
      if (end.arriving.empty()) {
        end.fin_told = true;
        transport.on_end_of_stream(now_, *end.stream);
        return true;
      }
      size_t count = 0;
      for (uint32_t i = 0; i < pieces && count < std::min(limit, end.arriving.size()); ++i) {
        const size_t size = std::min({space[i].size(), limit - count, end.arriving.size() - count});
        std::copy_n(end.arriving.begin() + static_cast<ptrdiff_t>(count), size, space[i].begin());
        count += size;
      }
      FUZZ_CHECK(count > 0);
      end.arriving.erase(end.arriving.begin(), end.arriving.begin() + static_cast<ptrdiff_t>(count));
      limit -= count;
      transport.on_received(now_, *end.stream, static_cast<uint32_t>(count));
    }
    return moved;
  }

  bool write_out(Wire& wire, uint32_t e, size_t limit) {
    End& end = wire.ends[e];
    End& other = wire.ends[1 - e];
    const bool is_heard = (other.stream || !other.is_up) && !other.hears_nothing && !wire.is_foreign;
    bool moved = false;
    while (end.stream && end.is_up && end.is_writable && limit > 0) {
      std::array<Bytes, 4> pieces;
      const uint32_t count = transport_of(wire, e).send_pieces(*end.stream, pieces);
      if (count == 0) {
        end.is_writable = false;
        break;
      }
      FUZZ_CHECK(!end.is_finished);
      const size_t room = is_heard ? std::min(limit, kOnTheirWayMax - other.arriving.size()) : limit;
      size_t written = 0;
      for (uint32_t i = 0; i < count && written < room; ++i) {
        const Bytes piece = pieces[i].first(std::min(pieces[i].size(), room - written));
        if (is_heard) {
          other.arriving.insert(other.arriving.end(), piece.begin(), piece.end());
        }
        written += piece.size();
      }
      if (written == 0) {
        break;
      }
      moved = true;
      limit -= written;
      transport_of(wire, e).on_written(now_, *end.stream, written);
    }
    return moved;
  }

  // poll_sendable() until there is none, as the shell does in each turn.
  bool look_for_work(uint32_t s) {
    StreamId stream;
    uint32_t turns = 0;
    while (sides_[s].transport.poll_sendable(now_, stream)) {
      FUZZ_CHECK(++turns < 1000);
      const auto [wire, end] = find(s, stream);
      FUZZ_CHECK(wire != nullptr);
      wire->ends[end].is_writable = true;
      wire->ends[end].is_paused = false;
    }
    for (const Known& known : sides_[s].known) {
      End& end = wires_[known.wire].ends[known.end];
      if (end.over_since.is_never() && (known.is_gone || (known.qp != nullptr && known.qp->in_error()))) {
        end.over_since = now_;
      }
    }
    return turns > 0;
  }

  // Everybody acts on what there is, in turns.
  bool run(uint32_t turns) {
    bool has_moved = false;
    bool moved = true;
    for (uint32_t turn = 0; turn < turns && moved; ++turn) {
      moved = false;
      for (uint32_t s = 0; s < 2; ++s) {
        while (take_event(s, 0x50)) {
          moved = true;
        }
        moved |= take_completions(s, false);
        moved |= look_for_work(s);
      }
      for (Wire& wire : wires_) {
        for (uint32_t end = 0; end < 2; ++end) {
          moved |= write_out(wire, end, kOnTheirWayMax);
          moved |= deliver(wire, end, kOnTheirWayMax);
        }
      }
      has_moved |= moved;
    }
    return has_moved;
  }

  void advance(Duration time) {
    now_ = now_ + time;
    for (uint32_t s = 0; s < 2; ++s) {
      sides_[s].transport.on_deadline(now_);
      look_for_work(s);
    }
    for (const Wire& wire : wires_) {
      for (const End& end : wire.ends) {
        FUZZ_CHECK(!end.stream || end.over_since.is_never() ||
                   now_ < end.over_since + IwarpOptions().parting_timeout + Duration::ms(1));
      }
    }
  }

  // ---- The users ----

  void connect(uint32_t s, uint8_t how) {
    if (wires_.size() == kWiresMax) {
      return;
    }
    Side& side = sides_[s];
    const uint8_t word = how;
    const size_t wires = wires_.size();
    has_no_way_ = how == 0xff;
    const auto connected = side.transport.connect(now_, IpAddress::v4(2 - s), kPort,
                                                  {.context = side.known.size(),
                                                   .receive_bytes_max = kReceiveBytesMax,
                                                   .private_data = Bytes(&word, 1),
                                                   .domain = kDomain});
    if (!connected.ok()) {
      FUZZ_CHECK(wires_.size() == wires);
      return;
    }
    FUZZ_CHECK(wires_.size() == wires + 1);
    wires_.back().private_data = word;
    side.known.push_back({.id = *connected, .wire = static_cast<uint32_t>(wires), .end = 0});
  }

  Known* find_known(uint32_t s, verbs::ConnectionId id) {
    const auto found = std::ranges::find(sides_[s].known, id, &Known::id);
    return found == sides_[s].known.end() ? nullptr : &*found;
  }

  // False: there was none, or a request waits for its answer first.
  bool take_event(uint32_t s, uint8_t how) {
    Side& side = sides_[s];
    if (decide(s, how)) {
      return true;
    }
    const bool has_events = side.transport.has_events();
    verbs::ConnectionEvent event;
    const bool is_there = side.transport.poll_event(now_, event);
    FUZZ_CHECK(has_events == is_there);
    if (!is_there) {
      return false;
    }
    Known* known = find_known(s, event.connection);
    if (event.kind == Kind::kConnectRequest) {
      FUZZ_CHECK(known == nullptr && event.peer_port < wires_.size());
      const Wire& wire = wires_[event.peer_port];
      FUZZ_CHECK(wire.is_foreign ? event.private_data.size() == 8
                                 : event.private_data.size() == 1 && event.private_data[0] == wire.private_data);
      side.known.push_back({.id = event.connection, .wire = event.peer_port, .end = 1, .is_asked = true});
      return true;
    }
    FUZZ_CHECK(known != nullptr && !known->is_gone && !known->is_asked && !known->end_was_told);
    FUZZ_CHECK(event.context == static_cast<size_t>(known - side.known.data()));
    known->has_outcome = true;
    switch (event.kind) {
      case Kind::kConnectRequest:
        break;
      case Kind::kConnectResponse:
        FUZZ_CHECK(known->end == 0 && known->qp == nullptr && !known->is_established);
        known->qp = event.queue_pair;
        if (how % 4 == 0) {
          establish(s, *known);
        }
        break;
      case Kind::kEstablished:
        FUZZ_CHECK(known->end == 1 && !known->is_established);
        known->is_established = true;
        break;
      case Kind::kDisconnected:
        FUZZ_CHECK(known->is_established);
        known->end_was_told = true;
        break;
      case Kind::kRejected:
        FUZZ_CHECK(known->end == 0 && known->qp == nullptr);
        known->end_was_told = true;
        break;
      case Kind::kUnreachable:
        FUZZ_CHECK(!known->is_established);
        known->end_was_told = true;
        break;
    }
    return true;
  }

  // Whoever asks has to be answered before the next event.
  bool decide(uint32_t s, uint8_t how) {
    Side& side = sides_[s];
    const auto asked = std::ranges::find(side.known, true, &Known::is_asked);
    if (asked == side.known.end()) {
      return false;
    }
    Known& known = *asked;
    known.is_asked = false;
    if (how % 8 == 7) {
      destroy(s, known);
      return true;
    }
    if (how % 8 != 6) {
      const auto accepted = side.transport.accept(now_, known.id,
                                                  {.context = static_cast<uint64_t>(asked - side.known.begin()),
                                                   .receive_bytes_max = kReceiveBytesMax,
                                                   .domain = kDomain});
      if (accepted.ok()) {
        known.qp = accepted->queue_pair;
        known.qp->post_receives(how >> 4);
        return true;
      }
    }
    side.transport.reject(now_, known.id, verbs::RejectReason::kRefused, {});
    known.is_gone = true;
    return true;
  }

  void establish(uint32_t s, Known& known) {
    sides_[s].transport.establish(now_, known.id);
    known.is_established = true;
  }
  void destroy(uint32_t s, Known& known) {
    sides_[s].transport.destroy(known.id);
    known.is_gone = true;
    known.is_asked = false;
    known.qp = nullptr;
    known.pending.clear();
  }

  void post(uint32_t s, Known& known, uint8_t how, bool fence) {
    Side& side = sides_[s];
    const verbs::WorkId id(next_work_++);
    const uint32_t size = kSizes[how & 7];
    const bool signaled = (how & 0x20) == 0;
    const verbs::Rkey key(key_.value() ^ ((how & 0xc0) == 0xc0 ? 1 : 0));
    const uint64_t address = sides_[0].memory.address_of(key_) + ((how & 0xc0) == 0x80 ? kRegion - size + 1 : 0);
    if ((how >> 3 & 3) == 0) {
      if (known.qp->post_read({.id = id, .rkey = key, .remote_address = address, .length = size, .fence = fence}).ok()) {
        known.pending.emplace(id.value(), true);
        known.reads.emplace(id.value(), size);
      }
      return;
    }
    const bool is_write = (how >> 3 & 3) == 1;
    const uint8_t byte = is_write ? kRegionByte : static_cast<uint8_t>(id.value());
    Chain payload;
    while (payload.bytes() < size) {
      Buffer* one = side.pool.allocate_one();
      if (one == nullptr) {
        return;
      }
      one->size = std::min(kBufferBytes, size - static_cast<uint32_t>(payload.bytes()));
      std::fill_n(one->data, one->size, byte);
      payload.push_back(one);
    }
    if (is_write) {
      if (known.qp
              ->post_write({.id = id,
                            .payload = std::move(payload),
                            .rkey = key,
                            .remote_address = address,
                            .fence = fence,
                            .signaled = signaled})
              .ok()) {
        known.pending.emplace(id.value(), signaled);
      }
    } else if (known.qp
                   ->post_send({.id = id,
                                .payload = std::move(payload),
                                .invalidate = (how >> 3 & 3) == 3 && fence ? std::optional(key) : std::nullopt,
                                .fence = fence,
                                .signaled = signaled})
                   .ok()) {
      known.pending.emplace(id.value(), signaled);
      wires_[known.wire].sends[known.end].emplace_back(byte, size);
    }
  }

  bool take_completions(uint32_t s, bool keeps) {
    Side& side = sides_[s];
    verbs::ReadyQueuePair ready;
    bool is_any = false;
    while (side.transport.poll_ready(ready)) {
      is_any = true;
      FUZZ_CHECK(ready.context < side.known.size());
      Known& known = side.known[ready.context];
      // A response that its user has not seen yet may have a queue pair already.
      FUZZ_CHECK(!known.is_gone && (known.qp == ready.queue_pair || (known.end == 0 && known.qp == nullptr)));
      known.error_was_told |= ready.queue_pair->in_error();
      verbs::Completion completion;
      while (ready.queue_pair->poll_completion(completion)) {
        take_completion(known, completion);
        if (keeps && !completion.payload.empty()) {
          side.kept.push_back(std::move(completion.payload));
        }
        completion.payload.clear();
      }
    }
    return is_any;
  }
  void take_completion(Known& known, const verbs::Completion& completion) {
    const bool is_fine = completion.status == verbs::WcStatus::kSuccess;
    if (verbs::is_receive(completion.opcode)) {
      auto& sends = wires_[known.wire].sends[1 - known.end];
      FUZZ_CHECK(is_fine && !sends.empty());
      FUZZ_CHECK(completion.payload.bytes() == sends.front().second && is_all(completion.payload, sends.front().first));
      sends.pop_front();
      return;
    }
    const auto pending = known.pending.find(completion.id.value());
    FUZZ_CHECK(pending != known.pending.end() && (pending->second || !is_fine));
    known.pending.erase(pending);
    if (completion.opcode == verbs::WcOpcode::kRdmaRead && is_fine) {
      FUZZ_CHECK(completion.payload.bytes() == known.reads.at(completion.id.value()));
      FUZZ_CHECK(is_all(completion.payload, kRegionByte));
    }
  }

  void check() {
    for (uint32_t s = 0; s < 2; ++s) {
      const IwarpTransport& transport = sides_[s].transport;
      uint32_t live = 0;
      for (const Wire& wire : wires_) {
        for (uint32_t end = 0; end < 2; ++end) {
          live += wire.ends[end].stream && wire.side_of(end) == s ? 1 : 0;
        }
      }
      FUZZ_CHECK(transport.live_count() == live);
      // Those that were established have the table's room: connections_max, half_open_max and parting_max together.
      FUZZ_CHECK(transport.half_open_count() <= 2 && transport.parting_stranger_count() <= 2 && transport.parting_count() <= 7);
    }
  }

  Instant now_ = Instant::from_ns(1'000'000'000);
  uint32_t mss_bytes_;
  std::vector<Wire> wires_ = reserved();
  std::array<uint8_t, kGuard + kRegion + kGuard> region_;
  verbs::Rkey key_;
  uint64_t next_work_ = 1;
  bool has_no_way_ = false;
  std::array<Side, 2> sides_;

  static std::vector<Wire> reserved() {
    std::vector<Wire> wires;
    wires.reserve(kWiresMax);  // the host is called back with references to them at hand
    return wires;
  }
};

Status Host::connect(StreamId stream, const IpAddress& /*server*/, uint16_t /*port*/) {
  if (world_.has_no_way_) {
    return fail(Error::kBadValue);
  }
  Wire& wire = world_.wires_.emplace_back();
  wire.caller_side = side_;
  wire.ends[0].stream = stream;
  return {};
}

void Host::finish(StreamId stream) {
  const auto [wire, end] = world_.find(side_, stream);
  FUZZ_CHECK(wire != nullptr && !std::exchange(wire->ends[end].is_finished, true));
  wire->ends[1 - end].fin_arriving = true;
}

void Host::release(StreamId stream, ReleaseKind kind) {
  const auto [wire, end] = world_.find(side_, stream);
  FUZZ_CHECK(wire != nullptr);
  wire->ends[end].stream.reset();
  wire->ends[end].arriving.clear();
  End& other = wire->ends[1 - end];
  other.fin_arriving = true;
  other.reset_arriving |= kind == ReleaseKind::kReset;
}

void run(Bytes input) {
  {
    World world(input[0]);
    constexpr size_t kRecord = 3;
    for (size_t at = 1; at + kRecord <= input.size(); at += kRecord) {
      world.step(input[at], input[at + 1], input[at + 2]);
    }
    // The process may end at any time.
    if ((input[0] & 0x80) == 0) {
      world.settle(has_few_works(input[0]));
      world.finish((input[0] & 0x40) != 0);
    }
    world.drop_all();
  }
  FUZZ_CHECK(heap_of(0).in_use() == 0 && heap_of(1).in_use() == 0);
}

}  // namespace
}  // namespace cw::iwarp

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 0 && size <= cw::iwarp::kInputBytesMax) {
    cw::iwarp::run({data, size});
  }
  return 0;
}
