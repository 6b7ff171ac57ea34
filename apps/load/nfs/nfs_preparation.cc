#include "apps/load/nfs/nfs_preparation.h"

#include <fmt/format.h>

#include <algorithm>

namespace cw::load {
namespace {

constexpr uint32_t kBlockBytes = 256 * 1024;
constexpr uint32_t kInlineDataBytes = 512;
constexpr uint32_t kBlocksAtOnce = 8;

nfs::Placement placement_of(const nfs::Operation& operation) {
  nfs::Placement placement;
  placement.read_chunks = operation.data.size() > kInlineDataBytes;
  return placement;
}

}  // namespace

std::string NfsPreparation::run(nfs::Caller& caller, const nfs::Operation& operation, nfs::Outcome& outcome) {
  const nfs::Call call = version_->build({&operation, 1});
  const nfs::Request request{&call, placement_of(operation)};
  const std::vector<nfs::Reply> replies = caller.exchange({&request, 1});
  if (replies.front().status != rpcrdma::CallStatus::kReplied) {
    return fmt::format("no answer: {}", rpcrdma::to_string(replies.front().status));
  }
  std::string problem;
  const std::vector<nfs::Outcome> outcomes = version_->decode({&operation, 1}, replies.front(), 0, problem);
  if (outcomes.empty()) {
    return problem;
  }
  outcome = outcomes.front();
  return outcome.status == 0 ? std::string() : fmt::format("nfsstat {}", outcome.status);
}

std::string NfsPreparation::make(nfs::Caller& caller, uint32_t count, uint32_t file_bytes, FilePattern& pattern,
                                 NfsFiles& files) {
  nfs::Outcome outcome;
  std::string trouble = run(caller, {.kind = nfs::Kind::kMakeDirectory, .name = directory_}, outcome);
  if (!trouble.empty()) {
    return fmt::format(
        "cannot make the directory '{}' in the export: {}; "
        "is an NFS server behind this listener, and the export writable for root (Squash)?",
        directory_, trouble);
  }
  made_directory_ = true;
  directory_handle_ = outcome.handle;
  files.file_bytes = file_bytes;
  for (uint32_t i = 0; i < count; ++i) {
    const std::string name = fmt::format("file-{}", i);
    trouble = run(caller, {.kind = nfs::Kind::kCreate, .on = &directory_handle_, .name = name}, outcome);
    if (trouble.empty() && (outcome.handle.raw.empty() || outcome.handle.raw.size() > NfsWorkload::kHandleBytesMax)) {
      trouble = "no file handle that fits";
    }
    if (trouble.empty()) {
      names_.push_back(name);
      trouble = fill(caller, outcome.handle, file_bytes, pattern);
    }
    if (!trouble.empty()) {
      return fmt::format("cannot make the file '{}/{}': {}", directory_, name, trouble);
    }
    files.handles.push_back(outcome.handle.raw);
  }
  return {};
}

std::string NfsPreparation::fill(nfs::Caller& caller, const nfs::Handle& file, uint32_t file_bytes, FilePattern& pattern) {
  for (uint64_t done = 0; done < file_bytes;) {
    std::vector<nfs::Operation> operations;
    std::vector<nfs::Call> calls;
    while (operations.size() < kBlocksAtOnce && done < file_bytes) {
      const auto take = static_cast<uint32_t>(std::min<uint64_t>(kBlockBytes, file_bytes - done));
      operations.push_back({.kind = nfs::Kind::kWrite, .on = &file, .offset = done, .data = pattern.at(done, take)});
      calls.push_back(version_->build({&operations.back(), 1}));
      done += take;
    }
    std::vector<nfs::Request> requests;
    for (size_t i = 0; i < calls.size(); ++i) {
      requests.push_back({&calls[i], placement_of(operations[i])});
    }
    const std::vector<nfs::Reply> replies = caller.exchange(requests);
    for (size_t i = 0; i < replies.size(); ++i) {
      std::string problem;
      const std::vector<nfs::Outcome> outcomes = version_->decode({&operations[i], 1}, replies[i], 0, problem);
      if (outcomes.empty() || outcomes.front().status != 0 || outcomes.front().count != operations[i].data.size()) {
        return fmt::format(
            "WRITE at {}: {}", operations[i].offset,
            outcomes.empty() ? problem : fmt::format("nfsstat {}, {} bytes", outcomes.front().status, outcomes.front().count));
      }
    }
  }
  return {};
}

std::string NfsPreparation::remove(nfs::Caller& caller) {
  if (!made_directory_) {
    return {};
  }
  nfs::Outcome outcome;
  for (const std::string& name : names_) {
    const std::string trouble = run(caller, {.kind = nfs::Kind::kRemove, .on = &directory_handle_, .name = name}, outcome);
    if (!trouble.empty()) {
      return fmt::format("'{}/{}' stays on the server: {}", directory_, name, trouble);
    }
  }
  names_.clear();
  const std::string trouble = run(caller, {.kind = nfs::Kind::kRemoveDirectory, .name = directory_}, outcome);
  return trouble.empty() ? std::string() : fmt::format("'{}' stays on the server: {}", directory_, trouble);
}

}  // namespace cw::load
