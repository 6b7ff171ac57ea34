#include "control/ctl/command_line.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include "control/config/ip_text.h"
#include "control/config/suggest.h"

namespace cw::control {
namespace {

constexpr double kSecondsMax = 86'400;

// What a word means among the known ones.
struct Match {
  enum class Kind : uint8_t { kOne, kNone, kSeveral };
  Kind kind = Kind::kNone;
  std::string word;                     // kOne
  std::vector<std::string> candidates;  // kSeveral
};

Match match(std::string_view word, const std::vector<std::string>& known) {
  std::vector<std::string> candidates;
  for (const std::string& each : known) {
    if (each == word) {
      // Spelled out it is meant, even where longer words begin with it.
      return {Match::Kind::kOne, each, {}};
    }
    if (!word.empty() && each.starts_with(word) && std::ranges::find(candidates, each) == candidates.end()) {
      candidates.push_back(each);
    }
  }
  if (candidates.size() == 1) {
    return {Match::Kind::kOne, candidates.front(), {}};
  }
  return {candidates.empty() ? Match::Kind::kNone : Match::Kind::kSeveral, {}, std::move(candidates)};
}

// Why a word means nothing, and what may have been meant.
std::string no_match(std::string_view word, const char* what, const Match& found, const std::vector<std::string>& known) {
  if (found.kind == Match::Kind::kSeveral) {
    return fmt::format("'{}' may mean {}", word, fmt::join(found.candidates, " or "));
  }
  if (const std::optional<std::string> guess = nearest(word, known)) {
    return fmt::format("'{}' is no {}; did you mean '{}'?", word, what, *guess);
  }
  return known.empty() ? fmt::format("'{}' is one word too many", word)
                       : fmt::format("'{}' is no {}; there are: {}", word, what, fmt::join(known, ", "));
}

// Empty: the value is right.
std::string value_problem(const Parameter& parameter, std::string_view value) {
  uint64_t number = 0;
  double seconds = 0;
  switch (parameter.kind) {
    case ValueKind::kText:
    case ValueKind::kFile:
      return value.empty() ? fmt::format("{}: the value is empty", parameter.name) : std::string();
    case ValueKind::kNetwork:
      return parse_prefix(value) ? std::string()
                                 : fmt::format("{}: '{}' is no address and no prefix such as 10.0.0.0/8", parameter.name, value);
    case ValueKind::kNumber:
      return parse_number(value, number) ? std::string()
                                         : fmt::format("{}: '{}' is no number such as 42 or 0x2a", parameter.name, value);
    case ValueKind::kSeconds:
      return parse_seconds(value, seconds) && seconds > 0
                 ? std::string()
                 : fmt::format("{}: '{}' is no time: seconds, more than 0, at most {:.0f}", parameter.name, value, kSecondsMax);
    case ValueKind::kFlag:
      return value == "yes" || value == "no" ? std::string() : fmt::format("{}: '{}' is not yes or no", parameter.name, value);
    case ValueKind::kChoice:
      break;
  }
  const std::vector<std::string> known(parameter.choices.begin(), parameter.choices.end());
  return std::ranges::find(known, value) != known.end()
             ? std::string()
             : fmt::format("{}: {}", parameter.name, no_match(value, "value", {}, known));
}

class Parser {
 public:
  Parser(std::span<const std::string_view> words, std::span<const Command> table)
      : words_(words.begin(), words.end()), table_(table) {}

  CommandLine run() {
    // A line that asks for help or the version need hold no command that could be carried out.
    if (!take_globals() || (!wants_version_ && !wants_help_ && !parse_command())) {
      return std::move(out_);
    }
    if (wants_version_) {
      out_.kind = CommandLine::Kind::kVersion;
    } else if (wants_help_) {
      find_topics();
    } else {
      out_.kind = CommandLine::Kind::kCommand;
    }
    return std::move(out_);
  }

 private:
  bool wrong(std::string problem) {
    out_.kind = CommandLine::Kind::kWrong;
    out_.problem = std::move(problem);
    return false;
  }

  // Takes the options that any command has out of the words, wherever they stand.
  bool take_globals() {
    std::vector<std::string_view> rest;
    for (size_t i = 0; i < words_.size(); ++i) {
      const std::string_view word = words_[i];
      const size_t equals = word.starts_with("--") ? word.find('=') : std::string_view::npos;
      const std::string_view name = word.substr(0, equals);
      const Parameter* parameter = global_parameter(name);
      if (parameter == nullptr) {
        rest.push_back(word);
        continue;
      }
      std::string_view value = "yes";
      if (parameter->use == ParameterUse::kSwitch) {
        if (equals != std::string_view::npos) {
          return wrong(fmt::format("{} takes no value", parameter->name));
        }
      } else if (equals != std::string_view::npos) {
        value = word.substr(equals + 1);
      } else if (i + 1 < words_.size()) {
        value = words_[++i];
      } else {
        return wrong(fmt::format("{} wants a value: {}", parameter->name, parameter->value));
      }
      if (!set_global(*parameter, value)) {
        return false;
      }
    }
    words_ = std::move(rest);
    const GlobalOptions& options = out_.invocation.global;
    if (!options.socket.empty() && !options.instance.empty()) {
      return wrong("--socket and --instance exclude each other: each names one gateway");
    }
    if (options.count > 0 && options.watch_s == 0) {
      return wrong("--count goes with --watch");
    }
    return true;
  }

  bool set_global(const Parameter& parameter, std::string_view value) {
    GlobalOptions& options = out_.invocation.global;
    const std::string_view name = parameter.name;
    const std::string problem = parameter.use == ParameterUse::kSwitch ? std::string() : value_problem(parameter, value);
    if (!problem.empty()) {
      return wrong(problem);
    }
    uint64_t number = 0;
    if (name == "--json") {
      options.json = true;
    } else if (name == "--wide") {
      options.detail = Detail::kWide;
    } else if (name == "--socket") {
      options.socket = value;
    } else if (name == "--instance") {
      options.instance = value;
    } else if (name == "--watch") {
      (void)parse_seconds(value, options.watch_s);
    } else if (name == "--count") {
      (void)parse_number(value, number);
      options.count = static_cast<uint32_t>(std::min<uint64_t>(number, UINT32_MAX));
    } else if (name == "--help") {
      wants_help_ = true;
    } else if (name == "--version") {
      wants_version_ = true;
    }
    return true;
  }

  [[nodiscard]] std::vector<std::string> objects() const {
    std::vector<std::string> names;
    for (const Command& command : table_) {
      if (std::ranges::find(names, command.object) == names.end()) {
        names.emplace_back(command.object);
      }
    }
    return names;
  }

  [[nodiscard]] std::vector<const Command*> commands_of(std::string_view object) const {
    std::vector<const Command*> found;
    for (const Command& command : table_) {
      if (object == command.object) {
        found.push_back(&command);
      }
    }
    return found;
  }

  // Commands that the words up to here may mean; what is no object or verb is not looked at.
  void find_topics() {
    out_.kind = CommandLine::Kind::kHelp;
    std::vector<std::string_view> words = words_;
    if (!words.empty() && words.front() == "help") {
      words.erase(words.begin());
    }
    if (words.empty()) {
      return;
    }
    const Match object = match(words[0], objects());
    if (object.kind != Match::Kind::kOne) {
      wrong(no_match(words[0], "object", object, objects()));
      return;
    }
    out_.help_topics = commands_of(object.word);
    if (words.size() > 1) {
      std::erase_if(out_.help_topics, [&](const Command* c) { return !std::string_view(c->verb).starts_with(words[1]); });
    }
    if (out_.help_topics.empty()) {
      out_.help_topics = commands_of(object.word);
    }
  }

  bool parse_command() {
    if (words_.empty()) {
      return wrong("which object? There are: " + fmt::format("{}", fmt::join(objects(), ", ")));
    }
    if (words_[0] == "help") {
      wants_help_ = true;
      return true;
    }
    const Match object = match(words_[0], objects());
    if (object.kind != Match::Kind::kOne) {
      return wrong(no_match(words_[0], "object", object, objects()));
    }
    const std::vector<const Command*> commands = commands_of(object.word);
    std::vector<std::string> verbs;
    const Command* fallback = nullptr;
    for (const Command* command : commands) {
      if (*command->verb != '\0') {
        verbs.emplace_back(command->verb);
      }
      if (command->is_default || *command->verb == '\0') {
        fallback = command;
      }
    }
    next_ = 1;
    const std::string_view word = words_.size() > 1 ? words_[1] : std::string_view();
    const Match verb = match(word, verbs);
    const Command* command = fallback;
    if (verb.kind == Match::Kind::kOne) {
      ++next_;
      command = *std::ranges::find(commands, verb.word, [](const Command* c) { return std::string(c->verb); });
    } else if (fallback == nullptr && word.empty()) {
      return wrong(fmt::format("{}: which verb? There are: {}", object.word, fmt::join(verbs, ", ")));
    } else if (fallback == nullptr || (verb.kind == Match::Kind::kSeveral && !takes(*fallback, word))) {
      // Several verbs begin so. It is no mistake where the word can stand behind the default verb, as a filter or a value.
      return wrong(fmt::format("{}: {}", object.word, no_match(word, "verb", verb, verbs)));
    }
    out_.invocation.command = command;
    verbs_ = command == fallback && next_ == 1 ? verbs : std::vector<std::string>();
    return parse_parameters(*command);
  }

  // Could the word stand behind the command?
  [[nodiscard]] static bool takes(const Command& command, std::string_view word) {
    return std::ranges::any_of(command.parameters, [word](const Parameter& parameter) {
      return parameter.use == ParameterUse::kPositional || std::string_view(parameter.name).starts_with(word);
    });
  }

  bool parse_parameters(const Command& command) {
    std::vector<const Parameter*> positionals;
    std::vector<std::string> keywords;
    std::vector<std::string> options;
    for (const Parameter& parameter : command.parameters) {
      if (parameter.use == ParameterUse::kPositional) {
        positionals.push_back(&parameter);
      } else if (parameter.use == ParameterUse::kFilter || parameter.use == ParameterUse::kArgument) {
        keywords.emplace_back(parameter.name);
      } else {
        options.emplace_back(parameter.name);
      }
    }
    size_t position = 0;
    for (; next_ < words_.size(); ++next_) {
      std::string_view word = words_[next_];
      if (word.starts_with("-") && word.size() > 1) {
        if (!take_option(command, word, options)) {
          return false;
        }
        continue;
      }
      const Match keyword = match(word, keywords);
      // While a value without a keyword is to come, a word that only begins like a keyword is that value.
      if (keyword.kind == Match::Kind::kOne && (position == positionals.size() || keyword.word == word)) {
        if (!take_value(named(command, keyword.word))) {
          return false;
        }
      } else if (position < positionals.size()) {
        if (!add(*positionals[position++], word)) {
          return false;
        }
      } else {
        std::vector<std::string> known = keywords;
        known.insert(known.end(), verbs_.begin(), verbs_.end());
        const char* what = verbs_.empty() ? "filter" : "verb or filter";
        return wrong(fmt::format("{}: {}", spelled(command), no_match(word, what, keyword, known)));
      }
    }
    for (const Parameter& parameter : command.parameters) {
      if (parameter.required && !out_.invocation.has(parameter.name)) {
        return wrong(fmt::format("{} wants {}: {}", spelled(command), parameter.name, parameter.help));
      }
    }
    return true;
  }

  bool take_option(const Command& command, std::string_view word, std::vector<std::string> known) {
    const size_t equals = word.find('=');
    const std::string_view name = word.substr(0, equals);
    if (std::ranges::find(known, name) == known.end()) {
      for (const Parameter& parameter : global_parameters()) {
        known.emplace_back(parameter.name);
      }
      return wrong(fmt::format("{}: {}", spelled(command), no_match(name, "option", {}, known)));
    }
    const Parameter& parameter = named(command, name);
    if (parameter.use == ParameterUse::kSwitch) {
      return equals == std::string_view::npos ? add(parameter, "yes") : wrong(fmt::format("{} takes no value", parameter.name));
    }
    return equals == std::string_view::npos ? take_value(parameter) : add(parameter, word.substr(equals + 1));
  }

  bool take_value(const Parameter& parameter) {
    if (next_ + 1 >= words_.size()) {
      return wrong(fmt::format("{} wants a value: {}", parameter.name, parameter.value));
    }
    return add(parameter, words_[++next_]);
  }

  bool add(const Parameter& parameter, std::string_view value) {
    std::string full(value);
    if (parameter.kind == ValueKind::kChoice) {
      const Match choice = match(value, {parameter.choices.begin(), parameter.choices.end()});
      full = choice.kind == Match::Kind::kOne ? choice.word : full;
    }
    const std::string problem = parameter.use == ParameterUse::kSwitch ? std::string() : value_problem(parameter, full);
    if (!problem.empty()) {
      return wrong(problem);
    }
    // A filter may be given again: any of its values has to fit (row_filter.cc).
    if (parameter.use != ParameterUse::kFilter && out_.invocation.has(parameter.name)) {
      return wrong(fmt::format("{} is given twice", parameter.name));
    }
    out_.invocation.given.push_back({&parameter, std::move(full)});
    return true;
  }

  [[nodiscard]] static const Parameter& named(const Command& command, std::string_view name) {
    return *parameter_named(command.parameters, name);
  }

  [[nodiscard]] static std::string spelled(const Command& command) {
    return *command.verb == '\0' ? command.object : fmt::format("{} {}", command.object, command.verb);
  }

  std::vector<std::string_view> words_;
  std::span<const Command> table_;
  std::vector<std::string> verbs_;  // that the next word could have been
  size_t next_ = 0;
  bool wants_help_ = false;
  bool wants_version_ = false;
  CommandLine out_;
};

}  // namespace

CommandLine parse_command_line(std::span<const std::string_view> words, std::span<const Command> table) {
  return Parser(words, table).run();
}

const Parameter* parameter_named(std::span<const Parameter> parameters, std::string_view name) {
  const auto found = std::ranges::find(parameters, name, [](const Parameter& p) { return std::string_view(p.name); });
  return found == parameters.end() ? nullptr : &*found;
}

const Parameter* global_parameter(std::string_view word) {
  word = word == "-j" ? "--json" : word == "-w" ? "--watch" : word == "-h" ? "--help" : word == "-V" ? "--version" : word;
  return parameter_named(global_parameters(), word);
}

bool parse_number(std::string_view text, uint64_t& out) {
  const bool hex = text.starts_with("0x") || text.starts_with("0X");
  text.remove_prefix(hex ? 2 : 0);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out, hex ? 16 : 10);
  return error == std::errc() && end == text.data() + text.size();
}

bool parse_seconds(std::string_view text, double& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out, std::chars_format::fixed);
  return error == std::errc() && end == text.data() + text.size() && std::isfinite(out) && out >= 0 && out <= kSecondsMax;
}

}  // namespace cw::control
