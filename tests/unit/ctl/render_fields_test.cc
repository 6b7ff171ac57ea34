// What is shown has to exist: a field that a table asks for by a name that no answer has would show as "-" for ever.
#include <gtest/gtest.h>

#include <array>
#include <sstream>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>

#include "control/admin/answer_fields.h"
#include "control/ctl/render.h"

namespace cw::control {
namespace {

// A value of this kind that is not empty. What an answer may leave out counts as a number.
Json some_of(const Json& kind) {
  switch (kind.type()) {
    case Json::value_t::boolean:
      return true;
    case Json::value_t::string:
      return "something";
    case Json::value_t::array:
      return Json::array({"something"});
    default:
      return 100003;  // also the number of a program that has a name
  }
}

// A row with every field that such a row can have, and a value in each.
template <typename T>
Json full_row() {
  Json row = Json::object();
  for (const AnswerField<T>& field : answer_fields_of<T>()) {
    row[field.name] = some_of(field.get(T()));
  }
  return row;
}

Json answer_of(const char* list, Json row) {
  return Json::object({{list, Json::array({std::move(row)})}});
}

// "-" or a size of nothing.
bool shows_nothing(const std::string& text) {
  std::istringstream words(text);
  std::string last;
  for (std::string word; words >> word; last = word) {
    if (word == "-" || word.starts_with("-/") || word.ends_with("/-") || (last == "0" && word.starts_with("B"))) {
      return true;
    }
  }
  return false;
}

TEST(RenderFields, EveryColumnOfATableIsAFieldOfItsRows) {
  for (const std::string& text : {render_ports(answer_of("ports", full_row<PortStatus>()), Detail::kWide),
                                  render_listeners(answer_of("listeners", full_row<ListenerStatus>())),
                                  render_backends(answer_of("backends", full_row<BackendStatus>())),
                                  render_servers(answer_of("servers", full_row<ServerStatus>())),
                                  render_routes(answer_of("routes", full_row<RouteStatus>())),
                                  render_clients(answer_of("clients", full_row<ClientStatus>()), Detail::kWide),
                                  render_cores(answer_of("cores", full_row<CoreStatus>())),
                                  render_connections(answer_of("connections", full_row<ConnectionStatus>()), Detail::kWide),
                                  render_transport_events(answer_of("events", full_row<TransportEventStatus>())),
                                  render_schema(answer_of("schema", full_row<StatInfo>()))}) {
    EXPECT_FALSE(shows_nothing(text)) << text;
  }
}

TEST(RenderFields, EveryWordOfAQueuePairIsAFieldOfItsTransport) {
  constexpr std::array kWires = {"RoCE", "iWARP", "verbs"};  // in the order of the tables
  ASSERT_EQ(transport_fields().size(), kWires.size());
  for (size_t wire = 0; wire < kWires.size(); ++wire) {
    Json row = full_row<QueuePairStatus>();
    row["wire"] = kWires[wire];
    const verbs::QueuePairInfo info;
    for (const verbs::QueuePairField& field : transport_fields()[wire]) {
      row[field.name] = std::visit(
          [](const auto& value) {
            using Value = std::decay_t<decltype(value)>;
            return std::is_same_v<Value, bool>          ? Json(true)
                   : std::is_same_v<Value, std::string> ? Json("something")
                                                        : Json(100003);
          },
          field.read(info));
    }
    const std::string text = render_queue_pairs(answer_of("queue_pairs", row));
    EXPECT_FALSE(shows_nothing(text)) << text;
  }
}

}  // namespace
}  // namespace cw::control
