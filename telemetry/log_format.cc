#include "telemetry/log_format.h"

#include <fmt/core.h>
#include <spdlog/pattern_formatter.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

namespace cw::telemetry {
namespace {

constexpr const char* kTime = "%Y-%m-%dT%H:%M:%S.%eZ";

std::unique_ptr<spdlog::formatter> pattern(const std::string& text, const char* eol) {
  return std::make_unique<spdlog::pattern_formatter>(text, spdlog::pattern_time_type::utc, eol);
}

void append(spdlog::memory_buf_t& line, std::string_view text) {
  line.append(text.data(), text.data() + text.size());
}

class JsonLines final : public spdlog::formatter {
 public:
  explicit JsonLines(std::string instance) : instance_(std::move(instance)), time_(pattern(kTime, "")) {}

  void format(const spdlog::details::log_msg& message, spdlog::memory_buf_t& line) override {
    spdlog::memory_buf_t time;
    time_->format(message, time);
    const spdlog::string_view_t level = spdlog::level::to_string_view(message.level);
    const nlohmann::ordered_json object = {{"time", std::string(time.data(), time.size())},
                                           {"level", std::string(level.data(), level.size())},
                                           {"instance", instance_},
                                           {"message", std::string(message.payload.data(), message.payload.size())}};
    append(line, object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
  }
  [[nodiscard]] std::unique_ptr<spdlog::formatter> clone() const override { return std::make_unique<JsonLines>(instance_); }

 private:
  std::string instance_;
  std::unique_ptr<spdlog::formatter> time_;
};

int priority_of(spdlog::level::level_enum level) {
  switch (level) {
    case spdlog::level::trace:
    case spdlog::level::debug:
      return 7;
    case spdlog::level::warn:
      return 4;
    case spdlog::level::err:
    case spdlog::level::critical:
      return 3;
    default:
      return 6;
  }
}

class JournalLines final : public spdlog::formatter {
 public:
  void format(const spdlog::details::log_msg& message, spdlog::memory_buf_t& line) override {
    append(line,
           fmt::format("<{}>{}\n", priority_of(message.level), std::string_view(message.payload.data(), message.payload.size())));
  }
  [[nodiscard]] std::unique_ptr<spdlog::formatter> clone() const override { return std::make_unique<JournalLines>(); }
};

bool goes_to_journald() {
  const char* stream = std::getenv("JOURNAL_STREAM");  // "DEVICE:INODE"
  struct stat file {};
  return stream != nullptr && fstat(STDERR_FILENO, &file) == 0 && fmt::format("{}:{}", file.st_dev, file.st_ino) == stream;
}

}  // namespace

control::LogLineFormat line_format(control::LogLineFormat wanted) {
  using control::LogLineFormat;
  return wanted != LogLineFormat::kAuto ? wanted : goes_to_journald() ? LogLineFormat::kJournal : LogLineFormat::kText;
}

std::unique_ptr<spdlog::formatter> line_formatter(control::LogLineFormat format, std::string instance) {
  switch (line_format(format)) {
    case control::LogLineFormat::kJson:
      return std::make_unique<JsonLines>(std::move(instance));
    case control::LogLineFormat::kJournal:
      return std::make_unique<JournalLines>();
    case control::LogLineFormat::kAuto:
    case control::LogLineFormat::kText:
      break;
  }
  return pattern(fmt::format("{} %l %v", kTime), "\n");
}

}  // namespace cw::telemetry
