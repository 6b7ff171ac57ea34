#include "control/ctl/manual.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <string>

#include "control/admin/answer_fields.h"
#include "control/config/config_help.h"
#include "control/ctl/usage_text.h"

namespace cw::control {
namespace {

// The last line is the words that the script offers for a command line, the last word of which is begun.
std::string completions(const std::string& words) {
  const std::string script = bash_completion(command_table()) + "\nCOMP_WORDS=(" + words +
                             ")\nCOMP_CWORD=$((${#COMP_WORDS[@]}-1))\n_causewayctl\necho \"${COMPREPLY[@]}\"\n";
  char name[] = "/tmp/cw_completion_XXXXXX";
  const int fd = mkstemp(name);
  FILE* file = fdopen(fd, "w");
  fputs(script.c_str(), file);
  fclose(file);
  FILE* pipe = popen(("bash " + std::string(name) + " 2>&1").c_str(), "r");
  std::array<char, 4096> buffer{};
  const size_t got = fread(buffer.data(), 1, buffer.size() - 1, pipe);
  pclose(pipe);
  remove(name);
  return std::string(buffer.data(), got);
}

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

TEST(Completion, OffersWhatMayStandThere) {
  EXPECT_NE(completions("causewayctl co").find("connections"), std::string::npos) << completions("causewayctl co");
  EXPECT_EQ(completions("causewayctl doc"), "doctor\n");
  EXPECT_EQ(completions("causewayctl drain st"), "start stop\n");
  EXPECT_EQ(completions("causewayctl drain start --t"), "--timeout\n");
  EXPECT_EQ(completions("causewayctl connections cl"), "client\n");
  EXPECT_EQ(completions("causewayctl connections show state est"), "established\n");
  EXPECT_EQ(completions("causewayctl --socket /tmp/x qp show lq"), "lqpn\n");
  EXPECT_EQ(completions("causewayctl log level wa"), "warning\n");
  EXPECT_EQ(completions("causewayctl reload --dr"), "--dry-run\n");
  EXPECT_EQ(completions("causewayctl --js"), "--json\n");
}

}  // namespace
}  // namespace cw::control
