// Receives behind a higher grant (RFC 8166 3.3.1): looked at in the moment in which the reply that announces it is posted.
#include "tests/unit/endpoint/server_fixture.h"

namespace cw::rpcrdma {
namespace {

class GrantReceives : public ServerFixture {
 protected:
  GrantReceives() { options.credits = 128; }
  void SetUp() override { make(); }
  void call(uint32_t xid) { send(inline_call(xid, rpc_call(xid))); }
  // Answers the oldest call that waits. When its SEND was posted, each call that its grant allows and that is not here yet had a
  // receive. Returns the grant.
  uint32_t expect_receives_behind_the_next_reply() {
    Call next;
    EXPECT_TRUE(server->poll_call(now, next));
    answer(next.id, rpc_reply(next.context->header.xid));
    next.message.clear();
    const uint32_t receives = qp->posted().back().receives;
    const uint32_t grant = words_of(qp->posted().back().payload)[2];
    EXPECT_GE(receives + server->calls_in_flight(), grant);
    (void)sent();
    return grant;
  }
};

// Proves RPCRDMA-3.3.1-15: raised from 8 to 128 while calls wait, and the client uses each new credit at once.
TEST_F(GrantReceives, AreThereBeforeTheReplyThatAnnouncesThem) {
  server->set_grant(8);
  uint32_t xid = 1;
  // The grant sinks as replies carry it; a client that keeps to it has 8 calls under way in the end.
  for (; xid <= 120; ++xid) {
    call(xid);
    (void)expect_receives_behind_the_next_reply();
  }
  ASSERT_EQ(qp->receives(), 8u);
  for (uint32_t i = 0; i < 8; ++i) {
    call(xid++);
  }
  ASSERT_EQ(qp->receives(), 0u);

  server->set_grant(128);
  EXPECT_EQ(expect_receives_behind_the_next_reply(), 128u);
  while (server->calls_in_flight() < 128) {
    ASSERT_GT(qp->receives(), 0u) << "a call that the grant allows meets no receive";
    call(xid++);
  }
  while (server->calls_in_flight() > 0) {
    EXPECT_EQ(expect_receives_behind_the_next_reply(), 128u);
  }
  EXPECT_EQ(qp->receives(), 128u);
  EXPECT_FALSE(server->failed());
}

}  // namespace
}  // namespace cw::rpcrdma
