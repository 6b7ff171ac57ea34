#include "rpcrdma/ulb/xdr_shape.h"

namespace cw::rpcrdma {
namespace {

void walk_array(XdrReader& reader, Shape body, ReducibleItems& items) {
  const uint64_t count = reader.u32();
  // Arrays of plain words (bitmaps, device ids) are one step however long they are.
  if (body.count == 1 && body.elements[0].kind == ElementKind::kWords) {
    reader.skip(count * body.elements[0].value * 4);
    return;
  }
  for (uint64_t i = 0; i < count && reader.ok(); ++i) {
    walk(reader, body, items);
  }
}

void walk_union(XdrReader& reader, const Element& element, ReducibleItems& items) {
  const uint32_t discriminant = reader.u32();
  for (uint32_t i = 0; i < element.arm_count; ++i) {
    if (element.arms[i].value == discriminant) {
      walk(reader, element.arms[i].shape, items);
      return;
    }
  }
}

}  // namespace

void take_reducible(XdrReader& reader, ReducibleItems& items) {
  const uint32_t length = reader.u32();
  const uint64_t offset = reader.offset();
  const bool movable = items.reduction != nullptr && reader.ok() && !(items.first_only && items.count > 0);
  const bool moved = movable && items.reduction->take(offset, length);
  reader.skip(moved ? 0 : xdr_padded(length));
  if (!reader.ok() || items.count == kReducibleItemsMax) {
    return;
  }
  items.items[items.count++] = {.offset = offset, .length = length};
}

void walk(XdrReader& reader, Shape shape, ReducibleItems& items) {
  for (uint32_t i = 0; i < shape.count && reader.ok(); ++i) {
    const Element& element = shape.elements[i];
    switch (element.kind) {
      case ElementKind::kWords:
        reader.skip(uint64_t{element.value} * 4);
        break;
      case ElementKind::kOpaque:
        (void)reader.skip_opaque(UINT32_MAX);
        break;
      case ElementKind::kReducible:
        take_reducible(reader, items);
        break;
      case ElementKind::kArray:
        walk_array(reader, element.body, items);
        break;
      case ElementKind::kList:
        while (reader.boolean()) {
          walk(reader, element.body, items);
        }
        break;
      case ElementKind::kUnion:
        walk_union(reader, element, items);
        break;
    }
  }
}

}  // namespace cw::rpcrdma
