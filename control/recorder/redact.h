// Takes secrets out of text that is given away. Pure.
//
// The configuration has no key for a password or a key of a cipher: krb5 passes through. One value can hold a secret: the
// device of a [[port]], whose driver may take one (`secret=` of net_memif). Whoever quotes a device quotes that, so every text is
// looked through, and other usual names of secrets as well.
#pragma once

#include <string>
#include <string_view>

namespace cw::control::recorder {

// "net_memif0,role=server,secret=abc" -> "net_memif0,role=server,secret=(removed)". Of each secret, password, passwd,
// passphrase and token that an "=" follows the value is taken out: in quotes up to the next such quote, else up to a blank,
// comma, semicolon, quote or backslash.
[[nodiscard]] std::string without_secrets(std::string_view text);

}  // namespace cw::control::recorder
