#include "tests/sim/sim_backend.h"

#include <algorithm>
#include <array>

#include "rpcrdma/rpc/rpc_message.h"

namespace cw::sim {

using gateway::BackendEvent;
using gateway::BackendRequest;

SimBackend::SimBackend(BufferPool& pool, rpcrdma::Program& program) : pool_(pool) {
  (void)programs_.add(program);
}

void SimBackend::on_request(Instant now, BackendRequest&& request) {
  BackendEvent event;
  event.link = request.link;
  event.backend = request.backend;
  event.call = request.call;
  const rpcrdma::CallContext context = rpcrdma::inspect_call(request.message);
  switch (request.kind) {
    case BackendRequest::Kind::kOpen:
      on_open(now, request);
      return;
    case BackendRequest::Kind::kClose:
      std::erase_if(open_, [&](const Link& link) { return link.id == request.link; });
      return;
    case BackendRequest::Kind::kSend:
      if (rpcrdma::parse_rpc_reply(request.message).ok()) {
        on_reply(request);
        return;
      }
      if (!take_call(now, request)) {
        return;
      }
      ++calls_[{request.backend, context.header.program}];
      event.kind = BackendEvent::Kind::kMessage;
      break;
    case BackendRequest::Kind::kRun:
      event.kind = BackendEvent::Kind::kRan;
      break;
  }
  if ((silent || (silent_backends >> request.backend & 1) != 0) && request.kind == BackendRequest::Kind::kSend) {
    return;
  }
  if (!programs_.dispatch(context, request.message, pool_, event.message) && request.kind == BackendRequest::Kind::kSend) {
    return;  // a server without memory says nothing
  }
  if (talks_nonsense && request.kind == BackendRequest::Kind::kSend) {
    talk_nonsense(now, request, context.header.xid);
  }
  if (request.kind == BackendRequest::Kind::kSend && rpcrdma::is_bench_callback(context)) {
    call_back(now, request, context);
  }
  Instant at = now + call_delay + ((slow_backends >> request.backend & 1) != 0 ? slow_by : Duration());
  // What is sent before the connection is there goes when it is.
  for (const Link& link : open_) {
    at = link.id == request.link && request.kind == BackendRequest::Kind::kSend ? std::max(at, link.open_at + call_delay) : at;
  }
  if (call_jitter > Duration()) {
    at = at + Duration::ns(random_.next_below(static_cast<uint32_t>(call_jitter.to_ns())));
  }
  if (repeats_itself && request.kind == BackendRequest::Kind::kSend) {
    BackendEvent again;
    again.kind = event.kind;
    again.link = event.link;
    again.backend = event.backend;
    if (programs_.dispatch(context, request.message, pool_, again.message)) {
      later(at + call_delay, std::move(again));
    }
  }
  later(at, std::move(event));
}

void SimBackend::on_open(Instant now, const BackendRequest& request) {
  if (silent) {
    return;
  }
  BackendEvent event;
  event.link = request.link;
  event.backend = request.backend;
  const bool refused =
      refuses || (refusing_servers >> request.server & 1) != 0 || (refusing_backends >> request.backend & 1) != 0;
  event.kind = refused ? BackendEvent::Kind::kFailed : BackendEvent::Kind::kOpened;
  if (!refused) {
    open_.push_back({.id = request.link,
                     .backend = request.backend,
                     .server = request.server,
                     .open_at = now + open_delay,
                     .called_back = {}});
  }
  later(now + open_delay, std::move(event));
}

bool SimBackend::take_call(Instant now, const BackendRequest& request) {
  const auto link = std::find_if(open_.begin(), open_.end(), [&](const Link& other) { return other.id == request.link; });
  if (link == open_.end()) {
    return false;
  }
  if (close_after_calls == 0 || ++link->calls <= close_after_calls) {
    return true;
  }
  BackendEvent event;
  event.kind = BackendEvent::Kind::kClosed;
  event.link = request.link;
  event.backend = request.backend;
  open_.erase(link);
  later(now, std::move(event));
  return false;
}

void SimBackend::call_back(Instant now, const BackendRequest& request, const rpcrdma::CallContext& context) {
  const auto link = std::find_if(open_.begin(), open_.end(), [&](const Link& other) { return other.id == request.link; });
  const auto callback = rpcrdma::parse_bench_callback(context, request.message);
  const uint32_t xid = context.header.xid;
  BackendEvent event;
  event.kind = BackendEvent::Kind::kMessage;
  event.link = request.link;
  event.backend = request.backend;
  if (link == open_.end() || !callback.ok() || !rpcrdma::build_bench_reverse_call(pool_, xid, *callback, event.message)) {
    return;
  }
  // The client may use an XID again before it has answered ours under it: one at a time.
  const bool in_use =
      std::any_of(link->called_back.begin(), link->called_back.end(), [&](const auto& at) { return at.first == xid; });
  if (in_use) {
    return;
  }
  link->called_back.push_back({xid, *callback});
  ++callbacks_.sent;
  const Instant from = std::max(now, link->open_at);
  later(from + Duration::ns(random_.next_below(static_cast<uint32_t>(2 * call_delay.to_ns() + 1))), std::move(event));
}

void SimBackend::on_reply(const BackendRequest& request) {
  const auto header = rpcrdma::parse_rpc_reply(request.message);
  const auto link = std::find_if(open_.begin(), open_.end(), [&](const Link& other) { return other.id == request.link; });
  if (link == open_.end()) {
    return;
  }
  auto& waiting = link->called_back;
  const auto found = std::find_if(waiting.begin(), waiting.end(), [&](const auto& at) { return at.first == header->xid; });
  if (found == waiting.end()) {
    const bool answers_nonsense = link->nonsense_calls > 0;
    link->nonsense_calls -= answers_nonsense ? 1 : 0;
    callbacks_.wrong += answers_nonsense ? 0 : 1;
    return;
  }
  const bool refused = header->accepted && header->status == static_cast<uint32_t>(rpcrdma::AcceptStatus::kSystemError);
  const bool right = rpcrdma::check_bench_reverse_reply(request.message, found->second);
  ++(right ? callbacks_.right : refused ? callbacks_.refused : callbacks_.wrong);
  waiting.erase(found);
}

size_t SimBackend::open_count(uint32_t server) const {
  return static_cast<size_t>(std::count_if(open_.begin(), open_.end(), [&](const Link& link) { return link.server == server; }));
}

size_t SimBackend::open_count_of(uint32_t backend) const {
  return static_cast<size_t>(
      std::count_if(open_.begin(), open_.end(), [&](const Link& link) { return link.backend == backend; }));
}

size_t SimBackend::callbacks_pending() const {
  size_t count = 0;
  for (const Link& link : open_) {
    count += link.called_back.size();
  }
  return count;
}

// In turns: a message too short to be RPC, a call in reverse direction, a reply with an XID that nobody waits for.
void SimBackend::talk_nonsense(Instant now, const BackendRequest& request, uint32_t xid) {
  BackendEvent event;
  event.kind = BackendEvent::Kind::kMessage;
  event.link = request.link;
  event.backend = request.backend;
  std::array<uint8_t, 24> octets{};
  store_be32(octets.data(), ~xid);
  const uint32_t choice = random_.next_below(3);
  store_be32(octets.data() + 4, choice == 1 ? 0 : 1);
  const auto link = std::find_if(open_.begin(), open_.end(), [&](const Link& other) { return other.id == request.link; });
  if (choice == 1 && link != open_.end()) {
    ++link->nonsense_calls;
  }
  if (event.message.append_copy(pool_, Bytes(octets).first(choice == 0 ? 4 : octets.size()))) {
    later(now + call_delay, std::move(event));
  }
}

template <typename Which>
void SimBackend::close_those(Instant now, Which&& which) {
  for (const Link& link : open_) {
    if (!which(link.backend)) {
      continue;
    }
    BackendEvent event;
    event.kind = BackendEvent::Kind::kClosed;
    event.link = link.id;
    event.backend = link.backend;
    later(now, std::move(event));
  }
  std::erase_if(open_, [&](const Link& link) { return which(link.backend); });
}

void SimBackend::close_all(Instant now) {
  close_those(now, [](uint32_t) { return true; });
}

void SimBackend::close_backend(Instant now, uint32_t backend) {
  close_those(now, [=](uint32_t other) { return other == backend; });
}

bool SimBackend::poll(Instant now, BackendEvent& out) {
  if (events_.empty() || events_.front().first > now) {
    return false;
  }
  out = std::move(events_.front().second);
  events_.pop_front();
  return true;
}

void SimBackend::later(Instant at, BackendEvent&& event) {
  const auto place = std::upper_bound(events_.begin(), events_.end(), at, [](Instant a, const auto& b) { return a < b.first; });
  events_.insert(place, {at, std::move(event)});
}

}  // namespace cw::sim
