// What a log line says beside its text, for programs that look for lines: one word has one meaning in all lines. JSON has fields
// under these names, journald as CAUSEWAY_CLIENT and so on (log_format.h). deploy/README.md explains them to operators.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cw::telemetry {

// In the order in which a line has them.
enum class LogFieldName : uint8_t {
  kClient,                 // its address
  kClientPort,             // the port it connects from
  kListenerPort,           // the port it connects to
  kClientSection,          // name of the [[client]] section that refused it
  kSectionConnectionsMax,  // of that section
  kBackend,                // name
  kServer,                 // of the backend: address and port
  kDevice,                 // of a [[port]], or an RDMA device
  kPort,                   // which [[port]], from 0
  kState,                  // of the server or the port: "up" or "down"
  kResult,                 // of the connection: the label of causeway_connections_total
  kCause,                  // why the queue pair failed: a metric label's word
  kOrigin,                 // whose work decided that
  kError,                  // what went wrong with the backend, for people
  kWire,                   // of the connection
  kLocalQpn,               // with kRemoteQpn, where the wire has queue pair numbers
  kRemoteQpn,              // of the client
  kPathMtu,                // in bytes, where the gateway makes the packets
  kInlineSendBytes,        // longest inline message to the client
  kInlineReceiveBytes,     // longest inline message from it
  kRemoteInvalidation,     // "on" or "off"
  kCalls,                  // answered over the connection's life
  kCount,
};
[[nodiscard]] std::string_view to_string(LogFieldName name) noexcept;

struct LogField {
  LogField(LogFieldName named, std::string_view value) : name(named), text(value) {}
  LogField(LogFieldName named, uint64_t value) : name(named), number(value) {}
  LogFieldName name;
  std::string text;
  std::optional<uint64_t> number;  // instead of the text
};
// Each name at most once.
using LogFields = std::vector<LogField>;

}  // namespace cw::telemetry
