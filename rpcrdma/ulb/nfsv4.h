// The NFSv4 binding (RFC 8267): walks a COMPOUND's results, operation by operation, to the READ, READLINK and READ_PLUS among
// them.
#pragma once

#include "rpcrdma/ulb/binding.h"
#include "rpcrdma/xdr/xdr_reader.h"

namespace cw::rpcrdma {

// `reader` stands at COMPOUND4res. Lists what is found before the first operation that failed or cannot be walked.
void find_in_compound(XdrReader& reader, ReducibleItems& items);

}  // namespace cw::rpcrdma
