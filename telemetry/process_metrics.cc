#include "telemetry/process_metrics.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <ctime>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>

#include "telemetry/metric_sample.h"

namespace cw::telemetry {
namespace {

using prometheus::MetricFamily;
using prometheus::MetricType;

MetricFamily family(const char* name, const char* help, MetricType type, double value) {
  return {name, help, type, {sample({}, value)}};
}

// Seconds since 1970 at which the process started: the boot time of the system plus field 22 of /proc/self/stat. 0 when unknown.
double start_time_seconds() {
  std::ifstream file("/proc/self/stat");
  std::string line;
  std::getline(file, line);
  const size_t name_end = line.rfind(')');  // the name may hold anything, also blanks
  if (name_end == std::string::npos) {
    return 0;
  }
  std::istringstream fields(line.substr(name_end + 1));
  std::string field;
  constexpr int kStartTimeField = 22 - 2;  // fields 1 and 2 are before the parenthesis
  for (int i = 0; i < kStartTimeField; ++i) {
    fields >> field;
  }
  timespec wall{};
  timespec boot{};
  clock_gettime(CLOCK_REALTIME, &wall);
  clock_gettime(CLOCK_BOOTTIME, &boot);
  const double since_boot =
      static_cast<double>(std::strtoull(field.c_str(), nullptr, 10)) / static_cast<double>(sysconf(_SC_CLK_TCK));
  const double now = static_cast<double>(wall.tv_sec) + static_cast<double>(wall.tv_nsec) * 1e-9;
  return now - (static_cast<double>(boot.tv_sec) + static_cast<double>(boot.tv_nsec) * 1e-9) + since_boot;
}

double seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
}

struct Pages {
  uint64_t address_space = 0;
  uint64_t resident = 0;
};

std::optional<Pages> pages_of(int statm) {
  std::array<char, 128> text{};
  const ssize_t size = pread(statm, text.data(), text.size() - 1, 0);
  if (size <= 0) {
    return std::nullopt;
  }
  char* rest = nullptr;
  const uint64_t address_space = std::strtoull(text.data(), &rest, 10);
  return Pages{address_space, std::strtoull(rest, nullptr, 10)};
}

size_t entries_of(DIR* directory) {
  rewinddir(directory);
  size_t entries = 0;
  while (const dirent* entry = readdir(directory)) {
    entries += entry->d_name[0] != '.' ? 1 : 0;
  }
  return entries;
}

}  // namespace

ProcessMetrics::ProcessMetrics()
    : descriptors_(opendir("/proc/self/fd")),
      memory_(open("/proc/self/statm", O_RDONLY | O_CLOEXEC)),
      start_(start_time_seconds()) {}

ProcessMetrics::~ProcessMetrics() {
  if (memory_ >= 0) {
    close(memory_);
  }
}

std::vector<MetricFamily> ProcessMetrics::collect() const {
  std::vector<MetricFamily> families;
  rusage usage{};
  if (getrusage(RUSAGE_SELF, &usage) == 0) {
    families.push_back(family("process_cpu_seconds_total", "CPU time of the process, user and system.", MetricType::Counter,
                              seconds(usage.ru_utime) + seconds(usage.ru_stime)));
  }
  if (const std::optional<Pages> pages = pages_of(memory_)) {
    const double page = static_cast<double>(sysconf(_SC_PAGESIZE));
    families.push_back(family("process_virtual_memory_bytes", "Address space in use.", MetricType::Gauge,
                              static_cast<double>(pages->address_space) * page));
    families.push_back(family("process_resident_memory_bytes", "Memory in use.", MetricType::Gauge,
                              static_cast<double>(pages->resident) * page));
  }
  if (descriptors_) {
    families.push_back(family("process_open_fds", "Open file descriptors.", MetricType::Gauge,
                              static_cast<double>(entries_of(descriptors_.get()))));
  }
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    families.push_back(family("process_max_fds", "Most file descriptors that may be open.", MetricType::Gauge,
                              static_cast<double>(limit.rlim_cur)));
  }
  if (start_ > 0) {
    families.push_back(
        family("process_start_time_seconds", "Start of the process, seconds since 1970.", MetricType::Gauge, start_));
  }
  return families;
}

}  // namespace cw::telemetry
