// NFSv3 (RFC 1813), one operation per call.
#include "apps/nfs/operation.h"
#include "base/assert.h"
#include "rpcrdma/rpc/rpc_message.h"
#include "rpcrdma/ulb/arguments.h"
#include "rpcrdma/ulb/binding.h"

namespace cw::nfs {
namespace {

using rpcrdma::XdrReader;
using rpcrdma::XdrWriter;

// RFC 1813 2.6, in bytes.
constexpr uint32_t kAttributesBytes = 84;
constexpr uint32_t kWccBytes = 24;
constexpr uint32_t kCookieVerifierBytes = 8;

// Numbers of procedures, in the order of Kind.
constexpr uint32_t kProcedures[] = {
    1, 3, rpcrdma::kNfs3Readlink, rpcrdma::kNfs3Read, rpcrdma::kNfs3Write, 8, 9, rpcrdma::kNfs3Symlink, 12, 13, 16};

// sattr3: the mode, nothing else.
void write_sattr3(XdrWriter& out, uint32_t mode) {
  out.u32(1);
  out.u32(mode);
  out.zeros(uint64_t{5} * 4);
}

void skip_attributes(XdrReader& in) {
  if (in.boolean()) {
    in.skip(kAttributesBytes);
  }
}

void skip_wcc(XdrReader& in) {
  if (in.boolean()) {
    in.skip(kWccBytes);
  }
  skip_attributes(in);
}

class Nfs3 final : public Version {
 public:
  explicit Nfs3(ByteVector root) { root_.raw = std::move(root); }
  [[nodiscard]] const char* name() const override { return "nfs3"; }
  [[nodiscard]] size_t operations_max() const override { return 1; }
  [[nodiscard]] uint32_t calls_max() const override { return 1024; }
  [[nodiscard]] std::string begin(Caller& /*caller*/) override { return ""; }
  void end(Caller& /*caller*/) override {}

  [[nodiscard]] Call build(std::span<const Operation> operations, uint32_t /*lane*/) override {
    CW_ASSERT(operations.size() == 1);
    const Operation& operation = operations.front();
    Call call(rpcrdma::kNfsProgram, rpcrdma::kNfs3Version, kProcedures[static_cast<size_t>(operation.kind)],
              operation.data.size() + 4096);
    XdrWriter& out = call.arguments();
    out.opaque(operation.on != nullptr ? operation.on->raw : root_.raw);
    switch (operation.kind) {
      case Kind::kGetattr:
      case Kind::kReadlink:
      case Kind::kClose:
        break;
      case Kind::kLookup:
      case Kind::kRemove:
      case Kind::kRemoveDirectory:
        call.text(operation.name);
        break;
      case Kind::kRead:
        out.u64(operation.offset);
        out.u32(operation.count);
        break;
      case Kind::kWrite:
        out.u64(operation.offset);
        out.u32(static_cast<uint32_t>(operation.data.size()));
        out.u32(2);  // FILE_SYNC
        out.opaque(operation.data);
        break;
      case Kind::kCreate:
        call.text(operation.name);
        out.u32(0);  // UNCHECKED
        write_sattr3(out, 0644);
        break;
      case Kind::kMakeDirectory:
        call.text(operation.name);
        write_sattr3(out, 0755);
        break;
      case Kind::kSymlink:
        call.text(operation.name);
        write_sattr3(out, 0777);
        out.opaque(operation.data);
        break;
      case Kind::kReaddir:
        out.u64(operation.offset);
        out.u64(operation.offset == 0 ? 0 : cookie_verifier_);
        out.u32(operation.count);
        break;
    }
    return call;
  }

  [[nodiscard]] std::vector<Outcome> decode(std::span<const Operation> operations, const Reply& reply, uint32_t /*lane*/,
                                            std::string& problem) override {
    Results results(reply);
    const auto header = rpcrdma::read_rpc_reply(results.reader());
    if (!header.ok() || !header->success()) {
      problem = "no successful RPC reply";
      return {};
    }
    Outcome outcome;
    outcome.status = results.reader().u32();
    if (outcome.status == 0) {
      read_results(operations.front(), results, outcome);
    } else if (results.reader().ok()) {
      return {outcome};
    }
    if (!results.done()) {
      problem = "results that end early, or bytes behind them";
      return {};
    }
    return {outcome};
  }

 private:
  void read_results(const Operation& operation, Results& results, Outcome& outcome) {
    XdrReader& in = results.reader();
    switch (operation.kind) {
      case Kind::kGetattr:
        outcome.type = in.u32();
        in.skip(uint64_t{4} * 4);
        outcome.size = in.u64();
        in.skip(kAttributesBytes - 5 * 4 - 8);
        break;
      case Kind::kLookup:
        outcome.handle.raw = results.opaque();
        skip_attributes(in);
        skip_attributes(in);
        break;
      case Kind::kReadlink:
        skip_attributes(in);
        outcome.data = results.data();
        break;
      case Kind::kRead:
        skip_attributes(in);
        outcome.count = in.u32();
        outcome.eof = in.boolean();
        outcome.data = results.data();
        break;
      case Kind::kWrite:
        skip_wcc(in);
        outcome.count = in.u32();
        in.skip(4 + 8);
        break;
      case Kind::kCreate:
      case Kind::kMakeDirectory:
      case Kind::kSymlink:
        if (in.boolean()) {
          outcome.handle.raw = results.opaque();
        }
        skip_attributes(in);
        skip_wcc(in);
        break;
      case Kind::kRemove:
      case Kind::kRemoveDirectory:
        skip_wcc(in);
        break;
      case Kind::kReaddir:
        skip_attributes(in);
        static_assert(kCookieVerifierBytes == sizeof(uint64_t));
        cookie_verifier_ = in.u64();
        while (in.ok() && in.boolean()) {
          in.skip(8);  // file id
          outcome.names.push_back(results.text());
          outcome.cookie = in.u64();
        }
        outcome.eof = in.boolean();
        break;
      case Kind::kClose:
        break;
    }
  }

  Handle root_;
  uint64_t cookie_verifier_ = 0;  // of the last READDIR
};

}  // namespace

std::unique_ptr<Version> make_nfs3(ByteVector root) {
  return std::make_unique<Nfs3>(std::move(root));
}

}  // namespace cw::nfs
