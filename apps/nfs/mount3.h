// The MOUNT protocol (RFC 1813, appendix I) over plain TCP: how an NFSv3 client gets its first file handle.
#pragma once

#include <cstdint>
#include <string>

#include "apps/nfs/call.h"

namespace cw::nfs {

// Blocks. Empty when mountd did not give a handle; `error` says why.
[[nodiscard]] ByteVector mount3(const std::string& address, uint16_t port, const std::string& path, std::string& error);

}  // namespace cw::nfs
