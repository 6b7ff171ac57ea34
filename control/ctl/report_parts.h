// What a report has in it: for each file of the archive what is done to get it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "control/ctl/command.h"
#include "control/recorder/recorder.h"

namespace cw::control {

// Of whom the report is. All outlive the parts.
struct ReportTarget {
  GlobalOptions global;     // whose socket it is
  std::string config_path;  // of the gateway
  uint64_t pid = 0;         // 0: it does not run
  recorder::RecordingFile now;
  recorder::RecordingFile crashed;
};

struct ReportPart {
  std::string name;  // of its file
  std::string what;  // for the index
  // Prints the text and returns an exit status of causewayctl, in a process of its own.
  std::function<int()> run;
  std::string missing;  // why it cannot be had, known beforehand; else empty
  // Parts that depend on the same answerer: when the first of them gets nothing, the others are not tried. nullptr: on none.
  const char* group = nullptr;
  bool any_status = false;  // a program that says by its exit status what does not matter here
};

[[nodiscard]] std::vector<ReportPart> report_parts(const ReportTarget& target);

}  // namespace cw::control
