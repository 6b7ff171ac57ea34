// Notes the signal that ends the process. The handler does what a handler may: it copies into memory that is there, asks the
// kernel, and walks the stack.
#pragma once

#include "control/recorder/recording.h"

namespace cw::control::recorder {

// Of SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGSYS, SIGTRAP and SIGABRT those that nobody handles yet. The writer outlives the process,
// or forget_fatal_signals() comes before its end.
void note_fatal_signals(RecordingWriter& writer);
void forget_fatal_signals();

}  // namespace cw::control::recorder
