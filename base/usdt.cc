#include "base/usdt.h"

#include <algorithm>
#include <array>

#ifdef CAUSEWAY_USDT
#define _SDT_HAS_SEMAPHORES 1
#include <sys/sdt.h>
#endif

extern "C" {
[[gnu::section(".probes")]] volatile uint16_t causeway_transport_event_semaphore = 0;
[[gnu::section(".probes")]] volatile uint16_t causeway_call_done_semaphore = 0;
}

namespace cw::usdt {
namespace {

// On the stack: who watches from the kernel reads only memory that is there, and a constant that nobody has used yet may still be
// in the file.
struct Text {
  std::array<char, 96> bytes{};  // longer ones are cut

  explicit Text(std::string_view text) { std::copy_n(text.begin(), std::min(text.size(), bytes.size() - 1), bytes.begin()); }
  [[nodiscard]] const char* c_str() const { return bytes.data(); }
};

}  // namespace

void fire([[maybe_unused]] const TransportEvent& event) {
#ifdef CAUSEWAY_USDT
  const Text wire(event.wire);
  const Text name(event.event);
  const Text reason(event.reason);
  const Text peer(event.peer_port != 0 ? to_text(event.peer, event.peer_port).data() : "");
  DTRACE_PROBE6(causeway, transport_event, wire.c_str(), name.c_str(), reason.c_str(), event.local_qpn, peer.c_str(),
                event.sequence);
#endif
}

void fire([[maybe_unused]] const CallDone& call) {
#ifdef CAUSEWAY_USDT
  const Text client(to_text(call.client).data());
  const Text program(call.program);
  const Text procedure(call.procedure);
  DTRACE_PROBE4(causeway, call_done, client.c_str(), program.c_str(), procedure.c_str(), call.ns);
#endif
}

}  // namespace cw::usdt
