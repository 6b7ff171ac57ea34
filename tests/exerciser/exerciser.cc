// causeway-exerciser: does many things to the files of a directory, from several threads, and knows what must be in them.
//
// Each thing is done to an in-memory model too (file_model.h, name_model.h), and what is read is compared with it byte by byte.
// It is meant for a directory on an NFS mount; it respects what NFS does not promise. Exit status: 0 = everything was as it must
// be, 1 = something was not (the text says what, and the seed), 2 = it could not start.
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>
#include <CLI/CLI.hpp>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/exerciser/files.h"
#include "tests/exerciser/manifest.h"
#include "tests/exerciser/pair_work.h"
#include "tests/exerciser/region_work.h"
#include "tests/exerciser/run.h"
#include "tests/exerciser/worker.h"

namespace cw::exerciser {
namespace {

void on_bus_error(int) {
  constexpr char kText[] = "FAIL: SIGBUS: a page of a mapped file could not be read or written\n";
  (void)!write(STDOUT_FILENO, kText, sizeof kText - 1);
  _exit(1);
}

void say(const std::string& text) {
  printf("%s\n", text.c_str());
  fflush(stdout);
}

void drop_caches() {
  sync();
  std::ofstream file("/proc/sys/vm/drop_caches");
  file << "3" << std::flush;
  if (!file) {
    say("note: caches could not be dropped");
  }
}

void wait_for(const std::string& path) {
  say("holding until " + path + " is there");
  while (!std::filesystem::exists(path)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
}

// Its ranges are several workers' own, so that only the file itself has them all: it was compared just before.
std::string shared_lines(const Run& run, Files& files) {
  std::string lines;
  for (unsigned file = 0; file < run.options().shared; ++file) {
    const std::string path = RegionWork::path_of(file);
    std::vector<uint8_t> bytes(RegionWork::file_bytes(run));
    Descriptor descriptor = files.open(path, O_RDONLY);
    files.must(files.read(path, descriptor.get(), 0, bytes) == bytes.size(), path, "read of all");
    files.close(path, descriptor);
    lines += manifest_line(bytes, path);
  }
  return lines;
}

// An NFS client removes a file that was open when it was removed some time after its close, and until then its directory is not
// empty.
void remove_all(Files& files, const std::string& directory) {
  for (int attempt = 0; attempt < 50; ++attempt) {
    std::error_code error;
    std::filesystem::remove_all(directory, error);
    if (!error) {
      return;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
  files.fail("", "could not be removed at the end");
}

int exercise(const Options& options) {
  Run run(options);
  say("seed " + std::to_string(options.seed) + ", " + options.directory);
  const std::filesystem::path directory(options.directory);
  Files parent(run, directory.parent_path().empty() ? "." : directory.parent_path().string());
  parent.make_directory(directory.filename());
  Files files(run, options.directory);
  RegionWork::make(run, files);
  std::unique_ptr<PairWork> pair;
  if (!options.other.empty()) {
    files.make_directory("pairs");
    pair = std::make_unique<PairWork>(run, options.directory + "/pairs", options.other + "/pairs");
  }
  std::vector<std::unique_ptr<Worker>> workers;
  for (unsigned number = 0; number < options.workers; ++number) {
    workers.push_back(std::make_unique<Worker>(run, options.directory, number));
  }

  run.begin();
  std::vector<std::thread> threads;
  for (const auto& worker : workers) {
    threads.emplace_back(&Worker::operate, worker.get());
  }
  if (pair) {
    threads.emplace_back(&PairWork::operate, pair.get());
  }
  for (std::thread& thread : threads) {
    thread.join();
  }

  for (const auto& worker : workers) {
    worker->close_all();
  }
  if (!options.hold.empty()) {
    wait_for(options.hold);
  }
  if (options.drop_caches) {
    drop_caches();
  }
  std::string manifest;
  for (const auto& worker : workers) {
    worker->verify_all();
    worker->list(manifest);
  }
  if (pair) {
    pair->verify_all();
    pair->list(manifest, "pairs/");
  }
  manifest += shared_lines(run, files);
  if (!options.manifest.empty()) {
    std::ofstream(options.manifest) << manifest;
  }
  say(run.summary());
  if (!options.keep) {
    remove_all(files, options.directory);
  }
  say("ok: everything compared, seed " + std::to_string(options.seed));
  return 0;
}

}  // namespace
}  // namespace cw::exerciser

int main(int argc, char** argv) {
  using cw::exerciser::Options;
  Options options;
  std::random_device random;
  options.seed = random();
  CLI::App app("Does many things to the files of a directory and compares each byte with what it must be.");
  app.add_option("directory", options.directory, "directory to make and work in; it must not be there")->required();
  app.add_option("--other", options.other, "the same directory through another mount: close-to-open checks between the two");
  app.add_option("--seed", options.seed, "of everything that is done (default: random)");
  app.add_option("--seconds", options.seconds, "how long to operate; preparation and the compare at the end come on top")
      ->capture_default_str();
  app.add_option("--operations", options.operations, "of each worker at most");
  app.add_option("--at-least", options.at_least, "operations of each worker, however long they take");
  app.add_option("--workers", options.workers, "threads")->capture_default_str()->check(CLI::Range(1, 64));
  app.add_option("--files", options.files, "each worker's own files")->capture_default_str()->check(CLI::Range(1, 16));
  app.add_option("--shared", options.shared, "files that all workers write, each in ranges of its own")
      ->capture_default_str()
      ->check(CLI::Range(0, 16));
  app.add_option("--bytes-max", options.bytes_max, "size of a file at most")
      ->capture_default_str()
      ->check(CLI::Range(uint64_t{8192}, uint64_t{1} << 30));
  app.add_option("--entries-max", options.entries_max, "of a large directory, about")->capture_default_str();
  app.add_option(
      "--damage", options.damage,
      "after so many operations flip a bit behind the model's back: proves that a wrong byte is found (exit status 1)");
  app.add_flag("--replays", options.replays, "the server may do a thing twice, as after a restart");
  app.add_flag("--drop-caches", options.drop_caches, "drop this machine's caches before the compare at the end (root)");
  app.add_flag("--keep", options.keep, "leave the files");
  app.add_option("--hold", options.hold, "wait for this file before the compare at the end");
  app.add_option("--manifest", options.manifest, "write CRC-32, size and path of each file to this file");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  signal(SIGBUS, cw::exerciser::on_bus_error);
  return cw::exerciser::exercise(options);
}
