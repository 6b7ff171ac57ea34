#include "control/ctl/completion.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>

#include "control/ctl/client.h"
#include "control/ctl/command_line.h"
#include "control/ctl/output.h"
#include "control/ctl/run_command.h"

namespace cw::control {
namespace {

constexpr size_t kLiveMax = 200;  // more than that nobody chooses from

constexpr std::string_view kBash = R"(# bash completion of causewayctl; made by 'causewayctl completion bash'
_causewayctl()
{
  local cur="${COMP_WORDS[COMP_CWORD]}" offer help
  local -a words=("${COMP_WORDS[@]:1:COMP_CWORD}")
  # Addresses have colons, which bash takes for the ends of words.
  if type _get_comp_words_by_ref >/dev/null 2>&1; then
    local cword
    _get_comp_words_by_ref -n : cur words cword
    words=("${words[@]:1:cword}")
  fi
  COMPREPLY=()
  while IFS=$'\t' read -r offer help; do
    case "$offer" in
    :file) COMPREPLY+=($(compgen -f -- "$cur")) ;;
    *) COMPREPLY+=("$offer") ;;
    esac
  done < <("${COMP_WORDS[0]}" __complete "${words[@]}" 2>/dev/null)
  if type __ltrim_colon_completions >/dev/null 2>&1; then
    __ltrim_colon_completions "$cur"
  fi
}
complete -F _causewayctl causewayctl
)";

constexpr std::string_view kZsh = R"(#compdef causewayctl
# zsh completion of causewayctl; made by 'causewayctl completion zsh'
_causewayctl() {
  local line
  local -a offers
  while IFS= read -r line; do
    if [[ $line == :file ]]; then
      _files
    else
      line=${line//:/\\:}
      offers+=("${line/$'\t'/:}")
    fi
  done < <("${words[1]}" __complete "${(@)words[2,CURRENT]}" 2>/dev/null)
  (( $#offers )) && _describe causewayctl offers
}
if [[ $funcstack[1] == _causewayctl ]]; then
  _causewayctl "$@"
else
  compdef _causewayctl causewayctl
fi
)";

constexpr std::string_view kFish = R"(# fish completion of causewayctl; made by 'causewayctl completion fish'
function __causewayctl_complete
    set -l words (commandline --tokenize --current-process --cut-at-cursor)
    set -l begun (commandline --current-token --cut-at-cursor)
    for line in ($words[1] __complete $words[2..-1] "$begun" 2>/dev/null)
        if test "$line" = ":file"
            __fish_complete_path "$begun"
        else
            echo $line
        end
    end
end
complete --command causewayctl --no-files --arguments '(__causewayctl_complete)'
)";

bool has_value(const Parameter& parameter) {
  return parameter.use != ParameterUse::kSwitch && parameter.use != ParameterUse::kPositional;
}

// Where the values of a parameter come from: its own rows, or those of the first command that filters by the same word.
Completion::Live live_of(const Command& command, const Parameter& parameter, std::span<const Command> table) {
  if (parameter.use == ParameterUse::kFilter) {
    return {command.request, command.rows, parameter.field};
  }
  std::string keyword = parameter.name;
  std::ranges::transform(keyword, keyword.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  for (const Command& other : table) {
    const Parameter* const same = parameter_named(other.parameters, keyword);
    if (same != nullptr && same->use == ParameterUse::kFilter) {
      return {other.request, other.rows, same->field};
    }
  }
  return {};
}

class Completer {
 public:
  Completer(std::span<const std::string_view> words, std::span<const Command> table) : table_(table) {
    begun_ = words.empty() ? std::string_view() : words.back();
    words_ = words.first(words.empty() ? 0 : words.size() - 1);
  }

  Completion run() {
    const Parameter* const option = take_globals();
    if (option != nullptr) {
      out_.wants_file = option->kind == ValueKind::kFile;
    } else if (rest_.empty()) {
      offer_objects();
    } else {
      complete_command();
    }
    return std::move(out_);
  }

 private:
  // The option whose value is being written, or nullptr.
  const Parameter* take_globals() {
    for (size_t i = 0; i < words_.size(); ++i) {
      const Parameter* const option = global_parameter(words_[i]);
      if (option == nullptr) {
        if (!words_[i].starts_with("-") || named_of_commands(words_[i])) {
          rest_.push_back(words_[i]);
        } else if (words_[i].starts_with("--socket=")) {
          out_.global.socket = words_[i].substr(std::string_view("--socket=").size());
        } else if (words_[i].starts_with("--instance=")) {
          out_.global.instance = words_[i].substr(std::string_view("--instance=").size());
        }
      } else if (has_value(*option)) {
        if (++i == words_.size()) {
          return option;
        }
        std::string& value = std::string_view(option->name) == "--socket" ? out_.global.socket : out_.global.instance;
        if (option->kind == ValueKind::kFile || option->kind == ValueKind::kText) {
          value = words_[i];
        }
      }
    }
    return nullptr;
  }

  [[nodiscard]] bool named_of_commands(std::string_view word) const {
    return std::ranges::any_of(table_,
                               [word](const Command& command) { return parameter_named(command.parameters, word) != nullptr; });
  }

  void offer(std::string_view word, std::string_view help) {
    const bool is_there = std::ranges::any_of(out_.offers, [word](const Offer& other) { return other.word == word; });
    if (word.starts_with(begun_) && !is_there) {
      out_.offers.push_back({std::string(word), std::string(help)});
    }
  }

  void offer_globals() {
    if (begun_.starts_with("-")) {
      for (const Parameter& option : global_parameters()) {
        offer(option.name, option.help);
      }
    }
  }

  void offer_objects() {
    for (const Command& command : table_) {
      // The help of the command that the object means by itself.
      const auto own = std::ranges::find_if(table_, [&](const Command& other) {
        return std::string_view(other.object) == command.object && (other.is_default || *other.verb == '\0');
      });
      offer(command.object, own != table_.end() ? own->help : command.help);
    }
    offer_globals();
  }

  void complete_command() {
    const Command* command = nullptr;
    bool has_verb = false;
    for (const Command& each : table_) {
      if (rest_[0] == each.object) {
        const bool verb_stands = rest_.size() > 1 && *each.verb != '\0' && rest_[1] == each.verb;
        if (verb_stands || (!has_verb && (each.is_default || *each.verb == '\0'))) {
          command = &each;
        }
        has_verb |= verb_stands;
        if (rest_.size() == 1 && *each.verb != '\0') {
          offer(each.verb, each.help);
        }
      }
    }
    if (command != nullptr) {
      complete_parameters(*command, has_verb ? 2 : 1);
    }
    offer_globals();
  }

  void complete_parameters(const Command& command, size_t next) {
    size_t positionals = 0;
    for (; next < rest_.size(); ++next) {
      const Parameter* const parameter = parameter_named(command.parameters, rest_[next]);
      if (parameter != nullptr && has_value(*parameter)) {
        if (++next == rest_.size()) {
          offer_values(command, *parameter);
          return;
        }
      } else {
        positionals += parameter == nullptr ? 1 : 0;
      }
    }
    for (const Parameter& parameter : command.parameters) {
      if (parameter.use != ParameterUse::kPositional) {
        offer(parameter.name, parameter.help);
      } else if (positionals == 0) {
        offer_values(command, parameter);
      }
    }
  }

  void offer_values(const Command& command, const Parameter& parameter) {
    for (const char* choice : parameter.choices) {
      offer(choice, {});
    }
    if (parameter.kind == ValueKind::kFlag) {
      offer("yes", {});
      offer("no", {});
    } else if (parameter.kind == ValueKind::kFile) {
      out_.wants_file = true;
    } else if (parameter.choices.empty()) {
      out_.live = live_of(command, parameter, table_);
    }
  }

  std::span<const std::string_view> words_;
  std::string_view begun_;
  std::vector<std::string_view> rest_;  // without options of every command
  std::span<const Command> table_;
  Completion out_;
};

}  // namespace

Completion complete(std::span<const std::string_view> words, std::span<const Command> table) {
  return Completer(words, table).run();
}

std::vector<Offer> live_offers(const Completion::Live& live, const nlohmann::ordered_json& answer, std::string_view begun) {
  std::set<std::string> values;
  const auto add = [&](const nlohmann::ordered_json& value) {
    const std::string text = value.is_string() ? value.get<std::string>() : value.is_number() ? value.dump() : std::string();
    if (!text.empty() && text.starts_with(begun) && values.size() < kLiveMax) {
      values.insert(text);
    }
  };
  const auto rows = live.rows != nullptr ? answer.find(live.rows) : answer.end();
  if (rows == answer.end() || !rows->is_array()) {
    return {};
  }
  for (const nlohmann::ordered_json& row : *rows) {
    const auto field = row.find(live.field);
    if (field != row.end() && field->is_array()) {
      std::ranges::for_each(*field, add);
    } else if (field != row.end()) {
      add(*field);
    }
  }
  std::vector<Offer> offers;
  offers.reserve(values.size());
  for (const std::string& value : values) {
    offers.push_back({value, {}});
  }
  return offers;
}

int run_complete(std::span<const std::string_view> words) {
  Completion completion = complete(words, command_table());
  if (completion.live.request != nullptr && completion.live.field != nullptr) {
    const AdminReply reply = ask_gateway(socket_of(completion.global), {{"command", completion.live.request}});
    if (!reply.refusal) {
      std::ranges::move(live_offers(completion.live, reply.answer, words.back()), std::back_inserter(completion.offers));
    }
  }
  std::string text = completion.wants_file ? ":file\n" : "";
  for (const Offer& offer : completion.offers) {
    text += offer.help.empty() ? offer.word + "\n" : fmt::format("{}\t{}\n", offer.word, offer.help);
  }
  return print(text);
}

std::string completion_script(std::string_view shell) {
  return std::string(shell == "zsh" ? kZsh : shell == "fish" ? kFish : kBash);
}

}  // namespace cw::control
