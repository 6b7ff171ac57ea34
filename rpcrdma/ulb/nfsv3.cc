#include "rpcrdma/ulb/nfsv3.h"

#include "rpcrdma/ulb/xdr_shape.h"

namespace cw::rpcrdma {
namespace {

// post_op_attr: a presence word and fattr3, 84 bytes.
constexpr Element kFattr3[] = {words(21)};
constexpr Arm kPostOpAttr[] = {{1, shape(kFattr3)}};

constexpr Element kReadOk[] = {union_of(kPostOpAttr), words(2), reducible()};  // attributes, count, eof, data
constexpr Element kReadlinkOk[] = {union_of(kPostOpAttr), reducible()};        // attributes, path
constexpr Arm kRead[] = {{0, shape(kReadOk)}};
constexpr Arm kReadlink[] = {{0, shape(kReadlinkOk)}};
constexpr Element kReadRes[] = {union_of(kRead)};
constexpr Element kReadlinkRes[] = {union_of(kReadlink)};

}  // namespace

void find_in_nfs3(XdrReader& reader, uint32_t procedure, ReducibleItems& items) {
  walk(reader, procedure == kNfs3Read ? shape(kReadRes) : shape(kReadlinkRes), items);
}

}  // namespace cw::rpcrdma
