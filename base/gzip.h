// Compression for what goes to a person's disk or over HTTP.
#pragma once

#include <string>
#include <string_view>

namespace cw {

// A gzip member (RFC 1952), at the fastest of ISA-L's levels that still looks for repetitions. Less than 4 GiB.
[[nodiscard]] std::string gzip_of(std::string_view content);

}  // namespace cw
