// What the table of commands promises, whatever stands in it.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

#include "control/admin/answer_fields.h"
#include "control/ctl/command.h"
#include "control/ctl/usage_text.h"

namespace cw::control {
namespace {

std::string spelled(const Command& command) {
  return std::string(command.object) + " " + command.verb;
}

template <typename T>
std::set<std::string> names_of() {
  std::set<std::string> names;
  for (const auto& field : answer_fields_of<T>()) {
    names.insert(field.name);
  }
  return names;
}

std::set<std::string> names_of_queue_pairs() {
  std::set<std::string> names = names_of<QueuePairStatus>();
  for (const auto& table : transport_fields()) {
    for (const verbs::QueuePairField& field : table) {
      names.insert(field.name);
    }
  }
  return names;
}

TEST(CommandTable, EveryCommandCanBeCarriedOutAndIsExplained) {
  std::set<std::string> spellings;
  for (const Command& command : command_table()) {
    EXPECT_TRUE(spellings.insert(spelled(command)).second) << spelled(command);
    EXPECT_TRUE(std::string(command.help).ends_with(".")) << spelled(command);
    EXPECT_TRUE(command.run != nullptr || (command.request != nullptr && command.render != nullptr)) << spelled(command);
  }
}

TEST(CommandTable, AnObjectHasAtMostOneDefault) {
  std::map<std::string, int> defaults;
  for (const Command& command : command_table()) {
    defaults[command.object] += command.is_default || *command.verb == '\0' ? 1 : 0;
  }
  for (const auto& [object, count] : defaults) {
    EXPECT_LE(count, 1) << object;
  }
}

TEST(CommandTable, FiltersNameFieldsOfTheirRows) {
  const std::map<std::string, std::set<std::string>> fields = {
      {"connections", names_of<ConnectionStatus>()}, {"queue_pairs", names_of_queue_pairs()},
      {"listeners", names_of<ListenerStatus>()},     {"backends", names_of<BackendStatus>()},
      {"servers", names_of<ServerStatus>()},         {"routes", names_of<RouteStatus>()},
      {"clients", names_of<ClientStatus>()},         {"ports", names_of<PortStatus>()},
      {"activity", names_of<ActivityStatus>()},      {"cores", names_of<CoreStatus>()}};
  for (const Command& command : command_table()) {
    for (const Parameter& parameter : command.parameters) {
      EXPECT_FALSE(std::string(parameter.help).empty()) << parameter.name;
      if (parameter.use == ParameterUse::kFilter) {
        ASSERT_NE(command.rows, nullptr) << spelled(command);
        EXPECT_TRUE(fields.at(command.rows).contains(parameter.field)) << spelled(command) << " " << parameter.name;
      }
    }
  }
}

TEST(CommandTable, HelpNamesEveryCommandParameterAndStatus) {
  const std::string usage = usage_text(command_table());
  for (const Command& command : command_table()) {
    EXPECT_NE(usage.find(command.help), std::string::npos) << spelled(command);
    const Command* one = &command;
    const std::string own = usage_text_of({&one, 1});
    for (const Parameter& parameter : command.parameters) {
      EXPECT_NE(own.find(spelling(parameter)), std::string::npos) << spelling(parameter);
    }
  }
  for (const Parameter& parameter : global_parameters()) {
    EXPECT_NE(usage.find(parameter.name), std::string::npos) << parameter.name;
  }
  EXPECT_NE(usage.find("2 wrong usage"), std::string::npos);
}

}  // namespace
}  // namespace cw::control
