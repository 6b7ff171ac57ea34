// What a gateway's recorder holds, as files for people. Pure.
#pragma once

#include <span>
#include <string>

#include "control/recorder/recording.h"

namespace cw::control {

// One sentence: which process it was, and how it ended, or that it runs.
[[nodiscard]] std::string summary_of(const recorder::Recording& recording, bool runs);

struct RecordingPart {
  const char* name;  // of its file
  const char* what;
  std::string (*render)(const recorder::Recording& recording, bool runs);
};
[[nodiscard]] std::span<const RecordingPart> recording_parts();

}  // namespace cw::control
