#include "apps/sim/link/script.h"

#include <algorithm>
#include <sstream>

#include "apps/sim/link/damage.h"

namespace cw::sim {
namespace {

constexpr uint32_t kNumberMax = wire::Psn::kMask;

template <typename Kind>
std::optional<Kind> kind_of(const std::string& word) {
  for (uint8_t i = 0; i < static_cast<uint8_t>(Kind::kCount); ++i) {
    if (word == to_string(static_cast<Kind>(i))) {
      return static_cast<Kind>(i);
    }
  }
  return std::nullopt;
}

template <typename Kind>
std::string names_of() {
  std::string names = to_string(static_cast<Kind>(0));
  for (uint8_t i = 1; i < static_cast<uint8_t>(Kind::kCount); ++i) {
    names += (i + 1 < static_cast<uint8_t>(Kind::kCount) ? ", " : " or ") + std::string(to_string(static_cast<Kind>(i)));
  }
  return names;
}

// Reads one event word by word. The first word that does not fit is the error.
class EventParser {
 public:
  explicit EventParser(const std::string& text) : words_(text) { next(); }

  std::optional<ScriptEvent> parse() {
    ScriptEvent event;
    if (word_ != "qp") {
      expected("qp");
    }
    next();
    event.qp = number("", "the index of a connection", 0);
    event.direction = kind<PacketDirection>();
    event.packet = kind<PacketClass>();
    event.psn = number("+", "+ and a relative PSN", 0);
    if (!word_.empty() && word_[0] == '#') {
      event.transmission = number("#", "# and which transmission", 1);
    }
    event.action = kind<ScriptAction>();
    if (event.action == ScriptAction::kBehind) {
      event.behind = number("", "how many packets go past", 1);
    }
    if (!word_.empty()) {
      expected("the end of the event");
    }
    return error_.empty() ? std::optional(event) : std::nullopt;
  }
  [[nodiscard]] const std::string& error() const { return error_; }

 private:
  void next() {
    if (!(words_ >> word_)) {
      word_.clear();
    }
  }
  void expected(const std::string& what) {
    if (error_.empty()) {
      error_ = "expected " + what + (word_.empty() ? ", and it ends" : ", not '" + word_ + "'");
    }
  }
  template <typename Kind>
  Kind kind() {
    const std::optional<Kind> found = kind_of<Kind>(word_);
    if (!found) {
      expected(names_of<Kind>());
    }
    next();
    return found.value_or(Kind{});
  }
  uint32_t number(const std::string& prefix, const std::string& what, uint32_t least) {
    const bool has_prefix = word_.compare(0, prefix.size(), prefix) == 0;
    const std::string digits = has_prefix ? word_.substr(prefix.size()) : "";
    const bool is_number = !digits.empty() && digits.size() <= 8 && digits.find_first_not_of("0123456789") == std::string::npos;
    const uint32_t value = is_number ? static_cast<uint32_t>(std::stoul(digits)) : 0;
    if (!is_number || value < least || value > kNumberMax) {
      expected(what + " (" + std::to_string(least) + " to " + std::to_string(kNumberMax) + ")");
    }
    next();
    return value;
  }

  std::istringstream words_;
  std::string word_;
  std::string error_;
};

void corrupt(std::vector<uint8_t>& raw) {
  const auto view = wire::PacketView::parse(raw);
  const size_t in_icrc = raw.size() - 1;
  const bool has_payload = view.ok() && !view->payload.empty();
  raw[has_payload ? static_cast<size_t>(view->payload.data() - raw.data()) + view->payload.size() / 2 : in_icrc] ^= 0x10;
}

bool fits(const ScriptEvent& event, const PacketIdentity& packet) {
  return packet.packet != PacketClass::kAny && event.qp == packet.qp && event.direction == packet.direction &&
         event.psn == packet.psn && (event.packet == PacketClass::kAny || event.packet == packet.packet);
}

}  // namespace

const char* to_string(PacketDirection direction) noexcept {
  constexpr const char* kNames[] = {"out", "in"};
  return direction < PacketDirection::kCount ? kNames[static_cast<size_t>(direction)] : "unknown";
}

const char* to_string(PacketClass packet) noexcept {
  constexpr const char* kNames[] = {"psn", "request", "response", "ack"};
  return packet < PacketClass::kCount ? kNames[static_cast<size_t>(packet)] : "unknown";
}

const char* to_string(ScriptAction action) noexcept {
  constexpr const char* kNames[] = {"drop", "duplicate", "corrupt", "mark", "behind"};
  return action < ScriptAction::kCount ? kNames[static_cast<size_t>(action)] : "unknown";
}

std::string to_string(const ScriptEvent& event) {
  std::string text = "qp " + std::to_string(event.qp) + " " + to_string(event.direction) + " " + to_string(event.packet) + " +" +
                     std::to_string(event.psn) + " #" + std::to_string(event.transmission) + " " + to_string(event.action);
  if (event.action == ScriptAction::kBehind) {
    text += " " + std::to_string(event.behind);
  }
  return text;
}

std::string to_string(const FaultScript& script) {
  std::string text;
  for (const ScriptEvent& event : script) {
    text += (text.empty() ? "" : "; ") + to_string(event);
  }
  return text;
}

std::optional<FaultScript> parse_script(const std::string& text, std::string& error) {
  FaultScript script;
  std::istringstream events(text);
  uint32_t number = 0;
  for (std::string part; std::getline(events, part, ';');) {
    if (part.find_first_not_of(" \t\n") == std::string::npos) {
      continue;  // behind the last semicolon
    }
    ++number;
    EventParser parser(part);
    const std::optional<ScriptEvent> event = parser.parse();
    if (!event) {
      error = "event " + std::to_string(number) + ": " + parser.error();
      return std::nullopt;
    }
    script.push_back(*event);
  }
  return script;
}

std::optional<PacketIdentity> identify(const wire::PacketView& view, uint32_t to,
                                       const std::vector<ScriptedConnection>& connections) {
  for (uint32_t qp = 0; qp < connections.size(); ++qp) {
    const ScriptedConnection& connection = connections[qp];
    if (connection.qpn[to] != view.bth.destination) {
      continue;
    }
    PacketIdentity identity{.qp = qp, .direction = to == 1 ? PacketDirection::kOut : PacketDirection::kIn};
    switch (view.traits->kind) {
      case wire::OpcodeKind::kSend:
      case wire::OpcodeKind::kWrite:
      case wire::OpcodeKind::kReadRequest:
      case wire::OpcodeKind::kAtomic:
        identity.packet = PacketClass::kRequest;
        break;
      case wire::OpcodeKind::kReadResponse:
        identity.packet = PacketClass::kResponse;
        break;
      case wire::OpcodeKind::kAcknowledge:
      case wire::OpcodeKind::kAtomicAcknowledge:
      case wire::OpcodeKind::kGapReport:
        identity.packet = PacketClass::kAcknowledgement;
        break;
      default:
        return identity;
    }
    const uint32_t requester = identity.packet == PacketClass::kRequest ? 1 - to : to;
    identity.psn = view.bth.psn.minus(connection.first_psn[requester].value()).value();
    return identity;
  }
  return std::nullopt;
}

void ScriptedFaults::push(Instant now, Transit&& frame) {
  const uint32_t to = frame.to;
  const Fate fate = fate_of(now, frame);
  for (uint32_t i = 0; i < fate.copies; ++i) {
    if (fate.behind > 0) {
      held_.push_back({now + kBehindAtMost, fate.behind, frame});
    } else {
      inner_->push(now, Transit(frame));
    }
  }
  if (fate.copies > 0 && fate.behind == 0) {
    go_past(now, to);
  }
}

Instant ScriptedFaults::next_at() const {
  Instant next = inner_->next_at();
  for (const Held& held : held_) {
    next = earlier(next, held.until);
  }
  return next;
}

bool ScriptedFaults::poll(Instant now, Arrival& out) {
  for (size_t i = 0; i < held_.size();) {
    if (held_[i].until <= now) {
      release(now, i);
    } else {
      ++i;
    }
  }
  return inner_->poll(now, out);
}

ScriptedFaults::Fate ScriptedFaults::fate_of(Instant now, Transit& frame) {
  Fate fate;
  const auto view = wire::PacketView::parse(frame.raw);
  const auto identity = view.ok() ? identify(*view, frame.to, connections_) : std::nullopt;
  if (!identity) {
    return fate;
  }
  const uint32_t transmission = ++sent_[*identity];
  for (size_t i = 0; i < script_.size(); ++i) {
    const ScriptEvent& event = script_[i];
    if (has_fired_[i] || event.transmission != transmission || !fits(event, *identity)) {
      continue;
    }
    has_fired_[i] = true;
    firings_.push_back({i, now, *identity});
    switch (event.action) {
      case ScriptAction::kDrop:
        fate.copies = 0;
        break;
      case ScriptAction::kDuplicate:
        fate.copies *= 2;
        break;
      case ScriptAction::kCorrupt:
        corrupt(frame.raw);
        break;
      case ScriptAction::kMark:
        (void)mark_congestion(frame.raw);
        break;
      case ScriptAction::kBehind:
      case ScriptAction::kCount:
        fate.behind = event.behind;
        break;
    }
  }
  return fate;
}

// A packet that left goes past those that are held.
void ScriptedFaults::go_past(Instant now, uint32_t to) {
  for (size_t i = 0; i < held_.size();) {
    if (held_[i].frame.to == to && --held_[i].behind == 0) {
      release(now, i);
    } else {
      ++i;
    }
  }
}

void ScriptedFaults::release(Instant now, size_t index) {
  Transit frame = std::move(held_[index].frame);
  held_.erase(held_.begin() + static_cast<std::ptrdiff_t>(index));
  inner_->push(now, std::move(frame));
}

}  // namespace cw::sim
