#include "tests/exerciser/name_model.h"

#include <gtest/gtest.h>

namespace cw::exerciser {
namespace {

using Names = std::set<std::string>;

TEST(NameModel, CountsTheLinksOfAFile) {
  NameModel names;
  names.add_file("one", 1);
  names.add_file("a/two", 1);
  names.add_file("three", 2);
  EXPECT_EQ(2U, names.links_of(1));
  names.remove("one");
  EXPECT_EQ(1U, names.links_of(1));
  EXPECT_EQ("a/two", names.path_of(1));
  names.remove("a/two");
  EXPECT_EQ("", names.path_of(1));
}

TEST(NameModel, ListsADirectoryWithoutWhatIsBelow) {
  NameModel names;
  names.add_directory("a");
  names.add_directory("a/deeper");
  names.add_file("a/f", 1);
  names.add_file("a/deeper/g", 2);
  names.add_symlink("l", "nowhere");
  EXPECT_EQ((Names{"a", "l"}), names.names_in(""));
  EXPECT_EQ((Names{"deeper", "f"}), names.names_in("a"));
  EXPECT_EQ((Names{"g"}), names.names_in("a/deeper"));
}

TEST(NameModel, ARenameReplacesWhatWasThere) {
  NameModel names;
  names.add_file("from", 1);
  names.add_file("to", 2);
  EXPECT_EQ(FileId{2}, names.rename("from", "to"));
  EXPECT_EQ((Names{"to"}), names.names_in(""));
  EXPECT_EQ(FileId{1}, names.file_at("to"));
  names.add_symlink("link", "x");
  EXPECT_FALSE(names.rename("to", "link"));
  EXPECT_EQ(FileId{1}, names.file_at("link"));
  EXPECT_TRUE(names.symlinks().empty());
}

TEST(NameModel, ARenameBetweenTwoLinksOfOneFileDoesNothing) {
  NameModel names;
  names.add_file("one", 1);
  names.add_file("two", 1);
  EXPECT_FALSE(names.rename("one", "two"));
  EXPECT_EQ((Names{"one", "two"}), names.names_in(""));
  EXPECT_FALSE(names.rename("one", "one"));
  EXPECT_EQ(2U, names.links_of(1));
}

TEST(NameModel, ARenamedDirectoryTakesAlongWhatIsBelow) {
  NameModel names;
  names.add_directory("a");
  names.add_directory("a/b");
  names.add_file("a/b/f", 1);
  names.add_symlink("a/l", "x");
  names.add_file("ab", 2);
  EXPECT_FALSE(names.rename("a", "c"));
  EXPECT_EQ((Names{"ab", "c"}), names.names_in(""));
  EXPECT_EQ(FileId{1}, names.file_at("c/b/f"));
  EXPECT_EQ((Names{"b", "l"}), names.names_in("c"));
}

}  // namespace
}  // namespace cw::exerciser
