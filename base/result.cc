#include "base/result.h"

namespace cw {

const char* to_string(Error error) noexcept {
  switch (error) {
    case Error::kTruncated:
      return "truncated";
    case Error::kBadValue:
      return "bad value";
    case Error::kUnsupported:
      return "unsupported";
    case Error::kLimit:
      return "limit exceeded";
    case Error::kNoSpace:
      return "no space";
    case Error::kNoResources:
      return "no resources";
    case Error::kBadState:
      return "bad state";
  }
  return "unknown error";
}

}  // namespace cw
