// TLS 1.2 and 1.3 for the metrics server, by OpenSSL: a certificate with its key, and a client's bytes through it.
#pragma once

#include <sys/types.h>

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "telemetry/web_config.h"

struct ssl_ctx_st;
struct ssl_st;

namespace cw::telemetry {

// What all connections share. Immutable, so that connections that began with one go on with it when it has been replaced.
class TlsServer {
 public:
  // Null, and one sentence in `problem`, when a file cannot be read, or the key is not the certificate's.
  [[nodiscard]] static std::shared_ptr<const TlsServer> make(const TlsSettings& settings, std::string& problem);
  ~TlsServer();
  TlsServer(const TlsServer&) = delete;
  TlsServer& operator=(const TlsServer&) = delete;

  [[nodiscard]] ssl_ctx_st* context() const { return context_; }

 private:
  explicit TlsServer(ssl_ctx_st* context) : context_(context) {}
  ssl_ctx_st* context_;
};

// One client. The handshake happens within the first calls of receive().
class TlsChannel {
 public:
  // `fd`: connected and non-blocking; its owner keeps it open as long as this lives.
  TlsChannel(std::shared_ptr<const TlsServer> server, int fd);
  ~TlsChannel();
  TlsChannel(const TlsChannel&) = delete;
  TlsChannel& operator=(const TlsChannel&) = delete;

  // As recv(2) and send(2): bytes; 0 from receive() when the client has ended; -1 with errno, EAGAIN while waits_for() is not
  // kNothing, EPROTO when the client speaks no TLS that is accepted. Whoever receives goes on until EAGAIN: what has been
  // decrypted already makes no socket readable.
  [[nodiscard]] ssize_t receive(std::span<char> into);
  [[nodiscard]] ssize_t transmit(std::string_view bytes);
  enum class Waits : uint8_t { kNothing, kToRead, kToWrite };
  [[nodiscard]] Waits waits_for() const { return waits_; }
  // The handshake is over, and what comes now is the client's request.
  [[nodiscard]] bool has_shaken_hands() const;
  // Says that nothing more comes, as far as the socket takes it.
  void say_end();

  // After EPROTO: the client asked by plain HTTP.
  [[nodiscard]] bool has_met_plain_http() const { return has_met_plain_http_; }
  // After EPROTO: why, in OpenSSL's words.
  [[nodiscard]] const std::string& problem() const { return problem_; }

 private:
  ssize_t outcome_of(int result);
  std::shared_ptr<const TlsServer> server_;
  ssl_st* ssl_;
  Waits waits_ = Waits::kNothing;
  bool has_met_plain_http_ = false;
  std::string problem_;
};

}  // namespace cw::telemetry
