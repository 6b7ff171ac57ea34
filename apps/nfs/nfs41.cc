// NFSv4.1 (RFC 8881): a session with one slot per lane, COMPOUNDs of SEQUENCE and for each operation PUTFH and what it is.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "apps/nfs/operation.h"
#include "base/assert.h"
#include "rpcrdma/rpc/rpc_message.h"
#include "rpcrdma/ulb/binding.h"
#include "rpcrdma/ulb/nfsv4_results.h"

namespace cw::nfs {
namespace {

using rpcrdma::XdrReader;
using rpcrdma::XdrWriter;

enum Op : uint32_t {
  kOpClose = 4,
  kOpCreate = 6,
  kOpGetattr = 9,
  kOpGetfh = 10,
  kOpLookup = 15,
  kOpOpen = 18,
  kOpPutfh = 22,
  kOpPutrootfh = 24,
  kOpRead = 25,
  kOpReaddir = 26,
  kOpReadlink = 27,
  kOpRemove = 28,
  kOpWrite = 38,
  kOpExchangeId = 42,
  kOpCreateSession = 43,
  kOpDestroySession = 44,
  kOpSequence = 53,
  kOpDestroyClientid = 57,
  kOpReclaimComplete = 58,
};

// In the order of Kind.
constexpr Op kOps[] = {kOpGetattr, kOpLookup, kOpReadlink, kOpRead,   kOpWrite,   kOpOpen,
                       kOpCreate,  kOpCreate, kOpRemove,   kOpRemove, kOpReaddir, kOpClose};

constexpr uint32_t kNfsOk = 0;
constexpr uint32_t kShareBothNoDelegation = 3 | 0x400;  // RFC 8881 18.16: OPEN4_SHARE_ACCESS_BOTH, WANT_NO_DELEG
constexpr uint32_t kTypeAndSize = (1u << 1) | (1u << 4);
constexpr uint32_t kModeWord = 1;  // attribute 33: bit 1 of the second word
constexpr uint32_t kSessionBytesMax = (1u << 20) + 4096;
constexpr uint32_t kOperationsMax = 8;
constexpr uint32_t kSlotsWanted = 64;

bool gives_handle(Kind kind) {
  return kind == Kind::kLookup || kind == Kind::kCreate || kind == Kind::kMakeDirectory;
}

void write_fattr4(XdrWriter& out, uint32_t mode) {
  out.u32(2);
  out.u32(0);
  out.u32(1u << kModeWord);
  out.u32(4);
  out.u32(mode);
}

// channel_attrs4 without RDMA IRD.
void write_channel(XdrWriter& out, uint32_t calls) {
  out.u32(0);  // header padding
  out.u32(kSessionBytesMax);
  out.u32(kSessionBytesMax);
  out.u32(0);  // nothing has to be cached
  out.u32(3 + 3 * kOperationsMax);
  out.u32(calls);
  out.u32(0);
}

// A COMPOUND's header; `operations` counts what follows.
Call compound(uint32_t operations, size_t arguments_max = 4096) {
  Call call(rpcrdma::kNfsProgram, rpcrdma::kNfs4Version, rpcrdma::kNfs4Compound, arguments_max);
  XdrWriter& out = call.arguments();
  out.u32(0);  // tag
  out.u32(1);  // minor version
  out.u32(operations);
  return call;
}

class Nfs41 final : public Version {
 public:
  explicit Nfs41(std::string owner) : owner_(std::move(owner)) {}
  [[nodiscard]] const char* name() const override { return "nfs41"; }
  [[nodiscard]] size_t operations_max() const override { return kOperationsMax; }
  [[nodiscard]] uint32_t calls_max() const override { return static_cast<uint32_t>(sequences_.size()) - first_slot_; }
  [[nodiscard]] std::string begin(Caller& caller) override;
  void end(Caller& caller) override;
  [[nodiscard]] Call build(std::span<const Operation> operations, uint32_t lane) override;
  [[nodiscard]] std::vector<Outcome> decode(std::span<const Operation> operations, const Reply& reply, uint32_t lane,
                                            std::string& problem) override;

 private:
  void write_sequence(XdrWriter& out, uint32_t lane);
  void write_operation(Call& call, const Operation& operation) const;
  [[nodiscard]] static bool read_header(Results& results, std::string& problem);
  // The next operation's status; false when it is another operation.
  [[nodiscard]] static bool read_status(XdrReader& in, uint32_t operation, uint32_t& status, std::string& problem);
  static void skip_result(XdrReader& in, uint32_t operation);
  void read_result(Kind kind, Results& results, Outcome& outcome);
  // One call of one operation that is not the suite's; leaves `results` behind the status.
  [[nodiscard]] static bool ask(Caller& caller, const Call& call, Reply& reply);

  std::string owner_;
  uint64_t client_id_ = 0;
  std::array<uint8_t, 16> session_{};
  std::vector<uint32_t> sequences_{1};  // per slot, that of the next call
  uint32_t first_slot_ = 0;             // of lane 0; those before are in an unknown state
  uint64_t cookie_verifier_ = 0;        // of the last READDIR
};

bool Nfs41::ask(Caller& caller, const Call& call, Reply& reply) {
  const Request request{.call = &call, .placement = {}};
  reply = std::move(caller.exchange({&request, 1}).front());
  return reply.status == rpcrdma::CallStatus::kReplied;
}

bool Nfs41::read_header(Results& results, std::string& problem) {
  const auto header = rpcrdma::read_rpc_reply(results.reader());
  if (!header.ok() || !header->success()) {
    problem = "no successful RPC reply";
    return false;
  }
  results.reader().skip(4);  // the last operation's status
  (void)results.opaque();    // tag
  results.reader().skip(4);  // count of results
  return results.reader().ok();
}

bool Nfs41::read_status(XdrReader& in, uint32_t operation, uint32_t& status, std::string& problem) {
  const uint32_t answered = in.u32();
  status = in.u32();
  if (!in.ok() || answered != operation) {
    problem = fmt::format("the result of operation {} where {} was next", answered, operation);
    return false;
  }
  return true;
}

void Nfs41::skip_result(XdrReader& in, uint32_t operation) {
  rpcrdma::ReducibleItems ignored;
  rpcrdma::walk(in, rpcrdma::nfsv4::find_operation(operation)->success, ignored);
}

std::string Nfs41::begin(Caller& caller) {
  std::string problem;
  Reply reply;
  uint32_t status = kNfsOk;

  Call exchange = compound(1);
  exchange.arguments().u32(kOpExchangeId);
  exchange.arguments().u64(std::hash<std::string>{}(owner_));
  exchange.text(owner_);
  exchange.arguments().zeros(uint64_t{3} * 4);  // flags, SP4_NONE, no implementation id
  if (!ask(caller, exchange, reply)) {
    return fmt::format("EXCHANGE_ID: {}", rpcrdma::to_string(reply.status));
  }
  Results identity(reply);
  if (!read_header(identity, problem) || !read_status(identity.reader(), kOpExchangeId, status, problem) || status != kNfsOk) {
    return fmt::format("EXCHANGE_ID: status {} {}", status, problem);
  }
  client_id_ = identity.reader().u64();
  const uint32_t sequence = identity.reader().u32();

  Call create = compound(1);
  create.arguments().u32(kOpCreateSession);
  create.arguments().u64(client_id_);
  create.arguments().u32(sequence);
  create.arguments().u32(0);  // not persistent, no back channel
  write_channel(create.arguments(), kSlotsWanted);
  write_channel(create.arguments(), 1);
  create.arguments().u32(0x4000'0000);  // callback program
  create.arguments().u32(1);
  create.arguments().u32(0);  // AUTH_NONE
  if (!ask(caller, create, reply)) {
    return fmt::format("CREATE_SESSION: {}", rpcrdma::to_string(reply.status));
  }
  Results session(reply);
  if (!read_header(session, problem) || !read_status(session.reader(), kOpCreateSession, status, problem) || status != kNfsOk) {
    return fmt::format("CREATE_SESSION: status {} {}", status, problem);
  }
  session.reader().copy(session_);
  session.reader().skip(2 * 4 + 5 * 4);  // sequence, flags; the fore channel up to its calls
  sequences_.assign(std::clamp(session.reader().u32(), 1u, kSlotsWanted), 1);
  if (!session.reader().ok()) {
    return "CREATE_SESSION: results that end early";
  }

  Call reclaim = compound(2);
  write_sequence(reclaim.arguments(), 0);
  reclaim.arguments().u32(kOpReclaimComplete);
  reclaim.arguments().boolean(false);
  ++sequences_[first_slot_];
  if (!ask(caller, reclaim, reply)) {
    return fmt::format("RECLAIM_COMPLETE: {}", rpcrdma::to_string(reply.status));
  }
  return "";
}

void Nfs41::end(Caller& caller) {
  Reply reply;
  Call session = compound(1);
  session.arguments().u32(kOpDestroySession);
  session.arguments().raw(session_);
  Call client = compound(1);
  client.arguments().u32(kOpDestroyClientid);
  client.arguments().u64(client_id_);
  (void)(ask(caller, session, reply) && ask(caller, client, reply));
}

void Nfs41::write_sequence(XdrWriter& out, uint32_t lane) {
  out.u32(kOpSequence);
  out.raw(session_);
  out.u32(sequences_[first_slot_ + lane]);
  out.u32(first_slot_ + lane);
  out.u32(static_cast<uint32_t>(sequences_.size()) - 1);
  out.boolean(false);
}

Call Nfs41::build(std::span<const Operation> operations, uint32_t lane) {
  uint32_t count = 1;
  size_t bytes = 4096;
  for (const Operation& operation : operations) {
    count += gives_handle(operation.kind) ? 3 : 2;
    bytes += operation.data.size() + 512;
  }
  Call call = compound(count, bytes);
  XdrWriter& out = call.arguments();
  write_sequence(out, lane);
  for (const Operation& operation : operations) {
    if (operation.on == nullptr) {
      out.u32(kOpPutrootfh);
    } else {
      out.u32(kOpPutfh);
      out.opaque(operation.on->raw);
    }
    write_operation(call, operation);
    if (gives_handle(operation.kind)) {
      out.u32(kOpGetfh);
    }
  }
  return call;
}

void Nfs41::write_operation(Call& call, const Operation& operation) const {
  XdrWriter& out = call.arguments();
  const Bytes stateid = operation.on != nullptr ? Bytes(operation.on->stateid) : Bytes();
  out.u32(kOps[static_cast<size_t>(operation.kind)]);
  switch (operation.kind) {
    case Kind::kGetattr:
      out.u32(1);
      out.u32(kTypeAndSize);
      break;
    case Kind::kLookup:
    case Kind::kRemove:
    case Kind::kRemoveDirectory:
      call.text(operation.name);
      break;
    case Kind::kReadlink:
      break;
    case Kind::kRead:
      out.raw(stateid);
      out.u64(operation.offset);
      out.u32(operation.count);
      break;
    case Kind::kWrite:
      out.raw(stateid);
      out.u64(operation.offset);
      out.u32(2);  // FILE_SYNC4
      out.opaque(operation.data);
      break;
    case Kind::kCreate:
      out.u32(0);  // sequence, unused in 4.1
      out.u32(kShareBothNoDelegation);
      out.u32(0);
      out.u64(client_id_);
      call.text("opener");
      out.u32(1);  // OPEN4_CREATE
      out.u32(0);  // UNCHECKED4
      write_fattr4(out, 0644);
      out.u32(0);  // CLAIM_NULL
      call.text(operation.name);
      break;
    case Kind::kMakeDirectory:
      out.u32(kDirectory);
      call.text(operation.name);
      write_fattr4(out, 0755);
      break;
    case Kind::kSymlink:
      out.u32(kLink);
      out.opaque(operation.data);
      call.text(operation.name);
      write_fattr4(out, 0777);
      break;
    case Kind::kReaddir:
      out.u64(operation.offset);
      out.u64(operation.offset == 0 ? 0 : cookie_verifier_);
      out.u32(operation.count);
      out.u32(operation.count);
      out.u32(0);  // no attributes
      break;
    case Kind::kClose:
      out.u32(0);
      out.raw(stateid);
      break;
  }
}

void Nfs41::read_result(Kind kind, Results& results, Outcome& outcome) {
  XdrReader& in = results.reader();
  switch (kind) {
    case Kind::kGetattr:
      in.skip(4 * uint64_t{in.u32()});
      in.skip(4);
      outcome.type = in.u32();
      outcome.size = in.u64();
      break;
    case Kind::kReaddir:
      cookie_verifier_ = in.u64();
      while (in.ok() && in.boolean()) {
        outcome.cookie = in.u64();
        outcome.names.push_back(results.text());
        in.skip(4 * uint64_t{in.u32()});
        (void)results.opaque();
      }
      outcome.eof = in.boolean();
      break;
    case Kind::kRead:
      outcome.eof = in.boolean();
      outcome.data = results.data();
      outcome.count = static_cast<uint32_t>(outcome.data.size());
      break;
    case Kind::kReadlink:
      outcome.data = results.data();
      break;
    case Kind::kWrite:
      outcome.count = in.u32();
      in.skip(4 + 8);
      break;
    case Kind::kCreate: {
      XdrReader ahead = in;
      ahead.copy(outcome.handle.stateid);
      skip_result(in, kOpOpen);
      break;
    }
    default:
      skip_result(in, kOps[static_cast<size_t>(kind)]);
      break;
  }
}

std::vector<Outcome> Nfs41::decode(std::span<const Operation> operations, const Reply& reply, uint32_t lane,
                                   std::string& problem) {
  ++sequences_[first_slot_ + lane];
  if (reply.status != rpcrdma::CallStatus::kReplied) {
    // Nobody says whether the call was executed before RDMA_ERROR took its reply's place: the slot is used no more.
    first_slot_ += first_slot_ + 1 < sequences_.size() ? 1 : 0;
    problem = rpcrdma::to_string(reply.status);
    return {};
  }
  Results results(reply);
  XdrReader& in = results.reader();
  uint32_t status = kNfsOk;
  if (!read_header(results, problem) || !read_status(in, kOpSequence, status, problem)) {
    return {};
  }
  if (status != kNfsOk) {
    problem = fmt::format("SEQUENCE: status {}", status);
    return {};
  }
  skip_result(in, kOpSequence);
  std::vector<Outcome> outcomes;
  for (const Operation& operation : operations) {
    if (!read_status(in, operation.on == nullptr ? kOpPutrootfh : kOpPutfh, status, problem)) {
      return {};
    }
    Outcome& outcome = outcomes.emplace_back();
    outcome.status = status;
    if (status != kNfsOk) {
      break;
    }
    if (!read_status(in, kOps[static_cast<size_t>(operation.kind)], outcome.status, problem)) {
      return {};
    }
    if (outcome.status != kNfsOk) {
      return outcomes;  // some errors bring words of their own
    }
    read_result(operation.kind, results, outcome);
    if (gives_handle(operation.kind)) {
      if (!read_status(in, kOpGetfh, status, problem)) {
        return {};
      }
      outcome.handle.raw = results.opaque();
    }
  }
  if (!results.done()) {
    problem = "results that end early, or bytes behind them";
    return {};
  }
  return outcomes;
}

}  // namespace

std::unique_ptr<Version> make_nfs41(std::string owner) {
  return std::make_unique<Nfs41>(std::move(owner));
}

}  // namespace cw::nfs
