// Upper-layer bindings (RFC 8166 6, RFC 8267): which results of which procedures may be moved by Write chunks.
//
// A request is rebuilt from its Read chunks without knowing what it is; arguments.h then says whether what was moved may be. A
// reply
// needs a binding only to be reduced; programs without one go inline or through the Reply chunk, and their calls as a whole.
// RPCSEC_GSS integrity and privacy bodies are never reduced.
//
// What is eligible in results (RFC 8267): NFSv3 READ data and READLINK path; NFSv4 READ data and READLINK linkdata in any
// COMPOUND, and the first data content of each READ_PLUS (RFC 8267 lets one Write chunk serve one READ_PLUS; further contents
// stay inline). NFSv2, NLM, mount, NFSACL and the NFSv4 callback program have none.
//
// How items use up Write chunks (RFC 8166 4.3.2.1, RFC 8267 on COMPOUND): the first item takes the first chunk, the next one the
// next, whatever the chunk's size; an empty chunk (no segments) leaves its item inline; items without a chunk stay inline. An
// operation that succeeded without content still takes its chunk, since chunks pair with operations: READ at the end of file, an
// empty link and a READ_PLUS of holes are listed with length 0, and the chunk goes back unused. (RFC 8166 leaves this open, knfsd
// does not count an empty READ; with the single Write chunk that clients send both look the same on the wire.) An operation that
// failed takes no chunk: in NFSv4 it is the last of its COMPOUND.
//
// inspect_call() looks at a call once, when it has been assembled, and returns a small value that is kept until the reply comes;
// find_reducible() walks the reply and lists the eligible items in stream order. Both are pure and bounded and treat what they
// read as hostile: a reply that cannot be walked simply has no reducible items from that point on. The walk costs time with every
// operation and directory entry passed: do not ask when the call brought no Write list.
#pragma once

#include <array>
#include <cstdint>

#include "base/buffer.h"
#include "rpcrdma/rpc/rpc_message.h"
#include "rpcrdma/ulb/compound_call.h"
#include "rpcrdma/ulb/reduction.h"

namespace cw::rpcrdma {

enum class Binding : uint8_t { kNone, kNfs3, kNfs4, kBench };

// Program numbers and procedures that bindings know. RFC 1813: the two with an eligible result; RFC 7530: everything is COMPOUND.
inline constexpr uint32_t kNfs3Version = 3;
inline constexpr uint32_t kNfs3Readlink = 5;
inline constexpr uint32_t kNfs3Read = 6;
inline constexpr uint32_t kNfs4Version = 4;
inline constexpr uint32_t kNfs4Compound = 1;

// RFC 7530 and later: NFS program; the bench program lives in the user range (RFC 5531 8.4.1).
inline constexpr uint32_t kNfsProgram = 100003;
inline constexpr uint32_t kBenchProgram = 0x2000'cafe;
inline constexpr uint32_t kBenchVersion = 1;

// The bench program:
//   0 NULL
//   1 ECHO    opaque data<>              -> opaque data<>                (reducible)
//   2 SOURCE  u32 length, u64 seed       -> u64 crc, opaque data<>       (data reducible; crc = CRC-32 of data, zero extended)
//   3 SINK    u32 crc, opaque data<>     -> u32 length, u32 crc
//   4 CALLBACK  u32 length, u64 seed     -> void; the server calls ECHO of that SOURCE data at the client, on the same connection
//               and under the same XID (RFC 8167). The call itself says that the client is ready for it.
enum class BenchProcedure : uint32_t { kNull = 0, kEcho = 1, kSource = 2, kSink = 3, kCallback = 4 };

struct CallContext {
  RpcCallHeader header;
  Binding binding = Binding::kNone;  // kNone also when the procedure has no eligible result or the body is protected
  CompoundCall compound;             // of a call that the owner has got (ServerEndpoint::poll_call); nothing before
};

// One DDP-eligible result: content of an opaque or string whose length word stands just before `offset`. The content and its
// padding are known to lie within the reply. A length of 0 takes a Write chunk and removes nothing; its offset is a multiple of 4
// like any.
struct ReducibleItem {
  uint64_t offset = 0;  // of the first content byte in the reply's XDR stream
  uint32_t length = 0;  // content bytes; padding follows in the stream and goes away with it
};

inline constexpr uint32_t kReducibleItemsMax = 16;

struct ReducibleItems {
  std::array<ReducibleItem, kReducibleItemsMax> items;
  uint32_t count = 0;
  Reduction* reduction = nullptr;  // what has been taken out of the stream already; null: nothing
  bool first_only = false;         // only the first item may have been taken out
};

// A message that is not a well-formed call still gets a context: binding kNone, header as far as it could be read.
[[nodiscard]] CallContext inspect_call(const Chain& call);
// The same, filled in where it is kept.
void inspect_call(XdrReader call, CallContext& context);
// The same of a well-formed call whose header has been read.
void inspect_call(const RpcCallHeader& header, CallContext& context);
[[nodiscard]] ReducibleItems find_reducible(const CallContext& context, const Chain& reply);

// Arguments and results that are neither protected by RPCSEC_GSS (RFC 8166 8.2.2.3) nor a token of RPCSEC_GSS itself (8.2.2).
[[nodiscard]] bool is_plain(const RpcCallHeader& header);

// RFC 8166 6.1, the server's side: every Read chunk of `chunks` but Position Zero was one eligible argument of `call`, which is
// whole again. An empty chunk is none.
[[nodiscard]] bool reduces_eligible_arguments(const CallContext& context, const Chain& call, const ChunkList& chunks);
// The client's side before it sends: `reduced`, from which `moved` was taken, lacks only eligible arguments.
[[nodiscard]] bool reduces_eligible_arguments(const CallContext& context, XdrReader reduced, Reduction& moved);
// The client's side when the reply has come: `reduced` lacks the eligible results that had a Write chunk, and nothing else.
[[nodiscard]] bool reduces_eligible_results(const CallContext& context, XdrReader reduced, Reduction& moved);

}  // namespace cw::rpcrdma
