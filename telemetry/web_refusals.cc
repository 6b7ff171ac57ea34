#include "telemetry/web_refusals.h"

namespace cw::telemetry {

const char* to_string(WebRefusal reason) {
  switch (reason) {
    case WebRefusal::kTls:
      return "tls";
    case WebRefusal::kPlainHttp:
      return "plain_http";
    case WebRefusal::kNoPassword:
      return "no_password";
    case WebRefusal::kWrongPassword:
      return "wrong_password";
    case WebRefusal::kPasswordRate:
      return "password_rate";
    case WebRefusal::kWrongHost:
      return "wrong_host";
    case WebRefusal::kBadRequest:
      return "bad_request";
    case WebRefusal::kNotFound:
      return "not_found";
    case WebRefusal::kHandshakeTimeout:
      return "handshake_timeout";
    case WebRefusal::kRequestTimeout:
      return "request_timeout";
    case WebRefusal::kAnswerTimeout:
      return "answer_timeout";
    case WebRefusal::kEvicted:
      return "evicted";
    case WebRefusal::kCount:
      break;
  }
  return "unknown";
}

}  // namespace cw::telemetry
