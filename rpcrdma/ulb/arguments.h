// Which arguments of a call may travel as Read chunks (RFC 8166 6.1, RFC 8267): NFSv2 and NFSv3 WRITE data and SYMLINK path,
// NFSv4
// WRITE data and CREATE link text in any COMPOUND, the data of the bench program's ECHO and SINK. A program without a binding has
// none, nor has a call whose body RPCSEC_GSS protects (8.2.2.3) or that carries a token of RPCSEC_GSS itself (8.2.2).
#pragma once

#include "rpcrdma/ulb/binding.h"
#include "rpcrdma/ulb/reduction.h"

namespace cw::rpcrdma {

inline constexpr uint32_t kNfs2Version = 2;
inline constexpr uint32_t kNfs2Write = 8;
inline constexpr uint32_t kNfs2Symlink = 13;
inline constexpr uint32_t kNfs3Write = 7;
inline constexpr uint32_t kNfs3Symlink = 10;

// Walks over the arguments, lists the eligible ones and, when `found.reduction` is set, checks off those that were moved.
// `reader`
// stands at the call's first byte. What cannot be walked ends the list.
void find_eligible_arguments(XdrReader& reader, const RpcCallHeader& header, ReducibleItems& found);

}  // namespace cw::rpcrdma
