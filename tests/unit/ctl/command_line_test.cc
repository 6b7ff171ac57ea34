#include "control/ctl/command_line.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace cw::control {
namespace {

CommandLine parse(const std::string& text) {
  std::vector<std::string> words;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(' ', at), text.size());
    words.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  const std::vector<std::string_view> views(words.begin(), words.end());
  return parse_command_line(views, command_table());
}

std::string name_of(const CommandLine& line) {
  const Command* command = line.invocation.command;
  return line.kind != CommandLine::Kind::kCommand ? "wrong: " + line.problem
         : *command->verb == '\0'                 ? std::string(command->object)
                                                  : std::string(command->object) + " " + command->verb;
}

TEST(CommandLine, WordsMayBeShortenedWhileOneIsMeant) {
  EXPECT_EQ(name_of(parse("status")), "status");
  EXPECT_EQ(name_of(parse("connections show")), "connections show");
  EXPECT_EQ(name_of(parse("conn s")), "connections show");
  EXPECT_EQ(name_of(parse("q")), "qp show");
  EXPECT_EQ(name_of(parse("stats sch")), "stats schema");
  EXPECT_EQ(name_of(parse("stat sh")), "wrong: 'stat' may mean status or stats");
  EXPECT_EQ(name_of(parse("stats s")), "stats show") << "a name of a number may begin with s";
}

TEST(CommandLine, ObjectsMeanShowWithoutAVerb) {
  EXPECT_EQ(name_of(parse("connections")), "connections show");
  EXPECT_EQ(name_of(parse("connections state established")), "connections show");
  const CommandLine stats = parse("stats causeway_roce");
  EXPECT_EQ(name_of(stats), "stats show");
  EXPECT_EQ(stats.invocation.value_of("PREFIX"), "causeway_roce");
}

TEST(CommandLine, FiltersArePairsAndMayRepeat) {
  const CommandLine line = parse("connections show client 10.0.0.0/8 client 2001:db8::1 listener nfs st est lq 0x1a2b");
  ASSERT_EQ(name_of(line), "connections show");
  ASSERT_EQ(line.invocation.given.size(), 5u);
  EXPECT_EQ(line.invocation.given[1].value, "2001:db8::1");
  EXPECT_EQ(line.invocation.value_of("state"), "established") << "values of a closed set may be shortened too";
  EXPECT_EQ(line.invocation.value_of("lqpn"), "0x1a2b");
}

TEST(CommandLine, GlobalOptionsStandAnywhere) {
  const CommandLine line = parse("--instance a qp -j show --watch=0.5 lqpn 1 --count 3");
  ASSERT_EQ(name_of(line), "qp show");
  EXPECT_EQ(line.invocation.global.instance, "a");
  EXPECT_TRUE(line.invocation.global.json);
  EXPECT_EQ(line.invocation.global.watch_s, 0.5);
  EXPECT_EQ(line.invocation.global.count, 3u);
}

TEST(CommandLine, HelpKnowsWhatItIsAskedAbout) {
  EXPECT_EQ(parse("--help").kind, CommandLine::Kind::kHelp);
  EXPECT_EQ(parse("help").help_topics.size(), 0u);
  EXPECT_EQ(parse("help stats").help_topics.size(), 2u);
  EXPECT_EQ(parse("stats schema -h").help_topics.size(), 1u);
  EXPECT_EQ(parse("help nonsense").kind, CommandLine::Kind::kWrong);
  EXPECT_EQ(parse("-V").kind, CommandLine::Kind::kVersion);
}

TEST(CommandLine, MistakesAreNamedWithASuggestion) {
  EXPECT_EQ(parse("conections").problem, "'conections' is no object; did you mean 'connections'?");
  EXPECT_EQ(parse("connections shwo").problem, "connections show: 'shwo' is no verb or filter; did you mean 'show'?");
  EXPECT_EQ(parse("connections cleint 10.0.0.1").problem,
            "connections show: 'cleint' is no verb or filter; did you mean 'client'?");
  EXPECT_EQ(parse("connections client").problem, "client wants a value: NETWORK");
  EXPECT_EQ(parse("connections client 10.0.0.0/40").problem,
            "client: '10.0.0.0/40' is no address and no prefix such as 10.0.0.0/8");
  EXPECT_EQ(parse("connections state estalbished").problem, "state: 'estalbished' is no value; did you mean 'established'?");
  EXPECT_EQ(parse("qp lqpn 0xzz").problem, "lqpn: '0xzz' is no number such as 42 or 0x2a");
  EXPECT_EQ(parse("qp show --jsno").problem, "qp show: '--jsno' is no option; did you mean '--json'?");
  EXPECT_EQ(parse("status extra").problem, "status: 'extra' is one word too many");
  EXPECT_EQ(parse("--socket a --instance b status").problem,
            "--socket and --instance exclude each other: each names one gateway");
  EXPECT_EQ(parse("status --count 2").problem, "--count goes with --watch");
  EXPECT_EQ(parse("status --watch 0").problem, "--watch: '0' is no time: seconds, more than 0, at most 86400");
  EXPECT_EQ(parse("status --watch").problem, "--watch wants a value: SECONDS");
  EXPECT_EQ(parse("status --json=yes").problem, "--json takes no value");
  EXPECT_EQ(parse("").kind, CommandLine::Kind::kWrong);
}

TEST(CommandLine, NumbersAndTimes) {
  uint64_t number = 0;
  EXPECT_TRUE(parse_number("0x1a2b", number));
  EXPECT_EQ(number, 0x1a2bu);
  for (const char* wrong : {"", "0x", "-1", "1 ", "1.5", "18446744073709551616"}) {
    EXPECT_FALSE(parse_number(wrong, number)) << wrong;
  }
  double seconds = 0;
  EXPECT_TRUE(parse_seconds("0.25", seconds));
  EXPECT_EQ(seconds, 0.25);
  for (const char* wrong : {"", "-1", "1s", "nan", "inf", "86401"}) {
    EXPECT_FALSE(parse_seconds(wrong, seconds)) << wrong;
  }
}

}  // namespace
}  // namespace cw::control
