// The little of HTTP/1.1 that serving a few pages takes: the request line is judged, header fields are ignored, bodies are not
// accepted.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace cw::telemetry {

enum class HttpStatus : uint16_t {
  kOk = 200,
  kBadRequest = 400,
  kNotFound = 404,
  kMethodNotAllowed = 405,
  kRequestTooLong = 431,
  kServiceUnavailable = 503,
  kVersionNotSupported = 505,
};

enum class HttpPage : uint8_t { kNone, kIndex, kMetrics, kHealthz, kReadyz };

struct HttpRequest {
  HttpStatus status = HttpStatus::kBadRequest;
  HttpPage page = HttpPage::kNone;  // with kOk
  bool head_only = false;           // HEAD: header without body
};

// True when `received` holds a request line and all header fields.
[[nodiscard]] bool http_is_complete(std::string_view received);
// Judges a complete request; it may hold anything.
[[nodiscard]] HttpRequest http_parse(std::string_view received);
// The answer as it goes over the wire; the connection ends after it. kMethodNotAllowed names the methods that are.
[[nodiscard]] std::string http_answer(HttpStatus status, std::string_view content_type, std::string_view body, bool head_only);

}  // namespace cw::telemetry
