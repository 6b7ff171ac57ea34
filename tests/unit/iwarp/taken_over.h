// One of our ends, the active one with registered memory, against a peer that the test plays after the set-up: what it posts is
// read as segments, and what the test writes arrives.
#pragma once

#include "tests/unit/iwarp/scripted_peer.h"

namespace cw::iwarp::test {

// Of memory that the played peer says it has.
inline constexpr verbs::Rkey kKey(0x11223344);

// A segment as it was heard.
struct Heard {
  ByteVector ulpdu;
  SegmentHeader header;
  [[nodiscard]] Bytes payload() const { return Bytes(ulpdu).subspan(header.bytes()); }
  [[nodiscard]] ByteVector first(size_t count) const { return {ulpdu.begin(), ulpdu.begin() + static_cast<ptrdiff_t>(count)}; }
};

// Whole FPDUs, CRCs looked at.
inline std::vector<Heard> segments_in(const ByteVector& bytes) {
  std::vector<Heard> all;
  for (size_t at = 0; at < bytes.size();) {
    const uint32_t ulpdu_bytes = load_be16(bytes.data() + at);
    const uint32_t whole = fpdu_bytes(ulpdu_bytes);
    EXPECT_LE(at + whole, bytes.size());
    if (at + whole > bytes.size()) {
      return all;
    }
    const Bytes ulpdu = Bytes(bytes).subspan(at + 2, ulpdu_bytes);
    EXPECT_EQ(fpdu({ulpdu.begin(), ulpdu.end()}),
              ByteVector(bytes.begin() + static_cast<ptrdiff_t>(at), bytes.begin() + static_cast<ptrdiff_t>(at + whole)));
    const auto header = parse_segment_header(ulpdu);
    EXPECT_TRUE(header.ok());
    all.push_back({{ulpdu.begin(), ulpdu.end()}, *header});
    at += whole;
  }
  return all;
}

// Which end is ours: the active one has memory and answers READs, the passive one sends them.
enum class Ours : uint8_t { kActive, kPassive };

struct TakenOver {
  explicit TakenOver(Ours which = Ours::kActive, const IwarpOptions& options = {}) : t(options), ours(which) {
    t.connect();
    // The passive end says nothing before the active one has.
    EXPECT_TRUE(t.client.qp->post_send({.payload = t.client.chain(pattern(10)), .signaled = false}).ok());
    t.run();
    t.server.completions.clear();
    connection = &t.net.connections()[0];
    // From here on the test speaks for the other end, whose own transport takes the connection for lost.
    EndHost& other = ours == Ours::kActive ? t.server : t.client;
    StreamNet::End& theirs = connection->ends[peer()];
    other.transport.on_lost(t.net.now, *theirs.stream, StreamErrorCause::kTcpReset);
    other.turn(t.net.now);
    theirs.host = nullptr;
    theirs.stream.reset();
    theirs.arriving.clear();
  }
  [[nodiscard]] uint32_t peer() const { return ours == Ours::kActive ? 1 : 0; }
  // MSN of the peer's next SEND: it has sent one when it is the active end.
  [[nodiscard]] uint32_t peer_message() const { return ours == Ours::kActive ? 1 : 2; }
  // What our end has said since.
  [[nodiscard]] std::vector<Heard> hear() {
    t.run();
    auto& arriving = connection->ends[peer()].arriving;
    const ByteVector bytes(arriving.begin(), arriving.end());
    arriving.clear();
    return segments_in(bytes);
  }
  // The same to its end: more than the peer has room for at a time.
  [[nodiscard]] std::vector<Heard> hear_all() {
    ByteVector bytes;
    for (uint32_t idle = 0; idle < 3;) {
      auto& arriving = peer_end().arriving;
      idle = arriving.empty() ? idle + 1 : 0;
      bytes.insert(bytes.end(), arriving.begin(), arriving.end());
      arriving.clear();
      t.run();
    }
    return segments_in(bytes);
  }
  // The peer says this, and nobody listens yet.
  void write(const ByteVector& bytes) {
    auto& arriving = connection->ends[1 - peer()].arriving;
    arriving.insert(arriving.end(), bytes.begin(), bytes.end());
    t.run();
  }
  std::vector<Heard> say(const ByteVector& bytes) {
    write(bytes);
    return hear();
  }
  [[nodiscard]] EndHost& end() { return ours == Ours::kActive ? t.client : t.server; }
  [[nodiscard]] verbs::QueuePair& qp() { return *end().qp; }
  [[nodiscard]] Chain chain(const ByteVector& bytes) { return end().chain(bytes); }
  // Memory that the peer may touch.
  verbs::Rkey expose(MutableBytes memory, verbs::RemoteAccess access) {
    const auto key = t.client.memory.register_region(TwoEnds::kDomain, memory, access);
    EXPECT_TRUE(key.ok());
    return *key;
  }
  [[nodiscard]] uint64_t address_of(verbs::Rkey key) { return t.client.memory.address_of(key); }
  [[nodiscard]] RdmapStream& stream() { return static_cast<RdmapStream&>(qp()); }
  [[nodiscard]] const StreamError& error() { return stream().error(); }
  [[nodiscard]] StreamNet::End& peer_end() { return connection->ends[peer()]; }

  TwoEnds t;
  Ours ours;
  StreamNet::Connection* connection = nullptr;
};

}  // namespace cw::iwarp::test
