#include "telemetry/page_assets.h"

namespace cw::telemetry {

std::span<const PageAsset> page_assets() {
  return {};
}

}  // namespace cw::telemetry
