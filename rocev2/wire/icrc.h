// Invariant CRC of RoCEv2 (IBA annex A17): CRC-32 (IEEE, reflected) over what no router may change.
//
// Covered, in this order: eight bytes of ones in place of the InfiniBand LRH; the IP header with TOS / traffic class, flow
// label, TTL / hop limit and header checksum as ones; UDP with its checksum as ones; the BTH with its byte of FECN, BECN and
// reserved bits as ones; everything else as it stands, padding included. Ethernet and VLAN are not covered. On the wire the
// value is the packet's last four bytes, little-endian.
#pragma once

#include <cstdint>
#include <span>

#include "base/bytes.h"

namespace cw::wire {

inline constexpr uint32_t kIcrcBytes = 4;

class Icrc {
 public:
  // Starts with a contiguous IP header .. end of whatever follows (at least UDP and BTH). The family is read from the version
  // field. Precondition: the bytes hold at least IP without options, UDP and BTH.
  explicit Icrc(Bytes from_ip);

  // Bytes that follow on the wire: further payload pieces, padding.
  void update(Bytes more);
  // The same, and a copy of them at `out`.
  void update_copying(Bytes more, uint8_t* out);

  [[nodiscard]] uint32_t value() const { return crc_; }

 private:
  friend class IcrcRun;
  explicit Icrc(uint32_t crc) : crc_(crc) {}
  uint32_t crc_;
};

// The same over headers that are alike but for the IPv4 identification and the last word of the BTH, without reading them again.
class IcrcRun {
 public:
  // IP header .. BTH, nothing behind it; identification and last word count as they stand.
  explicit IcrcRun(Bytes from_ip) : crc_(Icrc(from_ip).value()) {}
  // `identification`: what differs from the header's, 0 over IPv6; `psn_word` the same, host order.
  [[nodiscard]] Icrc after_header(uint16_t identification, uint32_t psn_word) const;

 private:
  uint32_t crc_;
};

// The same over IPv4 packets without options whose masked bytes, but for the IPv4 checksum, are alike: what these contribute is
// looked up once.
class IcrcAlike {
 public:
  IcrcAlike() = default;
  // IP header .. BTH at least, of one of them.
  explicit IcrcAlike(Bytes from_ip);
  // Whether the last four bytes of this one are the invariant CRC of those before.
  [[nodiscard]] bool is_right(Bytes from_ip) const;
  // The invariant CRC of all of these.
  [[nodiscard]] uint32_t of(Bytes from_ip) const;

 private:
  uint32_t start_ = 0;
};

}  // namespace cw::wire
