// The bytes of a recorder: what is written is read, and what is torn, foreign or made up is not.
#include "control/recorder/recording.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "control/recorder/last_words.h"
#include "control/recorder/redact.h"

namespace cw::control::recorder {
namespace {

std::vector<uint8_t> blank_recording() {
  return std::vector<uint8_t>(kRecordingBytes, 0xa5);
}

std::vector<std::string> texts_of(const std::vector<uint8_t>& bytes, Area area) {
  std::vector<std::string> texts;
  if (const std::optional<Recording> recording = Recording::parse(bytes)) {
    for (const Entry& entry : recording->entries(area)) {
      texts.push_back(entry.text);
    }
  }
  return texts;
}

uint8_t* slot_of(std::vector<uint8_t>& bytes, Area area, uint64_t number) {
  return bytes.data() + offset_of(area) + number % shape_of(area).slots * shape_of(area).slot_bytes;
}

TEST(Recording, WhatIsWrittenIsReadInItsOrder) {
  std::vector<uint8_t> bytes = blank_recording();
  RecordingWriter writer(bytes);
  writer.put(Area::kLines, 1000, "one", 2);
  writer.put(Area::kLines, 2000, "two", 3);
  writer.put(Area::kStatus, 3000, "{}");
  const std::optional<Recording> recording = Recording::parse(bytes);
  ASSERT_TRUE(recording);
  const std::vector<Entry>& lines = recording->entries(Area::kLines);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0].text + " " + lines[1].text, "one two");
  EXPECT_EQ(lines[1].unix_ms, 2000);
  EXPECT_EQ(lines[1].tag, 3u);
  EXPECT_EQ(recording->text(Area::kStatus), "{}");
  EXPECT_EQ(recording->newest(Area::kEnd), nullptr);
  EXPECT_EQ(recording->text(Area::kConfig), "");
}

TEST(Recording, TheOldestEntriesMakeRoom) {
  std::vector<uint8_t> bytes = blank_recording();
  RecordingWriter writer(bytes);
  const uint32_t slots = shape_of(Area::kLines).slots;
  for (uint32_t i = 1; i <= slots + 3; ++i) {
    writer.put(Area::kLines, i, std::to_string(i));
  }
  const std::vector<std::string> texts = texts_of(bytes, Area::kLines);
  ASSERT_EQ(texts.size(), slots);
  EXPECT_EQ(texts.front(), "4");
  EXPECT_EQ(texts.back(), std::to_string(slots + 3));
}

TEST(Recording, ALongTextIsCutAndSaysSo) {
  std::vector<uint8_t> bytes = blank_recording();
  RecordingWriter writer(bytes);
  writer.put(Area::kEnd, 0, std::string(text_bytes_max(Area::kEnd) + 7, 'x'));
  const std::optional<Recording> recording = Recording::parse(bytes);
  ASSERT_TRUE(recording);
  EXPECT_EQ(recording->text(Area::kEnd).size(), text_bytes_max(Area::kEnd));
  EXPECT_EQ(recording->newest(Area::kEnd)->left_out_bytes, 7u);
}

TEST(Recording, OfAHalfWrittenEntryTheOneBeforeIsRead) {
  std::vector<uint8_t> bytes = blank_recording();
  RecordingWriter writer(bytes);
  for (const char* text : {"first", "second"}) {
    writer.put(Area::kStatus, 0, text);
  }
  // As many bytes of the third entry as may be there when the process ends.
  std::vector<uint8_t> third = blank_recording();
  RecordingWriter other(third);
  for (const char* text : {"first", "second", "third"}) {
    other.put(Area::kStatus, 0, text);
  }
  const size_t length = sizeof(EntryHeader) + std::strlen("third");
  for (size_t written = 1; written < length; ++written) {
    std::vector<uint8_t> torn = bytes;
    std::memcpy(slot_of(torn, Area::kStatus, 3), slot_of(third, Area::kStatus, 3), written);
    EXPECT_EQ(texts_of(torn, Area::kStatus).back(), "second") << written;
  }
  std::memcpy(slot_of(bytes, Area::kStatus, 3), slot_of(third, Area::kStatus, 3), length);
  EXPECT_EQ(texts_of(bytes, Area::kStatus).back(), "third");
}

TEST(Recording, ForeignAndTruncatedFilesAreNone) {
  std::vector<uint8_t> bytes = blank_recording();
  EXPECT_FALSE(Recording::parse(bytes));
  EXPECT_FALSE(Recording::parse({}));
  RecordingWriter writer(bytes);
  EXPECT_TRUE(Recording::parse(bytes));
  EXPECT_FALSE(Recording::parse(Bytes(bytes).first(bytes.size() - 1)));
  bytes[kMagic.size() - 2] = '2';  // another version
  EXPECT_FALSE(Recording::parse(bytes));
}

TEST(Recording, NothingThatAFileClaimsIsBelieved) {
  std::mt19937 random(18);
  for (int round = 0; round < 20; ++round) {
    std::vector<uint8_t> bytes = blank_recording();
    RecordingWriter writer(bytes);
    for (size_t area = 0; area < kAreas.size(); ++area) {
      writer.put(static_cast<Area>(area), 1, "text");
      EntryHeader header;
      uint8_t* slot = slot_of(bytes, static_cast<Area>(area), 1);
      std::memcpy(&header, slot, sizeof(header));
      header.text_bytes = static_cast<uint32_t>(random());
      std::memcpy(slot, &header, sizeof(header));
    }
    for (int i = 0; i < 1000; ++i) {
      bytes[kMagic.size() + random() % (bytes.size() - kMagic.size())] = static_cast<uint8_t>(random());
    }
    const std::optional<Recording> recording = Recording::parse(bytes);
    ASSERT_TRUE(recording);
    EXPECT_TRUE(has_crashed(*recording));
    EXPECT_NE(how_it_ended(*recording), "");
    EXPECT_EQ(trail_text(*recording), "");
  }
}

TEST(Recording, TextsThatMeanNothingAreSentencesAllTheSame) {
  std::vector<uint8_t> bytes = blank_recording();
  RecordingWriter writer(bytes);
  writer.put(Area::kHead, INT64_MAX, "pid \nversion\n\x1b[2J\npid 99999999999999999999\n");
  writer.put(Area::kModules, INT64_MIN, "zz\n\n0 ffffffffffffffff\n");
  writer.put(Area::kTrail, 0, "12345678abc");
  writer.put(Area::kFault, INT64_MIN, std::string(sizeof(Fault), '\xff'));
  const std::optional<Recording> recording = Recording::parse(bytes);
  ASSERT_TRUE(recording);
  EXPECT_NE(how_it_ended(*recording).find("ended by signal -1"), std::string::npos) << how_it_ended(*recording);
  EXPECT_NE(trail_text(*recording), "");
}

TEST(Recording, LinesAreLeftOutWhole) {
  std::string text;
  while (text.size() < std::size_t{2} * text_bytes_max(Area::kEnd)) {
    text += std::to_string(text.size()) + "\n";
  }
  const std::string_view last = last_lines(text, Area::kEnd);
  const std::string_view first = first_lines(text, Area::kEnd);
  EXPECT_LE(std::max(first.size(), last.size()), text_bytes_max(Area::kEnd));
  EXPECT_GT(std::min(first.size(), last.size()), text_bytes_max(Area::kEnd) - 10);
  EXPECT_TRUE(text.starts_with(first) && first.ends_with('\n'));
  EXPECT_TRUE(text.ends_with(last));
  EXPECT_EQ(text[text.size() - last.size() - 1], '\n');
  EXPECT_EQ(last_lines("a\n", Area::kEnd), "a\n");
  EXPECT_EQ(first_lines("a\n", Area::kEnd), "a\n");
  EXPECT_EQ(last_lines(std::string(5000, 'x'), Area::kEnd), "");
  EXPECT_EQ(first_lines(std::string(5000, 'x'), Area::kEnd), "");
}

class LastWords : public ::testing::Test {
 protected:
  [[nodiscard]] Recording recording() const { return *Recording::parse(bytes_); }
  void put_fault(const Fault& fault) { writer_.put(Area::kFault, 2'000, {reinterpret_cast<const char*>(&fault), sizeof(fault)}); }
  std::vector<uint8_t> bytes_ = blank_recording();
  RecordingWriter writer_{bytes_};
};

TEST_F(LastWords, OfASignalThatTheProcessorCaused) {
  Fault fault{.signal = SIGSEGV, .code = SEGV_MAPERR, .address = 0x18};
  std::strcpy(fault.thread_name, "cw-poll-1");
  put_fault(fault);
  EXPECT_EQ(how_it_ended(recording()), "ended by SIGSEGV (address 0x18) in thread cw-poll-1, at 1970-01-01T00:00:02.000Z");
  EXPECT_TRUE(has_crashed(recording()));
}

TEST_F(LastWords, OfASignalThatSomebodySent) {
  Fault fault{.signal = SIGABRT, .code = SI_USER, .sender_pid = 1, .sender_uid = 0};
  std::strcpy(fault.thread_name, "causewayd");
  put_fault(fault);
  EXPECT_EQ(how_it_ended(recording()),
            "ended by SIGABRT (sent by process 1, user 0) in thread causewayd, at 1970-01-01T00:00:02.000Z");
}

TEST_F(LastWords, OfAnAssertion) {
  writer_.put(Area::kHead, 0, to_text(Head{.version = "1", .instance = "i", .config_path = "c", .program = "p", .pid = 7}));
  Fault fault{.signal = SIGABRT, .code = SI_TKILL, .sender_pid = 7};
  std::strcpy(fault.words, "internal error: a is false at b.cc:1");
  put_fault(fault);
  EXPECT_EQ(how_it_ended(recording()),
            "ended by SIGABRT in thread : internal error: a is false at b.cc:1, at 1970-01-01T00:00:02.000Z");
}

TEST_F(LastWords, OfAnEndInOrderAndOfAStartThatFailed) {
  writer_.put(Area::kEnd, 1'000, "", static_cast<uint32_t>(End::kInOrder));
  EXPECT_EQ(how_it_ended(recording()), "ended in order, at 1970-01-01T00:00:01.000Z");
  EXPECT_FALSE(has_crashed(recording()));
  writer_.put(Area::kEnd, 1'000, "no port", static_cast<uint32_t>(End::kNotStarted));
  EXPECT_EQ(how_it_ended(recording()), "did not start: no port, at 1970-01-01T00:00:01.000Z");
  EXPECT_FALSE(has_crashed(recording()));
}

TEST_F(LastWords, OfAProcessThatSaidNothing) {
  writer_.put(Area::kCounters, 5'000, "a 1\n");
  EXPECT_TRUE(has_crashed(recording()));
  EXPECT_NE(how_it_ended(recording()).find("without a word"), std::string::npos);
  EXPECT_NE(how_it_ended(recording()).find("last seen at 1970-01-01T00:00:05.000Z"), std::string::npos);
}

TEST_F(LastWords, AddressesAreToldByTheirModules) {
  writer_.put(Area::kModules, 0,
              to_text(Module{0x1000, 0x2000, "0a0b", "causewayd"}) + to_text(Module{0x7000, 0x8000, "", "/lib/a b.so"}));
  const uint64_t addresses[] = {0x1234, 0x7fff, 0x9000};
  writer_.put(Area::kTrail, 0, {reinterpret_cast<const char*>(addresses), sizeof(addresses)});
  EXPECT_EQ(trail_text(recording()), "causewayd+0x234 (build id 0a0b)\n/lib/a b.so+0xfff (build id -)\n0x9000\n");
}

TEST_F(LastWords, TheHeadIsReadAsItWasWritten) {
  writer_.put(Area::kHead, 0,
              to_text(Head{.version = "1.2", .instance = "a b", .config_path = "/c", .program = "/p", .pid = 71}));
  const Head head = head_of(recording());
  EXPECT_EQ(head.version + "|" + head.instance + "|" + head.config_path + "|" + head.program, "1.2|a b|/c|/p");
  EXPECT_EQ(head.pid, 71u);
}

TEST(Secrets, AreTakenOutOfWhateverQuotesThem) {
  EXPECT_EQ(without_secrets("device = \"net_memif0,role=server,secret=abc,bsize=1\"\n"),
            "device = \"net_memif0,role=server,secret=(removed),bsize=1\"\n");
  EXPECT_EQ(without_secrets("secret=abc"), "secret=(removed)");
  EXPECT_EQ(without_secrets("PASSWORD = \"a b, c\" # why"), "PASSWORD = (removed) # why");
  EXPECT_EQ(without_secrets("db_token='x y' next=1"), "db_token=(removed) next=1");
  EXPECT_EQ(without_secrets("password = \"unfinished\nnext = 1"), "password = (removed)\nnext = 1");
  EXPECT_EQ(without_secrets("{\"device\":\"net_memif0,secret=abc\\\"\"}"), "{\"device\":\"net_memif0,secret=(removed)\\\"\"}");
}

TEST(Secrets, OtherTextStays) {
  for (const char* text : {"", "no secret here", "secret", "secret=", "tokens = 5", "a = b", "=", " = secret", "secret: none"}) {
    EXPECT_EQ(without_secrets(text).substr(0, std::strlen(text)), text);
  }
  EXPECT_EQ(without_secrets("the token is = "), "the token is = ");
}

}  // namespace
}  // namespace cw::control::recorder
