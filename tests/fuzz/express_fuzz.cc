// The express path comes to the same as the general one: header prediction, prepared SENDs, call prediction, short replies in one
// step. Two sides live through the same frames, works and times, one with the express path and one without. After each step all
// that shows is the same: what became of a frame, each frame sent byte by byte, completions, calls, counters, state, deadlines,
// Buffers in use. Half of all inputs have a queue pair whose owner posts what the input says, half a ServerEndpoint on top of it.
//
// Input: [start][PSNs] and records of [what][a][b][c][d]. Of `start` bit 7: a ServerEndpoint; bit 6: memory is exposed, and only
// short calls and replies are taken; bit 5: no selective recovery; bit 4: acknowledgements wait for company; bit 3: receives are
// counted out to the peer; bit 2: the peer holds packets behind a gap; bit 1: payload has too little room before it for a frame
// to be built there; bit 0: the owner of a ServerEndpoint answers calls as it takes them. `PSNs`: how far both are from the wrap.
#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "apps/sim/faulty_link.h"
#include "apps/sim/rc_pair.h"
#include "base/heap_buffer_pool.h"
#include "rocev2/endpoint.h"
#include "rocev2/rc/header_prediction.h"
#include "rocev2/wire/cnp.h"
#include "rocev2/wire/ipv4.h"
#include "rpcrdma/endpoint/server_endpoint.h"
#include "rpcrdma/wire/transport_header.h"
#include "tests/fuzz/fuzz_target.h"

namespace cw {
namespace {

constexpr size_t kInputBytesMax = 256;
constexpr uint32_t kBufferBytes = 1024;
constexpr uint32_t kBuffers = 64;
constexpr uint32_t kHeads = 20;
constexpr uint32_t kSlots = 6;
constexpr uint32_t kCredits = 8;
constexpr uint32_t kLogEvents = 16;
constexpr uint32_t kRegion = 2048;
constexpr uint32_t kPsnCount = 1u << 24;
constexpr uint32_t kIp = 14;
constexpr uint32_t kRemoteQpn = 0x1234;

using Frame = std::vector<uint8_t>;
using Record = std::array<uint8_t, 5>;

// How often the express path was taken: else nothing has been compared.
struct Reached {
  uint64_t sends = 0;      // whole SENDs as a peer sends them, or one of these with something changed; before an error
  uint64_t predicted = 0;  // of these, and of whatever else was delivered
  uint64_t calls = 0;      // calls predicted
  uint64_t direct = 0;     // of these, answered as they were taken
  uint64_t in_place = 0;   // frames sent that were built around their payload
};
Reached reached;

// Made once, since what an input costs should be what it does.
struct Lasting {
  explicit Lasting(bool takes_express) : express(takes_express), shared(kSlots, pool) {}
  const bool express;
  HeapBufferPool pool{kBuffers, kBufferBytes, kBuffers};
  HeapBufferPool heads{kHeads, kBufferBytes + 160, 0};
  rpcrdma::ServerShared shared;
  std::array<uint8_t, kRegion> region{};
};
Lasting& lasting_of(bool express) {
  static Lasting with(true);
  static Lasting without(false);
  return express ? with : without;
}
HeapBufferPool& maker_pool() {
  static HeapBufferPool one(1, 4096, 0);
  return one;
}

// What a sender that means it does after a change: both sums are right again. Of what is IPv4 still.
void close_sums(Frame& frame) {
  if (frame.size() < rc::HeaderPrediction::kFrameBytesMin || frame[kIp] >> 4 != 4) {
    return;
  }
  store_be16(frame.data() + kIp + 10, 0);
  const uint64_t sum = wire::ipv4_sum(std::span<const uint8_t, wire::Ipv4::kSize>(frame.data() + kIp, wire::Ipv4::kSize));
  store_be16(frame.data() + kIp + 10, static_cast<uint16_t>(~wire::fold_ones_complement(sum)));
  const size_t end = frame.size() - wire::kIcrcBytes;
  store_le32(frame.data() + end, wire::Icrc(Bytes(frame).subspan(kIp, end - kIp)).value());
}

class Words {
 public:
  Words& add(std::initializer_list<uint32_t> words) {
    for (const uint32_t word : words) {
      const size_t at = raw_.size();
      raw_.resize(at + 4);
      store_be32(raw_.data() + at, word);
    }
    return *this;
  }
  Words& fill(size_t count, uint8_t with) {
    raw_.resize(raw_.size() + count, with);
    return *this;
  }
  void cut(size_t size) { raw_.resize(std::min(size, raw_.size())); }
  [[nodiscard]] const Frame& bytes() const { return raw_; }

 private:
  Frame raw_;
};

bool same_bytes(const Chain& one, const Chain& other) {
  return one.bytes() == other.bytes() && sim::bytes_of(one) == sim::bytes_of(other);
}

enum class Fate : uint8_t { kNoBuffer, kUnparsed, kBroken, kLeft, kTaken };

struct Taken {
  std::array<rpcrdma::CallId, 2> ids;  // with and without
  uint32_t xid = 0;
};

class Side {
 public:
  Side(bool express, uint8_t start, uint8_t psns)
      : served_((start & 0x80) != 0),
        exposes_((start & 0x40) != 0),
        headroom_is_short_((start & 0x02) != 0),
        answers_at_once_((start & 0x01) != 0),
        lasting_(lasting_of(express)),
        random_(7),
        memory_(2, random_),
        endpoint_(std::make_unique<Endpoint>(EndpointOptions{.qp_max = 1,
                                                             .send_work_max = 32,
                                                             .receive_work_max = 16,
                                                             .read_replay_max = 1,
                                                             .recovery = {.gaps_max = 1, .holds_max = 1, .held_packets_max = 16},
                                                             .rate_limits_max = 1,
                                                             .qpn_key = 99,
                                                             .log_events = kLogEvents,
                                                             .ack_delay = (start & 0x10) != 0 ? rc::kAckDelay : Duration(),
                                                             .express = express},
                                             random_, exposes_ ? &memory_ : nullptr)) {
    lasting_.region.fill(0xc5);
    key_ = *memory_.register_region(verbs::ProtectionDomain(7), lasting_.region, verbs::RemoteAccess::kReadWrite);
    connect(start, psns);
    if (served_) {
      serve(express);
    } else {
      qp_->post_receives(4);
    }
  }
  ~Side() {
    reached.calls += served_ ? lasting_.shared.predictions.calls_predicted : 0;
    reached.direct += served_ ? lasting_.shared.direct.calls : 0;
    server_.reset();
    hoard_.clear();
    endpoint_.reset();
    FUZZ_CHECK(lasting_.pool.in_use() == 0 && lasting_.heads.in_use() == 0);
  }
  Side(const Side&) = delete;
  Side& operator=(const Side&) = delete;

  // A burst, as node::Node::on_frames takes it. There are Buffers for all of it, or it is lost.
  std::vector<Fate> deliver(std::span<const Frame> raw, uint16_t port) {
    std::vector<Buffer*> frames(raw.size());
    if (!lasting_.pool.allocate(frames)) {
      return {Fate::kNoBuffer};
    }
    for (size_t i = 0; i < raw.size(); ++i) {
      (void)frames[i]->append(raw[i]);
    }
    std::vector<Fate> fates;
    while (fates.size() < frames.size()) {
      const size_t at = fates.size();
      if (rc::RcQp* who = endpoint_->predicting(frames[at]->bytes(), port)) {
        FUZZ_CHECK(lasting_.express && who == qp_ && raw[at].size() == frames[at]->size);
        const uint32_t taken = endpoint_->take_predicted(now, *who, std::span(frames).subspan(at));
        FUZZ_CHECK(taken > 0 && at + taken <= frames.size());
        reached.predicted += taken;
        fates.resize(at + taken, Fate::kTaken);
      } else {
        fates.push_back(take(frames[at], port));
      }
    }
    return fates;
  }
  Fate take(Buffer* frame, uint16_t port) {
    const auto view = wire::PacketView::parse(frame->bytes());
    const bool intact = view.ok() && wire::verify_icrc(*view);
    if (intact && endpoint_->on_packet(now, *view, frame, port)) {
      return Fate::kTaken;
    }
    release_buffers(frame);
    return !view.ok() ? Fate::kUnparsed : intact ? Fate::kLeft : Fate::kBroken;
  }

  // What has come to pass goes to the owner: true when there was something.
  bool tell_owner() {
    const bool told = endpoint_->poll_ready() != nullptr;
    if (told && server_) {
      if (answers_at_once_) {
        answer_at_once();
      } else {
        server_->on_completions(now);
      }
    }
    return told;
  }
  // As gateway::CallPath::serve with a program that answers here.
  void answer_at_once() {
    uint32_t left = 0;
    if (lasting_.express) {
      left = server_->take_direct(now);
    } else {
      server_->on_completions(now);
    }
    const bool some_are_direct = left > 0;
    Chain message;
    Chain answer;
    bool filled = true;
    uint64_t opened_bytes = 0;
    for (; left > 0; --left) {
      const uint32_t xid = server_->look_at_direct().header.xid;
      if (xid % 16 == 9) {
        break;
      }
      message = server_->open_direct();
      opened_bytes = message.bytes();
      filled = fill_answer(xid, message, answer);
      if (!filled || !server_->answer_direct(now, answer)) {
        break;
      }
      opened_bytes = 0;
      message.clear();
    }
    rpcrdma::Call call;  // holds its message until the next one is taken, on both sides
    if (some_are_direct) {
      server_->end_direct(now, message, opened_bytes);
      if (opened_bytes > 0 && server_->poll_call(now, call)) {
        server_->reply(now, call.id, std::move(answer));
      }
    }
    while (server_->poll_call(now, call)) {
      Chain other;
      (void)fill_answer(call.context->header.xid, call.message, other);
      server_->reply(now, call.id, std::move(other));
    }
  }
  void on_time() {
    endpoint_->on_deadline(now);
    for (uint32_t i = 0; server_ && i < 4 && server_->next_deadline() <= now; ++i) {
      server_->on_deadline(now);
    }
  }

  // One burst, with so many heads to be had.
  std::vector<Frame> transmit(uint32_t heads) {
    Chain others;  // have the rest of them
    for (uint32_t i = heads; i < kHeads; ++i) {
      others.push_back(lasting_.heads.allocate_one());
    }
    wire::TxBatch batch(lasting_.heads);
    endpoint_->poll_transmit(now, batch);
    std::vector<Frame> frames;
    for (const wire::TxPacket& packet : batch.packets()) {
      reached.in_place += lasting_.express && packet.is_in_place() ? 1 : 0;
      frames.push_back(packet.raw());
    }
    return frames;
  }

  [[nodiscard]] bool fill(const Frame& raw, size_t piece, Chain& out) {
    for (Bytes left(raw); !left.empty();) {
      Buffer* buffer = lasting_.pool.allocate_one();
      if (buffer == nullptr) {
        out.clear();
        return false;
      }
      if (headroom_is_short_) {
        buffer->headroom_bytes = std::min<decltype(buffer->headroom_bytes)>(buffer->headroom_bytes, 40);
      }
      left = left.subspan(buffer->append(left.first(std::min(piece, left.size()))));
      out.push_back(buffer);
    }
    return true;
  }
  // Some do not leave as they are: another XID, long, in pieces, or none for want of Buffers. Some take the Buffer of their call.
  [[nodiscard]] bool fill_answer(uint32_t xid, Chain& call, Chain& out) {
    Words message;
    message.add({xid % 32 == 5 ? xid + 1 : xid, 1, 0, 0, 0, 0});
    message.fill(size_t{4} * (xid % 32 == 11 ? 96 : xid % 8), static_cast<uint8_t>(xid));
    const Frame& raw = message.bytes();
    const bool may_take = xid % 4 == 2 && call.buffer_count() == 1 && call.head()->headroom_bytes > 0;
    if (!may_take || call.bytes() < raw.size()) {
      return fill(raw, xid % 32 == 17 ? 10 : kBufferBytes, out);
    }
    call.give_up_front(call.bytes() - raw.size());
    std::ranges::copy(raw, call.head()->data);
    out = std::move(call);
    return true;
  }
  void hoard(uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) {
      if (Buffer* buffer = lasting_.pool.allocate_one(); buffer != nullptr) {
        hoard_.push_back(buffer);
      }
    }
  }
  void unhoard() { hoard_.clear(); }
  void end_service() { server_.reset(); }
  void destroy() { endpoint_->destroy_qp(*std::exchange(qp_, nullptr)); }

  [[nodiscard]] rc::RcQp* qp() { return qp_; }
  [[nodiscard]] Endpoint& endpoint() { return *endpoint_; }
  [[nodiscard]] rpcrdma::ServerEndpoint* server() { return server_ ? &*server_ : nullptr; }
  [[nodiscard]] Lasting& lasting() { return lasting_; }
  [[nodiscard]] verbs::Rkey key() const { return key_; }
  [[nodiscard]] uint64_t address() const { return memory_.address_of(key_); }
  Instant now = Instant::from_ns(1'000'000'000);

 private:
  void connect(uint8_t start, uint8_t psns) {
    rc::RcOptions options;
    options.send_queue_depth = 16;
    options.send_window_packets = 8;
    options.read_request_packets = 4;
    options.read_window_packets = 8;
    options.receive_bytes_max = served_ ? 1024 : 200;
    options.domain = verbs::ProtectionDomain(7);
    options.selective_recovery = (start & 0x20) == 0;
    options.advertise_credits = (start & 0x08) != 0;
    if (exposes_) {
      options.remote_access = verbs::RemoteAccess::kReadWrite;
      options.responder_resources_max = 16;
    }
    qp_ = *endpoint_->create_qp(options);
    rc::RcConnect connect{.path_mtu_bytes = served_ ? 1024u : 256u,
                          .initiator_depth = 4,
                          .responder_resources = 4,
                          .retry_count = 3,
                          .ack_timeout = 8};
    connect.path = sim::RcPair::path(0);
    connect.remote_qpn = verbs::Qpn(kRemoteQpn);
    connect.local_first_psn = wire::Psn((kPsnCount - (psns >> 4)) % kPsnCount);
    connect.remote_first_psn = wire::Psn((kPsnCount - (psns & 15)) % kPsnCount);
    connect.peer_hold_packets = (start & 0x04) != 0 ? 64 : 0;
    FUZZ_CHECK(endpoint_->connect_qp(*qp_, connect).ok());
  }
  void serve(bool express) {
    rpcrdma::ServerShared& shared = lasting_.shared;
    shared.calls = std::make_unique<rpcrdma::ServerCallTable>(kSlots);
    shared.stats = rpcrdma::RpcRdmaStats();
    shared.predictions.calls_predicted = 0;
    shared.direct.calls = 0;
    shared.express = express;
    while (!shared.done.empty()) {
      (void)shared.done.pop();
    }
    rpcrdma::ServerOptions options;
    options.credits = kCredits;
    options.read_unit_bytes = kBufferBytes;
    options.reads_in_flight_max = 3;
    options.read_bytes_in_flight_max = 4096;
    options.call_bytes_max = exposes_ ? 90 : 4096;
    options.reply_bytes_max = exposes_ ? 60 : 4096;
    server_.emplace(shared, *qp_, options,
                    rpcrdma::InlineThresholds{.send_bytes = 512, .receive_bytes = 1024, .remote_invalidation = true});
    server_->start();
  }

  bool served_;
  bool exposes_;
  bool headroom_is_short_;
  bool answers_at_once_;
  Lasting& lasting_;
  SeededRandom random_;
  verbs::MemoryTable memory_;
  verbs::Rkey key_;
  std::unique_ptr<Endpoint> endpoint_;
  rc::RcQp* qp_ = nullptr;
  std::optional<rpcrdma::ServerEndpoint> server_;
  Chain hoard_;
};

class Target {
 public:
  Target(uint8_t start, uint8_t psns)
      : with_(true, start, psns), without_(false, start, psns), answers_at_once_((start & 0x01) != 0) {
    FUZZ_CHECK(with_.key() == without_.key() && with_.qp()->local_qpn() == without_.qp()->local_qpn());
    check();
  }

  void act(const Record& r) {
    switch (r[0] % 20) {
      case 0:
      case 1:
      case 2:
      case 3:
      case 4:
        exchange(r[1], r[2], r[3], r[4]);
        break;
      case 5:
      case 6:
        altered(r);
        break;
      case 7:
        packet(r[1], r[2], r[3], r[4]);
        break;
      case 8:
      case 9:
        acknowledge(r[1], r[2]);
        break;
      case 10:
      case 11:
        with_.server() != nullptr ? reply(r[1], r[2], r[3]) : post(r[1], r[2], r[3]);
        break;
      case 12:
        if (with_.server() != nullptr) {
          poll_call();
        } else {
          both([&](Side& side) { side.qp()->post_receives(r[1] % 8); });
        }
        break;
      case 13:
        pass(Duration::us(int64_t{1} << (r[1] % 20)));
        break;
      case 14:
        both([&](Side& side) {
          side.endpoint().set_watermark(r[1] % 4 == 0 ? static_cast<BufferWatermark>(r[2] % 3) : BufferWatermark::kPlenty);
        });
        break;
      case 15:
        drain_or_resume(r[1]);
        break;
      case 16:
        with_.server() != nullptr ? change_service(r[1], r[2]) : complete();
        break;
      case 17:
      case 18:
        transmit(r[1] % 4 == 0 ? r[2] % kHeads : kHeads, 1 + r[3] % 4);
        break;
      default:
        disturb(r[1], r[2]);
        break;
    }
    tell_owner();
    check();
    left_ -= with_.qp()->in_error() ? 1 : 0;
  }
  // In Error little is left to compare, so that an input ends soon after.
  [[nodiscard]] bool is_over() const { return left_ == 0; }

  void end() {
    both([](Side& side) { side.unhoard(); });
    transmit(kHeads, 4);
    both([](Side& side) {
      side.end_service();
      side.qp()->close();
    });
    complete();
    check();
    for (uint32_t left = 200; with_.endpoint().has_work() && left > 0; --left) {
      transmit(kHeads, 1);
    }
    check();
    check_log();
    FUZZ_CHECK(with_.lasting().region == without_.lasting().region);
    both([](Side& side) { side.destroy(); });
    transmit(kHeads, 1);
    check_stats();
  }

 private:
  template <typename Do>
  void both(Do&& act) {
    act(with_);
    act(without_);
  }
  // Says the same of both.
  template <typename Do>
  auto same(Do&& act) {
    auto one = act(with_);
    FUZZ_CHECK(one == act(without_));
    return one;
  }

  // The peer's frames. Its next SEND of one packet: `size` says how long it is and, of a call, its form.
  Frame send_of(uint8_t size, uint8_t flags, int32_t ahead, uint16_t udp_port) {
    reached.sends += with_.qp()->in_error() ? 0 : 1;
    wire::Bth bth;
    bth.opcode = wire::Opcode::kRcSendOnly;
    bth.psn = with_.qp()->info().expected_psn.plus(static_cast<uint32_t>(ahead));
    bth.ack_request = (flags & 1) == 0;
    bth.solicited = (flags & 2) != 0;
    const uint32_t bytes = size < 210 ? 4u * (size % 50) : size == UINT8_MAX ? 204u : size - 130u;
    return frame_of(bth, {}, with_.server() != nullptr ? call_of(size) : Frame(bytes, size), udp_port);
  }
  Frame call_of(uint8_t form) {
    const uint32_t xid = next_xid_++;
    Words out;
    out.add({xid, 1, 16, 0});
    const uint32_t flavor = form % 16 == 13 ? 1 : 0;
    if (form % 16 == 14) {  // with a Reply chunk
      out.add({0, 0, 1, 1, 0x41, 0x2000, 0, 0x8000});
    } else if (form % 16 == 15) {  // part of it is to be read
      out.add({1, 40, 0x22, uint32_t{form} * 4, 0, 0x1000, 0, 0, 0});
    } else {
      out.add({0, 0, 0});
    }
    out.add({xid, 0, 2, rpcrdma::kBenchProgram, rpcrdma::kBenchVersion, form % 3u, flavor});
    flavor == 1 ? out.add({12, 1, 2, form / 128u}) : out.add({0});
    out.add({0, 0});
    return out.fill(size_t{12} * (form / 16), form).bytes();
  }
  Frame frame_of(wire::Bth bth, const wire::Extensions& extensions, const Frame& payload, uint16_t udp_port) {
    wire::TxPacket packet;
    packet.head = maker_pool().allocate_one();
    bth.destination = with_.qp()->local_qpn();
    wire::Path path = sim::RcPair::path(1);
    path.udp_source_port = udp_port;
    wire::build_packet(packet, wire::PathHeader(path), next_identification_++, bth, extensions, Bytes(payload));
    Frame frame = packet.raw();
    release_buffers(packet.head);
    return frame;
  }
  void altered(const Record& r) {
    static constexpr std::array<int32_t, 8> kAhead{0, 0, 0, 0, -1, 1, -2, 3};
    const uint8_t flags = r[2];
    const uint16_t udp_port = sim::RcPair::path(1).udp_source_port + ((flags & 0x20) != 0 ? 1 : 0);
    Frame frame = send_of(r[1], flags & 3, kAhead[(flags >> 2) & 7], udp_port);
    if (r[3] != 0) {
      frame[(r[3] - 1u) % frame.size()] ^= r[4];
      if ((flags & 0x80) == 0) {
        close_sums(frame);
      }
    } else if (r[4] % 4 == 1) {
      frame.resize(r[4] * size_t{2});
    }
    if ((flags & 0x40) != 0 && frame.size() > 34) {
      sim::mark_ipv4(frame);
    }
    deliver(frame, r[1] == 0xfe ? 1 : 0);  // by another port
  }
  // Of any kind: how far from where it should be, AETH syndrome or what else varies, payload in words of four bytes.
  void packet(uint8_t code, uint8_t distance, uint8_t variant, uint8_t words) {
    const auto opcode = static_cast<wire::Opcode>(code);
    const wire::OpcodeTraits& traits = wire::traits_of(opcode);
    if (traits.kind == wire::OpcodeKind::kReserved) {
      return;
    }
    wire::Bth bth = opcode == wire::Opcode::kCnp ? wire::cnp_bth(with_.qp()->local_qpn()) : wire::Bth();
    const rc::RcQpInfo info = with_.qp()->info();
    bth.opcode = opcode;
    bth.ack_request = (variant & 1) != 0;
    const auto ahead = static_cast<uint32_t>(static_cast<int32_t>(static_cast<int8_t>(distance)));
    bth.psn = (traits.is_request ? info.expected_psn : info.una).plus(ahead);
    wire::Extensions extensions;
    extensions.aeth.syndrome = variant;
    extensions.reth.address = with_.address() + (variant & 0xf) * uint64_t{150};
    extensions.reth.rkey = with_.key();
    extensions.reth.length = uint32_t{words} * ((variant & 0x40) != 0 ? 40 : 4);
    extensions.invalidate = (variant & 0x20) != 0 ? with_.key() : verbs::Rkey(3);
    const size_t bytes = opcode == wire::Opcode::kCnp ? wire::kCnpReservedBytes
                         : traits.may_carry_payload   ? std::min<size_t>(size_t{words} * 4, 800)
                                                      : 0;
    deliver(frame_of(bth, extensions, Frame(bytes, opcode == wire::Opcode::kCnp ? uint8_t{0} : words),
                     sim::RcPair::path(1).udp_source_port),
            0);
  }
  // The peer answers some of what was sent: an acknowledgement, a NAK, or to wait.
  void acknowledge(uint8_t how_many, uint8_t kind) {
    const rc::RcQpInfo info = with_.qp()->info();
    const uint32_t in_flight = info.packets_in_flight;
    wire::Bth bth;
    bth.opcode = wire::Opcode::kRcAcknowledge;
    const uint32_t last = in_flight == 0 ? 0 : in_flight - 1;
    bth.psn = info.una.plus(kind >= 0xf0 ? how_many : std::min<uint32_t>(how_many, last));
    wire::Extensions extensions;
    extensions.aeth.msn = kind;
    extensions.aeth.syndrome = kind % 8 == 0   ? uint8_t{0x60}                                    // out of sequence
                               : kind % 8 == 1 ? static_cast<uint8_t>(0x20 | (1 + kind / 8 % 4))  // no receive
                               : kind % 8 == 2 ? static_cast<uint8_t>(kind / 8)                   // so many receives
                                               : wire::Aeth::kCreditsInvalid;
    deliver(frame_of(bth, extensions, {}, sim::RcPair::path(1).udp_source_port), 0);
  }
  void deliver(std::span<const Frame> frames, uint16_t port) {
    (void)same([&](Side& side) { return side.deliver(frames, port); });
    tell_owner();
  }
  void deliver(const Frame& frame, uint16_t port) { deliver(std::span(&frame, 1), port); }
  void tell_owner() {
    while (same([](Side& side) { return side.tell_owner(); })) {
    }
  }

  // The peer's next SEND, and most often what follows: the owner serves it, and the peer acknowledges the answer. A solicited one
  // is not like its neighbours, and rare. Some come in a row.
  void exchange(uint8_t size, uint8_t flags, uint8_t kind, uint8_t answer) {
    const bool solicited = (flags & 0x0a) == 0x0a;
    std::vector<Frame> row((flags & 0x10) == 0 ? 1 : 2 + kind % 4);
    for (size_t i = 0; i < row.size(); ++i) {
      const auto form = static_cast<uint8_t>(size + ((flags & 0x80) == 0 ? 0 : 37 * i));
      row[i] = send_of(form, static_cast<uint8_t>((flags & 1) | (solicited ? 2 : 0)), static_cast<int32_t>(i),
                       sim::RcPair::path(1).udp_source_port);
    }
    deliver(row, 0);
    for (size_t i = 0; i < row.size() && (flags & 0x04) == 0; ++i) {
      owner_serves(kind, answer);
    }
    if ((flags & 0x60) == 0 && with_.qp()->info().works_queued > 0) {
      transmit(kHeads, 2);
      acknowledge(UINT8_MAX, 7);
    }
  }
  // The owner at once takes and answers what has come.
  void owner_serves(uint8_t kind, uint8_t size) {
    if (with_.server() == nullptr) {
      complete();
      both([](Side& side) {
        if (side.qp()->info().receives_posted < 4) {
          side.qp()->post_receives(1);
        }
      });
      return;
    }
    poll_call();
    if (kind % 4 != 0) {
      reply(0, kind & 0x0c, size);
    }
  }
  void post(uint8_t kind, uint8_t size, uint8_t more) {
    const Frame payload(size_t{size} + (more % 8 == 0 ? size_t{more} * 5 : 0), more);
    if (kind % 16 == 8) {
      (void)same([&](Side& side) {
        return side.qp()
            ->post_read(verbs::ReadRequest{
                .id = verbs::WorkId(next_id_), .rkey = verbs::Rkey(9), .remote_address = 0x1000, .length = size * 4u})
            .ok();
      });
    } else {
      (void)same([&](Side& side) {
        Chain chain;
        if (!side.fill(payload, kind >= 0xe0 ? 50 : kBufferBytes, chain)) {
          return false;
        }
        if (kind % 16 == 9) {
          verbs::WriteRequest request{.id = verbs::WorkId(next_id_), .payload = std::move(chain)};
          request.rkey = verbs::Rkey(9);
          request.remote_address = 0x1000;
          return side.qp()->post_write(std::move(request)).ok();
        }
        verbs::SendRequest request{.id = verbs::WorkId(next_id_), .payload = std::move(chain)};
        request.solicited = kind % 16 == 10;
        request.fence = kind % 16 == 11;
        request.signaled = (kind & 0x10) == 0;
        if (kind % 16 == 12) {
          request.immediate = 5;
        } else if (kind % 16 == 13) {
          request.invalidate = verbs::Rkey(9);
        }
        return side.qp()->post_send(std::move(request)).ok();
      });
    }
    ++next_id_;
  }
  void poll_call() {
    std::array<rpcrdma::Call, 2> calls;
    const bool polled = with_.server()->poll_call(with_.now, calls[0]);
    FUZZ_CHECK(without_.server()->poll_call(without_.now, calls[1]) == polled);
    if (!polled) {
      return;
    }
    FUZZ_CHECK(answers_at_once_ || calls[0].id == calls[1].id);  // one side has had more slots
    FUZZ_CHECK(calls[0].received == calls[1].received);
    FUZZ_CHECK(same_bytes(calls[0].message, calls[1].message) && calls[0].message.bytes() >= 4);
    const rpcrdma::CallContext& one = *calls[0].context;
    const rpcrdma::CallContext& other = *calls[1].context;
    FUZZ_CHECK(std::memcmp(&one.header, &other.header, sizeof(one.header)) == 0 && one.binding == other.binding);
    std::array<uint8_t, 4> xid;
    calls[0].message.copy_to(0, xid);
    taken_.push_back({{calls[0].id, calls[1].id}, load_be32(xid.data())});
  }
  void reply(uint8_t which, uint8_t kind, uint8_t size) {
    if (taken_.empty()) {
      return;
    }
    const auto at = taken_.begin() + which % static_cast<std::ptrdiff_t>(taken_.size());
    const Taken taken = *at;
    taken_.erase(at);
    Words message;
    message.add({(kind & 0x10) != 0 ? taken.xid + 1 : taken.xid, 1, 0, 0, 0, 0});
    message.fill((kind & 0x40) != 0 ? size_t{size} * 16 : size_t{4} * (size % 96), size);
    if ((kind & 0x20) != 0) {
      message.cut(size % 32);
    }
    both([&](Side& side) {
      Chain chain;
      if (side.fill(message.bytes(), (kind & 0x80) != 0 ? 40 : kBufferBytes, chain)) {
        side.server()->reply(side.now, taken.ids[&side == &with_ ? 0 : 1], std::move(chain));
      }
    });
  }

  // Fewer or more credits from here on; or one of the next calls is to be refused.
  void change_service(uint8_t what, uint8_t which) {
    if (what < 0xc0) {
      both([&](Side& side) { side.server()->set_grant(1 + what % kCredits); });
    } else {
      both([&](Side& side) { side.server()->refuse_xid(next_xid_ + which % 4); });
    }
  }

  void complete() {
    for (;;) {
      verbs::Completion one;
      verbs::Completion other;
      const bool polled = with_.qp()->poll_completion(one);
      FUZZ_CHECK(without_.qp()->poll_completion(other) == polled);
      if (!polled) {
        return;
      }
      FUZZ_CHECK(one.opcode == other.opcode && one.status == other.status && one.bytes == other.bytes);
      // The identifier of a READ of ours is its call's slot, of which one side has had more.
      const bool is_of_slot = answers_at_once_ && one.opcode == verbs::WcOpcode::kRdmaRead;
      FUZZ_CHECK(is_receive(one.opcode) || is_of_slot || one.id == other.id);
      FUZZ_CHECK(same_bytes(one.payload, other.payload) && one.immediate == other.immediate && one.begun == other.begun);
      FUZZ_CHECK(one.solicited == other.solicited && one.invalidated == other.invalidated && one.original == other.original);
    }
  }
  void transmit(uint32_t heads, uint32_t bursts) {
    for (uint32_t i = 0; i < bursts; ++i) {
      if (same([&](Side& side) { return side.transmit(heads); }).empty()) {
        return;
      }
    }
  }
  // As a poll core does: whoever has something to send has had his turn before time passes.
  void pass(Duration duration) {
    transmit(kHeads, 4);
    both([&](Side& side) {
      side.now = side.now + duration;
      side.on_time();
    });
  }
  void drain_or_resume(uint8_t what) {
    if (what % 2 == 0 || with_.qp()->state() != rc::QpState::kSqd) {
      (void)same([](Side& side) { return side.qp()->drain().ok(); });
    } else {
      (void)same([](Side& side) { return side.endpoint().to_rts(*side.qp()).ok(); });
    }
  }
  // Somebody else takes Buffers and gives them back; nothing more comes; the owner ends it.
  void disturb(uint8_t what, uint8_t count) {
    if (what < 0x50) {
      both([&](Side& side) { side.hoard(1u + count % kBuffers); });
    } else if (what < 0xa0) {
      both([](Side& side) { side.unhoard(); });
    } else if (what < 0xfa) {
      both([](Side& side) { side.endpoint().flush_acknowledgements(); });
    } else {
      both([](Side& side) { side.qp()->close(); });
    }
  }

  void check() {
    check_stats();
    rc::RcQp& one = *with_.qp();
    rc::RcQp& other = *without_.qp();
    FUZZ_CHECK(one.is_consistent() && other.is_consistent());
    const rc::RcQpInfo info = one.info();
    const rc::RcQpInfo same = other.info();
    FUZZ_CHECK(std::memcmp(&info.counters, &same.counters, sizeof(info.counters)) == 0);
    FUZZ_CHECK(info.state == same.state && info.error.cause == same.error.cause && info.error.psn == same.error.psn);
    FUZZ_CHECK(info.una == same.una && info.next_psn == same.next_psn && info.limit_psn == same.limit_psn);
    FUZZ_CHECK(info.expected_psn == same.expected_psn && info.msn == same.msn && info.gap == same.gap);
    FUZZ_CHECK(info.packets_in_flight == same.packets_in_flight && info.works_queued == same.works_queued);
    FUZZ_CHECK(info.reads_outstanding == same.reads_outstanding && info.receives_posted == same.receives_posted);
    FUZZ_CHECK(info.retries == same.retries && info.rnr_retries == same.rnr_retries && info.round_trip == same.round_trip);
    FUZZ_CHECK(info.rate_bytes_per_second == same.rate_bytes_per_second && info.waiting_rnr == same.waiting_rnr);
    FUZZ_CHECK(info.recovering == same.recovering && info.credit_limited == same.credit_limited);
    FUZZ_CHECK(!info.credit_limited || info.credits_left == same.credits_left);
    FUZZ_CHECK(one.drained() == other.drained() && one.owes_refusal() == other.owes_refusal());
    FUZZ_CHECK(one.communication_established() == other.communication_established());
    FUZZ_CHECK(one.send_queue_room() == other.send_queue_room());
    if (with_.server() != nullptr) {
      check_server(*with_.server(), *without_.server());
    }
  }
  void check_stats() {
    Endpoint& one = with_.endpoint();
    Endpoint& other = without_.endpoint();
    FUZZ_CHECK(std::memcmp(&one.stats(), &other.stats(), sizeof(rc::RcStats)) == 0);
    FUZZ_CHECK(one.has_work() == other.has_work() && one.next_deadline() == other.next_deadline());
    FUZZ_CHECK(one.log().size() == other.log().size() && one.log().overwritten() == other.log().overwritten());
    FUZZ_CHECK(with_.lasting().pool.in_use() == without_.lasting().pool.in_use());
  }
  void check_server(rpcrdma::ServerEndpoint& one, rpcrdma::ServerEndpoint& other) {
    rpcrdma::ServerShared& shared = with_.lasting().shared;
    rpcrdma::ServerShared& others = without_.lasting().shared;
    FUZZ_CHECK(std::memcmp(&shared.stats, &others.stats, sizeof(rpcrdma::RpcRdmaStats)) == 0);
    FUZZ_CHECK(shared.done.size() == others.done.size() && shared.calls->in_use() == others.calls->in_use());
    FUZZ_CHECK(shared.reply_bytes == others.reply_bytes && shared.pulled_units == others.pulled_units);
    FUZZ_CHECK(one.is_consistent() && other.is_consistent());
    FUZZ_CHECK(one.failed() == other.failed() && one.failure() == other.failure());
    FUZZ_CHECK(one.calls_in_flight() == other.calls_in_flight() && one.calls_taken() == other.calls_taken());
    FUZZ_CHECK(one.calls_answered() == other.calls_answered() && one.credits_granted() == other.credits_granted());
    FUZZ_CHECK(one.next_deadline() == other.next_deadline() && one.next_xid() == other.next_xid());
  }
  void check_log() {
    std::array<verbs::TransportEvent, kLogEvents> one;
    std::array<verbs::TransportEvent, kLogEvents> other;
    const uint32_t count = with_.endpoint().log().copy(one);
    FUZZ_CHECK(without_.endpoint().log().copy(other) == count);
    for (uint32_t i = 0; i < count; ++i) {
      FUZZ_CHECK(one[i].at == other[i].at && one[i].first == other[i].first && one[i].local_qpn == other[i].local_qpn);
      FUZZ_CHECK(one[i].sequence == other[i].sequence && one[i].count == other[i].count);
      FUZZ_CHECK(one[i].event == other[i].event && one[i].reason == other[i].reason);
    }
  }

  Side with_;
  Side without_;
  bool answers_at_once_;
  std::deque<Taken> taken_;
  uint32_t left_ = 6;  // records in Error
  uint32_t next_xid_ = 1;
  uint64_t next_id_ = 1;
  uint16_t next_identification_ = 1;
};

}  // namespace
}  // namespace cw

// The corpus takes the express path often, or it proves nothing.
extern "C" void fuzz_after_corpus() {
  const cw::Reached& reached = cw::reached;
  std::printf("%llu whole SENDs, %llu frames predicted, %llu calls predicted, %llu of them direct, %llu frames sent in place\n",
              static_cast<unsigned long long>(reached.sends), static_cast<unsigned long long>(reached.predicted),
              static_cast<unsigned long long>(reached.calls), static_cast<unsigned long long>(reached.direct),
              static_cast<unsigned long long>(reached.in_place));
  FUZZ_CHECK(reached.predicted * 4 > reached.sends && reached.calls > 0 && reached.direct > 0 && reached.in_place > 0);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2 || size > cw::kInputBytesMax) {
    return 0;
  }
  cw::Target target(data[0], data[1]);
  cw::Record record{};
  for (size_t at = 2; at + record.size() <= size && !target.is_over(); at += record.size()) {
    std::copy_n(data + at, record.size(), record.begin());
    target.act(record);
  }
  target.end();
  return 0;
}
