// That a check of facts finds something, with its cause and its fix.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "control/doctor/checks.h"

namespace cw::control::doctor {

// Of any check that finds it, in words that are part of the finding.
inline void expect_finding(const Facts& facts, const char* check, Severity severity, const char* what, const char* fix) {
  const Findings findings = judge(facts);
  const bool found = std::ranges::any_of(findings, [&](const Finding& finding) {
    return std::string(finding.check) == check && finding.severity == severity && finding.what.find(what) != std::string::npos &&
           finding.fix.find(fix) != std::string::npos;
  });
  std::string all;
  for (const Finding& finding : findings) {
    all += std::string(to_string(finding.severity)) + " " + finding.check + ": " + finding.what + " -> " + finding.fix + "\n";
  }
  EXPECT_TRUE(found) << check << ": " << what << "\n" << all;
}

}  // namespace cw::control::doctor
