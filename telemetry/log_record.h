// Lines of the log that outlive the process.
#pragma once

#include "control/recorder/recorder.h"

namespace cw::telemetry {

// Any thread. From now on each line that is written goes to the recorder, too; those that were remembered so far are put there
// first. nullptr: no longer. The caller sees to it that nobody logs while the recorder ends.
void log_record_in(control::recorder::Recorder* recorder);

}  // namespace cw::telemetry
