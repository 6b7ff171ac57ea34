// The process_* families that every Prometheus client exports: memory, CPU time, descriptors, start. From /proc/self, at scrape
// time.
#pragma once

#include <dirent.h>
#include <prometheus/metric_family.h>

#include <memory>
#include <vector>

namespace cw::telemetry {

// Keeps open what it reads: a process that has run out of descriptors must still be able to say so.
class ProcessMetrics {
 public:
  ProcessMetrics();
  ~ProcessMetrics();
  ProcessMetrics(const ProcessMetrics&) = delete;
  ProcessMetrics& operator=(const ProcessMetrics&) = delete;
  ProcessMetrics(ProcessMetrics&&) = delete;
  ProcessMetrics& operator=(ProcessMetrics&&) = delete;

  // Families that cannot be read (no /proc in a sandbox) are left out. One thread at a time.
  [[nodiscard]] std::vector<prometheus::MetricFamily> collect() const;

 private:
  struct CloseDirectory {
    void operator()(DIR* directory) const { closedir(directory); }
  };

  std::unique_ptr<DIR, CloseDirectory> descriptors_;
  int memory_ = -1;  // /proc/self/statm
  double start_ = 0;
};

}  // namespace cw::telemetry
