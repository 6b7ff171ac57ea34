#include "tests/support/pcap_reader.h"

#include <gtest/gtest.h>

#include <array>
#include <fstream>
#include <iterator>
#include <stdexcept>

#include "apps/sim/link/pcap_writer.h"

namespace cw::test {
namespace {

// Header (microseconds, Ethernet) and one frame of three bytes at 1.000002 s, in either byte order.
std::vector<uint8_t> capture(bool little) {
  std::vector<uint8_t> file(24 + 16 + 3);
  const auto store = [&](size_t at, uint32_t value) { little ? store_le32(&file[at], value) : store_be32(&file[at], value); };
  store(0, 0xa1b2c3d4);
  store(20, 1);
  store(24, 1);
  store(28, 2);
  store(32, 3);
  store(36, 60);
  file[40] = 7;
  file[42] = 9;
  return file;
}

class PcapReader : public ::testing::Test {
 protected:
  std::vector<CapturedFrame> read(const std::vector<uint8_t>& file) {
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(file.data()), static_cast<std::streamsize>(file.size()));
    return read_pcap(path);
  }
  void TearDown() override { std::filesystem::remove(path); }

  const std::filesystem::path path = ::testing::TempDir() + "pcap_reader_test.pcap";
};

TEST_F(PcapReader, ReadsEitherByteOrder) {
  for (const bool little : {true, false}) {
    const auto frames = read(capture(little));
    ASSERT_EQ(frames.size(), 1u);
    EXPECT_EQ(frames[0].raw, (std::vector<uint8_t>{7, 0, 9}));
    EXPECT_EQ(frames[0].original_bytes, 60u);
    EXPECT_EQ(frames[0].time, Instant::from_ns(1'000'002'000));
  }
}

TEST_F(PcapReader, ReadsWhatTheWriterWrites) {
  const Instant at = Instant::from_ns(7'123'456'789);
  for (const PcapTime unit : {PcapTime::kMicroseconds, PcapTime::kNanoseconds}) {
    std::string file;
    append_pcap_start(file, unit);
    append_pcap_frame(file, unit, at, std::array<uint8_t, 3>{7, 0, 9});
    append_pcap_frame(file, unit, at + Duration::seconds(1), std::array<uint8_t, 1>{1});
    const auto frames = read({file.begin(), file.end()});
    ASSERT_EQ(frames.size(), 2u);
    EXPECT_EQ(frames[0].raw, (std::vector<uint8_t>{7, 0, 9}));
    EXPECT_TRUE(frames[0].whole());
    EXPECT_EQ(frames[0].time, Instant::from_ns(unit == PcapTime::kMicroseconds ? 7'123'456'000 : 7'123'456'789));
    EXPECT_EQ(frames[1].raw, std::vector<uint8_t>{1});
  }
}

TEST_F(PcapReader, WritesAFileAsItWritesText) {
  std::string text;
  append_pcap_start(text, PcapTime::kNanoseconds);
  append_pcap_frame(text, PcapTime::kNanoseconds, Instant::from_ns(5), std::array<uint8_t, 2>{3, 4});
  {
    PcapFile file(path.string());
    file.write(Instant::from_ns(5), std::array<uint8_t, 2>{3, 4});
    EXPECT_TRUE(file.ok());
  }
  std::ifstream written(path, std::ios::binary);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(written), {}), text);
  EXPECT_FALSE(PcapFile("/nonexistent/file.pcap").ok());
}

TEST_F(PcapReader, TellsATruncatedFrameFromAWholeOne) {
  std::vector<uint8_t> file = capture(true);
  EXPECT_FALSE(read(file).at(0).whole());
  store_le32(&file[36], 3);
  EXPECT_TRUE(read(file).at(0).whole());
}

TEST_F(PcapReader, RefusesAFileThatIsCutAnywhereInsideAFrame) {
  const std::vector<uint8_t> whole = capture(true);
  for (size_t size = 0; size < whole.size(); ++size) {
    if (size == 24) {
      continue;  // an empty capture is one
    }
    EXPECT_THROW((void)read({whole.begin(), whole.begin() + static_cast<ptrdiff_t>(size)}), std::runtime_error) << size;
  }
}

TEST_F(PcapReader, RefusesOtherFilesAndOtherLinkTypes) {
  EXPECT_THROW((void)read_pcap("/nonexistent.pcap"), std::runtime_error);
  std::vector<uint8_t> bent = capture(true);
  bent[20] = 113;
  EXPECT_THROW((void)read(bent), std::runtime_error);
  bent = capture(true);
  bent[0] = 0;
  EXPECT_THROW((void)read(bent), std::runtime_error);
}

}  // namespace
}  // namespace cw::test
