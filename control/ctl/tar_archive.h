// Texts as the files of one archive, which `tar xf` takes apart: ustar (POSIX.1-1988). Pure.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace cw::control {

struct ArchiveFile {
  std::string name;  // below the archive's folder; at most 100 bytes
  std::string text;  // less than 8 GiB
};

// `folder` is cut to 150 bytes. The files are readable to their owner only.
[[nodiscard]] std::string tar_of(const std::string& folder, std::span<const ArchiveFile> files, int64_t unix_s);

}  // namespace cw::control
