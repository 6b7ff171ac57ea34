#include "control/ctl/row_filter.h"

#include <algorithm>

#include "control/config/ip_text.h"
#include "control/ctl/command_line.h"

namespace cw::control {
namespace {

using Json = nlohmann::ordered_json;

// An address meets the networks that it is in, and a network those that it has addresses in common with.
bool meets(const std::optional<IpPrefix>& network, const Json& field) {
  if (field.is_array()) {
    return std::ranges::any_of(field, [&](const Json& each) { return meets(network, each); });
  }
  const auto other = field.is_string() ? parse_prefix(field.get<std::string>()) : std::nullopt;
  return network && other &&
         (network->length_bits < other->length_bits ? network->contains(other->address) : other->contains(network->address));
}

bool fits(const Parameter& filter, const std::string& value, const Json& field) {
  uint64_t number = 0;
  switch (filter.kind) {
    case ValueKind::kNetwork:
      return meets(parse_prefix(value), field);
    case ValueKind::kNumber:
      return field.is_number_unsigned() && parse_number(value, number) && field.get<uint64_t>() == number;
    case ValueKind::kFlag:
      return field.is_boolean() && field.get<bool>() == (value == "yes");
    case ValueKind::kText:
    case ValueKind::kChoice:
      return field.is_string() && field.get<std::string>() == value;
    case ValueKind::kSeconds:
    case ValueKind::kFile:
      break;
  }
  return false;
}

bool fits_all(const Invocation& invocation, const Json& row) {
  for (const Given& given : invocation.given) {
    const Parameter& filter = *given.parameter;
    if (filter.use != ParameterUse::kFilter) {
      continue;
    }
    const auto field = row.is_object() ? row.find(filter.field) : row.end();
    const bool any = row.is_object() && field != row.end() && std::ranges::any_of(invocation.given, [&](const Given& other) {
                       return other.parameter == &filter && fits(filter, other.value, *field);
                     });
    if (!any) {
      return false;
    }
  }
  return true;
}

}  // namespace

void filter_rows(const Invocation& invocation, Json& answer) {
  const char* name = invocation.command->rows;
  if (name == nullptr || !answer.is_object() || !answer.contains(name) || !answer[name].is_array()) {
    return;
  }
  Json kept = Json::array();
  for (Json& row : answer[name]) {
    if (fits_all(invocation, row)) {
      kept.push_back(std::move(row));
    }
  }
  answer[name] = std::move(kept);
}

}  // namespace cw::control
