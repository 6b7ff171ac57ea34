#include "control/ctl/render_recording.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "control/config/config.h"
#include "control/recorder/last_words.h"

namespace cw::control {
namespace {

using recorder::Area;

class RenderRecording : public ::testing::Test {
 protected:
  std::map<std::string, std::string> rendered(bool runs) {
    std::map<std::string, std::string> files;
    recording_ = recorder::Recording::parse(bytes_);
    for (const RecordingPart& part : recording_parts()) {
      files[part.name] = part.render(*recording_, runs);
    }
    return files;
  }
  std::vector<uint8_t> bytes_ = std::vector<uint8_t>(recorder::kRecordingBytes);
  recorder::RecordingWriter writer_{bytes_};
  std::optional<recorder::Recording> recording_;
};

TEST_F(RenderRecording, TellsWhatWasThereInTheEnd) {
  writer_.put(Area::kHead, 1'000,
              to_text(recorder::Head{.version = "9.8", .instance = "a", .config_path = "/c", .program = "/p", .pid = 7}));
  writer_.put(Area::kLines, 2'000, "port 0: link is down", static_cast<uint32_t>(LogLevel::kWarning));
  writer_.put(Area::kLines, 2'001, "bad \x1b[2J text", 99);
  writer_.put(Area::kStatus, 3'000,
              R"({"version": "9.8", "instance": "a", "ready": false, "ready_reason": "backend nfs is down"})");
  writer_.put(Area::kEvents, 3'000,
              "{\"ago_seconds\": 1, \"local_qpn\": 2748, \"event\": \"ack_timeout\", \"count\": 3}\nbroken {\n");
  writer_.put(Area::kCounters, 3'000, "causeway_connections 2\n");
  recorder::Fault fault{.signal = SIGBUS, .code = BUS_ADRERR, .address = 0x10};
  std::strcpy(fault.thread_name, "cw-poll-1");
  writer_.put(Area::kFault, 4'000, {reinterpret_cast<const char*>(&fault), sizeof(fault)});
  const auto files = rendered(false);
  EXPECT_TRUE(files.at("summary.txt")
                  .starts_with("process 7 (Causeway 9.8, begun at 1970-01-01T00:00:01.000Z) ended by SIGBUS (address 0x10) in "
                               "thread cw-poll-1, at "
                               "1970-01-01T00:00:04.000Z\n"))
      << files.at("summary.txt");
  EXPECT_EQ(files.at("log.txt"),
            "1970-01-01T00:00:02.000Z warning port 0: link is down\n1970-01-01T00:00:02.001Z ? bad ?[2J text\n");
  EXPECT_TRUE(files.at("events.txt").starts_with("As of 1970-01-01T00:00:03.000Z.\n")) << files.at("events.txt");
  EXPECT_NE(files.at("events.txt").find("ack_timeout"), std::string::npos);
  EXPECT_NE(files.at("status.txt").find("Causeway 9.8, instance a"), std::string::npos) << files.at("status.txt");
  EXPECT_NE(files.at("counters.txt").find("\n\ncauseway_connections 2\n"), std::string::npos);
  EXPECT_NE(files.at("config.txt").find("nothing was recorded"), std::string::npos);
}

TEST_F(RenderRecording, OfOneThatRunsItSaysSo) {
  writer_.put(Area::kHead, 1'000, to_text(recorder::Head{.version = "9.8", .pid = 7}));
  EXPECT_TRUE(rendered(true).at("summary.txt").starts_with("process 7 (Causeway 9.8, begun at 1970-01-01T00:00:01.000Z) runs\n"));
}

TEST_F(RenderRecording, AnEmptyOneIsTextAllTheSame) {
  for (const auto& [name, text] : rendered(false)) {
    EXPECT_NE(text, "") << name;
  }
}

// JSON is printed by a function that calls itself for each level: a few bytes of the file would cost a stack frame each.
TEST_F(RenderRecording, WhatNestsWithoutEndIsText) {
  const std::string deep = std::string(30'000, '[') + std::string(30'000, ']');
  writer_.put(Area::kEvents, 0, "{\"event\": \"ack_timeout\", \"reason\": " + deep + "}\n{\"event\": \"rnr_nak\"}\n");
  writer_.put(Area::kStatus, 0, R"({"instance": "a", "version": )" + deep + "}");
  const auto files = rendered(false);
  EXPECT_NE(files.at("events.txt").find("ack_timeout"), std::string::npos) << "what does not nest is there";
  EXPECT_NE(files.at("events.txt").find("rnr_nak"), std::string::npos);
  EXPECT_NE(files.at("status.txt").find("instance a"), std::string::npos);
}

TEST_F(RenderRecording, NumbersOfAnySizeAreText) {
  for (const char* number : {"1e300", "-1e300", "-1", "4294967296", "1e-300"}) {
    writer_.put(Area::kEvents, 0, std::string("{\"event\": \"ack_timeout\", \"local_qpn\": ") + number + "}\n");
    EXPECT_NE(rendered(false).at("events.txt").find("ack_timeout"), std::string::npos) << number;
  }
}

// Somebody looks at them with cat.
TEST_F(RenderRecording, NothingInItSteersATerminal) {
  for (const Area area : {Area::kHead, Area::kModules, Area::kConfig, Area::kStatus, Area::kCounters, Area::kLines}) {
    writer_.put(area, 0, "one \x1b[2J two\nthree");
  }
  writer_.put(Area::kEvents, 0, R"({"event": "\u001b[2J"})");
  for (const auto& [name, text] : rendered(false)) {
    EXPECT_EQ(text.find('\x1b'), std::string::npos) << name;
  }
  EXPECT_NE(rendered(false).at("config.txt").find("one ?[2J two\nthree"), std::string::npos) << "lines stay lines";
}

TEST_F(RenderRecording, LinesThatAreMissingAreCounted) {
  for (int i = 0; i < 3; ++i) {
    writer_.put(Area::kLines, 0, "line", 2);
  }
  bytes_[recorder::offset_of(Area::kLines) + std::size_t{2} * recorder::shape_of(Area::kLines).slot_bytes] ^= 1;
  EXPECT_NE(rendered(true).at("log.txt").find("(1 lines are missing)"), std::string::npos);
}

}  // namespace
}  // namespace cw::control
