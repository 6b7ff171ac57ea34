#include "control/capture/pcapng.h"

namespace cw::control::capture {
namespace {

// In the byte order of the writer, which the section header tells.
template <typename T>
void put(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

void pad(std::string& out) {
  out.append((4 - out.size() % 4) % 4, '\0');
}

void option(std::string& out, uint16_t code, const std::string& value) {
  put<uint16_t>(out, code);
  put<uint16_t>(out, static_cast<uint16_t>(value.size()));
  out += value;
  pad(out);
}

std::string block(uint32_t type, const std::string& body) {
  const uint32_t bytes = static_cast<uint32_t>(body.size()) + 12;
  std::string out;
  put<uint32_t>(out, type);
  put<uint32_t>(out, bytes);
  out += body;
  put<uint32_t>(out, bytes);
  return out;
}

constexpr uint16_t kUserApplication = 4;
constexpr uint16_t kTimeResolution = 9;
constexpr uint16_t kFlags = 2;
constexpr uint16_t kEnd = 0;

}  // namespace

std::string pcapng_start(const std::string& program, uint32_t snap_bytes) {
  std::string section;
  put<uint32_t>(section, 0x1a2b3c4d);
  put<uint16_t>(section, 1);
  put<uint16_t>(section, 0);
  put<uint64_t>(section, UINT64_MAX);  // length not known
  option(section, kUserApplication, program);
  option(section, kEnd, "");
  std::string interface;
  put<uint16_t>(interface, 1);  // Ethernet
  put<uint16_t>(interface, 0);
  put<uint32_t>(interface, snap_bytes);
  option(interface, kTimeResolution, "\x09");  // 10^-9 s
  option(interface, kEnd, "");
  return block(0x0a0d0d0a, section) + block(1, interface);
}

std::string pcapng_packet(uint64_t unix_ns, Bytes frame, PacketLengths lengths, bool received) {
  std::string body;
  put<uint32_t>(body, 0);
  put<uint32_t>(body, static_cast<uint32_t>(unix_ns >> 32));
  put<uint32_t>(body, static_cast<uint32_t>(unix_ns));
  put<uint32_t>(body, lengths.bytes);
  put<uint32_t>(body, lengths.original_bytes);
  body.append(reinterpret_cast<const char*>(frame.data()), frame.size());
  body.append(lengths.bytes - frame.size(), '\0');
  pad(body);
  std::string flags;
  put<uint32_t>(flags, received ? 1 : 2);
  option(body, kFlags, flags);
  option(body, kEnd, "");
  return block(6, body);
}

}  // namespace cw::control::capture
