#include "rocev2/rc/qp_state.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <sstream>

namespace cw::rc {
namespace {

// The whole state x event matrix and the graph, as text. tests/golden/states/qp.txt is what this prints: a changed transition is
// a changed picture in the same commit.
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
  for (uint32_t state = 0; state < kQpStateCount; ++state) {
    cell(to_string(static_cast<QpState>(state)));
    for (uint32_t event = 0; event < kQpEventCount; ++event) {
      const auto next = next_state(static_cast<QpState>(state), static_cast<QpEvent>(event));
      cell(next.has_value() ? to_string(*next) : "-");
    }
    out << "\n";
  }
  out << "\ndigraph qp {\n";
  for (const QpTransition& transition : qp_transitions()) {
    out << "  " << to_string(transition.from) << " -> " << to_string(transition.to) << " [label=\"" << to_string(transition.event)
        << "\"];\n";
  }
  out << "}\n";
  // Nothing is worth a trailing blank in a committed file.
  std::string text = out.str();
  for (size_t at = text.find(" \n"); at != std::string::npos; at = text.find(" \n")) {
    text.erase(at, 1);
  }
  return text;
}

TEST(QpState, MatrixIsTheCommittedOne) {
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
