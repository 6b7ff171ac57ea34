// The fields of every row that the admin socket answers with: name, meaning, value. One table per kind of row; the answers, the
// manual page and the tests are made from it. Names are stable: fields may be added, none changes its meaning or goes away.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "control/admin/gateway_view.h"

namespace cw::control {

using Json = nlohmann::ordered_json;

template <typename T>
struct AnswerField {
  const char* name;
  const char* help;  // with the unit, where there is one
  Json (*get)(const T& row);
};

[[nodiscard]] std::span<const AnswerField<PortStatus>> answer_fields(const PortStatus*);
[[nodiscard]] std::span<const AnswerField<RdmaPortStatus>> answer_fields(const RdmaPortStatus*);
[[nodiscard]] std::span<const AnswerField<ListenerStatus>> answer_fields(const ListenerStatus*);
[[nodiscard]] std::span<const AnswerField<BackendStatus>> answer_fields(const BackendStatus*);
[[nodiscard]] std::span<const AnswerField<ServerStatus>> answer_fields(const ServerStatus*);
[[nodiscard]] std::span<const AnswerField<RouteStatus>> answer_fields(const RouteStatus*);
[[nodiscard]] std::span<const AnswerField<ClientStatus>> answer_fields(const ClientStatus*);
[[nodiscard]] std::span<const AnswerField<ConnectionStatus>> answer_fields(const ConnectionStatus*);
[[nodiscard]] std::span<const AnswerField<QueuePairStatus>> answer_fields(const QueuePairStatus*);
[[nodiscard]] std::span<const AnswerField<ActivityStatus>> answer_fields(const ActivityStatus*);
[[nodiscard]] std::span<const AnswerField<CoreStatus>> answer_fields(const CoreStatus*);
[[nodiscard]] std::span<const AnswerField<TransportEventStatus>> answer_fields(const TransportEventStatus*);
[[nodiscard]] std::span<const AnswerField<StatInfo>> answer_fields(const StatInfo*);

template <typename T>
[[nodiscard]] std::span<const AnswerField<T>> answer_fields_of() {
  return answer_fields(static_cast<const T*>(nullptr));
}

// The fields of queue pairs of each transport there is; a transport is added here. They follow those of QueuePairStatus.
[[nodiscard]] std::span<const std::span<const verbs::QueuePairField>> transport_fields();

template <typename T>
[[nodiscard]] Json to_row(const T& row) {
  Json json = Json::object();
  for (const AnswerField<T>& field : answer_fields_of<T>()) {
    json[field.name] = field.get(row);
  }
  return json;
}

template <>
[[nodiscard]] Json to_row(const QueuePairStatus& row);

template <typename Rows>
[[nodiscard]] Json to_rows(const Rows& rows) {
  Json array = Json::array();
  for (const auto& row : rows) {
    array.push_back(to_row(row));
  }
  return array;
}

}  // namespace cw::control
