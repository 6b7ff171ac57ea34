// A request to /metrics: whatever it says, it has one status, and a page exactly where the status is 200.
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
  const std::string answer = http_answer(request.status, "text/plain", "body", request.head_only);
  FUZZ_CHECK(answer.starts_with("HTTP/1.1 "));
  FUZZ_CHECK(answer.ends_with("body") != request.head_only);
  return 0;
}
