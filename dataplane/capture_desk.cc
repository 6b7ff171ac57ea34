#include "dataplane/capture_desk.h"

#include <algorithm>

namespace cw::dataplane {

using control::capture::CaptureOrder;
using control::capture::CaptureRing;
using control::capture::CaptureStatus;
using control::capture::CaptureWriter;

CaptureDesk::~CaptureDesk() {
  std::ranges::for_each(cores_, [](PollCore* core) { core->set_tap(nullptr); });
}

bool CaptureDesk::find_peer(uint32_t local_qpn, uint32_t& remote_qpn) const {
  constexpr uint32_t kConnectionsMax = 16'384;
  for (PollCore* core : cores_) {
    std::vector<gateway::ConnectionInfo> all;
    (void)core->app().describe(all, kConnectionsMax);
    const auto found = std::ranges::find_if(all, [&](const auto& info) { return info.qp.local_qpn.value() == local_qpn; });
    if (found != all.end()) {
      remote_qpn = found->qp.remote_qpn.value();
      return true;
    }
  }
  return false;
}

bool CaptureDesk::untap() {
  bool all_turned = true;
  for (PollCore* core : cores_) {
    core->set_tap(nullptr);
    // Its answer is of a turn that began after that.
    std::vector<gateway::ConnectionInfo> unused;
    all_turned &= core->app().describe(unused, 1);
  }
  return all_turned;
}

bool CaptureDesk::start(const CaptureOrder& order, std::string& problem) {
  if (!has_ports_) {
    problem =
        "there is no [[port]]: a capture is of its frames. iWARP goes through the kernel: tcpdump -i any tcp port N sees it";
    return false;
  }
  if (writer_ != nullptr && !is_stuck_ && !writer_->is_done()) {
    problem = "a capture is running; causewayctl capture stop ends it";
    return false;
  }
  stop();
  if (writer_ != nullptr) {
    problem =
        "the file of the capture before does not answer, and its writer waits for it; a capture can begin when it has ended";
    return false;
  }
  if (!rings_.empty()) {
    problem = "a poll core does not turn; nothing can be captured";
    return false;
  }
  control::capture::FrameFilter filter{.client = order.client, .local_qpn = order.local_qpn, .remote_qpn = 0};
  if (order.local_qpn && !find_peer(*order.local_qpn, filter.remote_qpn)) {
    problem = "there is no queue pair of this number; causewayctl qp shows those there are";
    return false;
  }
  for (size_t i = 0; i < cores_.size(); ++i) {
    rings_.push_back(std::make_shared<CaptureRing>(filter, order.limits.snap_bytes));
  }
  writer_ = CaptureWriter::start(order.output, order.limits, rings_, problem);
  if (writer_ == nullptr) {
    rings_.clear();
    return false;
  }
  last_ = CaptureStatus{};
  last_.file = order.file;
  last_.with_payload = order.limits.with_payload;
  for (size_t i = 0; i < cores_.size(); ++i) {
    cores_[i]->set_tap(rings_[i].get());
  }
  return true;
}

void CaptureDesk::stop() {
  const bool all_turned = rings_.empty() || untap();
  if (writer_ != nullptr) {
    if (!writer_->stop()) {
      is_stuck_ = true;
      return;  // the rings stay until it has ended
    }
    is_stuck_ = false;
    const CaptureStatus before = status();
    writer_.reset();
    last_ = before;
    last_.state = before.state == "running" ? "stopped" : before.state;
  }
  if (all_turned) {
    rings_.clear();
  }
}

CaptureStatus CaptureDesk::status() const {
  if (writer_ == nullptr) {
    return last_;
  }
  CaptureStatus status = last_;
  status.state = writer_->failed() ? "failed" : is_stuck_ ? "stuck" : writer_->is_done() ? "complete" : "running";
  status.packets = writer_->packets();
  status.bytes = writer_->bytes();
  for (const auto& ring : rings_) {
    status.dropped += ring->dropped();
  }
  return status;
}

}  // namespace cw::dataplane
