// Why a client of the metrics server did not get what it asked for, and how often that was. The log says who it was; here is what
// an alert or a graph can count.
//
// A connection counts once at most, and one that its client ends does not count: it was not refused.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace cw::telemetry {

enum class WebRefusal : uint8_t {
  kTls,               // the handshake failed: another version, no certificate that is trusted, or no TLS at all
  kPlainHttp,         // asked by plain HTTP where TLS is spoken, and was told so
  kNoPassword,        // gave none; a browser asks this way first, to learn that one is wanted
  kWrongPassword,     // user or password, or a form of Authorization that is not Basic
  kPasswordRate,      // tried passwords faster than they are checked
  kWrongHost,         // a name that is not the loopback address's
  kBadRequest,        // no HTTP, another version or method, too long, or a query that makes no sense
  kNotFound,          // there is no such page, or the live page is off
  kHandshakeTimeout,  // did not finish the TLS handshake in time
  kRequestTimeout,    // did not send its request in time
  kAnswerTimeout,     // did not take its answer in time
  kEvicted,           // the longest silent one, which gave way to a newer one: there were kClientsMax
  kCount,
};
inline constexpr size_t kWebRefusalCount = static_cast<size_t>(WebRefusal::kCount);

// As the label `reason` has it.
[[nodiscard]] const char* to_string(WebRefusal reason);

// The server's thread counts, any thread reads.
class WebRefusals {
 public:
  void count(WebRefusal reason) { counts_[static_cast<size_t>(reason)].fetch_add(1, std::memory_order_relaxed); }
  [[nodiscard]] uint64_t of(WebRefusal reason) const {
    return counts_[static_cast<size_t>(reason)].load(std::memory_order_relaxed);
  }

 private:
  std::array<std::atomic<uint64_t>, kWebRefusalCount> counts_{};
};

}  // namespace cw::telemetry
