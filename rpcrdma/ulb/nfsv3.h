// The NFSv3 binding (RFC 8267, RFC 1813): READ data and READLINK path.
#pragma once

#include "rpcrdma/ulb/binding.h"
#include "rpcrdma/xdr/xdr_reader.h"

namespace cw::rpcrdma {

// `reader` stands at READ3res or READLINK3res, as `procedure` says.
void find_in_nfs3(XdrReader& reader, uint32_t procedure, ReducibleItems& items);

}  // namespace cw::rpcrdma
