#include "rocev2/wire/icrc.h"

#include <array>

#include "base/assert.h"
#include "base/crc32.h"
#include "rocev2/wire/bth.h"
#include "rocev2/wire/ipv4.h"
#include "rocev2/wire/ipv6.h"
#include "rocev2/wire/udp.h"

namespace cw::wire {
namespace {

// The masked bytes are neither written nor copied. The CRC register is a linear function of its start and of the bytes read:
// changing a byte at position p does what changing the register just before it would do, and, because every step of the
// register can be undone, what some other change of the register at position 0 would do. So we start from another register,
// one table look-up per masked byte, and the packet is then read in place and in one call. (A masked copy costs more
// than it looks: bytes that were just stored one by one stall the wide loads that follow.)
constexpr uint32_t kPolynomial = 0xedb8'8320;

constexpr uint32_t undo_bits(uint32_t crc, size_t bits) {
  for (size_t i = 0; i < bits; ++i) {
    crc = (crc & 0x8000'0000) != 0 ? ((crc ^ kPolynomial) << 1) | 1 : crc << 1;
  }
  return crc;
}

// What the byte at `position` adds to the start, by its value. Linear: [a ^ b] == [a] ^ [b], [0] == 0.
using StartTable = std::array<uint32_t, 256>;
constexpr StartTable start_table(size_t position) {
  StartTable table{};
  for (size_t bit = 0; bit < 8; ++bit) {
    table[size_t{1} << bit] = undo_bits(uint32_t{1} << bit, 8 * position);
  }
  for (size_t value = 1; value < 256; ++value) {
    table[value] = table[value & (value - 1)] ^ table[value & (~value + 1)];
  }
  return table;
}

// crc32() takes and gives the CRC in its finished form (complemented), so that a result is the next call's start. The eight
// bytes of ones in front of every packet are part of the start as well.
constexpr uint32_t crc_of_eight_ones() {
  uint32_t crc = 0xffff'ffff;
  for (int bit = 0; bit < 64; ++bit) {
    crc = (crc >> 1) ^ (((crc ^ 1) & 1) != 0 ? kPolynomial : 0);
  }
  return ~crc;
}

// Offsets from the IP header of what is masked.
constexpr size_t kTos = 1;
constexpr size_t kTtl = 8;
constexpr size_t kChecksum = 10;
constexpr size_t kHopLimit = 7;
constexpr size_t kUdpChecksum = 6;            // from UDP
constexpr size_t kBthFlags = Udp::kSize + 4;  // from UDP: FECN, BECN, reserved

struct TransportTables {
  StartTable udp_checksum_high;
  StartTable udp_checksum_low;
  StartTable bth_flags;
  constexpr explicit TransportTables(size_t udp)
      : udp_checksum_high(start_table(udp + kUdpChecksum)),
        udp_checksum_low(start_table(udp + kUdpChecksum + 1)),
        bth_flags(start_table(udp + kBthFlags)) {}

  [[nodiscard]] constexpr uint32_t all_ones() const { return udp_checksum_high[0xff] ^ udp_checksum_low[0xff] ^ bth_flags[0xff]; }
  [[nodiscard]] uint32_t start(const uint8_t* udp) const {
    return udp_checksum_high[udp[kUdpChecksum]] ^ udp_checksum_low[udp[kUdpChecksum + 1]] ^ bth_flags[udp[kBthFlags]];
  }
};

struct Ipv4Tables {
  StartTable tos = start_table(kTos);
  StartTable ttl = start_table(kTtl);
  StartTable checksum_high = start_table(kChecksum);
  StartTable checksum_low = start_table(kChecksum + 1);
  TransportTables transport{Ipv4::kSize};
  // The start for a packet whose masked bytes are all zero.
  uint32_t base = crc_of_eight_ones() ^ tos[0xff] ^ ttl[0xff] ^ checksum_high[0xff] ^ checksum_low[0xff] ^ transport.all_ones();

  [[nodiscard]] uint32_t of_checksum(const uint8_t* ip) const {
    return checksum_high[ip[kChecksum]] ^ checksum_low[ip[kChecksum + 1]];
  }
  [[nodiscard]] uint32_t start(const uint8_t* ip) const {
    return base ^ tos[ip[kTos]] ^ ttl[ip[kTtl]] ^ of_checksum(ip) ^ transport.start(ip + Ipv4::kSize);
  }
};

struct Ipv6Tables {
  // Traffic class and flow label: all of the first word but the version.
  std::array<StartTable, 4> first_word = {start_table(0), start_table(1), start_table(2), start_table(3)};
  StartTable hop_limit = start_table(kHopLimit);
  TransportTables transport{Ipv6::kSize};
  uint32_t base = crc_of_eight_ones() ^ first_word[0][0x0f] ^ first_word[1][0xff] ^ first_word[2][0xff] ^ first_word[3][0xff] ^
                  hop_limit[0xff] ^ transport.all_ones();

  [[nodiscard]] uint32_t start(const uint8_t* ip) const {
    return base ^ first_word[0][ip[0] & 0x0f] ^ first_word[1][ip[1]] ^ first_word[2][ip[2]] ^ first_word[3][ip[3]] ^
           hop_limit[ip[kHopLimit]] ^ transport.start(ip + Ipv6::kSize);
  }
};

// Forward: what a byte so many bytes before the end of the header, itself included, adds to the sum at that end.
constexpr StartTable end_table(size_t raw) {
  StartTable table{};
  for (size_t value = 1; value < 256; ++value) {
    uint32_t crc = static_cast<uint32_t>(value);
    for (size_t bit = 0; bit < 8 * raw; ++bit) {
      crc = (crc >> 1) ^ ((crc & 1) != 0 ? kPolynomial : 0);
    }
    table[value] = crc;
  }
  return table;
}

// Of the last word of the BTH, and of the identification of an IPv4 header.
struct EndTables {
  static constexpr size_t kIdentification = Ipv4::kSize + Udp::kSize + Bth::kSize - 4;
  std::array<StartTable, 4> psn_word = {end_table(4), end_table(3), end_table(2), end_table(1)};
  StartTable identification_high = end_table(kIdentification);
  StartTable identification_low = end_table(kIdentification - 1);
};

constexpr EndTables kEnd;
constexpr Ipv4Tables kIpv4;
constexpr Ipv6Tables kIpv6;

}  // namespace

Icrc::Icrc(Bytes from_ip) {
  CW_DASSERT(from_ip.size() >= Ipv4::kSize + Udp::kSize + Bth::kSize);
  const uint8_t* ip = from_ip.data();
  crc_ = crc32(ip[0] >> 4 == 4 ? kIpv4.start(ip) : kIpv6.start(ip), ip, from_ip.size());
}

void Icrc::update(Bytes more) {
  if (!more.empty()) {
    crc_ = crc32(crc_, more.data(), more.size());
  }
}

void Icrc::update_copying(Bytes more, uint8_t* out) {
  crc_ = crc32_copy(crc_, more.data(), more.size(), out);
}

Icrc IcrcRun::after_header(uint16_t identification, uint32_t psn_word) const {
  return Icrc(crc_ ^ kEnd.identification_high[identification >> 8] ^ kEnd.identification_low[identification & 0xff] ^
              kEnd.psn_word[0][psn_word >> 24] ^ kEnd.psn_word[1][(psn_word >> 16) & 0xff] ^
              kEnd.psn_word[2][(psn_word >> 8) & 0xff] ^ kEnd.psn_word[3][psn_word & 0xff]);
}

IcrcAlike::IcrcAlike(Bytes from_ip) : start_(kIpv4.start(from_ip.data()) ^ kIpv4.of_checksum(from_ip.data())) {}

uint32_t IcrcAlike::of(Bytes from_ip) const {
  const uint8_t* ip = from_ip.data();
  return crc32(start_ ^ kIpv4.of_checksum(ip), ip, from_ip.size());
}

bool IcrcAlike::is_right(Bytes from_ip) const {
  const size_t bytes = from_ip.size() - kIcrcBytes;
  return of(from_ip.first(bytes)) == load_le32(from_ip.data() + bytes);
}

}  // namespace cw::wire
