// The files of the live page as they were when the program was built: page/ and the chart library, compressed. Made by
// page/embed.py; without npm at build time there are none (page_assets_none.cc).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace cw::telemetry {

struct PageAsset {
  std::string_view path;  // as asked for: "/page/main.js"; of the page itself "/"
  std::string_view content_type;
  std::string_view etag;  // with its quotes
  std::string_view gzip;  // the content, compressed
};

[[nodiscard]] std::span<const PageAsset> page_assets();

}  // namespace cw::telemetry
