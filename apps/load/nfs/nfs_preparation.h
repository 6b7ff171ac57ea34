// The files of an NFS load: made and filled before it, removed after it, through the gateway like the load itself.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "apps/load/nfs/nfs_workload.h"
#include "apps/nfs/operation.h"

namespace cw::load {

class NfsPreparation {
 public:
  // `directory`: made in the root of the export, whose handle `root` is.
  NfsPreparation(nfs::ByteVector root, std::string directory)
      : version_(nfs::make_nfs3(std::move(root))), directory_(std::move(directory)) {}

  // Blocks. Empty, or why there are no files.
  [[nodiscard]] std::string make(nfs::Caller& caller, uint32_t count, uint32_t file_bytes, FilePattern& pattern, NfsFiles& files);
  // Blocks. Empty, or what is left on the server.
  [[nodiscard]] std::string remove(nfs::Caller& caller);

 private:
  [[nodiscard]] std::string run(nfs::Caller& caller, const nfs::Operation& operation, nfs::Outcome& outcome);
  [[nodiscard]] std::string fill(nfs::Caller& caller, const nfs::Handle& file, uint32_t file_bytes, FilePattern& pattern);

  std::unique_ptr<nfs::Version> version_;
  std::string directory_;
  nfs::Handle directory_handle_;
  bool made_directory_ = false;
  std::vector<std::string> names_;
};

}  // namespace cw::load
