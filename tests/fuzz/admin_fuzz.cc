// A line from the admin socket: whatever it says, the answer is one line that holds one JSON object.
#include <nlohmann/json.hpp>
#include <string_view>

#include "control/admin/admin_commands.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/unit/control/fake_view.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 4096) {
    return 0;
  }
  cw::control::FakeView view;
  cw::control::FakeControl control;
  // A first byte that is odd speaks for an administrator: what changes something is reached only then.
  const cw::control::AdminCaller caller{"fuzz", size > 0 && (data[0] & 1) != 0};
  const std::string answer =
      cw::control::admin_answer(std::string_view(reinterpret_cast<const char*>(data), size), caller, {view, control});
  FUZZ_CHECK(answer.find('\n') == std::string::npos);
  const auto parsed = nlohmann::json::parse(answer, nullptr, false);
  FUZZ_CHECK(parsed.is_object());
  return 0;
}
