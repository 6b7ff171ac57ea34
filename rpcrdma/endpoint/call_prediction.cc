#include "rpcrdma/endpoint/call_prediction.h"

#include <algorithm>
#include <cstring>

namespace cw::rpcrdma {
namespace {

// Ones where calls are alike: not the XIDs and the credits.
constexpr std::array<uint8_t, 48> kMaskBytes = [] {
  std::array<uint8_t, 48> mask{};
  for (size_t i = 0; i < mask.size(); ++i) {
    const bool differs = i < 4 || (i >= 8 && i < 12) || (i >= kBareHeaderBytes && i < kBareHeaderBytes + kXidBytes);
    mask[i] = differs ? uint8_t{0} : uint8_t{0xff};
  }
  return mask;
}();

constexpr uint64_t mask_of(size_t word) {
  return load_native<uint64_t>(kMaskBytes.data() + 8 * word);
}

// As memcmp() says that they are the same, for a few dozen bytes and at least 16: most credentials have no more.
bool are_alike(const uint8_t* one, const uint8_t* other, uint32_t bytes) {
  const auto differs_at = [&](uint32_t at) {
    return (load_native<uint64_t>(one + at) ^ load_native<uint64_t>(other + at)) |
           (load_native<uint64_t>(one + at + 8) ^ load_native<uint64_t>(other + at + 8));
  };
  uint64_t differs = differs_at(bytes - 16);
  for (uint32_t at = 0; at + 16 < bytes; at += 16) {
    differs |= differs_at(at);
  }
  return differs == 0;
}

}  // namespace

void CallPrediction::learn(Bytes message, const RpcCallHeader& header) {
  static_assert(kMaskBytes.size() == size_t{8} * kWords);
  const uint64_t bytes = uint64_t{kRpc} + header.header_bytes;
  // A credential and a verifier have 16 bytes at least, so has what has been read.
  if (header.header_bytes == 0 || bytes < kCredential + 16 || bytes > kBytesMax || bytes > message.size() ||
      header.flavor == static_cast<uint32_t>(AuthFlavor::kRpcsecGss)) {
    return;
  }
  for (size_t i = 0; i < kWords; ++i) {
    words_[i] = load_native<uint64_t>(message.data() + 8 * i) & mask_of(i);
  }
  bytes_ = static_cast<uint32_t>(bytes);
  std::memcpy(credential_.data(), message.data() + kCredential, bytes_ - kCredential);
  header_ = header;
}

bool CallPrediction::matches(Bytes message) const {
  if (message.size() < bytes_ || bytes_ == 0) {
    return false;
  }
  const uint8_t* raw = message.data();
  uint64_t differs = load_native<uint32_t>(raw) ^ load_native<uint32_t>(raw + kRpc);
#pragma GCC unroll 8
  for (size_t i = 0; i < kWords; ++i) {
    differs |= (load_native<uint64_t>(raw + 8 * i) & mask_of(i)) ^ words_[i];
  }
  return differs == 0 && are_alike(raw + kCredential, credential_.data(), bytes_ - kCredential);
}

CallPredictions::Place CallPredictions::join() {
  const auto fewest = std::ranges::min_element(endpoints_);
  const auto place = static_cast<Place>(fewest - endpoints_.begin());
  if ((*fewest)++ == 0) {
    predictions_[place].forget();  // whoever had it is gone
  }
  return place;
}

}  // namespace cw::rpcrdma
