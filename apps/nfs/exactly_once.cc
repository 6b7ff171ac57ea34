#include "apps/nfs/exactly_once.h"

#include <fmt/format.h>

#include "rpcrdma/rpc/rpc_message.h"
#include "rpcrdma/ulb/binding.h"

namespace cw::nfs {
namespace {

using rpcrdma::XdrReader;
using rpcrdma::XdrWriter;

// RFC 1813 3.3.
constexpr uint32_t kCreate = 8;
constexpr uint32_t kMakeDirectory = 9;
constexpr uint32_t kRemove = 12;
constexpr uint32_t kRemoveDirectory = 13;
constexpr uint32_t kRename = 14;
constexpr uint32_t kLink = 15;
constexpr uint32_t kGuarded = 1;
constexpr uint32_t kExclusive = 2;

constexpr uint32_t kStepsOfRound = 9;
constexpr uint32_t kAttemptsMax = 5;
constexpr uint32_t kStayMaxUs = 3000;  // a call and its reply on a veth with a server behind: some hundred

Call nfs3_call(uint32_t procedure, const ByteVector& directory, const std::string& name) {
  Call call(rpcrdma::kNfsProgram, rpcrdma::kNfs3Version, procedure);
  call.arguments().opaque(directory);
  call.text(name);
  return call;
}

// sattr3: the mode, nothing else.
void write_mode(XdrWriter& out, uint32_t mode) {
  out.u32(1);
  out.u32(mode);
  out.zeros(uint64_t{5} * 4);
}

Call create(const ByteVector& directory, const std::string& name, uint32_t how, uint32_t verifier) {
  Call call = nfs3_call(kCreate, directory, name);
  call.arguments().u32(how);
  if (how == kExclusive) {
    call.arguments().u64(verifier);
  } else {
    write_mode(call.arguments(), 0644);
  }
  return call;
}

Call make_directory(const ByteVector& parent, const std::string& name) {
  Call call = nfs3_call(kMakeDirectory, parent, name);
  write_mode(call.arguments(), 0755);
  return call;
}

// Of an answered call; `handle`, when there is one: post_op_fh3 of CREATE and MKDIR. Empty, or what is wrong with the reply.
std::string read_reply(const Reply& reply, ByteVector* handle, uint32_t& status) {
  if (reply.status != rpcrdma::CallStatus::kReplied) {
    return reply.refused.empty() ? rpcrdma::to_string(reply.status) : reply.refused;
  }
  Results results(reply);
  const auto header = rpcrdma::read_rpc_reply(results.reader());
  if (!header.ok() || !header->success()) {
    return "no successful RPC reply";
  }
  status = results.reader().u32();
  if (handle != nullptr && status == 0 && results.reader().boolean()) {
    *handle = results.opaque();
  }
  return results.reader().ok() ? "" : "a reply that ends early";
}

}  // namespace

ExactlyOnce::ExactlyOnce(LiveCaller& caller, ByteVector root, Connect connect, RandomSource& random)
    : caller_(caller), root_(std::move(root)), connect_(std::move(connect)), random_(random) {}

std::string ExactlyOnce::run(const std::string& directory, uint32_t calls, ExactlyOnceCounts& counts) {
  std::string problem = connect_();
  uint32_t status = 0;
  if (problem.empty()) {
    problem = once(make_directory(root_, directory), &directory_, status);
  }
  if (!problem.empty() || status != 0) {
    return fmt::format("{}: {}, status {}", directory, problem, status);
  }
  // Whole rounds: the directory is empty behind them.
  for (uint32_t number = 0; number < calls || number % kStepsOfRound != 0; ++number) {
    Step next = step(number);
    problem = repeat(next, number % 2 == 0, status, counts);
    if (!problem.empty()) {
      return fmt::format("call {}, {}: {}", number, next.name, problem);
    }
    ++counts.calls;
    if (status != 0) {
      if (counts.wrong++ == 0) {
        counts.first_wrong = fmt::format("call {}, {}: status {}", number, next.name, status);
      }
    }
  }
  problem = once(nfs3_call(kRemoveDirectory, root_, directory), nullptr, status);
  if (problem.empty() && status != 0 && counts.wrong == 0) {
    problem = fmt::format("the directory cannot be removed: status {}", status);
  }
  caller_.disconnect();
  return problem;
}

ExactlyOnce::Step ExactlyOnce::step(uint32_t number) {
  const uint32_t round = number / kStepsOfRound;
  const auto name = [round](char kind) { return fmt::format("{}{}", kind, round); };
  switch (number % kStepsOfRound) {
    case 0:
      return {"CREATE exclusive", create(directory_, name('f'), kExclusive, random_.next_u32()), &file_};
    case 1: {
      Call call(rpcrdma::kNfsProgram, rpcrdma::kNfs3Version, kLink);
      call.arguments().opaque(file_);
      call.arguments().opaque(directory_);
      call.text(name('l'));
      return {"LINK", std::move(call), nullptr};
    }
    case 2: {
      Call call = nfs3_call(kRename, directory_, name('l'));
      call.arguments().opaque(directory_);
      call.text(name('r'));
      return {"RENAME", std::move(call), nullptr};
    }
    case 3:
      return {"REMOVE", nfs3_call(kRemove, directory_, name('r')), nullptr};
    case 4:
      return {"MKDIR", make_directory(directory_, name('d')), nullptr};
    case 5:
      return {"CREATE guarded", create(directory_, name('g'), kGuarded, 0), nullptr};
    case 6:
      return {"REMOVE", nfs3_call(kRemove, directory_, name('f')), nullptr};
    case 7:
      return {"RMDIR", nfs3_call(kRemoveDirectory, directory_, name('d')), nullptr};
    default:
      return {"REMOVE", nfs3_call(kRemove, directory_, name('g')), nullptr};
  }
}

std::string ExactlyOnce::repeat(Step& step, bool see_reply, uint32_t& status, ExactlyOnceCounts& counts) {
  Request request{.call = &step.call, .placement = {}, .resent_xid = {}};
  if (see_reply) {
    const std::vector<Reply> replies = caller_.exchange({&request, 1});
    if (std::string problem = read_reply(replies.front(), step.handle, status); !problem.empty()) {
      return "at first: " + problem;
    }
    if (status != 0) {
      return fmt::format("at first: status {}", status);
    }
    request.resent_xid = replies.front().xid;
    caller_.disconnect();
  } else {
    request.resent_xid = caller_.send_and_leave(request, Duration::us(random_.next_below(kStayMaxUs)));
  }
  for (uint32_t attempt = 1;; ++attempt) {
    if (std::string problem = connect_(); !problem.empty()) {
      return "connecting again: " + problem;
    }
    const std::vector<Reply> replies = caller_.exchange({&request, 1});
    if (replies.front().status != rpcrdma::CallStatus::kTimeout || attempt == kAttemptsMax) {
      return read_reply(replies.front(), step.handle, status);
    }
    ++counts.unanswered;
    caller_.disconnect();
  }
}

std::string ExactlyOnce::once(Call&& call, ByteVector* handle, uint32_t& status) {
  const Request request{.call = &call, .placement = {}, .resent_xid = {}};
  const std::vector<Reply> replies = caller_.exchange({&request, 1});
  return read_reply(replies.front(), handle, status);
}

}  // namespace cw::nfs
