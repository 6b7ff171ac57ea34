#include "control/recorder/state_recorder.h"

#include <fmt/core.h>
#include <pthread.h>

#include <chrono>

#include "control/admin/answer_fields.h"
#include "control/recorder/redact.h"

namespace cw::control::recorder {
namespace {

std::string settings_text(GatewayControl& control) {
  std::string text;
  for (const SettingText& setting : control.settings()) {
    text += setting.value.empty() ? "" : fmt::format("{} = {}\n", setting.key, setting.value);
  }
  return without_secrets(text);
}

std::string counters_text(GatewayView& view) {
  std::string text;
  for (const NamedValue& value : view.stats()) {
    text += value.value == 0 ? "" : fmt::format("{} {}\n", value.name, value.value);
  }
  return text;
}

// A row of JSON each.
std::string events_text(GatewayView& view) {
  std::string text;
  for (const TransportEventStatus& event : view.transport_events(StateRecorder::kEventsMax)) {
    text += to_row(event).dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  }
  return text;
}

}  // namespace

StateRecorder::StateRecorder(Recorder& recorder, const AdminTarget& gateway)
    : recorder_(recorder), gateway_(gateway), thread_([this] { run(); }) {}

StateRecorder::~StateRecorder() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void StateRecorder::run() {
  (void)pthread_setname_np(pthread_self(), "cw-recorder");
  std::unique_lock lock(mutex_);
  while (!stop_) {
    lock.unlock();
    look();
    lock.lock();
    wake_.wait_for(lock, std::chrono::nanoseconds(kPeriod.to_ns()), [this] { return stop_; });
  }
}

void StateRecorder::look() {
  // The settings first: they wait for no core.
  if (const uint64_t version = gateway_.control.settings_version(); version != settings_) {
    recorder_.put(Area::kConfig, first_lines(settings_text(gateway_.control), Area::kConfig));
    settings_ = version;
  }
  recorder_.put(Area::kEvents, last_lines(events_text(gateway_.view), Area::kEvents));
  recorder_.put(Area::kCounters, first_lines(counters_text(gateway_.view), Area::kCounters));
  if (looks_++ % kPeriodsOfStatus == 0) {
    const AdminCaller caller{.who = "the recorder"};
    recorder_.put(Area::kStatus, admin_answer("status", caller, gateway_));
  }
}

}  // namespace cw::control::recorder
