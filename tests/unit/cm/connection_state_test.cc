// Every state against every input, on the real manager, next to what the table says. The outcome is a golden file: a transition
// that changes shows there. CAUSEWAY_UPDATE_GOLDEN=1 writes it.
#include "control/cm/connection_state.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iomanip>
#include <sstream>

#include "tests/support/pcap_reader.h"
#include "tests/unit/cm/scripted_peer.h"

namespace cw::cm {
namespace {

using test::kPeerCommId;
using test::linux_req;
using test::ScriptedPeer;
using S = ConnectionState;
using I = ConnectionInput;

void drive_to(ScriptedPeer& t, S state, bool passive) {
  switch (state) {
    case S::kReqRcvd:
      return t.receive_req();
    case S::kMraReqSent:
      t.receive_req();
      ASSERT_TRUE(t.manager.delay(t.now, t.id, Duration::seconds(1)).ok());
      t.our_comm_id = t.only<Mra>().local_comm_id;
      return;
    case S::kRepSent:
      return t.accept();
    case S::kMraRepRcvd:
      t.accept();
      return t.deliver(t.mra(AboutMessage::kRep));
    case S::kReqSent:
      return t.connect();
    case S::kMraReqRcvd:
      t.connect();
      return t.deliver(t.mra(AboutMessage::kReq));
    case S::kRepRcvd:
      return t.receive_rep();
    case S::kEstablished:
      return passive ? t.establish() : t.establish_active();
    case S::kDreqSent:
    case S::kTimewait:
      passive ? t.establish() : t.establish_active();
      t.manager.disconnect(t.now, t.id);
      t.sent();
      if (state == S::kTimewait) {
        t.deliver(t.drep());
        t.events();
      }
      return;
    case S::kIdle:
    case S::kCount:
      return;
  }
}

// The peer asks anew under the same QPN, and answers our REP.
void supersede(ScriptedPeer& t) {
  t.deliver(linux_req(t.peer, 0x7777));
  CmEvent event;
  ASSERT_TRUE(t.manager.poll_event(event));
  ASSERT_TRUE(t.manager.accept(t.now, event.connection, t.accept_parameters()).ok());
  t.deliver(Rtu{.local_comm_id = 0x7777, .remote_comm_id = t.only<Rep>().local_comm_id});
}

void apply(ScriptedPeer& t, I input) {
  switch (input) {
    case I::kReq:
      return t.deliver(linux_req(t.peer));
    case I::kMraOfReq:
      return t.deliver(t.mra(AboutMessage::kReq));
    case I::kMraOfRep:
      return t.deliver(t.mra(AboutMessage::kRep));
    case I::kRep:
      return t.deliver(t.rep());
    case I::kRtu:
      return t.deliver(t.rtu());
    case I::kRej: {
      Rej rej = t.rej();
      rej.remote_comm_id = t.our_comm_id;  // 0 while the peer does not know it
      return t.deliver(rej);
    }
    case I::kDreq:
      return t.deliver(t.dreq());
    case I::kDrep:
      return t.deliver(t.drep());
    case I::kLap: {
      Lap lap;
      lap.local_comm_id = kPeerCommId;
      lap.remote_comm_id = t.our_comm_id;
      return t.deliver(lap);
    }
    case I::kData:
      return t.manager.data_arrived(t.now, t.id);
    case I::kSuperseded:
      return supersede(t);
    case I::kEvicted:
      return t.deliver_from(test::address_of(1, 9), linux_req(test::address_of(1, 9), 0x8888));  // one may be half open
    case I::kAccept:
      return (void)t.manager.accept(t.now, t.id, t.accept_parameters());
    case I::kReject:
      return (void)t.manager.reject(t.now, t.id, RejectReason::kConsumerDefined);
    case I::kDelay:
      return (void)t.manager.delay(t.now, t.id, Duration::seconds(1));
    case I::kReady:
      return (void)t.manager.ready(t.now, t.id);
    case I::kDisconnect:
      return t.manager.disconnect(t.now, t.id);
    case I::kConnect:
    case I::kGiveUp:
    case I::kRelease:
    case I::kCount:
      return;
  }
}

std::string kind_of(const CmEvent& event) {
  if (event.as<ConnectRequest>() != nullptr) {
    return "connect_request";
  }
  if (event.as<Established>() != nullptr) {
    return "established";
  }
  if (event.as<ConnectReply>() != nullptr) {
    return "connect_reply";
  }
  if (event.as<Rejected>() != nullptr) {
    return "rejected";
  }
  if (const auto* disconnected = event.as<Disconnected>()) {
    return std::string("disconnected:") + to_string(disconnected->cause);
  }
  return std::string("connect_failed:") + to_string(event.as<ConnectFailed>()->failure);
}

// What happened to the connection under test; what a superseding request starts is another story.
std::string outcome_of(ScriptedPeer& t, const CmStats& before) {
  std::string text;
  for (const auto& datagram : t.sent()) {
    text += std::string(" sends ") + to_string(type_of(datagram.mad));
    if (type_of(datagram.mad) == MessageType::kRej) {
      text += std::string(":") + to_string(Rej::parse(message_of(datagram.mad))->reason);
    }
  }
  const ConnectionId id = t.id;
  for (const auto& event : t.events()) {
    if (event.connection == id) {
      text += " tells " + kind_of(event);
    }
  }
  for (size_t i = 0; i < static_cast<size_t>(CmDrop::kCount); ++i) {
    if (t.manager.stats().drops[i] != before.drops[i]) {
      text += std::string(" drops ") + to_string(static_cast<CmDrop>(i));
    }
  }
  return text;
}

bool is_by_time(I input) {
  return input == I::kGiveUp || input == I::kRelease;
}

void print_state(std::ostream& out, S state, bool passive) {
  out << "\n" << to_string(state) << (passive ? " (passive)" : " (active)") << "\n";
  for (size_t i = 0; i < static_cast<size_t>(I::kCount); ++i) {
    const I input = static_cast<I>(i);
    const bool is_active_attempt = state == S::kReqSent || state == S::kMraReqRcvd;
    if (input == I::kConnect || (input == I::kReq && !passive) || (input == I::kSuperseded && is_active_attempt)) {
      continue;  // these make other connections
    }
    CmOptions options;
    options.half_open_max = input == I::kEvicted ? 1 : options.half_open_max;
    ScriptedPeer t(options);
    drive_to(t, state, passive);
    ASSERT_EQ(t.state(), state);
    t.sent();
    const CmStats before = t.manager.stats();
    if (is_by_time(input)) {
      const bool rests = state == S::kEstablished;
      if (input == (state == S::kTimewait ? I::kGiveUp : I::kRelease) || rests) {
        continue;
      }
      t.now = t.now + Duration::seconds(60);
      t.manager.on_deadline(t.now);
    } else {
      apply(t, input);
    }
    const S after = t.state();
    const Transition* listed = find_transition(state, input);
    // The table knows no roles: a message of the other role is refused before it is asked.
    const std::string outcome = outcome_of(t, before);
    const bool refused =
        outcome.find("drops unknown") != std::string::npos || outcome.find("drops out_of_state") != std::string::npos;
    if (listed == nullptr || refused) {
      EXPECT_EQ(after, state) << to_string(state) << " + " << to_string(input);
    } else {
      EXPECT_EQ(after, listed->to) << to_string(state) << " + " << to_string(input);
    }
    out << "  " << std::left << std::setw(13) << to_string(input) << "-> " << std::setw(13) << to_string(after) << outcome
        << "\n";
  }
}

std::string matrix() {
  std::ostringstream out;
  out << "What a connection does with every input in every state, as seen by its peer (sends) and its user (tells).\n";
  for (const S state : {S::kReqRcvd, S::kMraReqSent, S::kRepSent, S::kMraRepRcvd, S::kEstablished, S::kDreqSent, S::kTimewait}) {
    print_state(out, state, true);
  }
  for (const S state : {S::kReqSent, S::kMraReqRcvd, S::kRepRcvd, S::kEstablished, S::kDreqSent, S::kTimewait}) {
    print_state(out, state, false);
  }
  out << "\nThe table, as a graph.\n\ndigraph cm {\n";
  for (const Transition& transition : all_transitions()) {
    if (transition.from != transition.to) {
      out << "  " << to_string(transition.from) << " -> " << to_string(transition.to) << " [label=\""
          << to_string(transition.input) << " / " << to_string(transition.action) << "\"];\n";
    }
  }
  out << "}\n";
  std::string text = out.str();
  // No trailing blanks.
  for (size_t at = text.find(" \n"); at != std::string::npos; at = text.find(" \n")) {
    text.erase(at, 1);
  }
  return text;
}

TEST(CmState, TheMatrixIsThatOfTheGoldenFile) {
  const auto path = cw::test::golden_packets_dir().parent_path() / "states" / "cm.txt";
  const std::string now = matrix();
  if (std::getenv("CAUSEWAY_UPDATE_GOLDEN") != nullptr) {
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << now;
  }
  std::ifstream file(path);
  const std::string golden((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  EXPECT_EQ(now, golden) << "the state machine has changed";
}

TEST(CmState, EveryLiveStateCanBeLeftByTheUserThePeerAndTheClock) {
  for (size_t i = 0; i < static_cast<size_t>(S::kCount); ++i) {
    const S state = static_cast<S>(i);
    if (!is_live(state)) {
      continue;
    }
    EXPECT_TRUE(state == S::kDreqSent || find_transition(state, I::kDisconnect) != nullptr) << to_string(state);
    EXPECT_TRUE(state == S::kEstablished || find_transition(state, I::kGiveUp) != nullptr) << to_string(state);
    EXPECT_NE(find_transition(state, I::kRej), nullptr) << to_string(state);
  }
}

TEST(CmState, EveryLiveStateThatKnowsAQpnCanBeSuperseded) {
  for (size_t i = 0; i < static_cast<size_t>(S::kCount); ++i) {
    const S state = static_cast<S>(i);
    const bool knows = is_live(state) && state != S::kReqSent && state != S::kMraReqRcvd;
    EXPECT_EQ(find_transition(state, I::kSuperseded) != nullptr, knows) << to_string(state);
  }
}

}  // namespace
}  // namespace cw::cm
