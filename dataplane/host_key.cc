#include "dataplane/host_key.h"

#include <fstream>

#include "base/keyed_hash.h"
#include "dataplane/entropy.h"

namespace cw::dataplane {
namespace {

constexpr size_t kIdDigits = 32;
// The id itself is not to be seen by what is done with the key, nor the same key elsewhere.
constexpr uint64_t kPurpose = 0x6361'7573'6577'6179;

}  // namespace

uint64_t host_key(const std::string& machine_id) {
  std::ifstream file(machine_id);
  std::string id;
  if (!(file >> id) || id.size() != kIdDigits || id.find_first_not_of("0123456789abcdef") != std::string::npos) {
    return Entropy().next_u64();
  }
  uint64_t key = kPurpose;
  for (size_t at = 0; at < kIdDigits; at += sizeof(key)) {
    key = mix(key ^ load_be64(reinterpret_cast<const uint8_t*>(id.data()) + at));
  }
  return key;
}

}  // namespace cw::dataplane
