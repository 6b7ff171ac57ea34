#include "tests/support/certificates.h"

#include <crypt.h>
#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <memory>

#include "base/assert.h"

namespace cw::test {
namespace {

using Key = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;
using Cert = std::unique_ptr<X509, decltype(&X509_free)>;
using Text = std::unique_ptr<BIO, decltype(&BIO_free)>;

constexpr long kDay = 24L * 3600;

std::string text_of(BIO* bio) {
  char* bytes = nullptr;
  const long size = BIO_get_mem_data(bio, &bytes);
  return {bytes, static_cast<size_t>(size)};
}

Text reading(const std::string& pem) {
  return {BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())), &BIO_free};
}

void add_extension(X509* cert, X509* issuer, int kind, const char* value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, cert, nullptr, nullptr, 0);
  X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, &context, kind, value);
  CW_ASSERT(extension != nullptr && X509_add_ext(cert, extension, -1) == 1);
  X509_EXTENSION_free(extension);
}

}  // namespace

Certificate make_certificate(const std::string& common_name, const Certificate* issuer) {
  const Key key(EVP_EC_gen("P-256"), &EVP_PKEY_free);
  const Cert cert(X509_new(), &X509_free);
  CW_ASSERT(key != nullptr && cert != nullptr);
  Cert issuer_cert(nullptr, &X509_free);
  Key issuer_key(nullptr, &EVP_PKEY_free);
  if (issuer != nullptr) {
    issuer_cert.reset(PEM_read_bio_X509(reading(issuer->cert_pem).get(), nullptr, nullptr, nullptr));
    issuer_key.reset(PEM_read_bio_PrivateKey(reading(issuer->key_pem).get(), nullptr, nullptr, nullptr));
    CW_ASSERT(issuer_cert != nullptr && issuer_key != nullptr);
  }
  X509* signer = issuer != nullptr ? issuer_cert.get() : cert.get();
  X509_set_version(cert.get(), 2);
  ASN1_INTEGER_set(X509_get_serialNumber(cert.get()), issuer != nullptr ? 2 : 1);
  X509_gmtime_adj(X509_getm_notBefore(cert.get()), -kDay);
  X509_gmtime_adj(X509_getm_notAfter(cert.get()), 365 * kDay);
  X509_set_pubkey(cert.get(), key.get());
  X509_NAME_add_entry_by_txt(X509_get_subject_name(cert.get()), "CN", MBSTRING_UTF8,
                             reinterpret_cast<const unsigned char*>(common_name.c_str()), -1, -1, 0);
  X509_set_issuer_name(cert.get(), X509_get_subject_name(signer));
  add_extension(cert.get(), signer, NID_basic_constraints, issuer == nullptr ? "critical,CA:TRUE" : "CA:FALSE");
  add_extension(cert.get(), signer, NID_subject_alt_name, "DNS:localhost,IP:127.0.0.1");
  CW_ASSERT(X509_sign(cert.get(), issuer != nullptr ? issuer_key.get() : key.get(), EVP_sha256()) > 0);

  const Text cert_text(BIO_new(BIO_s_mem()), &BIO_free);
  const Text key_text(BIO_new(BIO_s_mem()), &BIO_free);
  CW_ASSERT(PEM_write_bio_X509(cert_text.get(), cert.get()) == 1);
  CW_ASSERT(PEM_write_bio_PrivateKey(key_text.get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr) == 1);
  return {text_of(cert_text.get()), text_of(key_text.get())};
}

std::string bcrypt_of(const std::string& password) {
  const std::string random(16, 'r');
  const auto scratch = std::make_unique<crypt_data>();
  char setting[CRYPT_GENSALT_OUTPUT_SIZE];
  CW_ASSERT(crypt_gensalt_rn("$2y$", 4, random.data(), static_cast<int>(random.size()), setting, sizeof(setting)) != nullptr);
  const char* hash = crypt_r(password.c_str(), setting, scratch.get());
  CW_ASSERT(hash != nullptr);
  return hash;
}

}  // namespace cw::test
