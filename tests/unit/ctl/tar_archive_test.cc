#include "control/ctl/tar_archive.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <string>
#include <string_view>

namespace cw::control {
namespace {

std::string field(std::string_view header, size_t offset, size_t length) {
  return std::string(header.substr(offset, length)).c_str();
}

TEST(TarArchive, HasAHeaderAndWholeBlocksForEachFile) {
  const std::array<ArchiveFile, 2> files = {{{"index.txt", "hello\n"}, {"a/empty.txt", ""}}};
  const std::string tar = tar_of("folder", files, 1'000'000'000);
  ASSERT_EQ(tar.size(), 5u * 512);  // header, text, header, and two blocks of zeroes
  EXPECT_EQ(field(tar, 0, 100), "index.txt");
  EXPECT_EQ(field(tar, 345, 155), "folder");
  EXPECT_EQ(field(tar, 100, 8), "0000600");
  EXPECT_EQ(field(tar, 124, 12), "00000000006");
  EXPECT_EQ(std::strtoll(field(tar, 136, 12).c_str(), nullptr, 8), 1'000'000'000);
  EXPECT_EQ(tar.substr(257, 8), std::string_view("ustar\00000", 8));
  EXPECT_EQ(tar.substr(512, 7), std::string_view("hello\n\0", 7));
  EXPECT_EQ(field(std::string_view(tar).substr(1024), 0, 100), "a/empty.txt");
  EXPECT_EQ(tar.substr(std::size_t{3} * 512), std::string(1024, '\0'));
}

TEST(TarArchive, ChecksumCountsItsOwnFieldAsBlanks) {
  const std::array<ArchiveFile, 1> files = {{{"x", std::string(512, 'y')}}};
  std::string header = tar_of("f", files, 0).substr(0, 512);
  const auto said = std::strtoul(header.substr(148, 6).c_str(), nullptr, 8);
  header.replace(148, 8, 8, ' ');
  unsigned long sum = 0;
  for (const char c : header) {
    sum += static_cast<unsigned char>(c);
  }
  EXPECT_EQ(said, sum);
}

TEST(TarArchive, ALongFolderIsCut) {
  const std::array<ArchiveFile, 1> files = {{{"x", ""}}};
  EXPECT_EQ(field(tar_of(std::string(400, 'f'), files, 0), 345, 155), std::string(150, 'f'));
}

}  // namespace
}  // namespace cw::control
