// An RPC call as a stream of bytes, how it shall travel, and what came back: the seam between what NFS says and what RDMA moves.
//
// A Call is always built whole. Which of its arguments may leave the stream as Read chunks is the binding's knowledge
// (rpcrdma/ulb); whether they do is the Placement's. A Reply is what was received, results still where they were placed.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "rpcrdma/endpoint/client_endpoint.h"
#include "rpcrdma/xdr/xdr_writer.h"

namespace cw::nfs {

using ByteVector = std::vector<uint8_t>;

// The header of a call with AUTH_SYS of root, XID 0; kCallHeaderBytes bytes.
inline constexpr size_t kCallHeaderBytes = 6 * 4 + 8 + 28 + 8;
void write_call_header(rpcrdma::XdrWriter& out, uint32_t program, uint32_t version, uint32_t procedure);

class Call {
 public:
  // The header, with AUTH_SYS of root. `arguments_max`: bytes set aside for what follows.
  Call(uint32_t program, uint32_t version, uint32_t procedure, size_t arguments_max = 4096);
  Call(Call&&) = default;
  Call& operator=(Call&&) = default;

  [[nodiscard]] rpcrdma::XdrWriter& arguments() { return writer_; }
  void text(const std::string& value);
  // XID first, as a word of 0: whoever sends sets it. Precondition: everything fitted.
  [[nodiscard]] Bytes stream() const;

 private:
  std::unique_ptr<uint8_t[]> raw_;
  rpcrdma::XdrWriter writer_;
};

struct Placement {
  const char* name = "inline";
  bool position_zero = false;      // the whole call, or what is left of it, as a Read chunk at Position Zero
  bool read_chunks = false;        // each eligible argument as a Read chunk
  std::vector<uint32_t> writes{};  // bytes offered per Write chunk; 0 = an empty chunk, without segments
  uint32_t reply_bytes = 0;        // bytes offered as Reply chunk; 0 = none
};

struct Request {
  const Call* call = nullptr;
  Placement placement;
  std::optional<uint32_t> resent_xid{};  // that of the call on a connection that is lost; none: a fresh one
};

struct Reply {
  uint32_t xid = 0;  // of the call
  rpcrdma::CallStatus status = rpcrdma::CallStatus::kConnectionLost;
  std::string refused{};           // why our own endpoint did not send the call
  ByteVector stream;               // without the results that were placed
  bool in_reply_chunk = false;     // where it came
  std::vector<ByteVector> placed;  // per Write chunk, what was returned in it
  std::vector<bool> offered;       // per Write chunk: it has segments
  bool overrun = false;            // bytes behind a chunk were written to
};

// What sends calls: over RDMA, or to a test's own server.
class Caller {
 public:
  virtual ~Caller() = default;
  // Sends all of them, as many at once as credits allow, and waits for the replies; they are in the order of the requests.
  [[nodiscard]] virtual std::vector<Reply> exchange(std::span<const Request> requests) = 0;
};

// A reply's results, in order, wherever they are (RFC 8166 4.3.2.1: the first eligible result takes the first Write chunk).
class Results {
 public:
  explicit Results(const Reply& reply) : reply_(reply), reader_(Bytes(reply.stream)) {}

  [[nodiscard]] rpcrdma::XdrReader& reader() { return reader_; }
  // opaque<> that is not eligible.
  [[nodiscard]] ByteVector opaque();
  [[nodiscard]] std::string text();
  // opaque<> that is: from its Write chunk when it has one. Fails when the lengths disagree.
  [[nodiscard]] ByteVector data();
  // Everything was read, nothing is left, neither in the stream nor in chunks that no result took.
  [[nodiscard]] bool done();

 private:
  const Reply& reply_;
  rpcrdma::XdrReader reader_;
  size_t next_chunk_ = 0;
};

}  // namespace cw::nfs
