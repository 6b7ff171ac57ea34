// Captures on all poll cores: a ring for each, a thread that writes. One capture at a time.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "control/capture/capture_order.h"
#include "dataplane/poll_core.h"

namespace cw::dataplane {

class CaptureDesk {
 public:
  // `cores` outlive the desk, and turn as long as it lives, or never again.
  CaptureDesk(std::vector<PollCore*> cores, bool has_ports) : cores_(std::move(cores)), has_ports_(has_ports) {}
  ~CaptureDesk();
  CaptureDesk(const CaptureDesk&) = delete;
  CaptureDesk& operator=(const CaptureDesk&) = delete;

  // Admin thread. False, and one sentence in `problem`, when there is none.
  [[nodiscard]] bool start(const control::capture::CaptureOrder& order, std::string& problem);
  // Waits no longer than CaptureWriter::kStopPatience for the file; then the status says "stuck", and stopping again waits again.
  void stop();
  [[nodiscard]] control::capture::CaptureStatus status() const;

 private:
  // The queue pair's other end, so that frames of both directions can be told. False: there is no such queue pair.
  [[nodiscard]] bool find_peer(uint32_t local_qpn, uint32_t& remote_qpn) const;
  // Takes the taps away and waits until no core can be using its ring. False: a core does not turn.
  [[nodiscard]] bool untap();

  std::vector<PollCore*> cores_;
  bool has_ports_;
  control::capture::CaptureWriter::Rings rings_;
  std::unique_ptr<control::capture::CaptureWriter> writer_;
  bool is_stuck_ = false;                 // the writer has been stopped, and its file does not answer
  control::capture::CaptureStatus last_;  // without a writer
};

}  // namespace cw::dataplane
