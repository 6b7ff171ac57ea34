#include "telemetry/http_request.h"

#include <fmt/core.h>

namespace cw::telemetry {
namespace {

const char* reason_phrase(HttpStatus status) {
  switch (status) {
    case HttpStatus::kOk:
      return "OK";
    case HttpStatus::kBadRequest:
      return "Bad Request";
    case HttpStatus::kNotFound:
      return "Not Found";
    case HttpStatus::kMethodNotAllowed:
      return "Method Not Allowed";
    case HttpStatus::kRequestTooLong:
      return "Request Header Fields Too Large";
    case HttpStatus::kServiceUnavailable:
      return "Service Unavailable";
    case HttpStatus::kVersionNotSupported:
      return "HTTP Version Not Supported";
  }
  return "Error";
}

HttpPage page_of(std::string_view target) {
  const std::string_view path = target.substr(0, target.find('?'));
  if (path == "/metrics") {
    return HttpPage::kMetrics;
  }
  if (path == "/healthz") {
    return HttpPage::kHealthz;
  }
  if (path == "/readyz") {
    return HttpPage::kReadyz;
  }
  return path == "/" ? HttpPage::kIndex : HttpPage::kNone;
}

// An HTTP token of letters: what every method is.
bool is_method(std::string_view text) {
  return !text.empty() && text.size() <= 16 && text.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ") == std::string_view::npos;
}

}  // namespace

bool http_is_complete(std::string_view received) {
  return received.find("\r\n\r\n") != std::string_view::npos || received.find("\n\n") != std::string_view::npos;
}

HttpRequest http_parse(std::string_view received) {
  std::string_view line = received.substr(0, received.find('\n'));
  if (line.ends_with('\r')) {
    line.remove_suffix(1);
  }
  const size_t first_blank = line.find(' ');
  const size_t last_blank = line.rfind(' ');
  if (first_blank == std::string_view::npos || last_blank == first_blank) {
    return {HttpStatus::kBadRequest};
  }
  const std::string_view method = line.substr(0, first_blank);
  const std::string_view target = line.substr(first_blank + 1, last_blank - first_blank - 1);
  const std::string_view version = line.substr(last_blank + 1);
  if (!is_method(method) || !target.starts_with('/') || target.find(' ') != std::string_view::npos ||
      !version.starts_with("HTTP/")) {
    return {HttpStatus::kBadRequest};
  }
  if (version != "HTTP/1.1" && version != "HTTP/1.0") {
    return {HttpStatus::kVersionNotSupported};
  }
  if (method != "GET" && method != "HEAD") {
    return {HttpStatus::kMethodNotAllowed};
  }
  const HttpPage page = page_of(target);
  return {page == HttpPage::kNone ? HttpStatus::kNotFound : HttpStatus::kOk, page, method == "HEAD"};
}

std::string http_answer(HttpStatus status, std::string_view content_type, std::string_view body, bool head_only) {
  const char* allow = status == HttpStatus::kMethodNotAllowed ? "Allow: GET, HEAD\r\n" : "";
  std::string answer = fmt::format("HTTP/1.1 {} {}\r\n{}Content-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
                                   static_cast<uint32_t>(status), reason_phrase(status), allow, content_type, body.size());
  if (!head_only) {
    answer += body;
  }
  return answer;
}

}  // namespace cw::telemetry
