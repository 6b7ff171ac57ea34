// What status and logs show of a queue pair: what every transport can say, and behind it what only one has.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>

#include "base/time.h"
#include "verbs/ids.h"

namespace cw::verbs {

// Why a queue pair is in Error, in the words of its transport. The texts live as long as the process.
struct QueuePairError {
  static constexpr std::string_view kNone = "none";

  std::string_view cause = kNone;          // a metric label's word; kNone: not in Error
  std::string_view origin = kNone;         // whose work decided it: owner, requester, responder; iWARP: owner, peer
  std::string_view detail;                 // what exactly was wrong, where the cause does not say it
  std::string_view sequence_name = "PSN";  // iWARP: MSN
  uint32_t sequence = 0;                   // of the packet or message that decided it, or the oldest that is not acknowledged

  [[nodiscard]] bool any() const { return cause != kNone; }
  friend bool operator==(const QueuePairError&, const QueuePairError&) = default;
};
// For people. Empty: not in Error.
[[nodiscard]] std::string to_text(const QueuePairError& error);

// What has gone over a queue pair, as every wire counts it.
struct QueuePairTraffic {
  uint64_t payload_bytes_in = 0;
  uint64_t payload_bytes_out = 0;
  uint64_t retransmits = 0;  // RoCE: packets; iWARP: TCP segments
  Duration round_trip;       // smoothed; 0: not measured yet
};

class QueuePairInfo;

// A value that status shows; monostate: there is none now (JSON null). A Duration is shown in seconds.
using QueuePairValue = std::variant<std::monostate, bool, int64_t, uint64_t, Duration, std::string>;

// One field of a transport's queue pairs. A transport lists each once; whoever shows queue pairs goes through the list. Names
// are stable and differ from those that all transports have (control::QueuePairStatus).
struct QueuePairField {
  const char* name;
  const char* help;  // with the unit, where there is one
  QueuePairValue (*read)(const QueuePairInfo& info);
};

class QueuePairInfo {
 public:
  // Room for what one transport has.
  static constexpr size_t kDetailBytesMax = 320;

  std::string_view wire = "none";  // RoCE, iWARP; alive as long as the process
  // 0: the wire has no numbers for queue pairs.
  Qpn local_qpn;
  Qpn remote_qpn;
  QueuePairError error;
  QueuePairTraffic traffic;

  // `fields` read this kind of detail, and live as long as the process; without any, `qp` does not show the queue pair.
  template <typename Detail>
  void set_detail(const Detail& detail, std::span<const QueuePairField> fields = {}) {
    static_assert(std::is_trivially_copyable_v<Detail> && sizeof(Detail) <= kDetailBytesMax);
    std::memcpy(detail_.data(), &detail, sizeof(Detail));
    kind_ = &kKind<Detail>;
    fields_ = fields;
  }
  // Empty: there is no detail.
  [[nodiscard]] std::span<const QueuePairField> fields() const { return fields_; }
  // Of the field with this name; monostate when the transport has none.
  [[nodiscard]] QueuePairValue value(std::string_view name) const;
  // The transport's own, when it is of this kind; else one of defaults.
  template <typename Detail>
  [[nodiscard]] Detail detail() const {
    Detail detail{};
    if (kind_ == &kKind<Detail>) {
      std::memcpy(static_cast<void*>(&detail), detail_.data(), sizeof(Detail));
    }
    return detail;
  }
  template <typename Detail>
  [[nodiscard]] bool has() const {
    return kind_ == &kKind<Detail>;
  }

 private:
  template <typename Detail>
  static constexpr char kKind = 0;  // its address names the type

  const char* kind_ = nullptr;
  std::span<const QueuePairField> fields_;
  alignas(std::max_align_t) std::array<std::byte, kDetailBytesMax> detail_{};
};

}  // namespace cw::verbs
