// One queue pair from each state that it can be in, and a peer that sends whatever it likes over the right path, near the right
// PSNs: requests, responses and acknowledgements of every kind, in between posts, completions, time, a pool that runs dry. After
// each step the queue pair is consistent; every work that was posted ends in exactly one completion; memory beside the registered
// region is never touched; what is sent in Error is what a refusal may send (Farewell); and in the end nobody owns a buffer.
//
// Input: [start] and records of [what][a][b][c][d]. Of `start` the top bit says that memory is exposed, the next that the peer is
// a Causeway.
#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "apps/sim/rc_pair.h"
#include "base/heap_buffer_pool.h"
#include "rocev2/endpoint.h"
#include "tests/fuzz/fuzz_target.h"

namespace cw::rc {
namespace {

constexpr uint32_t kMtu = 256;
constexpr uint32_t kReadRequestPackets = 4;
constexpr uint32_t kReadWindowPackets = 8;
constexpr uint32_t kRegion = 2048;
constexpr uint32_t kGuard = 512;
constexpr uint8_t kCanary = 0xc5;
constexpr size_t kInputBytesMax = 512;
constexpr uint32_t kHeads = 12;

enum class Start : uint8_t { kInit, kRtr, kIdle, kSending, kReading, kReceiving, kNotReady, kAnswering, kError, kCount };

// What a queue pair may still send in Error. One that failed on its own, or was closed, sends nothing. One that refused a request
// answers the READs before it, in order, each to its end, and then sends the NAK, and nothing more (IBA 9.7.5.2).
class Farewell {
 public:
  void on_read_request(wire::Psn psn, uint32_t bytes, wire::Psn expected) {
    asked_.push_back({psn, std::max((bytes + kMtu - 1) / kMtu, 1u), expected.distance_to(psn) < 0});
  }
  void on_read_accepted(wire::Psn psn) { owed_.push_back(psn); }
  void on_error(bool owes_refusal, wire::Psn refused) {
    in_error_ = true;
    owes_nak_ = owes_refusal;
    refused_ = refused;
  }
  // Requests are forgotten, but not the NAK.
  void on_destroyed() { is_destroyed_ = true; }

  // Each packet that is sent, in any state. `in_error`: it was when it began to send.
  void on_packet_sent(bool in_error, const wire::PacketView& view) {
    FUZZ_CHECK(!in_error || (in_error_ && owes_nak_));
    if (view.traits->kind == wire::OpcodeKind::kReadResponse) {
      on_response(in_error, view);
    } else if (in_error) {
      FUZZ_CHECK(view.traits->kind == wire::OpcodeKind::kAcknowledge && view.aeth().kind() == wire::AethKind::kNak);
      FUZZ_CHECK(view.aeth().code() != static_cast<uint8_t>(wire::NakCode::kPsnSequenceError));
      FUZZ_CHECK(view.bth.psn == refused_ && (is_destroyed_ || (!is_within_ && owed_.empty())));
      owes_nak_ = false;
    }
  }

 private:
  struct Asked {
    wire::Psn psn;
    uint32_t packets;
    bool repeats;
  };
  void on_response(bool in_error, const wire::PacketView& view) {
    const wire::Psn psn = view.bth.psn;
    FUZZ_CHECK(!in_error || (!is_destroyed_ && psn.distance_to(refused_) > 0));
    if (view.traits->starts_message()) {
      // A request that repeats one, or a part of one, has its place by when it came.
      bool repeats = false;
      for (const Asked& asked : asked_) {
        left_ = asked.psn == psn ? std::max(left_, asked.packets) : left_;
        repeats |= asked.psn == psn && asked.repeats;
      }
      FUZZ_CHECK(!is_within_ && left_ > 0);
      FUZZ_CHECK(repeats || !fresh_ || fresh_->distance_to(psn) > 0);
      fresh_ = repeats ? fresh_ : psn;
      std::erase(owed_, psn);
    } else {
      FUZZ_CHECK(is_within_ && last_.next() == psn && left_ > 0);
    }
    --left_;
    last_ = psn;
    is_within_ = !view.traits->ends_message();
    left_ = is_within_ ? left_ : 0;
  }

  std::vector<Asked> asked_;
  std::vector<wire::Psn> owed_;     // requests that have been accepted and not answered
  std::optional<wire::Psn> fresh_;  // of the last request answered for the first time
  wire::Psn last_;                  // of the last response
  uint32_t left_ = 0;               // responses that its request still asks for
  bool is_within_ = false;          // the answer to one request is not complete
  bool in_error_ = false;
  bool owes_nak_ = false;
  bool is_destroyed_ = false;
  wire::Psn refused_;
};

// Made once, since what an input costs should be what it does.
HeapBufferPool& packet_pool() {
  static HeapBufferPool one(48, 1024, 48);
  return one;
}
HeapBufferPool& head_pool() {
  static HeapBufferPool one(kHeads, 1024, 0);
  return one;
}

class Target {
 public:
  explicit Target(uint8_t start)
      : exposes_((start & 0x80) != 0),
        causeway_((start & 0x40) != 0),
        random_(7),
        memory_(2, random_),
        pool_(packet_pool()),
        endpoint_(std::make_unique<Endpoint>(EndpointOptions{.qp_max = 1,
                                                             .send_work_max = 32,
                                                             .receive_work_max = 16,
                                                             .read_replay_max = 1,
                                                             .recovery = {.gaps_max = 1, .holds_max = 1, .held_packets_max = 16},
                                                             .log_events = 16},
                                             random_, exposes_ ? &memory_ : nullptr)) {
    guarded_.fill(kCanary);
    const MutableBytes region(guarded_.data() + kGuard, kRegion);
    key_ = *memory_.register_region(verbs::ProtectionDomain(7), region, verbs::RemoteAccess::kReadWrite);
    RcOptions options;
    options.send_queue_depth = 16;
    options.send_window_packets = 8;
    options.read_request_packets = kReadRequestPackets;
    options.read_window_packets = kReadWindowPackets;
    options.receive_bytes_max = 1000;
    options.domain = verbs::ProtectionDomain(7);
    if (exposes_) {
      options.remote_access = verbs::RemoteAccess::kReadWrite;
      options.responder_resources_max = 16;
    }
    qp_ = *endpoint_->create_qp(options);
    reach(static_cast<Start>((start & 0x3f) % static_cast<uint8_t>(Start::kCount)));
  }

  void act(const std::array<uint8_t, 5>& r) {
    switch (r[0] % 10) {
      case 0:
      case 1:
      case 2:
        return packet(r[1], r[2], r[3], r[4]);
      case 3:
        return send((uint32_t{r[1]} << 8 | r[2]) % 1500, (r[3] & 1) != 0);
      case 4:
        return read((uint32_t{r[1]} << 8 | r[2]) % 3000);
      case 5:
        return write((uint32_t{r[1]} << 8 | r[2]) % 1500);
      case 6:
        return (r[2] & 1) == 0 ? qp_->post_receives(r[1] % 8) : row(r[1] % 8, r[3], r[4]);
      case 7:
        now_ = now_ + Duration::us(int64_t{1} << (r[1] % 32));
        endpoint_->on_deadline(now_);
        return;
      case 8:
        return transmit(r[1] % 12);
      default:
        complete();
        if (r[1] == 0xff) {
          qp_->close();
        }
        return;
    }
  }

  void check() {
    FUZZ_CHECK(qp_->is_consistent());
    note_error();
  }

  void end() {
    qp_->close();
    FUZZ_CHECK(qp_->in_error());
    complete();
    FUZZ_CHECK(posted_.empty());
    note_error();
    // Up to 16 answers of the whole region, and the NAK.
    for (uint32_t left = 16 * kRegion / kMtu + 1; endpoint_->has_work() && left > 0; --left) {
      transmit(kHeads);
    }
    FUZZ_CHECK(!endpoint_->has_work() && endpoint_->next_deadline().is_never());
    destroy();
    transmit(kHeads);
    FUZZ_CHECK(endpoint_->qp_count() == 0 && endpoint_->poll_ready() == nullptr);
    endpoint_.reset();
    FUZZ_CHECK(pool_.in_use() == 0);
    check_memory();
  }

 private:
  void reach(Start start) {
    RcConnect connect{.path_mtu_bytes = kMtu, .initiator_depth = 4, .responder_resources = 4, .retry_count = 3, .ack_timeout = 8};
    connect.path = sim::RcPair::path(0);
    connect.remote_qpn = verbs::Qpn(0x1234);
    connect.local_first_psn = wire::Psn(0xff'fffa);  // the wrap is near
    connect.remote_first_psn = wire::Psn(0xff'fffd);
    connect.peer_hold_packets = causeway_ ? 64 : 0;
    if (start == Start::kInit) {
      return;
    }
    FUZZ_CHECK(endpoint_->to_rtr(*qp_, connect).ok());
    if (start == Start::kRtr) {
      return;
    }
    FUZZ_CHECK(endpoint_->to_rts(*qp_).ok());
    qp_->post_receives(start == Start::kNotReady ? 0 : 4);
    const auto opcode = [](wire::Opcode code) { return static_cast<uint8_t>(code); };
    switch (start) {
      case Start::kSending:
        send(1000, true);
        send(100, true);
        transmit(4);
        break;
      case Start::kReading:
        send(10, true);
        read(700);
        read(256);
        transmit(12);
        break;
      case Start::kReceiving:
        packet(opcode(wire::Opcode::kRcSendFirst), 0, 0, kMtu / 4);
        FUZZ_CHECK(qp_->state() == QpState::kRts);
        break;
      case Start::kNotReady:  // both ways
        send(300, true);
        transmit(12);
        packet(opcode(wire::Opcode::kRcAcknowledge), 0, 0x20 | 5, 0);
        break;
      case Start::kAnswering:
        packet(opcode(wire::Opcode::kRcReadRequest), 0, 0, 200);
        packet(opcode(wire::Opcode::kRcSendOnly), 0, 0, 10);
        break;
      case Start::kError:
        qp_->close();
        break;
      default:
        break;
    }
  }

  void check_memory() {
    const auto is_untouched = [this](size_t from, size_t bytes) {
      const auto first = guarded_.begin() + static_cast<ptrdiff_t>(from);
      return std::all_of(first, first + static_cast<ptrdiff_t>(bytes), [](uint8_t byte) { return byte == kCanary; });
    };
    FUZZ_CHECK(is_untouched(0, kGuard) && is_untouched(kGuard + kRegion, kGuard));
    FUZZ_CHECK(exposes_ || is_untouched(kGuard, kRegion));
  }

  // A packet of the peer: how far from where it should be, AETH syndrome or what else varies, payload in words of four bytes.
  void packet(uint8_t code, uint8_t distance, uint8_t variant, uint8_t words) {
    const auto opcode = static_cast<wire::Opcode>(code);
    const wire::OpcodeTraits& traits = wire::traits_of(opcode);
    if (traits.kind == wire::OpcodeKind::kReserved) {
      return;
    }
    wire::TxPacket packet;
    packet.head = pool_.allocate_one();
    if (packet.head == nullptr) {
      return;
    }
    const RcQpInfo info = qp_->info();
    wire::Bth bth;
    bth.opcode = opcode;
    bth.destination = qp_->local_qpn();
    bth.ack_request = (variant & 1) != 0;
    const auto ahead = static_cast<uint32_t>(static_cast<int32_t>(static_cast<int8_t>(distance)));
    bth.psn = (traits.is_request ? info.expected_psn : info.una).plus(ahead);
    wire::Extensions extensions;
    extensions.aeth.syndrome = variant;
    extensions.reth.address = memory_.address_of(key_) + uint64_t{150} * (variant & 0xf);
    extensions.reth.rkey = (variant & 0x30) == 0x30 ? verbs::Rkey(1) : key_;
    extensions.reth.length = uint32_t{words} * ((variant & 0x40) != 0 ? 40 : 4);
    const std::vector<uint8_t> payload(traits.may_carry_payload ? std::min<size_t>(size_t{words} * 4, 800) : 0, words);
    wire::Path path = sim::RcPair::path(1);
    if (variant == 0xee) {
      path.local = IpAddress::v4(0x0a0000ee);  // somebody else
    }
    const bool sees_error = qp_->in_error();
    const bool asks = traits.kind == wire::OpcodeKind::kReadRequest && !sees_error && variant != 0xee;
    if (asks) {
      farewell_.on_read_request(bth.psn, extensions.reth.length, info.expected_psn);
    }
    wire::build_packet(packet, wire::PathHeader(path), 1, bth, extensions, payload);
    const auto view = wire::PacketView::parse(packet.head->bytes());
    FUZZ_CHECK(view.ok());
    const bool took = endpoint_->on_packet(now_, *view, packet.head, 0);
    FUZZ_CHECK(!took || !sees_error);
    if (asks && bth.psn == info.expected_psn && !qp_->in_error() && qp_->info().expected_psn != bth.psn) {
      farewell_.on_read_accepted(bth.psn);
    }
    if (!took) {
      release_buffers(packet.head);
    }
  }

  void send(uint32_t bytes, bool signaled) {
    verbs::SendRequest request{.id = verbs::WorkId(next_id_), .payload = chain(bytes), .signaled = signaled};
    note(qp_->post_send(std::move(request)).ok(), signaled);
  }
  // SENDs of one Buffer each, as replies are posted; the owner wants to hear of those with a bit in `watched`.
  void row(uint32_t count, uint8_t watched, uint8_t bytes) {
    std::array<verbs::PlainSend, 8> sends;
    uint32_t made = 0;
    for (; made < count; ++made) {
      Chain payload = chain(bytes + 1u);
      if (payload.buffer_count() != 1) {
        break;
      }
      const bool signaled = (watched >> made & 1) != 0;
      sends[made] = {signaled ? verbs::WorkId(next_id_ + made) : verbs::WorkId(), payload.detach(), signaled};
    }
    const uint32_t posted = qp_->post_receives_and_sends(std::span(sends).first(made));
    for (uint32_t i = 0; i < made; ++i) {
      note(i < posted, sends[i].signaled);
      if (i >= posted) {
        release_buffers(sends[i].payload);
      }
    }
  }
  void write(uint32_t bytes) {
    verbs::WriteRequest request{
        .id = verbs::WorkId(next_id_), .payload = chain(bytes), .rkey = verbs::Rkey(9), .remote_address = 0x1000};
    note(qp_->post_write(std::move(request)).ok(), true);
  }
  void read(uint32_t bytes) {
    note(qp_->post_read({.id = verbs::WorkId(next_id_), .rkey = verbs::Rkey(9), .remote_address = 0x1000, .length = bytes}).ok(),
         true);
  }
  Chain chain(uint32_t bytes) {
    Chain out;
    const std::vector<uint8_t> raw(bytes, 0x3c);
    if (!out.append_copy(pool_, raw)) {
      out.clear();
    }
    return out;
  }
  void note(bool posted, bool signaled) {
    if (posted && signaled) {
      posted_.insert(next_id_);
    }
    unsignaled_ += posted && !signaled ? 1 : 0;
    ++next_id_;
  }

  void transmit(uint32_t head_buffers) {
    const bool in_error = qp_ == nullptr || qp_->in_error();  // gone: a NAK may still be owed
    Chain others;                                             // have the rest of the heads
    for (uint32_t i = head_buffers; i < kHeads; ++i) {
      others.push_back(head_pool().allocate_one());
    }
    wire::TxBatch batch(head_pool());
    endpoint_->poll_transmit(now_, batch);
    for (const wire::TxPacket& packet : batch.packets()) {
      const std::vector<uint8_t> raw = packet.raw();
      const auto view = wire::PacketView::parse(raw);
      FUZZ_CHECK(view.ok() && wire::verify_icrc(*view));
      FUZZ_CHECK(view->bth.destination.value() == 0x1234 && view->payload.size() <= kMtu);
      farewell_.on_packet_sent(in_error, *view);
      FUZZ_CHECK(view->traits->kind != wire::OpcodeKind::kReadRequest || view->reth().length <= kReadRequestPackets * kMtu);
    }
  }
  void note_error() {
    if (qp_->in_error() && !std::exchange(was_in_error_, true)) {
      farewell_.on_error(qp_->owes_refusal(), qp_->info().expected_psn);
    }
  }
  void destroy() {
    farewell_.on_destroyed();
    endpoint_->destroy_qp(*std::exchange(qp_, nullptr));
  }
  // What was posted silently may still fail aloud.
  void complete() {
    verbs::Completion completion;
    while (qp_->poll_completion(completion)) {
      if (!is_receive(completion.opcode) && posted_.erase(completion.id.value()) == 0) {
        FUZZ_CHECK(completion.status != verbs::WcStatus::kSuccess && unsignaled_ > 0);
        --unsignaled_;
      }
    }
    (void)endpoint_->poll_ready();
  }

  bool exposes_;
  bool causeway_;
  SeededRandom random_;
  verbs::MemoryTable memory_;
  HeapBufferPool& pool_;
  std::array<uint8_t, kGuard + kRegion + kGuard> guarded_;
  verbs::Rkey key_;
  std::unique_ptr<Endpoint> endpoint_;
  RcQp* qp_ = nullptr;
  Instant now_ = Instant::from_ns(1'000'000'000);
  Farewell farewell_;
  bool was_in_error_ = false;
  std::set<uint64_t> posted_;  // signaled works that have not completed
  uint64_t unsignaled_ = 0;
  uint64_t next_id_ = 1;
};

}  // namespace
}  // namespace cw::rc

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0 || size > cw::rc::kInputBytesMax) {
    return 0;
  }
  cw::rc::Target target(data[0]);
  target.check();
  std::array<uint8_t, 5> record{};
  for (size_t at = 1; at + record.size() <= size; at += record.size()) {
    std::copy_n(data + at, record.size(), record.begin());
    target.act(record);
    target.check();
  }
  target.end();
  return 0;
}
