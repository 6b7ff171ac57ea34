// Reads the sections of a TOML file into plain structs, driven by tables of keys (key.h). Strict: an unknown section or key is a
// problem with a suggestion, and so is a value of a wrong kind or out of range.
//
//   parse_toml(text, out, [&](SectionParser& parser) {
//     parser.section(port_section(), config.ports);
//     parser.section(log_section(), config.log);
//   });
//
// Pure: text in, values out. Every problem of the file is collected; only a syntax error ends at the first one. What was wrong
// keeps its default.
#pragma once

#include <fmt/core.h>
#include <fmt/ranges.h>
#include <toml++/toml.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "control/config/key.h"
#include "control/config/parsed_file.h"
#include "control/config/suggest.h"

namespace cw::control {

inline SourcePosition position_of(const toml::source_region& source) {
  return {source.begin.line, source.begin.column};
}

inline const char* type_name(const toml::node& node) {
  switch (node.type()) {
    case toml::node_type::table:
      return "a table";
    case toml::node_type::array:
      return "a list";
    case toml::node_type::string:
      return "text";
    case toml::node_type::integer:
      return "a whole number";
    case toml::node_type::floating_point:
      return "a number with a fraction";
    case toml::node_type::boolean:
      return "true or false";
    case toml::node_type::date:
    case toml::node_type::time:
    case toml::node_type::date_time:
      return "a date or time";
    case toml::node_type::none:
      break;
  }
  return "nothing";
}

// Text from the file as it may be quoted in a message: printable, and not endless.
inline std::string quoted_text(std::string_view text) {
  constexpr size_t kQuotedMax = 60;
  std::string result = "'";
  for (const char c : text.substr(0, kQuotedMax)) {
    result += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
  }
  return result + (text.size() > kQuotedMax ? "...'" : "'");
}

// Reads one value for one key. Knows where problems go, so that each kind of value is a few lines.
class ValueReader {
 public:
  ValueReader(ParsedFile& out, std::string key, const Bounds& bounds, TextRule rule, const char* example)
      : out_(out), key_(std::move(key)), bounds_(bounds), rule_(rule), example_(example) {}

  void read(const toml::node& node, bool& out) {
    if (const auto value = node.value_exact<bool>()) {
      out = *value;
      return;
    }
    wrong_type(node, "true or false");
  }

  template <typename Number>
  requires std::is_unsigned_v<Number>
  void read(const toml::node& node, Number& out) {
    const auto value = node.value_exact<int64_t>();
    if (!value) {
      wrong_type(node, "a whole number");
      return;
    }
    const bool in_range =
        *value >= 0 && static_cast<uint64_t>(*value) >= bounds_.min && static_cast<uint64_t>(*value) <= bounds_.max;
    if (!in_range) {
      problem(node, fmt::format("{} is out of range", *value), fmt::format("use {} to {}", bounds_.min, bounds_.max));
      return;
    }
    const uint64_t number = static_cast<uint64_t>(*value);
    if (number % bounds_.multiple != 0) {
      const uint64_t below = std::max(number - number % bounds_.multiple, bounds_.min);
      problem(node, fmt::format("{} is not a multiple of {}", number, bounds_.multiple),
              fmt::format("use {} or {}", below, below + bounds_.multiple));
      return;
    }
    out = static_cast<Number>(number);
  }

  void read(const toml::node& node, std::string& out) {
    const auto value = node.value_exact<std::string_view>();
    if (!value) {
      wrong_type(node, "text in quotes");
      return;
    }
    if (const char* rule = broken_rule(*value); rule != nullptr) {
      problem(node, fmt::format("{} is not {}", quoted_text(*value), rule), {});
      return;
    }
    out = *value;
  }

  void read(const toml::node& node, IpPrefix& out) {
    const auto value = node.value_exact<std::string_view>();
    if (!value) {
      wrong_type(node, "text in quotes");
      return;
    }
    const auto prefix = parse_prefix(*value);
    if (!prefix) {
      problem(node, fmt::format("{} is not an IP address with prefix length", quoted_text(*value)), example_text());
    } else if (rule_ == TextRule::kHost && value->find('/') == std::string_view::npos) {
      problem(node, fmt::format("{} has no prefix length", quoted_text(*value)),
              fmt::format("write \"{}/{}\" or what the network's is", *value, prefix->address.is_v4() ? 24 : 64));
    } else {
      out = *prefix;
    }
  }

  void read(const toml::node& node, std::optional<IpAddress>& out) {
    const auto value = node.value_exact<std::string_view>();
    if (!value) {
      wrong_type(node, "text in quotes");
      return;
    }
    if (const auto address = parse_ip(*value)) {
      out = *address;
      return;
    }
    problem(node, fmt::format("{} is not an IP address", quoted_text(*value)), example_text());
  }

  void read(const toml::node& node, std::optional<SocketAddress>& out) {
    const auto value = node.value_exact<std::string_view>();
    if (!value) {
      wrong_type(node, "text in quotes");
      return;
    }
    if (rule_ == TextRule::kSocket && *value == "off") {
      out.reset();
      return;
    }
    SocketAddress address;
    if (read_socket(node, *value, address)) {
      out = address;
    }
  }

  void read(const toml::node& node, SocketAddress& out) {
    const auto value = node.value_exact<std::string_view>();
    if (!value) {
      wrong_type(node, "text in quotes");
      return;
    }
    (void)read_socket(node, *value, out);
  }

  template <typename Item>
  void read(const toml::node& node, std::vector<Item>& out) {
    const toml::array* array = node.as_array();
    if (array == nullptr) {
      wrong_type(node, "a list in [ ]");
      return;
    }
    if (array->size() > bounds_.count_max) {
      problem(node, fmt::format("{} entries are too many", array->size()), fmt::format("use at most {}", bounds_.count_max));
      return;
    }
    const size_t problems_before = out_.problems.size();
    std::vector<Item> items;
    for (const toml::node& element : *array) {
      read(element, items.emplace_back());
    }
    if (out_.problems.size() == problems_before) {
      out = std::move(items);
    }
  }

  template <typename S>
  void read_choice(const toml::node& node, const Choice<S>& choice, S& out) {
    std::string text;
    if (const auto value = node.value_exact<std::string_view>()) {
      text = *value;
    } else if (const auto number = node.value_exact<int64_t>()) {
      text = std::to_string(*number);
    }
    for (uint32_t i = 0; i < choice.names.size(); ++i) {
      if (text == choice.names[i]) {
        choice.set(out, i);
        return;
      }
    }
    problem(node, fmt::format("{} is not one of the choices", text.empty() ? type_name(node) : quoted_text(text)),
            fmt::format("use {}", fmt::join(choice.names, ", ")));
  }

 private:
  [[nodiscard]] bool read_socket(const toml::node& node, std::string_view text, SocketAddress& out) {
    if (const auto address = parse_socket_address(text)) {
      out = *address;
      return true;
    }
    problem(node, fmt::format("{} is not an IP address and port", quoted_text(text)),
            "write \"127.0.0.1:2049\" or \"[::1]:2049\"; names are not resolved");
    return false;
  }
  void problem(const toml::node& node, std::string message, std::string suggestion) {
    const SourcePosition at = position_of(node.source());
    out_.problems.push_back({out_.file, at.line, at.column, key_, std::move(message), std::move(suggestion)});
  }
  void wrong_type(const toml::node& node, const char* wanted) {
    problem(node, fmt::format("is {}, not {}", type_name(node), wanted), example_text());
  }
  [[nodiscard]] std::string example_text() const {
    const std::string name = key_.substr(key_.find('.') + 1);
    return example_ == nullptr ? std::string() : fmt::format("for example {} = {}", name, example_);
  }

  // What the text should be, or nullptr when it is.
  [[nodiscard]] const char* broken_rule(std::string_view text) const {
    const auto all = [&](auto&& allowed) { return std::ranges::all_of(text, allowed); };
    switch (rule_) {
      case TextRule::kName:
        return !text.empty() && text.size() <= 32 &&
                       all([](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_'; })
                   ? nullptr
                   : "a name: 1 to 32 characters of a-z, 0-9, '-', '_'";
      case TextRule::kPath:
        return !text.empty() && text.size() <= 107 && text.front() == '/' && all([](char c) { return c > 0x20 && c != 0x7f; })
                   ? nullptr
                   : "an absolute path of at most 107 characters";
      case TextRule::kAny:
      case TextRule::kHost:
      case TextRule::kSocket:
        break;
    }
    return !text.empty() && text.size() <= 256 && all([](char c) { return c >= 0x20 && c != 0x7f; })
               ? nullptr
               : "1 to 256 printable characters";
  }

  ParsedFile& out_;
  std::string key_;
  const Bounds& bounds_;
  TextRule rule_;
  const char* example_;
};

class SectionParser {
 public:
  SectionParser(const toml::table& root, ParsedFile& out) : root_(root), out_(out) {}

  // Reads a section, if it is there, into a struct or, when it may stand several times, a vector of them.
  template <typename S, typename Target>
  void section(const Section<S>& section, Target& target) {
    known_.emplace_back(section.info.name);
    if (const toml::node* node = root_.get(section.info.name)) {
      parse_section(*node, section, target);
    }
  }
  // After the last section: those that nobody asked for.
  void finish() {
    for (const auto& [name, node] : root_) {
      if (std::ranges::find(known_, name.str()) == known_.end()) {
        unknown(name, std::string(name.str()), "section", known_);
      }
    }
  }

 private:
  template <typename S>
  void parse_section(const toml::node& node, const Section<S>& section, S& target) {
    const toml::table* table = node.as_table();
    if (table == nullptr) {
      add(node.source(), section.info.name, "is not a section that stands once", fmt::format("write [{}]", section.info.name));
      return;
    }
    parse_keys(*table, section, section.info.name, target);
  }

  template <typename S>
  void parse_section(const toml::node& node, const Section<S>& section, std::vector<S>& targets) {
    const toml::array* array = node.as_array();
    if (array == nullptr || !array->is_homogeneous(toml::node_type::table)) {
      add(node.source(), section.info.name, "is a section that may stand several times",
          fmt::format("write [[{}]] with two brackets", section.info.name));
      return;
    }
    if (array->size() > section.info.count_max) {
      add((*array)[section.info.count_max].source(), section.info.name, fmt::format("{} sections are too many", array->size()),
          fmt::format("use at most {}", section.info.count_max));
      return;
    }
    for (const toml::node& element : *array) {
      const std::string path = fmt::format("{}[{}]", section.info.name, targets.size());
      parse_keys(*element.as_table(), section, path, targets.emplace_back());
    }
  }

  template <typename S>
  void parse_keys(const toml::table& table, const Section<S>& section, const std::string& path, S& target) {
    out_.positions[path] = position_of(table.source());
    for (const auto& [name, node] : table) {
      const auto key = std::ranges::find(section.keys, name.str(), &Key<S>::name);
      const std::string full_name = fmt::format("{}.{}", section.info.name, name.str());
      if (key == section.keys.end()) {
        std::vector<std::string> known;
        std::ranges::transform(section.keys, std::back_inserter(known), &Key<S>::name);
        unknown(name, full_name, "key", known);
        continue;
      }
      out_.positions[fmt::format("{}.{}", path, name.str())] = position_of(node.source());
      read_value(node, *key, full_name, target);
    }
    for (const Key<S>& key : section.keys) {
      if (key.required && !table.contains(key.name)) {
        add(table.source(), fmt::format("{}.{}", section.info.name, key.name), "is missing",
            fmt::format("add for example {} = {}", key.name, key.example));
      }
    }
  }

  template <typename S>
  void read_value(const toml::node& node, const Key<S>& key, const std::string& full_name, S& target) {
    ValueReader reader(out_, full_name, key.bounds, key.rule, key.example);
    std::visit(
        [&](const auto& member) {
          if constexpr (std::is_same_v<std::remove_cvref_t<decltype(member)>, Choice<S>>) {
            reader.read_choice(node, member, target);
          } else {
            reader.read(node, target.*member);
          }
        },
        key.member);
  }

  void unknown(const toml::key& name, const std::string& full_name, const char* what, const std::vector<std::string>& known) {
    const auto near = nearest(name.str(), known);
    const std::string shown = full_name.size() <= 80 ? full_name : full_name.substr(0, 80) + "...";
    add(name.source(), shown, fmt::format("unknown {}", what),
        near ? fmt::format("did you mean '{}'?", *near) : fmt::format("there are {}", fmt::join(known, ", ")));
  }

  void add(const toml::source_region& source, std::string key, std::string message, std::string suggestion) {
    const SourcePosition at = position_of(source);
    out_.problems.push_back({out_.file, at.line, at.column, std::move(key), std::move(message), std::move(suggestion)});
  }

  const toml::table& root_;
  ParsedFile& out_;
  std::vector<std::string> known_;
};

// Parses `text` and has `read(SectionParser&)` take the sections. Problems are in order of their lines.
template <typename Read>
void parse_toml(std::string_view text, ParsedFile& out, Read&& read) {
  try {
    const toml::table root = toml::parse(text, out.file);
    SectionParser parser(root, out);
    read(parser);
    parser.finish();
  } catch (const toml::parse_error& error) {
    const SourcePosition at = position_of(error.source());
    out.problems.push_back({out.file,
                            at.line,
                            at.column,
                            {},
                            fmt::format("not TOML: {}", error.description()),
                            "correct this first; what follows was not read"});
  }
  std::ranges::stable_sort(out.problems, {}, [](const Problem& p) { return std::pair(p.line, p.column); });
}

}  // namespace cw::control
