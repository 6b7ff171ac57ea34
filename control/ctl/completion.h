// What shells offer for a command line of causewayctl that is being written. The scripts of bash, zsh and fish ask
// 'causewayctl __complete WORDS...' and show the answer: what may stand where is said here once, for all of them.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "control/ctl/command.h"

namespace cw::control {

struct Offer {
  std::string word;
  std::string help;  // one line; empty: none
};

// Pure, but for the values that a gateway knows.
struct Completion {
  std::vector<Offer> offers;
  bool wants_file = false;
  // Names and numbers that only the gateway knows: the field of these rows of its answer to the request.
  struct Live {
    const char* request = nullptr;  // nullptr: nothing is asked
    const char* rows = nullptr;
    const char* field = nullptr;
  };
  Live live;
  GlobalOptions global;  // which gateway
};

// `words` without the program's name; the last is the one that is being written, "" when nothing of it has been. Offers begin
// with it.
[[nodiscard]] Completion complete(std::span<const std::string_view> words, std::span<const Command> table);

// The values that an answer of the gateway has for Completion::live, each once, those that begin with `begun`.
[[nodiscard]] std::vector<Offer> live_offers(const Completion::Live& live, const nlohmann::ordered_json& answer,
                                             std::string_view begun);

// causewayctl __complete: a line for each offer, its help behind a tab; ":file" where a file may stand. Asks the gateway where
// it takes that, and offers nothing when it does not answer. Returns the exit status.
[[nodiscard]] int run_complete(std::span<const std::string_view> words);

// The script of a shell: "bash", "zsh" or "fish".
[[nodiscard]] std::string completion_script(std::string_view shell);

}  // namespace cw::control
