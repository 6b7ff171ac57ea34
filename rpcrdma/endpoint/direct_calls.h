// Calls that are answered as they are taken: what an endpoint and its owner keep of them meanwhile.
//
// Where all that a queue pair has brought are predicted calls, and nothing waits for anything, none needs a slot, a list or a
// look-up: the owner opens one after the other and answers it, and the replies are posted together (ServerEndpoint::take_direct).
// There is no rule here that the general path does not have. Whatever differs ends it: what has been answered is posted, and what
// is left become calls as if they had been taken just now. An owner that answers at once cannot tell the two apart, nor can its
// clients: messages are drained before the first of them is answered, and credits, records, counters and order are the same.
//
// Of the endpoint that has its turn, hence one for all endpoints of a core: nothing stays here when the turn is over.
#pragma once

#include <array>
#include <cstdint>

#include "base/buffer.h"
#include "base/time.h"
#include "rpcrdma/ulb/binding.h"
#include "verbs/completion.h"
#include "verbs/queue_pair.h"

namespace cw::rpcrdma {

struct DirectCalls {
  static constexpr uint32_t kMax = 32;  // of one turn; of more, all take the general path

  std::array<verbs::ReceivedMessage, kMax> messages;
  uint32_t count = 0;                          // of messages
  uint32_t next = 0;                           // those before have been opened
  bool is_known = false;                       // the next and this one
  CallContext context;                         // of the one that was looked at last
  uint32_t procedure = 0;                      // procedure_row() of it
  std::array<verbs::PlainSend, kMax> replies;  // to the first that were opened
  uint32_t answered = 0;                       // of replies
  uint32_t room = 0;                           // in the send window, before any of these replies
  uint32_t unnoted = 0;                        // the last ones answered that no record counts yet: one will, for all of them
  uint32_t unnoted_procedure = 0;              // of each of these
  Instant unnoted_received;                    // likewise
  uint64_t calls = 0;                          // that have been answered so, ever since
  verbs::Completion completion;                // what is polled; nobody's in between
};

}  // namespace cw::rpcrdma
