#include "rpcrdma/ulb/nfsv4.h"

#include "rpcrdma/ulb/nfsv4_results.h"

namespace cw::rpcrdma {
namespace {

constexpr uint32_t kNfs4Ok = 0;

// One operation that succeeded. RFC 8267: a READ operation pairs with exactly one Write chunk, so it lists exactly one item: its
// first data content, or an empty one.
void walk_operation(XdrReader& reader, const nfsv4::Operation& operation, ReducibleItems& items) {
  [[maybe_unused]] const uint32_t before = items.count;
  if (!operation.is_read) {
    walk(reader, operation.success, items);
    return;
  }
  ReducibleItems own;
  own.first_only = true;
  own.reduction = items.reduction;
  walk(reader, operation.success, own);
  if (own.count == 0 && items.reduction != nullptr && reader.ok()) {
    (void)items.reduction->take(reader.offset(), 0);
  }
  if (own.count > 0) {
    items.items[items.count++] = own.items[0];
  } else if (reader.ok()) {
    items.items[items.count++] = {.offset = reader.offset(), .length = 0};
  }
  CW_DASSERT(items.count <= before + 1);
}

}  // namespace

void find_in_compound(XdrReader& reader, ReducibleItems& items) {
  reader.skip(4);                        // status of the last operation
  (void)reader.skip_opaque(UINT32_MAX);  // tag
  const uint32_t count = reader.u32();
  for (uint32_t i = 0; i < count && items.count < kReducibleItemsMax; ++i) {
    const nfsv4::Operation* operation = nfsv4::find_operation(reader.u32());
    const uint32_t status = reader.u32();
    if (!reader.ok() || operation == nullptr || status != kNfs4Ok) {
      return;
    }
    walk_operation(reader, *operation, items);
  }
}

}  // namespace cw::rpcrdma
