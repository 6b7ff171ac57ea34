#include "telemetry/tls.h"

#include <fmt/core.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <cerrno>
#include <utility>

#include "base/assert.h"

namespace cw::telemetry {
namespace {

// The oldest error that OpenSSL has noted in this thread, in its words.
std::string openssl_problem() {
  const unsigned long code = ERR_peek_error();
  const char* reason = code == 0 ? nullptr : ERR_reason_error_string(code);
  return reason == nullptr ? "no reason given" : reason;
}

int version_of(TlsVersion version) {
  return version == TlsVersion::kTls12 ? TLS1_2_VERSION : TLS1_3_VERSION;
}

// OpenSSL's list out of IANA's names. False, and the name in `unknown`.
bool list_suites(const std::vector<std::string>& names, std::string& list, std::string& unknown) {
  for (const std::string& name : names) {
    const std::string ours = OPENSSL_cipher_name(name.c_str());
    if (ours.empty() || ours == "(NONE)") {
      unknown = name;
      return false;
    }
    list += (list.empty() ? "" : ":") + ours;
  }
  return true;
}

int verify_mode(ClientCertificate wanted) {
  switch (wanted) {
    case ClientCertificate::kNotAsked:
      return SSL_VERIFY_NONE;
    case ClientCertificate::kVerifiedIfGiven:
      return SSL_VERIFY_PEER;
    case ClientCertificate::kRequired:
      break;
  }
  return SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT;
}

// What is wrong, or nothing.
std::string configure(SSL_CTX* context, const TlsSettings& settings) {
  std::string suites;
  std::string unknown;
  if (!list_suites(settings.cipher_suites, suites, unknown)) {
    return fmt::format("cipher_suites: OpenSSL has no {}; IANA's names are wanted, as TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
                       unknown);
  }
  if (!suites.empty() && SSL_CTX_set_cipher_list(context, suites.c_str()) != 1) {
    return fmt::format("cipher_suites: {}; those of TLS 1.3 are always offered and not named here", openssl_problem());
  }
  if (SSL_CTX_set_min_proto_version(context, version_of(settings.min_version)) != 1 ||
      SSL_CTX_set_max_proto_version(context, version_of(settings.max_version)) != 1) {
    return fmt::format("min_version, max_version: {}", openssl_problem());
  }
  if (SSL_CTX_use_certificate_chain_file(context, settings.cert_file.c_str()) != 1) {
    return fmt::format("cert_file {}: {}; a PEM certificate is wanted that the gateway's user can read", settings.cert_file,
                       openssl_problem());
  }
  if (SSL_CTX_use_PrivateKey_file(context, settings.key_file.c_str(), SSL_FILETYPE_PEM) != 1) {
    return fmt::format("key_file {}: {}; the PEM key of {} is wanted, without a passphrase, that the gateway's user can read",
                       settings.key_file, openssl_problem(), settings.cert_file);
  }
  if (settings.client_certificate != ClientCertificate::kNotAsked) {
    STACK_OF(X509_NAME)* names = SSL_load_client_CA_file(settings.client_ca_file.c_str());
    if (names == nullptr || SSL_CTX_load_verify_file(context, settings.client_ca_file.c_str()) != 1) {
      sk_X509_NAME_pop_free(names, X509_NAME_free);
      return fmt::format("client_ca_file {}: {}; PEM certificates are wanted that the gateway's user can read",
                         settings.client_ca_file, openssl_problem());
    }
    SSL_CTX_set_client_CA_list(context, names);
  }
  SSL_CTX_set_verify(context, verify_mode(settings.client_certificate), nullptr);
  return {};
}

// OpenSSL's own BIO of a socket writes with write(2), and a client that is gone would end the process with SIGPIPE.
int socket_of(BIO* bio) {
  return static_cast<int>(reinterpret_cast<intptr_t>(BIO_get_data(bio)));
}

int write_socket(BIO* bio, const char* bytes, size_t size, size_t* written) {
  BIO_clear_retry_flags(bio);
  const ssize_t sent = send(socket_of(bio), bytes, size, MSG_NOSIGNAL);
  if (sent < 0) {
    if (errno == EAGAIN || errno == EINTR) {
      BIO_set_retry_write(bio);
    }
    return 0;
  }
  *written = static_cast<size_t>(sent);
  return 1;
}

int read_socket(BIO* bio, char* into, size_t size, size_t* got) {
  BIO_clear_retry_flags(bio);
  const ssize_t received = recv(socket_of(bio), into, size, 0);
  if (received <= 0) {
    if (received < 0 && (errno == EAGAIN || errno == EINTR)) {
      BIO_set_retry_read(bio);
    }
    return 0;
  }
  *got = static_cast<size_t>(received);
  return 1;
}

long control_socket(BIO* /*bio*/, int command, long /*number*/, void* /*pointer*/) {
  return command == BIO_CTRL_FLUSH || command == BIO_CTRL_DUP ? 1 : 0;
}

BIO_METHOD* make_method() {
  BIO_METHOD* method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "socket without SIGPIPE");
  CW_ASSERT(method != nullptr && BIO_meth_set_write_ex(method, write_socket) == 1 &&
            BIO_meth_set_read_ex(method, read_socket) == 1 && BIO_meth_set_ctrl(method, control_socket) == 1);
  return method;
}

BIO* bio_of(int fd) {
  static BIO_METHOD* const method = make_method();
  BIO* bio = BIO_new(method);
  CW_ASSERT(bio != nullptr);
  BIO_set_data(bio, reinterpret_cast<void*>(static_cast<intptr_t>(fd)));  // NOLINT(performance-no-int-to-ptr)
  BIO_set_init(bio, 1);
  return bio;
}

}  // namespace

std::shared_ptr<const TlsServer> TlsServer::make(const TlsSettings& settings, std::string& problem) {
  ERR_clear_error();
  std::shared_ptr<const TlsServer> server(new TlsServer(SSL_CTX_new(TLS_server_method())));
  SSL_CTX* context = server->context();
  CW_ASSERT(context != nullptr);
  SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  // Each connection has one request: nothing is kept for another one, nor begun anew within it.
  SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_TICKET | SSL_OP_NO_COMPRESSION);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_num_tickets(context, 0);
  problem = configure(context, settings);
  return problem.empty() ? server : nullptr;
}

TlsServer::~TlsServer() {
  SSL_CTX_free(context_);
}

TlsChannel::TlsChannel(std::shared_ptr<const TlsServer> server, int fd)
    : server_(std::move(server)), ssl_(SSL_new(server_->context())) {
  CW_ASSERT(ssl_ != nullptr);
  BIO* bio = bio_of(fd);
  SSL_set_bio(ssl_, bio, bio);
  SSL_set_accept_state(ssl_);
}

TlsChannel::~TlsChannel() {
  SSL_free(ssl_);
}

ssize_t TlsChannel::outcome_of(int result) {
  waits_ = Waits::kNothing;
  switch (SSL_get_error(ssl_, result)) {
    case SSL_ERROR_ZERO_RETURN:
      return 0;
    case SSL_ERROR_WANT_READ:
      waits_ = Waits::kToRead;
      errno = EAGAIN;
      return -1;
    case SSL_ERROR_WANT_WRITE:
      waits_ = Waits::kToWrite;
      errno = EAGAIN;
      return -1;
    case SSL_ERROR_SYSCALL:
      return 0;  // the connection is over, whoever ended it
    default:
      break;
  }
  has_met_plain_http_ = ERR_GET_REASON(ERR_peek_error()) == SSL_R_HTTP_REQUEST;
  problem_ = openssl_problem();
  errno = EPROTO;
  return -1;
}

ssize_t TlsChannel::receive(std::span<char> into) {
  ERR_clear_error();
  size_t got = 0;
  const int result = SSL_read_ex(ssl_, into.data(), into.size(), &got);
  if (result == 1) {
    waits_ = Waits::kNothing;
    return static_cast<ssize_t>(got);
  }
  return outcome_of(result);
}

ssize_t TlsChannel::transmit(std::string_view bytes) {
  ERR_clear_error();
  size_t sent = 0;
  const int result = SSL_write_ex(ssl_, bytes.data(), bytes.size(), &sent);
  if (result == 1) {
    waits_ = Waits::kNothing;
    return static_cast<ssize_t>(sent);
  }
  const ssize_t outcome = outcome_of(result);
  errno = outcome == 0 ? EPIPE : errno;
  return -1;
}

bool TlsChannel::has_shaken_hands() const {
  return SSL_is_init_finished(ssl_) == 1;
}

void TlsChannel::say_end() {
  ERR_clear_error();
  (void)SSL_shutdown(ssl_);
}

}  // namespace cw::telemetry
