// Calls that must not be done twice (NFSv3: CREATE, MKDIR, LINK, RENAME, REMOVE, RMDIR), each with its connection cut before
// the client has made anything of the reply, and repeated under the same XID on a new connection, as a Linux client does (RFC
// 8166 4.5.5).
//
// The server has to answer the repeated call with what it answered the first time. It does so from its duplicate request
// cache, which knows a call by its XID and by where it came from: ENOENT for the REMOVE that was already done, or EEXIST for
// the MKDIR, means that it took the repeated call for a new one.
//
// Every second call is cut when its reply has come, which is then thrown away, so that the server has surely done the call;
// the others within a few milliseconds after they were sent, with the call or its reply anywhere on the way. A server may drop
// a call that it is just doing for another connection (Linux does); it is then repeated again, as by any client.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "apps/nfs/live_caller.h"
#include "base/random.h"

namespace cw::nfs {

struct ExactlyOnceCounts {
  uint32_t calls = 0;       // each sent twice, or more often
  uint32_t wrong = 0;       // repeated calls whose status was not that of success
  uint32_t unanswered = 0;  // repeated calls without an answer, which were repeated again
  std::string first_wrong{};
};

class ExactlyOnce {
 public:
  using Connect = std::function<std::string()>;

  // `root`: of the export, from mount3(). `connect` opens the caller's connection anew.
  ExactlyOnce(LiveCaller& caller, ByteVector root, Connect connect, RandomSource& random);

  // Works below `directory`, which must not be there, and removes it. Empty, or why the work could not go on.
  [[nodiscard]] std::string run(const std::string& directory, uint32_t calls, ExactlyOnceCounts& counts);

 private:
  // What a round of calls leaves: nothing.
  struct Step {
    const char* name;
    Call call;
    ByteVector* handle;  // the new file's, when the call makes one that a later call names
  };
  [[nodiscard]] Step step(uint32_t number);
  // One call, cut and repeated. `status` is that of the repeated one.
  [[nodiscard]] std::string repeat(Step& step, bool see_reply, uint32_t& status, ExactlyOnceCounts& counts);
  [[nodiscard]] std::string once(Call&& call, ByteVector* handle, uint32_t& status);

  LiveCaller& caller_;
  ByteVector root_;
  Connect connect_;
  RandomSource& random_;
  ByteVector directory_;
  ByteVector file_;  // of this round
};

}  // namespace cw::nfs
