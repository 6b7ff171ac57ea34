// The little of HTTP/1.1 that serving a few pages takes: the request line is judged, six header fields are looked at and all
// others ignored, bodies are not accepted.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace cw::telemetry {

enum class HttpStatus : uint16_t {
  kOk = 200,
  kNotModified = 304,
  kBadRequest = 400,
  kUnauthorized = 401,
  kNotFound = 404,
  kMethodNotAllowed = 405,
  kNotAcceptable = 406,
  kMisdirectedRequest = 421,
  kTooManyRequests = 429,
  kRequestTooLong = 431,
  kServiceUnavailable = 503,
  kVersionNotSupported = 505,
};

// kAsset: anything below /page/.
enum class HttpPage : uint8_t { kNone, kIndex, kMetrics, kHealthz, kReadyz, kAsset, kSnapshot, kHistory };

// Views point into what was parsed.
struct HttpRequest {
  HttpStatus status = HttpStatus::kBadRequest;
  HttpPage page = HttpPage::kNone;  // with kOk
  bool head_only = false;           // HEAD: header without body
  std::string_view path = {};
  std::string_view query = {};          // what follows '?'
  std::string_view host = {};           // empty: none
  std::string_view if_none_match = {};  // empty: none
  std::string_view authorization = {};  // empty: none
  bool accepts_gzip = false;            // Accept-Encoding says so
  bool accepts_openmetrics = false;     // Accept names its version 1.0.0 or none
};

struct HttpAnswer {
  HttpStatus status = HttpStatus::kOk;
  std::string_view content_type;
  std::string_view body;
  std::string_view etag = {};  // with its quotes; then the answer may be kept if it is asked for anew. Empty: never kept
  bool gzip = false;           // the body is compressed
};

// An answer as it goes over the wire.
struct HttpReply {
  HttpStatus status = HttpStatus::kOk;  // that the bytes say
  std::string bytes;
};

// True when `received` holds a request line and all header fields.
[[nodiscard]] bool http_is_complete(std::string_view received);
// Judges a complete request; it may hold anything. Two Host fields are a bad request.
[[nodiscard]] HttpRequest http_parse(std::string_view received);
// The value of `name` in a query "a=1&b=2", as it stands there; the first of several.
[[nodiscard]] std::optional<std::string_view> http_query_value(std::string_view query, std::string_view name);
// "name:password" out of an Authorization field, "Basic bmFtZTpwYXNzd29yZA=="; holds a colon, and no zero byte.
[[nodiscard]] std::optional<std::string> http_basic_credentials(std::string_view authorization);
// Whether a Host field names this machine by a loopback address or as localhost, with or without a port. Another name can be
// one that a web site has made point here, to read with its visitor's browser what is meant for this machine alone.
[[nodiscard]] bool http_host_is_loopback(std::string_view host);
// The connection ends after it. kMethodNotAllowed names the methods that are, kUnauthorized asks for a name and a password,
// kTooManyRequests says when to come again. A browser is told to take the content for what it is called, to load nothing from
// elsewhere, and to show it in no frame.
[[nodiscard]] HttpReply http_answer(const HttpAnswer& answer, bool head_only);

}  // namespace cw::telemetry
