#include "control/ctl/manual.h"

#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "control/admin/answer_fields.h"
#include "control/config/config_help.h"
#include "control/ctl/command_line.h"
#include "control/ctl/usage_text.h"

namespace cw::control {
namespace {

TEST(Manual, NamesEveryCommandParameterAndField) {
  const std::string page = ctl_manual(command_table());
  for (const Command& command : command_table()) {
    EXPECT_NE(page.find(".SS " + roff_text(synopsis(command))), std::string::npos) << synopsis(command);
    for (const Parameter& parameter : command.parameters) {
      EXPECT_NE(page.find(".B " + roff_text(spelling(parameter))), std::string::npos) << parameter.name;
    }
  }
  for (const auto& field : answer_fields_of<QueuePairStatus>()) {
    EXPECT_NE(page.find(std::string(".B ") + field.name + "\n"), std::string::npos) << field.name;
  }
  for (const auto& table : transport_fields()) {
    for (const verbs::QueuePairField& field : table) {
      EXPECT_NE(page.find(std::string(".B ") + field.name + "\n"), std::string::npos) << field.name;
    }
  }
}

TEST(Manual, OfTheFileNamesEverySetting) {
  const std::string page = config_manual();
  for (const SectionHelp& section : config_help()) {
    EXPECT_NE(page.find(".SH " + section.header), std::string::npos) << section.header;
    for (const KeyHelp& key : section.keys) {
      EXPECT_NE(page.find(".B " + roff_text(key.name) + "\n"), std::string::npos) << key.name;
    }
  }
  EXPECT_NE(page.find("Default: 4096."), std::string::npos);
}

TEST(Manual, TextIsShownAsItIs) {
  EXPECT_EQ(roff_text(".TH\n'x -- \\"), "\\&.TH\n\\&'x \\-\\- \\e");
}

TEST(Manual, EveryExampleIsACommand) {
  const std::string page = ctl_manual(command_table());
  for (const Example& example : examples()) {
    std::istringstream text(example.words);
    std::vector<std::string> parts;
    for (std::string part; text >> part;) {
      parts.push_back(part);
    }
    const std::vector<std::string_view> words(parts.begin(), parts.end());
    EXPECT_EQ(parse_command_line(words, command_table()).problem, "") << example.words;
    EXPECT_NE(page.find(roff_text(example.words)), std::string::npos) << example.words;
  }
}

}  // namespace
}  // namespace cw::control
