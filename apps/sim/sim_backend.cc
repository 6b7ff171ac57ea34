#include "apps/sim/sim_backend.h"

#include <algorithm>
#include <array>
#include <utility>

#include "gateway/gateway_stats.h"
#include "rpcrdma/rpc/rpc_message.h"

namespace cw::sim {

using gateway::BackendEvent;
using gateway::BackendRequest;
using gateway::LinkId;

namespace {

constexpr uint32_t kReserve = 4;  // as the workers of causewayd
// A worker whose replies wait looks again after this.
constexpr Duration kStarvedSleep = Duration::ms(1);

uint32_t reserve_of(uint32_t buffers) {
  return std::min(kReserve, buffers / 8);
}

// Beside the longest record: the reserve, one open Buffer, one more for marks and for where it begins, and a reply of each
// backend that has begun and waits.
uint32_t kept_of(uint32_t buffers, uint32_t backends) {
  return reserve_of(buffers) + 2 + backends;
}

uint64_t filled_bytes(const BufferPool& pool) {
  return pool.buffer_bytes() - pool.buffer_bytes() / 64;
}

// As config_check sees to it: the longest record fits.
uint64_t record_bytes_max(const BufferPool& pool, const SimBackend::Memory& memory, uint32_t backends) {
  const uint32_t kept = kept_of(memory.buffers, backends);
  const uint64_t fit = uint64_t{memory.buffers > kept + 1 ? memory.buffers - kept : 1} * filled_bytes(pool);
  return std::min(memory.record_bytes, fit);
}

// As control::large_buffers_min.
uint32_t one_record(const BufferPool& pool, const SimBackend::Memory& memory, uint32_t backends) {
  const uint64_t filled = filled_bytes(pool);
  return kept_of(memory.buffers, backends) +
         static_cast<uint32_t>((record_bytes_max(pool, memory, backends) + filled - 1) / filled);
}

}  // namespace

SimBackend::SimBackend(BufferPool& pool, rpcrdma::Program& program, const Memory& memory, uint32_t backends)
    : pool_(pool),
      server_memory_(memory.buffers, pool.buffer_bytes(), 4 * memory.buffers),
      budget_(pool, memory.buffers, backends, gateway::kBackendIdsMax, one_record(pool, memory, backends)),
      limits_{.message_bytes_max = record_bytes_max(pool, memory, backends), .fragments_max = 16},
      reserve_(reserve_of(memory.buffers)) {
  (void)programs_.add(program);
}

SimBackend::~SimBackend() {
  open_.clear();  // before their admission
}

SimBackend::Link* SimBackend::find(LinkId id) {
  const auto found = std::find_if(open_.begin(), open_.end(), [&](const Link& other) { return other.id == id; });
  return found == open_.end() ? nullptr : &*found;
}

void SimBackend::forget(LinkId id) {
  std::erase_if(open_, [&](const Link& link) { return link.id == id; });
  if (open_.empty() && admission_) {
    replies_waited_ += admission_->waited();
    admission_.reset();  // tests count the buffers of gateways that have nothing to do
  }
}

// The server sends a record, in one fragment or in some.
void SimBackend::write(Link& link, const Chain& message) {
  const uint64_t bytes = message.bytes();
  const size_t begin = link.stream.size();
  uint32_t pieces = bytes > 0 && cuts_.next_below(4) == 0 ? 1 + cuts_.next_below(4) : 1;
  for (uint64_t at = 0; pieces > 0; --pieces) {
    const uint64_t left = bytes - at;
    const uint64_t count = pieces == 1 ? left : cuts_.next_below(static_cast<uint32_t>(left + 1));
    const size_t place = link.stream.size();
    link.stream.resize(place + rpcrdma::kRecordMarkBytes + count);
    store_be32(link.stream.data() + place, static_cast<uint32_t>(count) | (pieces == 1 ? rpcrdma::kLastFragment : 0));
    message.copy_to(at, MutableBytes(link.stream).subspan(place + rpcrdma::kRecordMarkBytes, count));
    at += count;
  }
  if ((hung_backends >> link.backend & 1) != 0 && link.stops_at == SIZE_MAX) {
    link.stops_at = begin + (link.stream.size() - begin + 1) / 2;
  }
}

bool SimBackend::read(Instant now, Link& link) {
  if ((hung_backends >> link.backend & 1) == 0) {
    link.stops_at = SIZE_MAX;
  }
  size_t at = 0;
  bool is_fine = true;
  const size_t end = std::min(link.stream.size(), link.stops_at);
  while (is_fine && at < end) {
    const MutableBytes space = link.reader->space();
    if (space.empty()) {
      break;
    }
    // A socket has what came so far.
    const size_t there = cuts_.next_below(3) == 0 ? 1 + cuts_.next_below(static_cast<uint32_t>(end - at)) : end - at;
    const size_t step = std::min(space.size(), there);
    std::copy_n(link.stream.begin() + static_cast<ptrdiff_t>(at), step, space.data());
    at += step;
    is_fine = link.reader->on_bytes(static_cast<uint32_t>(step)).ok();
  }
  link.stream.erase(link.stream.begin(), link.stream.begin() + static_cast<ptrdiff_t>(at));
  link.stops_at -= link.stops_at == SIZE_MAX ? 0 : at;
  BackendEvent event;
  while (link.reader->poll_message(event.message)) {
    event.kind = BackendEvent::Kind::kMessage;
    event.link = link.id;
    event.backend = link.backend;
    ready_.push_back(std::move(event));
    event = {};
  }
  link.reader->end_turn();
  settle(now, link);
  return is_fine;
}

void SimBackend::settle(Instant now, Link& link) {
  link.due = link.reader->is_unfinished() ? link.reader->due(now) : Instant::never();
}

// A worker's turn: who waited for memory, for views or for a server that hung goes on; who stood still for too long is closed.
void SimBackend::work(Instant now) {
  worked_at_ = now;
  pending_ = false;
  if (!admission_) {
    return;
  }
  admission_->begin_turn();
  while (const rpcrdma::RecordDemand* admitted = admission_->poll()) {
    settle(now, *find(LinkId(admitted->owner)));  // its server may say nothing any more
  }
  std::vector<LinkId> over;
  for (Link& link : open_) {
    const bool has_more = !link.stream.empty() && (link.stops_at > 0 || (hung_backends >> link.backend & 1) == 0);
    if ((has_more && !link.reader->is_waiting()) || link.reader->has_message()) {
      if (!read(now, link)) {
        over.push_back(link.id);
      }
    }
    pending_ = pending_ || link.reader->has_message() || link.reader->is_waiting();
    if (link.due <= now) {
      ++replies_stalled_;
      over.push_back(link.id);
    }
  }
  for (const LinkId id : over) {
    if (const Link* link = find(id); link != nullptr) {
      BackendEvent event;
      event.kind = BackendEvent::Kind::kClosed;
      event.link = id;
      event.backend = link->backend;
      ready_.push_back(std::move(event));
      forget(id);
    }
  }
}

Instant SimBackend::next_at() const {
  if (!ready_.empty()) {
    return worked_at_;
  }
  Instant next = events_.empty() ? Instant::never() : events_.front().first;
  for (const Link& link : open_) {
    next = earlier(next, link.due);
  }
  if (pending_ || (admission_ && admission_->wants_poll())) {
    next = earlier(next, worked_at_ + kStarvedSleep);
  }
  return next;
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
      forget(request.link);
      return;
    case BackendRequest::Kind::kSend:
      if (rpcrdma::parse_rpc_reply(request.message).ok()) {
        on_reply(request);
        return;
      }
      if (!take_call(now, request)) {
        return;
      }
      last_xid_ = context.header.xid;
      if (Link* link = find(request.link); link != nullptr && !std::exchange(link->has_called, true)) {
        first_calls_.push_back({link->source_port, last_xid_});
      }
      event.kind = BackendEvent::Kind::kMessage;
      break;
    case BackendRequest::Kind::kRun:
      event.kind = BackendEvent::Kind::kRan;
      break;
  }
  if ((silent || (silent_backends >> request.backend & 1) != 0) && request.kind == BackendRequest::Kind::kSend) {
    return;
  }
  // A server has memory of its own; a built-in program has the gateway's.
  BufferPool& memory = request.kind == BackendRequest::Kind::kSend ? server_memory_ : pool_;
  if (!programs_.dispatch(context, request.message, memory, event.message) && request.kind == BackendRequest::Kind::kSend) {
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
    if (programs_.dispatch(context, request.message, memory, again.message)) {
      later(at + call_delay, std::move(again));
    }
  }
  later(at, std::move(event));
}

void SimBackend::on_open(Instant now, const BackendRequest& request) {
  source_ports_.push_back(request.source_port);
  if (port_busy_for > Duration()) {
    BackendEvent busy;
    busy.kind = BackendEvent::Kind::kPortBusy;
    busy.link = request.link;
    busy.backend = request.backend;
    later(now, std::move(busy));
    now = now + port_busy_for;
  }
  if (silent) {
    return;
  }
  BackendEvent event;
  event.link = request.link;
  event.backend = request.backend;
  const bool refused = refuses || (refusing_backends >> request.backend & 1) != 0 ||
                       std::find(refused_clients.begin(), refused_clients.end(), request.client) != refused_clients.end();
  event.kind = refused ? BackendEvent::Kind::kFailed : BackendEvent::Kind::kOpened;
  if (!refused) {
    if (!admission_) {
      admission_.emplace(budget_, reserve_);
    }
    Link& link = open_.emplace_back();
    link.id = request.link;
    link.backend = request.backend;
    link.source_port = request.source_port;
    link.open_at = now + open_delay;
    link.reader = std::make_unique<rpcrdma::RecordReader>(*admission_, limits_, request.backend, request.link.value());
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
  forget(link->id);
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
  if (link == open_.end() || !callback.ok() ||
      !rpcrdma::build_bench_reverse_call(server_memory_, xid, *callback, event.message)) {
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

std::vector<LinkId> SimBackend::links() const {
  std::vector<LinkId> links;
  for (const Link& link : open_) {
    links.push_back(link.id);
  }
  return links;
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
  std::array<uint8_t, 24> raw{};
  store_be32(raw.data(), ~xid);
  const uint32_t choice = random_.next_below(3);
  store_be32(raw.data() + 4, choice == 1 ? 0 : 1);
  const auto link = std::find_if(open_.begin(), open_.end(), [&](const Link& other) { return other.id == request.link; });
  if (choice == 1 && link != open_.end()) {
    ++link->nonsense_calls;
  }
  if (event.message.append_copy(server_memory_, Bytes(raw).first(choice == 0 ? 4 : raw.size()))) {
    later(now + call_delay, std::move(event));
  }
}

void SimBackend::close_all(Instant now) {
  std::vector<LinkId> closed;
  for (const Link& link : open_) {
    BackendEvent event;
    event.kind = BackendEvent::Kind::kClosed;
    event.link = link.id;
    event.backend = link.backend;
    later(now, std::move(event));
    closed.push_back(link.id);
  }
  for (const LinkId id : closed) {
    forget(id);
  }
}

bool SimBackend::poll(Instant now, BackendEvent& out) {
  while (ready_.empty() && !events_.empty() && events_.front().first <= now) {
    BackendEvent event = std::move(events_.front().second);
    events_.pop_front();
    if (event.kind != BackendEvent::Kind::kMessage) {
      ready_.push_back(std::move(event));
    } else if (Link* link = find(event.link); link != nullptr) {
      write(*link, event.message);
      work(now);
    }
  }
  if (ready_.empty() && next_at() <= now) {
    work(now);
  }
  if (ready_.empty()) {
    return false;
  }
  out = std::move(ready_.front());
  ready_.pop_front();
  return true;
}

void SimBackend::later(Instant at, BackendEvent&& event) {
  const auto place = std::upper_bound(events_.begin(), events_.end(), at, [](Instant a, const auto& b) { return a < b.first; });
  events_.insert(place, {at, std::move(event)});
}

}  // namespace cw::sim
