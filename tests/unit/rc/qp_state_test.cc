// The states of a queue pair: the table and its graph, and what a real queue pair does with every input in every state. Both are
// one golden file: whatever changes shows there, in the same commit. CAUSEWAY_UPDATE_GOLDEN=1 writes it.
#include "rocev2/rc/qp_state.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iomanip>
#include <sstream>

#include "tests/unit/rc/lone_qp.h"

namespace cw::rc {
namespace {

using test::Inbound;
using test::LoneQp;

// A queue pair in `state` with one receive posted and, where it can send, one SEND of ours on its way.
std::unique_ptr<LoneQp> in_state(QpState state, uint32_t receives) {
  const bool passes_rts = state == QpState::kSqd || state == QpState::kError;
  auto lone = std::make_unique<LoneQp>(test::LoneQpOptions{.state = passes_rts ? QpState::kRts : state});
  lone->qp->post_receives(receives);
  if (lone->qp->state() == QpState::kRts) {
    EXPECT_TRUE(lone->post_send(10, 1).ok());
    (void)lone->sent();
  }
  if (state == QpState::kSqd) {
    EXPECT_TRUE(lone->qp->drain().ok());
  } else if (state == QpState::kError) {
    lone->qp->close();
    (void)lone->completions();
  }
  EXPECT_EQ(lone->qp->state(), state);
  return lone;
}

struct Input {
  const char* name;
  uint32_t receives;  // posted before it
  Status (*apply)(LoneQp& lone);
};

Status packet(LoneQp& lone, const Inbound& inbound) {
  lone.receive(inbound);
  return {};
}

Inbound aeth(wire::Aeth aeth) {
  Inbound inbound{.opcode = wire::Opcode::kRcAcknowledge, .psn = 1000};
  inbound.extensions.aeth = aeth;
  return inbound;
}

Inbound send_of(wire::Opcode opcode, uint32_t psn) {
  return {.opcode = opcode, .psn = psn, .payload = test::random_bytes(1, 10)};
}

constexpr Input kInputs[] = {
    {"post_send()", 1, [](LoneQp& lone) { return lone.post_send(10, 2); }},
    {"drain()", 1, [](LoneQp& lone) { return lone.qp->drain(); }},
    {"to_rts()", 1, [](LoneQp& lone) { return lone.qp->to_rts(); }},
    {"close()", 1, [](LoneQp& lone) { return lone.qp->close(), Status(); }},
    {"send", 1, [](LoneQp& lone) { return packet(lone, send_of(wire::Opcode::kRcSendOnly, 5000)); }},
    {"send, no receive", 0, [](LoneQp& lone) { return packet(lone, send_of(wire::Opcode::kRcSendOnly, 5000)); }},
    {"send behind a gap", 1, [](LoneQp& lone) { return packet(lone, send_of(wire::Opcode::kRcSendOnly, 5001)); }},
    {"... and it is lost", 1,
     [](LoneQp& lone) {
       const Status status = packet(lone, send_of(wire::Opcode::kRcSendOnly, 5001));
       lone.pass(ReorderWindow::kMost);
       return status;
     }},
    {"send, repeated", 1, [](LoneQp& lone) { return packet(lone, send_of(wire::Opcode::kRcSendOnly, 4999)); }},
    {"last without first", 1, [](LoneQp& lone) { return packet(lone, send_of(wire::Opcode::kRcSendLast, 5000)); }},
    {"write", 1, [](LoneQp& lone) { return packet(lone, send_of(wire::Opcode::kRcWriteOnly, 5000)); }},
    {"ack", 1, [](LoneQp& lone) { return packet(lone, aeth(wire::Aeth::ack(1))); }},
    {"nak: sequence", 1, [](LoneQp& lone) { return packet(lone, aeth(wire::Aeth::nak(wire::NakCode::kPsnSequenceError, 0))); }},
    {"nak: invalid", 1, [](LoneQp& lone) { return packet(lone, aeth(wire::Aeth::nak(wire::NakCode::kInvalidRequest, 0))); }},
    {"nak: not ready", 1, [](LoneQp& lone) { return packet(lone, aeth(wire::Aeth::rnr_nak(1, 0))); }},
    {"timeout", 1, [](LoneQp& lone) { return lone.pass(Duration::ms(2)), Status(); }},
    {"last timeout", 1,
     [](LoneQp& lone) {
       for (int i = 0; i < 8; ++i) {
         (void)lone.sent();
         lone.pass(Duration::ms(20));
       }
       return Status();
     }},
};

std::string packet_name(const test::Sent& sent) {
  if (sent.opcode != wire::Opcode::kRcAcknowledge) {
    return std::string(wire::traits_of(sent.opcode).name) + " " + std::to_string(sent.psn);
  }
  const wire::Aeth aeth{sent.syndrome, sent.msn};
  switch (aeth.kind()) {
    case wire::AethKind::kAck:
      return "ACK " + std::to_string(sent.psn);
    case wire::AethKind::kRnrNak:
      return "RNR NAK " + std::to_string(sent.psn);
    case wire::AethKind::kNak:
    case wire::AethKind::kReserved:
      break;
  }
  return "NAK " + std::to_string(sent.psn) + " " + to_string(static_cast<wire::NakCode>(aeth.code()));
}

std::string outcome_of(LoneQp& lone, const Status& status) {
  std::string text = to_string(lone.qp->state());
  text.resize(7, ' ');
  text += status.ok() ? "" : " refused";
  for (const test::Sent& sent : lone.sent()) {
    text += " sends {" + packet_name(sent) + "}";
  }
  const std::string completions = lone.completions();
  text += completions.empty() ? "" : " completes {" + completions + "}";
  for (size_t reason = 0; reason < wire::kDropReasonCount; ++reason) {
    if (lone.endpoint->stats().discards[reason] > 0) {
      text += std::string(" drops ") + to_string(static_cast<wire::DropReason>(reason));
    }
  }
  if (lone.qp->in_error()) {
    text += std::string(" error: ") + to_string(lone.qp->error().cause);
  }
  return text;
}

std::string behaviour() {
  std::ostringstream out;
  out << "\nWhat a queue pair does. It expects PSN 5000; where it can send, SEND 1000 is on its way.\n";
  for (const QpState state : kQpStates) {
    if (state == QpState::kReset) {
      continue;  // it does not exist
    }
    out << "\n" << to_string(state) << "\n";
    for (const Input& input : kInputs) {
      const auto lone = in_state(state, input.receives);
      const Status status = input.apply(*lone);
      out << "  " << std::left << std::setw(19) << input.name << "-> " << outcome_of(*lone, status) << "\n";
    }
  }
  return out.str();
}

// The whole state x event matrix and the graph, as text.
std::string picture() {
  std::ostringstream out;
  out << "Queue pair states. Rows: from; columns: event; - : refused.\n\n";
  static constexpr size_t kWidth = 18;
  const auto cell = [&out](std::string text) {
    text.resize(std::max(text.size(), kWidth), ' ');
    out << text;
  };
  cell("");
  for (uint32_t event = 0; event < kQpEventCount; ++event) {
    cell(to_string(static_cast<QpEvent>(event)));
  }
  out << "\n";
  for (const QpState state : kQpStates) {
    cell(to_string(state));
    for (uint32_t event = 0; event < kQpEventCount; ++event) {
      const auto next = next_state(state, static_cast<QpEvent>(event));
      cell(next.has_value() ? to_string(*next) : "-");
    }
    out << "\n";
  }
  out << "\ndigraph qp {\n";
  for (const QpTransition& transition : qp_transitions()) {
    out << "  " << to_string(transition.from) << " -> " << to_string(transition.to) << " [label=\"" << to_string(transition.event)
        << "\"];\n";
  }
  out << "}\n" << behaviour();
  // Nothing is worth a trailing blank in a committed file.
  std::string text = out.str();
  for (size_t at = text.find(" \n"); at != std::string::npos; at = text.find(" \n")) {
    text.erase(at, 1);
  }
  return text;
}

TEST(QpState, MatrixIsTheCommittedOne) {
  if (std::getenv("CAUSEWAY_UPDATE_GOLDEN") != nullptr) {
    std::ofstream(CW_GOLDEN_DIR "/states/qp.txt") << picture();
  }
  std::ifstream file(CW_GOLDEN_DIR "/states/qp.txt");
  std::ostringstream committed;
  committed << file.rdbuf();
  EXPECT_EQ(committed.str(), picture());
}

TEST(QpState, ErrorIsLeftOnlyByDestruction) {
  for (uint32_t event = 0; event < kQpEventCount; ++event) {
    const auto next = next_state(QpState::kError, static_cast<QpEvent>(event));
    EXPECT_EQ(next.has_value(), static_cast<QpEvent>(event) == QpEvent::kDestroy);
  }
}

}  // namespace
}  // namespace cw::rc
