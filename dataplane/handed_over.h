// What a causewayd leaves to the one that follows it: its connections, each as Gateway::take_handed_over() gives it, by poll core,
// and the key of its queue pair numbers.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/bytes.h"

namespace cw::dataplane {

// Of all that is written down, here, in gateway/saved_connection.h and in gateway/node/saved_roce.h: another format whenever one of
// them changes.
inline constexpr uint32_t kHandOverFormat = 1;

struct HandedOver {
  uint64_t qpn_key = 0;
  std::vector<std::vector<std::vector<uint8_t>>> cores;

  [[nodiscard]] size_t connections() const;
};

[[nodiscard]] std::vector<uint8_t> to_bytes(const HandedOver& handed_over);
// nullopt: it is something else, or of another format.
[[nodiscard]] std::optional<HandedOver> parse_handed_over(Bytes bytes);

}  // namespace cw::dataplane
