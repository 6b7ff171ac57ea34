#include "telemetry/http_request.h"

#include <fmt/core.h>
#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <utility>

#include "control/config/ip_text.h"

namespace cw::telemetry {
namespace {

const char* reason_phrase(HttpStatus status) {
  switch (status) {
    case HttpStatus::kOk:
      return "OK";
    case HttpStatus::kNotModified:
      return "Not Modified";
    case HttpStatus::kBadRequest:
      return "Bad Request";
    case HttpStatus::kUnauthorized:
      return "Unauthorized";
    case HttpStatus::kNotFound:
      return "Not Found";
    case HttpStatus::kMethodNotAllowed:
      return "Method Not Allowed";
    case HttpStatus::kNotAcceptable:
      return "Not Acceptable";
    case HttpStatus::kMisdirectedRequest:
      return "Misdirected Request";
    case HttpStatus::kTooManyRequests:
      return "Too Many Requests";
    case HttpStatus::kRequestTooLong:
      return "Request Header Fields Too Large";
    case HttpStatus::kServiceUnavailable:
      return "Service Unavailable";
    case HttpStatus::kVersionNotSupported:
      return "HTTP Version Not Supported";
  }
  return "Error";
}

HttpPage page_of(std::string_view path) {
  if (path == "/metrics") {
    return HttpPage::kMetrics;
  }
  if (path == "/healthz") {
    return HttpPage::kHealthz;
  }
  if (path == "/readyz") {
    return HttpPage::kReadyz;
  }
  if (path == "/api/snapshot") {
    return HttpPage::kSnapshot;
  }
  if (path == "/api/history") {
    return HttpPage::kHistory;
  }
  if (path.starts_with("/page/")) {
    return HttpPage::kAsset;
  }
  return path == "/" ? HttpPage::kIndex : HttpPage::kNone;
}

// An HTTP token of letters: what every method is.
bool is_method(std::string_view text) {
  return !text.empty() && text.size() <= 16 && text.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ") == std::string_view::npos;
}

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

bool same_word(std::string_view text, std::string_view lower_case) {
  return std::ranges::equal(text, lower_case, {}, lower);
}

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r");
  return first == std::string_view::npos ? std::string_view() : text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

// Takes what stands before `separator` off `text`, and the separator.
std::string_view take_until(std::string_view& text, char separator) {
  const size_t end = text.find(separator);
  const std::string_view taken = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return taken;
}

// q=0 and q=0.000 refuse it; q=0.5 does not.
bool refuses(std::string_view parameter) {
  return parameter.starts_with("q=0") && parameter.find_first_of("123456789") == std::string_view::npos;
}

// "gzip, br;q=0.5"; one with weight 0 is refused.
bool accepts_gzip(std::string_view encodings) {
  while (!encodings.empty()) {
    std::string_view each = take_until(encodings, ',');
    const std::string_view name = trimmed(take_until(each, ';'));
    if (same_word(name, "gzip")) {
      return !refuses(trimmed(each));
    }
  }
  return false;
}

// "application/openmetrics-text;version=1.0.0;q=0.8, text/plain;version=0.0.4;q=0.5, */*;q=0.1". Who knows OpenMetrics at all
// prefers it; another version is left out, and the next entry looked at.
bool accepts_openmetrics(std::string_view types) {
  while (!types.empty()) {
    std::string_view each = take_until(types, ',');
    if (!same_word(trimmed(take_until(each, ';')), "application/openmetrics-text")) {
      continue;
    }
    bool is_ours = true;
    while (!each.empty()) {
      const std::string_view parameter = trimmed(take_until(each, ';'));
      const bool other_version = parameter.starts_with("version=") && parameter != "version=1.0.0";
      is_ours = is_ours && !other_version && !refuses(parameter);
    }
    if (is_ours) {
      return true;
    }
  }
  return false;
}

void read_fields(std::string_view lines, HttpRequest& request) {
  bool has_host = false;
  while (!lines.empty()) {
    std::string_view value = take_until(lines, '\n');
    const std::string_view name = take_until(value, ':');
    value = trimmed(value);
    if (same_word(name, "host")) {
      // With two of them somebody in between could act upon the one, and we upon the other (RFC 9112, section 3.2).
      request.status = has_host ? HttpStatus::kBadRequest : request.status;
      request.host = value;
      has_host = true;
    } else if (same_word(name, "if-none-match")) {
      request.if_none_match = value;
    } else if (same_word(name, "authorization")) {
      request.authorization = value;
    } else if (same_word(name, "accept-encoding")) {
      request.accepts_gzip = accepts_gzip(value);
    } else if (same_word(name, "accept")) {
      request.accepts_openmetrics = accepts_openmetrics(value);
    }
  }
}

}  // namespace

// Lines may end in a bare LF (RFC 9112, section 2.2): who types a request by hand sends no CR.
bool http_is_complete(std::string_view received) {
  return received.find("\r\n\r\n") != std::string_view::npos || received.find("\n\n") != std::string_view::npos;
}

HttpRequest http_parse(std::string_view received) {
  std::string_view line = take_until(received, '\n');
  if (line.ends_with('\r')) {
    line.remove_suffix(1);
  }
  const size_t first_blank = line.find(' ');
  const size_t last_blank = line.rfind(' ');
  if (first_blank == std::string_view::npos || last_blank == first_blank) {
    return {HttpStatus::kBadRequest};
  }
  const std::string_view method = line.substr(0, first_blank);
  std::string_view target = line.substr(first_blank + 1, last_blank - first_blank - 1);
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
  HttpRequest request;
  request.path = take_until(target, '?');
  request.query = target;
  const HttpPage page = page_of(request.path);
  request.status = page == HttpPage::kNone ? HttpStatus::kNotFound : HttpStatus::kOk;
  request.head_only = method == "HEAD";
  read_fields(received, request);
  request.page = request.status == HttpStatus::kOk ? page : HttpPage::kNone;
  return request;
}

std::optional<std::string_view> http_query_value(std::string_view query, std::string_view name) {
  while (!query.empty()) {
    std::string_view value = take_until(query, '&');
    if (take_until(value, '=') == name) {
      return value;
    }
  }
  return std::nullopt;
}

std::optional<std::string> http_basic_credentials(std::string_view authorization) {
  constexpr size_t kBytesMax = 512;
  const std::string_view scheme = take_until(authorization, ' ');
  const std::string_view packed = trimmed(authorization);
  if (!same_word(scheme, "basic") || packed.empty() || packed.size() > kBytesMax || packed.size() % 4 != 0) {
    return std::nullopt;
  }
  std::array<unsigned char, kBytesMax> bytes{};
  const int size =
      EVP_DecodeBlock(bytes.data(), reinterpret_cast<const unsigned char*>(packed.data()), static_cast<int>(packed.size()));
  const size_t padding = packed.ends_with("==") ? 2 : packed.ends_with('=') ? 1 : 0;
  if (size < 0 || static_cast<size_t>(size) < padding) {
    return std::nullopt;
  }
  std::string credentials(reinterpret_cast<const char*>(bytes.data()), static_cast<size_t>(size) - padding);
  if (credentials.find(':') == std::string::npos || credentials.find('\0') != std::string::npos) {
    return std::nullopt;
  }
  return credentials;
}

bool http_host_is_loopback(std::string_view host) {
  std::string_view name = host;
  if (name.starts_with('[')) {
    const size_t end = name.find(']');
    if (end == std::string_view::npos) {
      return false;
    }
    name = name.substr(1, end - 1);
  } else {
    name = name.substr(0, name.find(':'));
  }
  if (same_word(name, "localhost")) {
    return true;
  }
  const std::optional<IpAddress> address = control::parse_ip(name);
  return address && control::is_loopback(*address);
}

HttpReply http_answer(const HttpAnswer& answer, bool head_only) {
  std::string text = fmt::format("HTTP/1.1 {} {}\r\n", static_cast<uint32_t>(answer.status), reason_phrase(answer.status));
  if (answer.status == HttpStatus::kMethodNotAllowed) {
    text += "Allow: GET, HEAD\r\n";
  } else if (answer.status == HttpStatus::kUnauthorized) {
    text += "WWW-Authenticate: Basic realm=\"Causeway\", charset=\"UTF-8\"\r\n";
  } else if (answer.status == HttpStatus::kTooManyRequests) {
    text += "Retry-After: 1\r\n";
  }
  if (answer.status != HttpStatus::kNotModified) {
    text += fmt::format("Content-Type: {}\r\nContent-Length: {}\r\n", answer.content_type, answer.body.size());
    text += answer.gzip ? "Content-Encoding: gzip\r\nVary: Accept-Encoding\r\n" : "";
  }
  text +=
      answer.etag.empty() ? "Cache-Control: no-store\r\n" : fmt::format("Cache-Control: no-cache\r\nETag: {}\r\n", answer.etag);
  text +=
      "Content-Security-Policy: default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'\r\n"
      "Cross-Origin-Resource-Policy: same-origin\r\n"
      "Referrer-Policy: no-referrer\r\n"
      "X-Content-Type-Options: nosniff\r\n"
      "X-Frame-Options: DENY\r\n"
      "Connection: close\r\n\r\n";
  if (!head_only && answer.status != HttpStatus::kNotModified) {
    text += answer.body;
  }
  return {answer.status, std::move(text)};
}

}  // namespace cw::telemetry
