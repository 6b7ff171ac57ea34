// Packets for the generated captures, made by the product's own builder and codecs.
#pragma once

#include "apps/load/pktgen/profile.h"
#include "base/heap_buffer_pool.h"
#include "control/cm/wire/mad.h"

namespace cw::pktgen {

class PacketMaker {
 public:
  // One packet with valid headers, padding and iCRC. Precondition: the payload fits a path MTU of 4096.
  [[nodiscard]] ByteVector packet(const wire::Path& path, const wire::Bth& bth, const wire::Extensions& extensions,
                                  Bytes payload);
  // A datagram to QP1 from QP1 with the Q_Key of connection management.
  [[nodiscard]] ByteVector datagram(const wire::Path& path, Bytes mad);
  // A message to a queue pair as SEND packets of at most the path MTU; `psn` moves on to the packet behind them.
  [[nodiscard]] std::vector<ByteVector> send(const Target& target, verbs::Qpn qpn, wire::Psn& psn, Bytes message);

  [[nodiscard]] static wire::Bth datagram_bth();
  [[nodiscard]] static wire::Extensions datagram_extensions();

 private:
  HeapBufferPool pool_{16, 9216, 0};
  uint16_t ip_identification_ = 0;
};

// A whole MAD with one message of connection management.
template <typename Message>
[[nodiscard]] cm::Mad mad_of(uint64_t transaction_id, const Message& message) {
  cm::Mad mad{};
  cm::write_mad(mad, transaction_id, message);
  return mad;
}

// Where things stand in a frame, for whoever bends one.
struct Offsets {
  size_t ip = 0;
  size_t udp = 0;
  size_t bth = 0;
};
[[nodiscard]] Offsets offsets_of(const wire::Path& path);
// The lengths in IP and UDP say what the frame holds; IPv4 checksum and iCRC are right again.
void repair(ByteVector& frame, const wire::Path& path);
void repair_ipv4_checksum(ByteVector& frame, size_t ip);
void repair_icrc(ByteVector& frame, size_t ip);

}  // namespace cw::pktgen
