#include "verbs/connection.h"

namespace cw::verbs {

std::string_view to_string(RejectReason reason) noexcept {
  switch (reason) {
    case RejectReason::kNoListener:
      return "no_listener";
    case RejectReason::kNoResources:
      return "no_resources";
    case RejectReason::kRefused:
      return "refused";
    case RejectReason::kNoAnswer:
      return "timeout";
    case RejectReason::kOther:
      return "other";
  }
  return "other";
}

}  // namespace cw::verbs
