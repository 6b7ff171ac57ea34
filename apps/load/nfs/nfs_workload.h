// NFSv3 NULL, GETATTR, READ and WRITE (RFC 1813) on files that are there: built without allocation, replies checked.
//
// A call's file and offset follow from its sequence number: anywhere, or one block after the other through all files. Offsets are
// multiples of the call's bytes.
#pragma once

#include <vector>

#include "apps/load/nfs/file_pattern.h"
#include "apps/load/workload.h"

namespace cw::load {

struct NfsFiles {
  std::vector<std::vector<uint8_t>> handles;
  uint32_t file_bytes = 0;  // of each, filled with the pattern
};

struct NfsWorkloadOptions {
  bool sequential = false;
  bool stable = false;  // FILE_SYNC, else UNSTABLE
};

class NfsWorkload final : public Workload {
 public:
  static constexpr size_t kHandleBytesMax = 64;

  // Precondition: at least one file, none smaller than the mix's largest call.
  NfsWorkload(const NfsFiles& files, const NfsWorkloadOptions& options, FilePattern& pattern, BufferPool& pool)
      : files_(files), options_(options), pattern_(pattern), pool_(pool) {}

  void prepare(Slot& slot, const CallMix& mix) override;
  [[nodiscard]] bool build(const MixEntry& entry, const rpcrdma::InlineThresholds& thresholds, Slot& slot,
                           CallDraft& draft) override;
  [[nodiscard]] bool check(const MixEntry& entry, const rpcrdma::ClientReply& reply, const Slot& slot, bool in_full) override;

 private:
  struct Place {
    size_t file = 0;
    uint64_t offset = 0;
  };
  [[nodiscard]] Place place_of(const MixEntry& entry, uint64_t sequence) const;

  const NfsFiles& files_;
  NfsWorkloadOptions options_;
  FilePattern& pattern_;
  BufferPool& pool_;
};

}  // namespace cw::load
