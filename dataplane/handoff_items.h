// What crosses the rings between poll cores and workers: a Chain as the linked list it owns, and of a request only what its kind
// needs. Half a cache line each, since every line moves from one CPU to another.
#pragma once

#include <cstdint>

#include "gateway/backend_link.h"

namespace cw::dataplane {

class RequestItem {
 public:
  RequestItem() = default;
  // Takes the message. `backend` and `server` below 65,536.
  explicit RequestItem(gateway::BackendRequest& request)
      : link(request.link),
        kind(request.kind),
        backend(static_cast<uint16_t>(request.backend)),
        server(static_cast<uint16_t>(request.server)),
        source_port(request.source_port) {
    if (kind == gateway::BackendRequest::Kind::kOpen) {
      content_.client = request.client;
    } else {
      content_.call = {request.message.detach(), request.call};
    }
  }

  // Whom kOpen is for.
  [[nodiscard]] const IpAddress& client() const { return content_.client; }
  // The others.
  [[nodiscard]] rpcrdma::CallId call() const { return content_.call.id; }
  [[nodiscard]] Buffer* message() const { return kind == gateway::BackendRequest::Kind::kOpen ? nullptr : content_.call.message; }

  gateway::LinkId link;
  gateway::BackendRequest::Kind kind = gateway::BackendRequest::Kind::kClose;
  uint16_t backend = 0;
  uint16_t server = 0;
  uint16_t source_port = 0;

 private:
  struct Call {
    Buffer* message = nullptr;
    rpcrdma::CallId id;
  };
  union Content {
    Content() : call() {}
    Call call;
    IpAddress client;  // kOpen
  };
  Content content_;
};
static_assert(sizeof(RequestItem) == 32);

struct EventItem {
  gateway::LinkId link;
  rpcrdma::CallId call;
  Buffer* message;
  gateway::BackendEvent::Kind kind;
  uint16_t backend;
};
static_assert(sizeof(EventItem) == 32);

}  // namespace cw::dataplane
