#include "verbs/refusal.h"

#include <algorithm>
#include <string_view>

#include "base/assert.h"

namespace cw::verbs {
namespace {

constexpr std::array kReasons = {RejectReason::kNoListener, RejectReason::kNoResources, RejectReason::kRefused};

Bytes bytes_of(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

bool begins_with(Bytes private_data, Bytes word) {
  return private_data.size() >= word.size() && std::ranges::equal(private_data.first(word.size()), word) &&
         (private_data.size() == word.size() || private_data[word.size()] == 0);
}

}  // namespace

Refusal::Refusal(RejectReason reason, Bytes user_data) {
  const Bytes word = bytes_of(to_string(reason));
  CW_ASSERT(word.size() <= kWordMax && user_data.size() <= kPrivateDataMax);
  std::ranges::copy(word, raw_.begin());
  size_ = static_cast<uint32_t>(word.size());
  if (!user_data.empty()) {
    std::ranges::copy(user_data, raw_.begin() + size_ + 1);
    size_ += 1 + static_cast<uint32_t>(user_data.size());
  }
}

std::optional<Rejection> Refusal::of_peer(Bytes private_data) {
  for (const RejectReason reason : kReasons) {
    const std::string_view word = to_string(reason);
    if (begins_with(private_data, bytes_of(word))) {
      return Rejection{reason, word};
    }
  }
  return std::nullopt;
}

Bytes Refusal::user_data(Bytes private_data) {
  const auto rejection = of_peer(private_data);
  return rejection ? private_data.subspan(std::min(rejection->name.size() + 1, private_data.size())) : private_data;
}

}  // namespace cw::verbs
