// What an operator has for the metrics server, made for one test: certificates with their keys, hashed passwords.
#pragma once

#include <string>

namespace cw::test {

struct Certificate {
  std::string cert_pem;
  std::string key_pem;
};

// For a year from yesterday. `issuer` null: signed by itself, and good as an authority.
[[nodiscard]] Certificate make_certificate(const std::string& common_name, const Certificate* issuer = nullptr);
// bcrypt, with the least cost.
[[nodiscard]] std::string bcrypt_of(const std::string& password);

}  // namespace cw::test
