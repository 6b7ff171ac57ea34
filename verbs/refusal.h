// What a refusal says on a wire that has no field for the reason (iWARP's MPA Reply; librdmacm gives none to its users): the
// private data begin with the reason's word. What the user says stands behind it, after a byte of 0. A peer of another kind sees
// text.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "base/bytes.h"
#include "verbs/connection.h"

namespace cw::verbs {

class Refusal {
 public:
  // Precondition: `user_data` has at most kPrivateDataMax bytes.
  Refusal(RejectReason reason, Bytes user_data);
  // As it is sent.
  [[nodiscard]] Bytes bytes() const { return Bytes(raw_).first(size_); }

  // The reason, if the peer is of our kind.
  [[nodiscard]] static std::optional<Rejection> of_peer(Bytes private_data);
  // What the peer's user says; all of it, if the peer is not of our kind.
  [[nodiscard]] static Bytes user_data(Bytes private_data);

 private:
  static constexpr uint32_t kWordMax = 15;

  std::array<uint8_t, kWordMax + 1 + kPrivateDataMax> raw_{};
  uint32_t size_ = 0;
};

}  // namespace cw::verbs
