#include "apps/load/load_app.h"

#include <chrono>
#include <thread>

namespace cw::load {

bool LoadApp::turn(Instant now) {
  if (!started_) {
    started_ = true;
    driver_.start(now);
  }
  const bool worked = driver_.turn(now);
  if (request_.load(std::memory_order_relaxed) != Request::kNone) [[unlikely]] {
    obey(now);
  }
  if (progress_.is_wanted()) {
    progress_.publish([this](Progress& out) { report(out); });
  }
  return worked;
}

Instant LoadApp::next_deadline() const {
  const Instant own = earlier(client_.next_deadline(), driver_.next_deadline());
  return filter_ == nullptr ? own : earlier(own, filter_->next_deadline());
}

const Progress& LoadApp::progress() {
  progress_.request();
  (void)progress_.wait(std::chrono::steady_clock::now() + std::chrono::milliseconds(500));
  return progress_.last();
}

LoadStats LoadApp::begin() {
  ask(Request::kBegin);
  LoadStats start;
  start.connected = connected_before_;
  return start;
}

void LoadApp::ask(Request request) {
  request_.store(request);
  while (request_.load() != Request::kNone) {
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
}

void LoadApp::obey(Instant now) {
  if (request_.load() == Request::kBegin) {
    driver_.reset_stats();
    connected_before_ = driver_.stats().connected;
    driver_.begin(now);
  } else {
    driver_.stop();
  }
  request_.store(Request::kNone);
}

void LoadApp::report(Progress& out) const {
  driver_.stats().copy_to(out.stats, driver_.mix().entries().size());
  out.gauges = {driver_.connected(), driver_.in_flight(), driver_.queued()};
  out.wanted = driver_.wanted();
  out.given_up = driver_.given_up();
  out.waiting_to_resend = driver_.waiting_to_resend();
  out.last_rejection = driver_.last_rejection();
  out.last_qp_error = driver_.last_qp_error();
}

}  // namespace cw::load
