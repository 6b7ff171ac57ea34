#include "control/recorder/fatal_signals.h"

#include <execinfo.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "base/last_words.h"
#include "control/recorder/last_words.h"

namespace cw::control::recorder {
namespace {

constexpr std::array kFatalSignals = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGSYS, SIGTRAP, SIGABRT};

// A thread that fails while another one's end is noted leaves it so long.
constexpr timespec kPatience{.tv_sec = 0, .tv_nsec = 300'000'000};

std::atomic<RecordingWriter*> noted_in{nullptr};
std::atomic<int32_t> noting_thread{0};
static_assert(std::atomic<RecordingWriter*>::is_always_lock_free && std::atomic<int32_t>::is_always_lock_free);

int32_t this_thread() {
  return static_cast<int32_t>(syscall(SYS_gettid));
}

uint64_t instruction_of(const void* context) {
#if defined(__x86_64__)
  return static_cast<uint64_t>(static_cast<const ucontext_t*>(context)->uc_mcontext.gregs[REG_RIP]);
#else
  return context == nullptr ? 0 : 0;
#endif
}

Fault fault_at(int signal, const siginfo_t& info, const void* context) {
  Fault fault;
  fault.signal = signal;
  fault.code = info.si_code;
  if (info.si_code > 0) {
    fault.address = reinterpret_cast<uintptr_t>(info.si_addr);
  } else {
    fault.sender_pid = info.si_pid;
    fault.sender_uid = info.si_uid;
  }
  fault.instruction = instruction_of(context);
  fault.thread = this_thread();
  (void)prctl(PR_GET_NAME, fault.thread_name);
  const std::string_view words = last_words();
  std::memcpy(fault.words, words.data(), std::min(words.size(), sizeof(fault.words) - 1));
  return fault;
}

void note(RecordingWriter& writer, int signal, const siginfo_t& info, const void* context) {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  const int64_t unix_ms = int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1'000'000;
  const Fault fault = fault_at(signal, info, context);
  writer.put(Area::kFault, unix_ms, {reinterpret_cast<const char*>(&fault), sizeof(fault)});
  // Last, since it may itself fail on a stack that is destroyed. Loaded beforehand, it takes no memory.
  std::array<void*, kTrailMax> frames;
  const int depth = backtrace(frames.data(), static_cast<int>(frames.size()));
  writer.put(Area::kTrail, unix_ms,
             {reinterpret_cast<const char*>(frames.data()), static_cast<size_t>(std::max(depth, 0)) * sizeof(void*)});
}

// The first signal is noted. What comes after it, of another thread or of this handler itself, is a consequence.
void on_fatal_signal(int signal, siginfo_t* info, void* context) {
  const int error = errno;
  int32_t first = 0;
  if (noting_thread.compare_exchange_strong(first, this_thread())) {
    if (RecordingWriter* writer = noted_in) {
      note(*writer, signal, *info, context);
    }
  } else if (first != this_thread()) {
    (void)nanosleep(&kPatience, nullptr);
  }
  struct sigaction usual {};
  usual.sa_handler = SIG_DFL;
  (void)sigaction(signal, &usual, nullptr);
  errno = error;
  // The default action now. What an instruction has caused it causes again when this returns, and the kernel's log has its line
  // of it as ever; what somebody sent, and what goes on behind the instruction, has to be sent.
  if (info->si_code <= 0 || signal == SIGTRAP || signal == SIGSYS) {
    (void)raise(signal);
  }
}

}  // namespace

void note_fatal_signals(RecordingWriter& writer) {
  std::array<void*, 2> frames;
  (void)backtrace(frames.data(), static_cast<int>(frames.size()));  // loads what it takes
  noted_in = &writer;
  for (const int signal : kFatalSignals) {
    struct sigaction present {};
    if (sigaction(signal, nullptr, &present) != 0 || present.sa_handler != SIG_DFL) {
      continue;
    }
    struct sigaction ours {};
    ours.sa_sigaction = on_fatal_signal;
    ours.sa_flags = SA_SIGINFO | SA_ONSTACK;
    (void)sigaction(signal, &ours, nullptr);
  }
}

void forget_fatal_signals() {
  noted_in = nullptr;
}

}  // namespace cw::control::recorder
