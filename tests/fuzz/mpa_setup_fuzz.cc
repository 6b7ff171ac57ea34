// MPA set-up, either side: frames of both revisions with any flags, lengths and IRD/ORD words, cut anywhere. After each piece a
// model that reads all bytes at once says how far the set-up is, how many bytes were taken and why it failed; then what is
// answered, byte by byte, and what was settled; then bytes behind the end, and a refusal. Or both ends are ours, and agree.
//
// Input: [start][our IRD, 2][our ORD, 2][our private data][M C R S][revision][length, 2][IRD/ORD word, 4][private data][key]
// [behind][cuts, at most 15][...]
#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "iwarp/mpa/setup.h"
#include "tests/fuzz/fuzz_target.h"

namespace cw::iwarp {
namespace {

constexpr size_t kInputBytesMax = 640;
constexpr size_t kHeadBytes = 18;
constexpr uint8_t kUntouched = 0xc5;

// Of `start`.
constexpr uint8_t kActive = 0x80;
constexpr uint8_t kWantsCrc = 0x40;
constexpr uint8_t kRaw = 0x20;       // the peer's bytes are those of the input
constexpr uint8_t kBothOurs = 0x10;  // the peer is the other side of ours

constexpr std::string_view kRequestKey = "MPA ID Req Frame";
constexpr std::string_view kReplyKey = "MPA ID Rep Frame";

using ByteVector = std::vector<uint8_t>;

bool same(Bytes a, Bytes b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

void append_be16(ByteVector& to, uint32_t value) {
  to.push_back(static_cast<uint8_t>(value >> 8));
  to.push_back(static_cast<uint8_t>(value));
}

ByteVector frame(std::string_view key, uint32_t flags, uint32_t revision, uint32_t length, const ByteVector& data) {
  ByteVector bytes(key.begin(), key.end());
  bytes.push_back(static_cast<uint8_t>(flags));
  bytes.push_back(static_cast<uint8_t>(revision));
  append_be16(bytes, length);
  bytes.insert(bytes.end(), data.begin(), data.end());
  return bytes;
}

ByteVector private_bytes(size_t size) {
  ByteVector bytes(size);
  for (size_t i = 0; i < size; ++i) {
    bytes[i] = static_cast<uint8_t>(i * 5 + size);
  }
  return bytes;
}

// Reads what has come as a whole (RFC 5044 7.1, RFC 6581 9).
class Model {
 public:
  explicit Model(bool active) : active_(active) {}

  struct Answer {
    MpaProgress progress;
    uint32_t used;
  };
  Answer take(Bytes more) {
    if (error_ != MpaError::kNone) {
      return {MpaProgress::kFailed, 0};
    }
    const auto before = static_cast<uint32_t>(bytes_.size());
    bytes_.insert(bytes_.end(), more.begin(), more.end());
    const uint32_t end = end_of_frame();
    const bool is_longer = bytes_.size() > end;
    bytes_.resize(std::min<size_t>(bytes_.size(), end));
    const auto used = static_cast<uint32_t>(bytes_.size()) - before;
    error_ = error_of(is_longer);
    if (error_ != MpaError::kNone) {
      return {MpaProgress::kFailed, used};
    }
    if (bytes_.size() < 20 || bytes_.size() < end) {
      return {MpaProgress::kMore, used};
    }
    return {active_ && (bytes_[16] & 0x20) != 0 ? MpaProgress::kRejected : MpaProgress::kComplete, used};
  }

  [[nodiscard]] MpaError error() const { return error_; }
  [[nodiscard]] bool wants_crc() const { return bytes_.size() >= 20 && (bytes_[16] & 0x40) != 0; }
  [[nodiscard]] uint32_t revision() const { return bytes_.size() < 20 ? 2 : bytes_[17]; }
  [[nodiscard]] bool has_word() const { return bytes_.size() >= 20 && (bytes_[16] & 0x10) != 0 && bytes_[17] >= 2; }
  [[nodiscard]] bool peer_to_peer() const { return (bytes_[20] & 0x80) != 0; }
  [[nodiscard]] bool offers_send() const { return (bytes_[20] & 0x40) != 0; }
  [[nodiscard]] bool offers_write() const { return (bytes_[22] & 0x80) != 0; }
  [[nodiscard]] bool offers_read() const { return (bytes_[22] & 0x40) != 0; }
  [[nodiscard]] uint32_t ird() const { return (bytes_[20] * 256u + bytes_[21]) % 0x4000; }
  [[nodiscard]] uint32_t ord() const { return (bytes_[22] * 256u + bytes_[23]) % 0x4000; }
  [[nodiscard]] Bytes private_data() const { return Bytes(bytes_).subspan(has_word() ? 24 : 20); }

 private:
  [[nodiscard]] std::string_view key() const { return active_ ? kReplyKey : kRequestKey; }
  [[nodiscard]] bool has_key() const {
    const size_t count = std::min<size_t>(bytes_.size(), 16);
    return std::equal(bytes_.begin(), bytes_.begin() + static_cast<ptrdiff_t>(count), key().begin(),
                      [](uint8_t a, char b) { return a == static_cast<uint8_t>(b); });
  }
  [[nodiscard]] uint32_t length() const { return bytes_[18] * 256u + bytes_[19]; }
  [[nodiscard]] bool has_bad_header() const { return !has_key() || length() > 512 || (has_word() && length() < 4); }
  // Nothing is taken behind it. A header that is wrong ends everything.
  [[nodiscard]] uint32_t end_of_frame() const { return bytes_.size() < 20 || has_bad_header() ? 20 : 20 + length(); }

  [[nodiscard]] MpaError error_of(bool is_longer) const {
    if (!has_key()) {
      return MpaError::kKey;
    }
    if (bytes_.size() < 20) {
      return MpaError::kNone;
    }
    if (has_bad_header()) {
      return MpaError::kLength;
    }
    if (bytes_.size() < 20 + length()) {
      return MpaError::kNone;
    }
    return active_ ? error_of_reply() : error_of_request(is_longer);
  }
  [[nodiscard]] MpaError error_of_request(bool is_longer) const {
    if (revision() != 1 && revision() != 2) {
      return MpaError::kRevision;
    }
    if ((bytes_[16] & 0x80) != 0) {
      return MpaError::kMarkers;
    }
    if (has_word() && peer_to_peer() && !offers_send() && !offers_write() && !offers_read()) {
      return MpaError::kReadyToReceive;
    }
    return is_longer ? MpaError::kEarlyData : MpaError::kNone;
  }
  [[nodiscard]] MpaError error_of_reply() const {
    if ((bytes_[16] & 0x20) != 0) {
      return MpaError::kNone;
    }
    if ((bytes_[16] & 0x80) != 0) {
      return MpaError::kMarkers;
    }
    if (revision() != 1 && revision() != 2) {
      return MpaError::kRevision;
    }
    return has_word() && ord() != IrdOrd::kMax && ord() > kIrdMax ? MpaError::kInsufficientIrd : MpaError::kNone;
  }

  bool active_;
  MpaError error_ = MpaError::kNone;
  ByteVector bytes_;  // of the frame, as far as it has come
};

uint32_t settled(uint32_t wish, uint32_t peers) {
  return peers == 0x3fff ? wish : std::min(wish, peers);
}

struct Settled {
  bool crc;
  uint32_t ird;
  uint32_t ord;
  ReadyToReceive ready;
};

bool operator==(const MpaSession& session, const Settled& expected) {
  return session.crc == expected.crc && session.ird == expected.ird && session.ord == expected.ord &&
         session.ready == expected.ready;
}

Settled settled_by_responder(const Model& request, const MpaWishes& wishes) {
  Settled all{wishes.crc || request.wants_crc(), wishes.ird, wishes.ord, ReadyToReceive::kNone};
  if (!request.has_word()) {
    all.ird = std::max<uint32_t>(all.ird, 1);  // a peer of revision 1 may say by a READ that it is ready
    return all;
  }
  if (request.peer_to_peer()) {
    all.ready = request.offers_write()  ? ReadyToReceive::kWrite
                : request.offers_read() ? ReadyToReceive::kRead
                                        : ReadyToReceive::kSend;
  }
  all.ord = settled(wishes.ord, request.ird());
  all.ird = settled(wishes.ird, request.ord());
  if (all.ready == ReadyToReceive::kRead && all.ird == 0) {
    all.ird = 1;  // or the sign of readiness could not come
  }
  return all;
}

Settled settled_by_initiator(const Model& reply, const MpaWishes& wishes) {
  Settled all{wishes.crc || reply.wants_crc(), wishes.ird, wishes.ord, ReadyToReceive::kNone};
  if (reply.has_word()) {
    all.ord = settled(wishes.ord, reply.ird());
    all.ird = reply.ord() == 0x3fff ? wishes.ird : std::max<uint32_t>(wishes.ird, reply.ord());
  }
  return all;
}

// What an answer is: the head, the word if the Request had one, and private data.
ByteVector answer_of(const Model& request, uint32_t flags, uint32_t revision, const Settled* settled, Bytes private_data) {
  ByteVector data;
  if (request.has_word()) {
    flags |= 0x10;
    const bool to_peer = settled != nullptr && request.peer_to_peer();
    const auto is_ready_by = [&](ReadyToReceive ready) { return settled != nullptr && settled->ready == ready; };
    append_be16(data, (to_peer ? 0x8000u : 0u) | (is_ready_by(ReadyToReceive::kSend) ? 0x4000u : 0u) |
                          (settled == nullptr ? 0 : settled->ird));
    append_be16(data, (is_ready_by(ReadyToReceive::kWrite) ? 0x8000u : 0u) | (is_ready_by(ReadyToReceive::kRead) ? 0x4000u : 0u) |
                          (settled == nullptr ? 0 : settled->ord));
  }
  data.insert(data.end(), private_data.begin(), private_data.end());
  return frame(kReplyKey, flags, revision, static_cast<uint32_t>(data.size()), data);
}

struct Frame {
  std::array<uint8_t, kMpaFrameBytesMax> bytes;
  uint32_t size = 0;
  Frame() { bytes.fill(kUntouched); }
  [[nodiscard]] Bytes view() const { return Bytes(bytes).first(size); }
  void expect(const ByteVector& expected) const {
    FUZZ_CHECK(same(view(), expected));
    FUZZ_CHECK(std::all_of(bytes.begin() + size, bytes.end(), [](uint8_t each) { return each == kUntouched; }));
  }
};

class Target {
 public:
  explicit Target(Bytes input) : head_(input.first(kHeadBytes)), rest_(input.subspan(kHeadBytes)) {
    const size_t cuts = std::min<size_t>(head_[kHeadBytes - 1] % 16, rest_.size());
    cuts_ = rest_.first(cuts);
    rest_ = rest_.subspan(cuts);
    our_private_ = private_bytes(std::min<size_t>(size_t{head_[5]} * 2, 508));
    wishes_ = {.crc = (head_[0] & kWantsCrc) != 0, .ird = depth(1), .ord = depth(3), .private_data = our_private_};
  }

  void run() { (head_[0] & kActive) != 0 ? run_active() : run_passive(); }

 private:
  [[nodiscard]] uint16_t depth(size_t at) const { return load_be16(head_.data() + at) & IrdOrd::kMax; }

  // What the peer says.
  [[nodiscard]] ByteVector peer_frame(std::string_view key) const {
    if ((head_[0] & kRaw) != 0) {
      return {rest_.begin(), rest_.end()};
    }
    ByteVector data(head_.begin() + 10, head_.begin() + 14);
    const ByteVector more = private_bytes(size_t{head_[14]} * 2);
    data.insert(data.end(), more.begin(), more.end());
    // Mostly as long as it says.
    const uint32_t length = load_be16(head_.data() + 8);
    const bool is_short = length < data.size();
    data.resize(is_short ? length : data.size());
    ByteVector bytes =
        frame(key, head_[6], head_[7], is_short || length > 600 ? length : static_cast<uint32_t>(data.size()), data);
    if (head_[15] < 16) {
      bytes[head_[15]] ^= 0x20;
    }
    bytes.insert(bytes.end(), head_[16] % 8, 0);
    return bytes;
  }

  // In pieces, and in the end as the model says.
  template <typename Side>
  MpaProgress feed(Side& side, Model& model, Bytes bytes) {
    MpaProgress progress = MpaProgress::kMore;
    for (size_t i = 0; i <= cuts_.size(); ++i) {
      const size_t count = i < cuts_.size() ? std::min<size_t>(cuts_[i], bytes.size()) : bytes.size();
      // Memory of its own, so that nobody reads behind it unseen.
      const ByteVector piece(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(count));
      uint32_t used = 99'999;
      progress = side.take(piece, used);
      const Model::Answer expected = model.take(piece);
      FUZZ_CHECK(progress == expected.progress);
      FUZZ_CHECK(used == expected.used);
      FUZZ_CHECK(side.error() == model.error());
      bytes = bytes.subspan(count);
      if (progress == MpaProgress::kComplete || progress == MpaProgress::kRejected) {
        FUZZ_CHECK(side.has_ird_ord() == model.has_word() && same(side.private_data(), model.private_data()));
        if (used < count) {
          break;  // the first FPDUs of an acceptor that does not wait
        }
      }
    }
    return progress;
  }

  void check_refusal(const MpaResponder& responder, const Model& model) const {
    if (responder.error() == MpaError::kKey) {
      return;
    }
    Frame refusal;
    refusal.size = responder.reject(Bytes(our_private_).first(std::min<size_t>(our_private_.size(), 40)), refusal.bytes);
    refusal.expect(answer_of(model, 0x20, std::clamp(model.revision(), 1u, 2u), nullptr,
                             Bytes(our_private_).first(std::min<size_t>(our_private_.size(), 40))));
    MpaInitiator other;
    Frame ignored;
    ignored.size = other.request({}, ignored.bytes);
    uint32_t used = 0;
    FUZZ_CHECK(other.take(refusal.view(), used) == MpaProgress::kRejected && used == refusal.size);
  }

  void run_passive() {
    MpaResponder responder;
    Model model(false);
    MpaInitiator other;
    const ByteVector others_private = private_bytes(std::min<size_t>(size_t{head_[14]} * 2, 508));
    const MpaWishes others{.crc = (head_[6] & 0x40) != 0,
                           .ird = static_cast<uint16_t>(load_be16(head_.data() + 10) & IrdOrd::kMax),
                           .ord = static_cast<uint16_t>(load_be16(head_.data() + 12) & IrdOrd::kMax),
                           .private_data = others_private};
    const bool both_ours = (head_[0] & kBothOurs) != 0;
    ByteVector bytes;
    if (both_ours) {
      const Frame request = request_of(other, others);
      bytes.assign(request.view().begin(), request.view().end());
    } else {
      bytes = peer_frame(kRequestKey);
    }
    const MpaProgress progress = feed(responder, model, bytes);
    FUZZ_CHECK(!both_ours || progress == MpaProgress::kComplete);
    if (progress == MpaProgress::kComplete) {
      Frame reply;
      reply.size = responder.accept(wishes_, reply.bytes);
      const Settled expected = settled_by_responder(model, wishes_);
      FUZZ_CHECK(responder.session() == expected);
      reply.expect(answer_of(model, expected.crc ? 0x40 : 0, model.revision(), &expected, wishes_.private_data));
      if (both_ours) {
        check_agreement(other, others, responder.session(), reply.view());
      }
      // Bytes behind the Request are an error whenever they come.
      uint32_t used = 99'999;
      const ByteVector behind(1 + head_[16] % 4);
      FUZZ_CHECK(responder.take(behind, used) == MpaProgress::kFailed && used == 0);
      FUZZ_CHECK(responder.error() == MpaError::kEarlyData);
    }
    check_refusal(responder, model);
  }

  Frame request_of(MpaInitiator& initiator, const MpaWishes& wishes) const {
    Frame request;
    request.size = initiator.request(wishes, request.bytes);
    ByteVector data;
    append_be16(data, wishes.ird);
    append_be16(data, wishes.ord);
    data.insert(data.end(), wishes.private_data.begin(), wishes.private_data.end());
    request.expect(frame(kRequestKey, (wishes.crc ? 0x40 : 0) | 0x10, 2, static_cast<uint32_t>(data.size()), data));
    return request;
  }

  // Neither side sends what the other does not expect.
  void check_agreement(MpaInitiator& initiator, const MpaWishes& wishes, const MpaSession& passive, Bytes reply) {
    Model model(true);
    const MpaProgress progress = feed(initiator, model, reply);
    if (progress == MpaProgress::kFailed) {
      FUZZ_CHECK(initiator.error() == MpaError::kInsufficientIrd && wishes.ird > kIrdMax);
      return;
    }
    FUZZ_CHECK(progress == MpaProgress::kComplete);
    const MpaSession& active = initiator.session();
    FUZZ_CHECK(active.crc == passive.crc && active.ready == passive.ready);
    FUZZ_CHECK(active.ord <= passive.ird && passive.ord <= active.ird);
    FUZZ_CHECK(same(initiator.private_data(), wishes_.private_data));
  }

  void run_active() {
    MpaInitiator initiator;
    (void)request_of(initiator, wishes_);
    Model model(true);
    const MpaProgress progress = feed(initiator, model, peer_frame(kReplyKey));
    if (progress == MpaProgress::kComplete) {
      const Settled expected = settled_by_initiator(model, wishes_);
      FUZZ_CHECK(initiator.session() == expected);
      // What is behind the Reply is the stream's.
      uint32_t used = 99'999;
      const ByteVector behind(1 + head_[16] % 4);
      FUZZ_CHECK(initiator.take(behind, used) == MpaProgress::kComplete && used == 0);
      FUZZ_CHECK(initiator.session() == expected);
    }
  }

  Bytes head_;
  Bytes rest_;
  Bytes cuts_;
  ByteVector our_private_;
  MpaWishes wishes_;
};

}  // namespace
}  // namespace cw::iwarp

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size >= cw::iwarp::kHeadBytes && size <= cw::iwarp::kInputBytesMax) {
    cw::iwarp::Target({data, size}).run();
  }
  return 0;
}
