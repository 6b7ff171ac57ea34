// When a client has said that it takes calls on its connection (RFC 8167 6): the transport has no sign for it, its user has.
//
// NFSv4.1 (RFC 8881 18.35, 18.36): CREATE_SESSION with CREATE_SESSION4_FLAG_CONN_BACK_CHAN, and BIND_CONN_TO_SESSION for the back
// channel. What a client asks for is enough: it has its receives in place before it asks (RFC 8167 6), and the server, whose
// calls they are, decides what it grants. Bodies under RPCSEC_GSS integrity or privacy are not looked into: the first such
// COMPOUND opens the way, and the server alone judges. The bench program: CALLBACK. Other programs have no such word, so that
// nothing is sent to their clients.
#pragma once

#include "rpcrdma/ulb/binding.h"

namespace cw::rpcrdma {

// Pure; bounded by two operations of a COMPOUND. `context` is what inspect_call() made of `call`.
[[nodiscard]] bool opens_reverse_direction(const CallContext& context, const Chain& call);

}  // namespace cw::rpcrdma
