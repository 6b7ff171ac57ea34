#include "verbs/queue_pair_info.h"

#include <algorithm>

namespace cw::verbs {

std::string to_text(const QueuePairError& error) {
  if (!error.any()) {
    return {};
  }
  std::string text(error.cause);
  if (!error.detail.empty()) {
    text += " (" + std::string(error.detail) + ")";
  }
  return text + " at " + std::string(error.sequence_name) + " " + std::to_string(error.sequence);
}

QueuePairValue QueuePairInfo::value(std::string_view name) const {
  const auto field = std::ranges::find(fields_, name, &QueuePairField::name);
  return field == fields_.end() ? QueuePairValue() : field->read(*this);
}

}  // namespace cw::verbs
