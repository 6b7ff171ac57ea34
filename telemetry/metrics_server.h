// GET /metrics over HTTP/1.1, on its own thread and a kernel socket; beside it /healthz and /readyz, which answer 200 or 503 with
// one line that says why (health.h), and the live page (live_page.h). Small on purpose: no bodies, no keep-alive, no other paths.
//
// Listening on a loopback address, it answers only requests for a loopback name; on another address, to
// whatever name it has there. With a web configuration file (web_config.h) it speaks TLS and asks for names and passwords, as the
// file says; probes are answered without a password, since kubelet and its like have none.
//
// Bounds: kClientsMax connections (the oldest idle one makes room), kRequestBytesMax per request, kClientTimeout from accept to
// the last byte sent. A client that trickles its request or does not read its answer is closed at that deadline and delays
// nobody. Scrapes that come within kCacheTime of one another share one answer, and so do probes, so that a flood of them
// does not trouble the cores.
#pragma once

#include <prometheus/collectable.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "base/time.h"
#include "control/config/ip_text.h"
#include "telemetry/health.h"
#include "telemetry/live_page.h"
#include "telemetry/web_refusals.h"

namespace cw::telemetry {

class MetricsServer {
 public:
  static constexpr uint32_t kClientsMax = 32;
  static constexpr size_t kRequestBytesMax = 8192;
  static constexpr Duration kCacheTime = Duration::ms(250);

  struct Options {
    control::SocketAddress listen;  // port 0: the system picks one, see address()
    Duration client_timeout = Duration::seconds(5);
    LivePage* page = nullptr;         // outlives the server; null, or off: "/" is a text, and there are no data for a page
    std::string web_config = {};      // a file's path; empty: HTTP, and everybody may ask
    WebRefusals* refusals = nullptr;  // outlives the server; null: nobody counts
  };

  // Binds and starts the thread. Null and one sentence in `problem` on failure. `metrics` and `health` outlive the server.
  [[nodiscard]] static std::unique_ptr<MetricsServer> start(const Options& options, const prometheus::Collectable& metrics,
                                                            const HealthSource& health, std::string& problem);
  // Stops the thread and closes all clients.
  ~MetricsServer();
  MetricsServer(const MetricsServer&) = delete;
  MetricsServer& operator=(const MetricsServer&) = delete;

  // Where it really listens.
  [[nodiscard]] control::SocketAddress address() const;

 private:
  class Impl;
  explicit MetricsServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace cw::telemetry
