// Answers of the gateway as text for people. Pure. Fields that are missing show as "-", so that a newer or older gateway still
// shows.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "control/ctl/table.h"

namespace cw::control {

[[nodiscard]] std::string render_status(const nlohmann::ordered_json& answer, Detail detail = Detail::kNarrow);
[[nodiscard]] std::string render_connections(const nlohmann::ordered_json& answer, Detail detail = Detail::kNarrow);
// A block per queue pair.
[[nodiscard]] std::string render_queue_pairs(const nlohmann::ordered_json& answer, Detail detail = Detail::kNarrow);
// A line per event, oldest first.
[[nodiscard]] std::string render_transport_events(const nlohmann::ordered_json& answer, Detail detail = Detail::kNarrow);
[[nodiscard]] std::string render_listeners(const nlohmann::ordered_json& answer, Detail detail = Detail::kNarrow);
[[nodiscard]] std::string render_backends(const nlohmann::ordered_json& answer, Detail detail = Detail::kNarrow);
[[nodiscard]] std::string render_servers(const nlohmann::ordered_json& answer, Detail detail = Detail::kNarrow);
[[nodiscard]] std::string render_routes(const nlohmann::ordered_json& answer, Detail detail = Detail::kNarrow);
[[nodiscard]] std::string render_clients(const nlohmann::ordered_json& answer, Detail detail = Detail::kNarrow);
[[nodiscard]] std::string render_ports(const nlohmann::ordered_json& answer, Detail detail = Detail::kNarrow);
[[nodiscard]] std::string render_cores(const nlohmann::ordered_json& answer, Detail detail = Detail::kNarrow);
[[nodiscard]] std::string render_stats(const nlohmann::ordered_json& answer, Detail detail = Detail::kNarrow);
[[nodiscard]] std::string render_schema(const nlohmann::ordered_json& answer, Detail detail = Detail::kNarrow);

}  // namespace cw::control
