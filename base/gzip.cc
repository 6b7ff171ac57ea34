#include "base/gzip.h"

#include <isa-l/igzip_lib.h>

#include <cstdint>
#include <vector>

#include "base/assert.h"

namespace cw {

std::string gzip_of(std::string_view content) {
  CW_ASSERT(content.size() <= UINT32_MAX);
  std::vector<uint8_t> work(ISAL_DEF_LVL1_DEFAULT);
  std::vector<uint8_t> out(64 << 10);
  std::string gzip;
  isal_zstream stream{};
  isal_deflate_init(&stream);
  stream.gzip_flag = IGZIP_GZIP;
  stream.level = 1;
  stream.level_buf = work.data();
  stream.level_buf_size = static_cast<uint32_t>(work.size());
  stream.flush = NO_FLUSH;
  stream.end_of_stream = 1;
  stream.next_in = reinterpret_cast<uint8_t*>(const_cast<char*>(content.data()));  // read, and never written to
  stream.avail_in = static_cast<uint32_t>(content.size());
  do {
    stream.next_out = out.data();
    stream.avail_out = static_cast<uint32_t>(out.size());
    const int result = isal_deflate(&stream);
    CW_ASSERT(result == COMP_OK);
    gzip.append(reinterpret_cast<const char*>(out.data()), out.size() - stream.avail_out);
  } while (stream.internal_state.state != ZSTATE_END);
  return gzip;
}

}  // namespace cw
