// What the recorder costs whoever gives it something: a line of the log costs the thread that writes it, a text of the gateway's
// state costs a thread of its own once a second. Argument: bytes of the text. The file is in memory, as /run is.
#include <benchmark/benchmark.h>
#include <stdlib.h>
#include <unistd.h>

#include <memory>
#include <string>

#include "control/recorder/recorder.h"

namespace cw::control::recorder {
namespace {

class RecorderInMemory {
 public:
  RecorderInMemory() : directory_(mkdtemp(name_)) {
    std::string before;
    std::string problem;
    recorder_ = Recorder::open(path(), Head{.version = "bench"}, before, problem);
  }
  ~RecorderInMemory() {
    unlink(path().c_str());
    rmdir(name_);
  }
  RecorderInMemory(const RecorderInMemory&) = delete;
  RecorderInMemory& operator=(const RecorderInMemory&) = delete;
  // nullptr: there is no such directory.
  [[nodiscard]] Recorder* get() const { return directory_ == nullptr ? nullptr : recorder_.get(); }

 private:
  [[nodiscard]] std::string path() const { return std::string(name_) + "/bench.recorder"; }
  char name_[32] = "/dev/shm/cw-recorder-XXXXXX";
  const char* directory_;
  std::unique_ptr<Recorder> recorder_;
};

template <typename Put>
void measure(benchmark::State& state, Put&& put) {
  const RecorderInMemory memory;
  if (memory.get() == nullptr) {
    state.SkipWithError("/dev/shm takes no file");
    return;
  }
  const std::string text(static_cast<size_t>(state.range(0)), 'x');
  for (auto _ : state) {
    put(*memory.get(), text);
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}

void BM_Line(benchmark::State& state) {
  measure(state, [](Recorder& recorder, const std::string& text) { recorder.add_line(LogLevel::kInfo, text); });
}

void BM_State(benchmark::State& state) {
  measure(state, [](Recorder& recorder, const std::string& text) { recorder.put(Area::kCounters, text); });
}

BENCHMARK(BM_Line)->Arg(120)->Arg(1024);
BENCHMARK(BM_State)->Arg(8 << 10)->Arg(text_bytes_max(Area::kCounters));

}  // namespace
}  // namespace cw::control::recorder

BENCHMARK_MAIN();
