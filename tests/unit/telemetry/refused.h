// What a metrics server has counted, as tests compare it.
#pragma once

#include <fmt/core.h>

#include <string>

#include "telemetry/web_refusals.h"

namespace cw::telemetry {

// "no_password 2, tls 1": all that is not 0, so that a test sees too what must not have been counted.
inline std::string refused(const WebRefusals& refusals) {
  std::string text;
  for (size_t i = 0; i < kWebRefusalCount; ++i) {
    const auto reason = static_cast<WebRefusal>(i);
    if (refusals.of(reason) > 0) {
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", to_string(reason), refusals.of(reason));
    }
  }
  return text;
}

}  // namespace cw::telemetry
