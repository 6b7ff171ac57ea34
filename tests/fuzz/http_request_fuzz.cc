// A request to the metrics server: whatever it says, it has one status, and a page exactly where the status is 200.
#include <string>
#include <string_view>

#include "telemetry/http_request.h"
#include "tests/fuzz/fuzz_target.h"

using namespace cw::telemetry;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 16384) {
    return 0;
  }
  const std::string_view received(reinterpret_cast<const char*>(data), size);
  (void)http_is_complete(received);
  const HttpRequest request = http_parse(received);
  FUZZ_CHECK((request.status == HttpStatus::kOk) == (request.page != HttpPage::kNone));
  // What is taken out of it lies within it, and holds no line end that an answer could repeat.
  for (const std::string_view part : {request.path, request.query, request.host, request.if_none_match, request.authorization}) {
    FUZZ_CHECK(part.empty() ||
               (part.data() >= received.data() && part.data() + part.size() <= received.data() + received.size()));
    FUZZ_CHECK(part.find('\n') == std::string_view::npos);
  }
  const auto value = http_query_value(request.query, "since");
  FUZZ_CHECK(!value || value->find('&') == std::string_view::npos);
  (void)http_host_is_loopback(request.host);
  for (const std::string_view field : {request.authorization, received}) {
    const auto credentials = http_basic_credentials(field);
    FUZZ_CHECK(!credentials || (credentials->find(':') != std::string::npos && credentials->find('\0') == std::string::npos));
  }
  const std::string answer =
      http_answer({.status = request.status, .content_type = "text/plain", .body = "body"}, request.head_only).bytes;
  FUZZ_CHECK(answer.starts_with("HTTP/1.1 "));
  FUZZ_CHECK(answer.ends_with("body") != request.head_only);
  return 0;
}
