#include "rpcrdma/ulb/compound_call.h"

#include <string>

#include "rpcrdma/ulb/binding.h"
#include "rpcrdma/ulb/nfsv4_arguments.h"

namespace cw::rpcrdma {
namespace {

namespace operation {
enum : uint8_t {
  kAccess = 3,
  kGetattr = 9,
  kGetfh = 10,
  kPutfh = 22,
  kPutpubfh = 23,
  kPutrootfh = 24,
  kRestorefh = 31,
  kSavefh = 32,
  kSequence = 53,
};
}  // namespace operation

// The operation of the highest rank is the principal one, of several the first.
uint32_t rank_of(uint32_t number) {
  switch (number) {
    case operation::kSequence:
      return 1;
    case operation::kPutfh:
    case operation::kPutpubfh:
    case operation::kPutrootfh:
    case operation::kSavefh:
    case operation::kRestorefh:
    case operation::kGetfh:
      return 2;
    case operation::kGetattr:
      return 3;
    case operation::kAccess:
      return 4;
    default:
      return 5;
  }
}

}  // namespace

static_assert(kNfs4Operations == nfsv4::kOperationLast + 1);

const char* nfs4_operation_name(uint32_t number) {
  // The tables of the binding have the names as the RFCs write them.
  static const std::array<std::string, kNfs4Operations> kNames = [] {
    std::array<std::string, kNfs4Operations> names;
    for (uint32_t i = nfsv4::kOperationFirst; i < kNfs4Operations; ++i) {
      for (const char* letter = nfsv4::find_operation(i)->name; *letter != '\0'; ++letter) {
        names[i] += static_cast<char>(*letter >= 'A' && *letter <= 'Z' ? *letter - 'A' + 'a' : *letter);
      }
    }
    return names;
  }();
  return number < nfsv4::kOperationFirst || number >= kNfs4Operations ? nullptr : kNames[number].c_str();
}

void read_compound_call(const RpcCallHeader& header, const Chain& call, CompoundCall& out) {
  out.clear();
  const bool is_compound = header.program == kNfsProgram && header.version == kNfs4Version && header.procedure == kNfs4Compound;
  if (!is_compound || header.header_bytes == 0 || !is_plain(header)) {
    return;
  }
  XdrReader reader(call);
  reader.skip(header.header_bytes);
  (void)reader.skip_opaque(UINT32_MAX);  // tag
  reader.skip(4);                        // minor version
  const uint32_t count = reader.u32();
  uint32_t highest = 0;
  ReducibleItems items;
  for (uint32_t i = 0; i < count && i < CompoundCall::kOperationsMax; ++i) {
    const uint32_t operation = reader.u32();
    if (!reader.ok() || operation < nfsv4::kOperationFirst || operation > nfsv4::kOperationLast) {
      return;
    }
    out.numbers[out.count++] = static_cast<uint8_t>(operation);
    if (const uint32_t rank = rank_of(operation); rank > highest) {
      highest = rank;
      out.principal = static_cast<uint8_t>(operation);
    }
    items.count = 0;
    walk(reader, nfsv4::arguments::kShapes[operation - nfsv4::kOperationFirst], items);
  }
}

}  // namespace cw::rpcrdma
