#include "control/ctl/tar_archive.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <string_view>

#include "base/assert.h"

namespace cw::control {
namespace {

constexpr size_t kBlockBytes = 512;
constexpr size_t kNameMax = 100;
constexpr size_t kFolderMax = 150;

// The fields of a ustar header that are not zero, in their order.
using Header = std::array<char, kBlockBytes>;

void write_field(Header& header, size_t offset, std::string_view text) {
  std::memcpy(header.data() + offset, text.data(), text.size());
}

std::string header_of(const std::string& folder, const ArchiveFile& file, int64_t unix_s) {
  CW_ASSERT(file.name.size() <= kNameMax && file.text.size() < size_t{8} << 30);
  Header header{};
  write_field(header, 0, file.name);
  write_field(header, 100, "0000600");                                             // mode
  write_field(header, 108, "0000000");                                             // user
  write_field(header, 116, "0000000");                                             // group
  write_field(header, 124, fmt::format("{:011o}", file.text.size()));              // bytes
  write_field(header, 136, fmt::format("{:011o}", std::max<int64_t>(unix_s, 0)));  // time
  write_field(header, 148, "        ");                                            // checksum, which counts as blanks
  write_field(header, 156, "0");                                                   // a file
  write_field(header, 257, std::string_view("ustar\00000", 8));
  write_field(header, 345, folder);
  const auto sum = std::accumulate(header.begin(), header.end(), 0U,
                                   [](uint32_t before, char c) { return before + static_cast<unsigned char>(c); });
  write_field(header, 148, fmt::format("{:06o}", sum));
  header[154] = '\0';
  return {header.data(), header.size()};
}

}  // namespace

std::string tar_of(const std::string& folder, std::span<const ArchiveFile> files, int64_t unix_s) {
  std::string tar;
  for (const ArchiveFile& file : files) {
    tar += header_of(folder.substr(0, kFolderMax), file, unix_s);
    tar += file.text;
    tar.append((kBlockBytes - file.text.size() % kBlockBytes) % kBlockBytes, '\0');
  }
  return tar.append(2 * kBlockBytes, '\0');
}

}  // namespace cw::control
