#include "base/ip_address.h"

#include <charconv>
#include <cstdio>

namespace cw {
namespace {

constexpr size_t kGroups = 8;

// Both writers append at `out` and return the new end; kIpTextBytes covers the longest text.
char* write_v4(char* out, char* end, uint32_t address) {
  for (int shift = 24; shift >= 0; shift -= 8) {
    out = std::to_chars(out, end, (address >> shift) & 0xff).ptr;
    if (shift > 0) {
      *out++ = '.';
    }
  }
  return out;
}

struct ZeroRun {
  size_t first = kGroups;
  size_t count = 0;
};

// The run that "::" stands for: the longest of at least two zero groups, the leftmost of equals (RFC 5952 4.2).
ZeroRun longest_zero_run(const std::array<uint16_t, kGroups>& groups) {
  ZeroRun best;
  ZeroRun run;
  for (size_t i = 0; i < kGroups; ++i) {
    if (groups[i] != 0) {
      run = ZeroRun{};
      continue;
    }
    run.first = run.count == 0 ? i : run.first;
    ++run.count;
    if (run.count >= 2 && run.count > best.count) {
      best = run;
    }
  }
  return best;
}

char* write_v6(char* out, char* end, const IpAddress& address) {
  std::array<uint16_t, kGroups> groups;
  for (size_t i = 0; i < kGroups; ++i) {
    groups[i] = load_be16(address.raw.data() + 2 * i);
  }
  const ZeroRun gap = longest_zero_run(groups);
  for (size_t i = 0; i < kGroups; ++i) {
    if (i == gap.first) {
      *out++ = ':';
      *out++ = ':';
      i += gap.count - 1;
      continue;
    }
    if (i > 0 && i != gap.first + gap.count) {
      *out++ = ':';
    }
    out = std::to_chars(out, end, uint32_t{groups[i]}, 16).ptr;
  }
  return out;
}

// Takes an unsigned number of at most `digits_max` digits and value <= `max` off the front of `text`.
bool take_number(std::string_view& text, int base, size_t digits_max, uint32_t max, uint32_t& value) {
  const char* begin = text.data();
  const auto [end, error] = std::from_chars(begin, begin + text.size(), value, base);
  const size_t digits = static_cast<size_t>(end - begin);
  if (error != std::errc{} || digits > digits_max || value > max) {
    return false;
  }
  text.remove_prefix(digits);
  return true;
}

Result<uint32_t> parse_v4(std::string_view text) {
  uint32_t address = 0;
  for (int i = 0; i < 4; ++i) {
    if (i > 0) {
      if (text.empty() || text.front() != '.') {
        return fail(Error::kBadValue);
      }
      text.remove_prefix(1);
    }
    const bool leading_zero = text.size() > 1 && text[0] == '0' && text[1] >= '0' && text[1] <= '9';
    uint32_t byte = 0;
    if (leading_zero || !take_number(text, 10, 3, 255, byte)) {
      return fail(Error::kBadValue);
    }
    address = (address << 8) | byte;
  }
  if (!text.empty()) {
    return fail(Error::kBadValue);
  }
  return address;
}

// Groups as they are read; where "::" stood, the rest moves to the end.
struct V6Text {
  std::array<uint16_t, kGroups> groups{};
  size_t count = 0;
  size_t gap = kGroups + 1;  // index at which "::" stood; beyond the end when it did not

  [[nodiscard]] bool add(uint32_t group) {
    if (count == kGroups) {
      return false;
    }
    groups[count++] = static_cast<uint16_t>(group);
    return true;
  }
  [[nodiscard]] bool has_gap() const { return gap <= kGroups; }
};

bool read_groups(std::string_view text, V6Text& read) {
  if (text.substr(0, 2) == "::") {
    read.gap = 0;
    text.remove_prefix(2);
  }
  while (!text.empty()) {
    if (text.find(':') == std::string_view::npos && text.find('.') != std::string_view::npos) {
      const Result<uint32_t> tail = parse_v4(text);
      return tail.ok() && read.add(*tail >> 16) && read.add(*tail & 0xffff);
    }
    uint32_t group = 0;
    if (!take_number(text, 16, 4, 0xffff, group) || !read.add(group)) {
      return false;
    }
    if (text.empty()) {
      return true;
    }
    if (text.front() != ':') {
      return false;
    }
    text.remove_prefix(1);
    if (text.empty()) {
      return false;  // a single ':' at the end
    }
    if (text.front() == ':') {
      if (read.has_gap()) {
        return false;
      }
      read.gap = read.count;
      text.remove_prefix(1);
    }
  }
  return true;
}

Result<IpAddress> parse_v6(std::string_view text) {
  V6Text read;
  if (!read_groups(text, read) || (read.has_gap() ? read.count == kGroups : read.count != kGroups)) {
    return fail(Error::kBadValue);
  }
  IpAddress address;
  const size_t missing = kGroups - read.count;
  for (size_t at = 0; at < kGroups; ++at) {
    if (at < read.gap) {
      store_be16(address.raw.data() + 2 * at, read.groups[at]);  // zero behind the last that was read
    } else if (at >= read.gap + missing) {
      store_be16(address.raw.data() + 2 * at, read.groups[at - missing]);
    }
  }
  return address;
}

}  // namespace

std::array<char, kIpTextBytes> to_text(const IpAddress& address) {
  std::array<char, kIpTextBytes> text{};
  char* end = text.data() + text.size() - 1;
  if (address.is_v4()) {
    write_v4(text.data(), end, address.to_v4());
  } else {
    write_v6(text.data(), end, address);
  }
  return text;
}

std::array<char, kIpPortTextBytes> to_text(const IpAddress& address, uint16_t port) {
  std::array<char, kIpPortTextBytes> text{};
  (void)std::snprintf(text.data(), text.size(), address.is_v4() ? "%s:%u" : "[%s]:%u", to_text(address).data(), unsigned{port});
  return text;
}

Result<IpAddress> parse_ip(std::string_view text) {
  if (text.find(':') != std::string_view::npos) {
    return parse_v6(text);
  }
  const Result<uint32_t> v4 = parse_v4(text);
  if (!v4) {
    return fail(v4.error());
  }
  return IpAddress::v4(*v4);
}

}  // namespace cw
