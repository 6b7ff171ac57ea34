// What all threads of one run share: the settings, the clock, the count of operations, and the one way to fail.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>

namespace cw::exerciser {

class FileModel;

struct Options {
  std::string directory;             // made by the run, and removed by it unless `keep`
  std::string other;                 // the same directory through another mount; empty: no close-to-open checks
  uint64_t seed = 0;                 // of everything that is done
  uint64_t seconds = 10;             // of operations; what comes before and after is on top
  uint64_t operations = UINT64_MAX;  // of each worker at most
  uint64_t at_least = 0;             // of each worker, however long they take
  unsigned workers = 4;              // threads
  unsigned files = 6;                // each worker's own
  unsigned shared = 2;               // files of all workers, in which each has ranges of its own
  uint64_t bytes_max = 1 << 20;      // of a file
  uint64_t entries_max = 300;        // of each worker's large directory
  uint64_t damage = 0;               // flip one bit behind the model's back after so many operations of all workers; 0: never
  bool replays = false;              // the server may forget that it has done what is asked a second time
  bool drop_caches = false;          // of the whole machine, before the compare at the end (needs root)
  bool keep = false;                 // leave the files
  std::string hold;                  // before the compare at the end wait until this file is there
  std::string manifest;              // write CRC-32, size and path of each file there
};

class Run {
 public:
  explicit Run(const Options& options) : options_(options) {}

  [[nodiscard]] const Options& options() const { return options_; }
  // Starts the clock of the operations. Before any thread asks for it.
  void begin() { end_ = std::chrono::steady_clock::now() + std::chrono::seconds(options_.seconds); }
  // Whether a worker that has done so many operations has to stop.
  [[nodiscard]] bool over(uint64_t operations) const {
    const bool enough = operations >= options_.at_least && std::chrono::steady_clock::now() >= end_;
    return enough || operations >= options_.operations;
  }

  // Any thread. `what` is a string literal.
  void count(const char* what);
  void count_read(uint64_t bytes) { bytes_read_ += bytes; }
  void count_written(uint64_t bytes) { bytes_written_ += bytes; }
  // True once: for the operation after which --damage has to damage something.
  [[nodiscard]] bool damage_due();
  // The damage could not be done yet; the next operation is asked.
  void damage_later() { damage_done_ = false; }

  // Says what was wrong with which file, the history of the file if there is one, and the seed; ends the program with status 1.
  // The files stay as they are.
  [[noreturn]] void fail(const std::string& path, const std::string& what, const FileModel* model);

  // One line: what was done.
  [[nodiscard]] std::string summary() const;

 private:
  const Options options_;
  std::chrono::steady_clock::time_point end_;
  std::atomic<uint64_t> operations_{0};
  std::atomic<uint64_t> bytes_read_{0};
  std::atomic<uint64_t> bytes_written_{0};
  std::atomic<bool> damage_done_{false};
  mutable std::mutex mutex_;  // of the next
  std::map<std::string, uint64_t> counts_;
};

}  // namespace cw::exerciser
