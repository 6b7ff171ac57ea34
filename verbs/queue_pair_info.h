// What status and logs show of a queue pair: what every transport can say, and behind it what only one has.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <type_traits>

#include "verbs/ids.h"

namespace cw::verbs {

// Why a queue pair is in Error, in the words of its transport. The texts live as long as the process.
struct QueuePairError {
  static constexpr std::string_view kNone = "none";

  std::string_view cause = kNone;   // a metric label's word; kNone: not in Error
  std::string_view origin = kNone;  // whose work decided it: owner, requester, responder
  uint32_t sequence = 0;            // of the packet or message that decided it, or the oldest that is not acknowledged

  [[nodiscard]] bool any() const { return cause != kNone; }
  friend bool operator==(const QueuePairError&, const QueuePairError&) = default;
};

class QueuePairInfo {
 public:
  // Room for what one transport has.
  static constexpr size_t kDetailBytesMax = 320;

  std::string_view wire = "none";  // RoCE, iWARP; alive as long as the process
  // Where the wire numbers its queue pairs.
  Qpn local_qpn;
  Qpn remote_qpn;
  QueuePairError error;

  template <typename Detail>
  void set_detail(const Detail& detail) {
    static_assert(std::is_trivially_copyable_v<Detail> && sizeof(Detail) <= kDetailBytesMax);
    std::memcpy(detail_.data(), &detail, sizeof(Detail));
    kind_ = &kKind<Detail>;
  }
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
  alignas(std::max_align_t) std::array<std::byte, kDetailBytesMax> detail_{};
};

}  // namespace cw::verbs
