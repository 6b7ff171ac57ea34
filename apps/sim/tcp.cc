#include "apps/sim/tcp.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"

namespace cw::sim {
namespace {

constexpr uint32_t kPiecesAtOnce = 64;
constexpr uint32_t kBatchesAtOnce = 4;
constexpr uint32_t kWritesInTurn = 256;
constexpr uint32_t kTinySegmentsMax = 256;  // of a write: a simulation of single bytes is long
constexpr uint32_t kTinySpacingNs = 3000;
constexpr uint32_t kCutBits = 17;  // a random cut comes within so many bits of bytes
constexpr uint32_t kFromCaller = 0;
constexpr uint64_t kSegmentOverhead = 78;  // of Ethernet, IP and TCP

bool concerns(Direction direction, uint32_t from) {
  return direction == Direction::kBoth || (direction == Direction::kToGateway) == (from == kFromCaller);
}

}  // namespace

// ---- The host ----

TcpHost::TcpHost(TcpNet& net, uint32_t index, const IpAddress& address) : net_(net), index_(index), address_(address) {
  CW_ASSERT(net_.hosts_[index] == nullptr);
  net_.hosts_[index] = this;
  net_.addresses_[index] = address;
  net_.is_silent_[index] = false;
}

TcpHost::~TcpHost() {
  die(Death::kReset);
}

void TcpHost::die(Death death) {
  if (net_.hosts_[index_] != this) {
    return;
  }
  for (const auto& [stream, place] : std::exchange(sockets_, {})) {
    net_.close(place.connection, place.end, death);
  }
  for (const uint64_t connection : std::exchange(backlog_, {})) {
    net_.close(connection, 1, death == Death::kSilent ? Death::kSilent : Death::kReset);
  }
  for (const uint64_t connection : std::exchange(knocks_, {})) {
    net_.close(connection, 0, death);
  }
  pending_.clear();
  ports_.clear();
  net_.hosts_[index_] = nullptr;
  net_.is_silent_[index_] = death == Death::kSilent;
}

Status TcpHost::listen(uint16_t port) {
  if (std::ranges::find(ports_, port) == ports_.end()) {
    ports_.push_back(port);
  }
  return {};
}

void TcpHost::unlisten(uint16_t port) {
  std::erase(ports_, port);
  std::erase_if(backlog_, [&](uint64_t id) {
    const TcpNet::Connection* connection = net_.find(id);
    if (connection == nullptr || connection->port != port) {
      return false;
    }
    net_.close(id, 1, Death::kReset);
    return true;
  });
}

uint64_t TcpHost::open_connection(const IpAddress& server, uint16_t port) {
  const auto called = std::ranges::find_if(net_.addresses_, [&](const auto& entry) { return entry.second == server; });
  if (called == net_.addresses_.end()) {
    return 0;
  }
  const uint64_t id = net_.next_connection_++;
  TcpNet::Connection& connection = net_.connections_[id];
  connection.caller = index_;
  connection.port = port;
  connection.peer_port = net_.next_port_++;
  connection.from = address_;
  connection.ends[0].host = index_;
  connection.ends[1].host = called->first;
  net_.post(net_.now_ + net_.options_.delay, id, 1, TcpNet::EventKind::kSyn);
  return id;
}

Status TcpHost::connect(iwarp::StreamId stream, const IpAddress& server, uint16_t port) {
  const uint64_t id = open_connection(server, port);
  if (id == 0) {
    return fail(Error::kBadValue);
  }
  net_.find(id)->ends[0].stream = stream;
  sockets_[stream.value()] = {id, 0};
  return {};
}

void TcpHost::knock(const IpAddress& from, const IpAddress& server, uint16_t port, Bytes bytes) {
  if (const uint64_t id = open_connection(server, port); id != 0) {
    TcpNet::Connection& connection = *net_.find(id);
    connection.from = from;
    net_.send(id, connection, kFromCaller, bytes);
    knocks_.push_back(id);
  }
}

void TcpHost::finish(iwarp::StreamId stream) {
  if (const auto socket = sockets_.find(stream.value()); socket != sockets_.end()) {
    net_.finish(socket->second.connection, socket->second.end);
  }
}

void TcpHost::release(iwarp::StreamId stream, iwarp::ReleaseKind kind) {
  if (const auto socket = sockets_.find(stream.value()); socket != sockets_.end()) {
    const Place place = socket->second;
    sockets_.erase(socket);
    pending_.erase(stream.value());
    net_.close(place.connection, place.end, kind == iwarp::ReleaseKind::kClose ? Death::kClosed : Death::kReset);
  }
}

std::optional<iwarp::TcpPath> TcpHost::path(iwarp::StreamId stream) const {
  const auto socket = sockets_.find(stream.value());
  if (socket == sockets_.end()) {
    return std::nullopt;
  }
  const TcpNet::End& end = net_.find(socket->second.connection)->ends[socket->second.end];
  return iwarp::TcpPath{.mss_bytes = net_.options_.mss_bytes,
                        .round_trip = net_.options_.delay * 2,
                        .unacknowledged_bytes = end.unread,
                        .congestion_window_bytes = net_.options_.buffer_bytes};
}

bool TcpHost::has_work() const {
  return has_more_to_send_ || !backlog_.empty() || !pending_.empty();
}

void TcpHost::receive(Instant now) {
  while (!backlog_.empty()) {
    const uint64_t id = backlog_.front();
    backlog_.pop_front();
    TcpNet::Connection* connection = net_.find(id);
    if (connection == nullptr) {
      continue;
    }
    const auto stream =
        transport_->on_accepted(now, connection->from, connection->peer_port, connection->port, net_.options_.mss_bytes);
    if (!stream) {
      net_.close(id, 1, Death::kReset);
      continue;
    }
    connection->ends[1].state = TcpNet::EndState::kOpen;
    connection->ends[1].stream = stream;
    sockets_[stream->value()] = {id, 1};
    pending_.insert(stream->value());
  }
  for (const uint64_t stream : std::exchange(pending_, {})) {
    const auto socket = sockets_.find(stream);
    if (socket == sockets_.end()) {
      continue;
    }
    const Place place = socket->second;
    TcpNet::End& end = net_.find(place.connection)->ends[place.end];
    if (end.state == TcpNet::EndState::kConnecting) {
      if (end.reset_arrived) {
        lose(now, place);
        continue;
      }
      if (end.is_told_up) {
        end.state = TcpNet::EndState::kOpen;
        transport_->on_connected(now, *end.stream, net_.options_.mss_bytes);
      }
    }
    if (sockets_.contains(stream) && !end.blocked) {
      write_out(now, place);
    }
    if (sockets_.contains(stream) && !end.paused) {
      read_some(now, place);
    }
  }
}

void TcpHost::read_some(Instant now, Place place) {
  while (TcpNet::Connection* connection = net_.find(place.connection)) {
    TcpNet::End& end = connection->ends[place.end];
    if (!end.stream || !sockets_.contains(end.stream->value()) || end.state != TcpNet::EndState::kOpen) {
      return;
    }
    const iwarp::StreamId stream = *end.stream;
    if (end.arrived.empty() && !end.reset_arrived && (!end.fin_arrived || end.fin_told)) {
      return;
    }
    uint64_t most = UINT64_MAX;
    if (lie_ && !end.reset_arrived) {
      most = lie_->read_bytes_max - std::min(lie_->read_bytes_max, lied_[stream.value()].read);
      if (most == 0) {
        return;
      }
    }
    std::array<MutableBytes, iwarp::SpareBuffers::kCount + 1> space;
    const uint32_t pieces = transport_->receive_space(now, stream, space);
    if (pieces == 0) {
      end.paused = true;
      return;
    }
    if (end.arrived.empty()) {
      if (end.reset_arrived) {
        lose(now, place);
      } else {
        end.fin_told = true;
        transport_->on_end_of_stream(now, stream);
      }
      return;
    }
    uint32_t count = 0;
    for (uint32_t i = 0; i < pieces && !end.arrived.empty() && count < most; ++i) {
      const size_t take = std::min<uint64_t>(std::min(space[i].size(), end.arrived.size()), most - count);
      std::copy_n(end.arrived.begin(), take, space[i].begin());
      end.arrived.erase(end.arrived.begin(), end.arrived.begin() + static_cast<ptrdiff_t>(take));
      count += static_cast<uint32_t>(take);
    }
    if (lie_) {
      lied_[stream.value()].read += count;
    }
    net_.read(place.connection, place.end, count);
    transport_->on_received(now, stream, count);
  }
}

void TcpHost::transmit(Instant now) {
  has_more_to_send_ = false;
  iwarp::StreamId stream;
  for (uint32_t i = 0; transport_->poll_sendable(now, stream); ++i) {
    if (const auto socket = sockets_.find(stream.value()); socket != sockets_.end()) {
      const Place place = socket->second;
      TcpNet::End& end = net_.find(place.connection)->ends[place.end];
      if (std::exchange(end.paused, false)) {
        pending_.insert(stream.value());
      }
      if (!end.blocked) {
        write_out(now, place);
      }
    }
    if (i == kWritesInTurn) {
      has_more_to_send_ = true;
      return;
    }
  }
}

void TcpHost::write_out(Instant now, Place place) {
  for (uint32_t batch = 0; batch < kBatchesAtOnce; ++batch) {
    TcpNet::Connection* connection = net_.find(place.connection);
    if (connection == nullptr || connection->ends[place.end].state != TcpNet::EndState::kOpen) {
      return;
    }
    TcpNet::End& end = connection->ends[place.end];
    const iwarp::StreamId stream = *end.stream;
    std::array<Bytes, kPiecesAtOnce> pieces;
    const uint32_t count = transport_->send_pieces(stream, pieces);
    if (count == 0) {
      return;
    }
    if (end.reset_arrived) {
      lose(now, place);
      return;
    }
    uint64_t most = UINT64_MAX;
    if (lie_ && write_lie(place, stream.value(), most)) {
      return;
    }
    const uint64_t sent = net_.write(place.connection, place.end, std::span<const Bytes>(pieces).first(count), most);
    if (lie_) {
      lied_[stream.value()].written += sent;
    }
    if (sent == 0) {
      ++stats_.blocked_writes;
      end.blocked = true;
      return;
    }
    transport_->on_written(now, stream, sent);
    if (!sockets_.contains(stream.value())) {
      return;
    }
  }
  transport_->request_send(*net_.find(place.connection)->ends[place.end].stream);  // it has had its share of the turn
}

bool TcpHost::write_lie(Place place, uint64_t stream, uint64_t& most) {
  Lied& lied = lied_[stream];
  most = lie_->write_bytes_max - std::min(lie_->write_bytes_max, lied.written);
  if (lied.is_done || most == 0) {
    net_.find(place.connection)->ends[place.end].blocked = true;
    return true;
  }
  if (lied.writes++ < lie_->honest_writes) {
    return false;
  }
  lied.is_done = true;
  net_.send(place.connection, *net_.find(place.connection), place.end, lie_->instead);
  return true;
}

void TcpHost::lose(Instant now, Place place) {
  TcpNet::End& end = net_.find(place.connection)->ends[place.end];
  const iwarp::StreamId stream = *end.stream;
  const bool silent = end.timed_out;
  sockets_.erase(stream.value());
  pending_.erase(stream.value());
  net_.close(place.connection, place.end, Death::kReset);
  transport_->on_lost(now, stream, silent ? iwarp::StreamErrorCause::kTcpTimeout : iwarp::StreamErrorCause::kTcpReset);
}

// ---- The net ----

void TcpNet::add_fault(uint32_t host, const Fault& fault, Instant start) {
  CW_ASSERT(is_stream_fault(fault.kind));
  const Window window = fault.at_frame > 0 ? Window{} : Window{start + fault.from, start + fault.until};
  Path& path = paths_[host];
  CW_ASSERT(path.troubles.size() < 64);  // End::faults_drawn
  path.troubles.push_back({fault, window, SeededRandom(fault.seed)});
}

uint64_t TcpNet::bytes_of(uint32_t host, uint32_t direction) const {
  const auto path = paths_.find(host);
  return path == paths_.end() ? 0 : path->second.bytes[direction];
}

Death TcpNet::draw_death() {
  return static_cast<Death>(random_.next_below(3));
}

TcpNet::Connection* TcpNet::find(uint64_t id) {
  const auto connection = connections_.find(id);
  return connection == connections_.end() ? nullptr : &connection->second;
}

void TcpNet::post(Instant at, uint64_t connection, uint32_t end, EventKind kind) {
  events_.emplace(EventKey{at, number_++}, Event{connection, end, kind});
}

void TcpNet::advance(Instant now, const Arrived& arrived) {
  while (!events_.empty() && events_.begin()->first.at <= now) {
    now_ = std::max(now_, events_.begin()->first.at);
    const Event event = events_.begin()->second;
    events_.erase(events_.begin());
    if (Connection* connection = find(event.connection)) {
      happen(event.connection, *connection, event, arrived);
    }
  }
  now_ = std::max(now_, now);
}

void TcpNet::happen(uint64_t id, Connection& connection, const Event& event, const Arrived& arrived) {
  End& end = connection.ends[event.end];
  switch (event.kind) {
    case EventKind::kSyn:
      on_syn(id, connection, arrived);
      return;
    case EventKind::kUp:
      if (end.state == EndState::kConnecting) {
        end.is_told_up = true;
        wake(end);
        arrived(end.host, {});
      }
      return;
    case EventKind::kSegment:
      on_segment(id, connection, event.end, arrived);
      return;
    case EventKind::kWritable:
      if (end.blocked) {
        end.blocked = false;
        wake(end);
        arrived(end.host, {});
      }
      return;
    case EventKind::kTimeout:
      end.timed_out = true;
      [[fallthrough]];
    case EventKind::kRefused:
    case EventKind::kReset:
      if (end.state == EndState::kClosed || end.state == EndState::kSilent || end.reset_arrived) {
        return;
      }
      end.reset_arrived = true;
      end.paused = false;
      end.blocked = false;
      // An application may read what has come before, or find the error first.
      if (random_.next_below(2) == 0) {
        end.arrived.clear();
      }
      wake(end);
      arrived(end.host, {});
      return;
  }
}

void TcpNet::on_syn(uint64_t id, Connection& connection, const Arrived& arrived) {
  End& caller = connection.ends[0];
  End& called = connection.ends[1];
  if (caller.state == EndState::kClosed || caller.state == EndState::kSilent) {
    called.state = EndState::kClosed;
    connections_.erase(id);
    return;
  }
  TcpHost* host = hosts_[called.host];
  if (is_silent_[called.host] || has_trouble(connection.caller, FaultKind::kConnectIgnored)) {
    post(now_ + options_.connect_again, id, 1, EventKind::kSyn);
    return;
  }
  const bool is_refused = host == nullptr || std::ranges::find(host->ports_, connection.port) == host->ports_.end() ||
                          has_trouble(connection.caller, FaultKind::kConnectRefused);
  if (is_refused) {
    called.state = EndState::kClosed;
    post(now_ + options_.delay, id, 0, EventKind::kRefused);
    return;
  }
  called.state = EndState::kBacklog;
  host->backlog_.push_back(id);
  arrived(called.host, {});
  post(now_ + options_.delay, id, 0, EventKind::kUp);
}

void TcpNet::on_segment(uint64_t id, Connection& connection, uint32_t to, const Arrived& arrived) {
  End& end = connection.ends[to];
  End& other = connection.ends[1 - to];
  if (other.flight.empty()) {
    return;  // it was called back
  }
  const Segment segment = std::move(other.flight.front());
  other.flight.pop_front();
  if (end.state == EndState::kSilent) {
    if (!is_silent_[end.host]) {  // the machine is there again, and knows nothing of the stream
      post(now_ + options_.delay, id, 1 - to, EventKind::kReset);
    }
    return;
  }
  if (end.state == EndState::kClosed) {
    if (!segment.reset && !segment.bytes.empty()) {
      post(now_ + options_.delay, id, 1 - to, EventKind::kReset);
    }
    return;
  }
  if (segment.reset) {
    happen(id, connection, {id, to, EventKind::kReset}, arrived);
    return;
  }
  if (end.reset_arrived) {
    return;
  }
  end.arrived.insert(end.arrived.end(), segment.bytes.begin(), segment.bytes.end());
  end.fin_arrived = end.fin_arrived || segment.fin;
  wake(end);
  arrived(end.host, segment.bytes);
}

void TcpNet::wake(const End& end) {
  if (TcpHost* host = hosts_[end.host]; host != nullptr && end.stream) {
    host->pending_.insert(end.stream->value());
  }
}

uint64_t TcpNet::write(uint64_t id, uint32_t end_index, std::span<const Bytes> pieces, uint64_t at_most) {
  Connection& connection = *find(id);
  End& end = connection.ends[end_index];
  const uint64_t most = buffer_bytes(paths_[connection.caller]);
  uint64_t room = std::min(most - std::min(most, end.unread), at_most);
  std::vector<uint8_t> bytes;
  for (const Bytes piece : pieces) {
    const auto take = static_cast<ptrdiff_t>(std::min<uint64_t>(piece.size(), room));
    bytes.insert(bytes.end(), piece.begin(), piece.begin() + take);
    room -= static_cast<uint64_t>(take);
  }
  if (!bytes.empty()) {
    send(id, connection, end_index, bytes);
  }
  return bytes.size();
}

void TcpNet::send(uint64_t id, Connection& connection, uint32_t from, std::span<const uint8_t> bytes) {
  End& end = connection.ends[from];
  Path& path = paths_[connection.caller];
  draw_cuts(path, end, from);
  for (uint32_t number = 0; !bytes.empty() && !end.swallows; ++number) {
    bool is_tiny = false;
    Trouble* by = nullptr;
    const uint64_t until_cut = cut_in(path, end, from, by);
    const size_t wanted = std::min<size_t>(segment_bytes(path, from, number, is_tiny), bytes.size());
    const auto size = static_cast<size_t>(std::min<uint64_t>(wanted, until_cut));
    if (size > 0) {
      end.written += size;
      end.unread += size;
      path.bytes[from] += size;
      push(id, connection, from, {.bytes = {bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(size)}});
      bytes = bytes.subspan(size);
      if (is_tiny) {
        end.last_at = end.last_at + Duration::ns(random_.next_below(kTinySpacingNs));
      }
    }
    if (size == until_cut) {
      const FaultKind kind = by != nullptr ? by->fault.kind : end.cut;
      if (by != nullptr) {
        by->is_over = true;
      }
      end.swallows = true;
      if (kind == FaultKind::kStreamReset) {
        push(id, connection, from, {.reset = true});
        post(now_ + options_.delay * 2, id, from, EventKind::kReset);
      } else if (!std::exchange(end.fin_sent, true)) {
        push(id, connection, from, {.fin = true});
      }
    }
  }
}

void TcpNet::push(uint64_t id, Connection& connection, uint32_t from, Segment&& segment) {
  End& end = connection.ends[from];
  Path& path = paths_[connection.caller];
  Instant left = now_;
  if (path.bits_per_second > 0) {
    const uint64_t bits = 8 * (segment.bytes.size() + kSegmentOverhead);
    left =
        std::max(now_, path.busy_until[from]) + Duration::ns(static_cast<int64_t>(bits * 1'000'000'000 / path.bits_per_second));
    path.busy_until[from] = left;
  }
  end.last_at = std::max(end.last_at, left + options_.delay + hold_of(path, from));
  end.flight.push_back(std::move(segment));
  post(end.last_at, id, 1 - from, EventKind::kSegment);
}

void TcpNet::read(uint64_t id, uint32_t reader, uint64_t bytes) {
  Connection& connection = *find(id);
  End& writer = connection.ends[1 - reader];
  writer.unread -= bytes;
  if (writer.blocked) {
    post(now_ + options_.delay, id, 1 - reader, EventKind::kWritable);
  }
}

void TcpNet::finish(uint64_t id, uint32_t index) {
  Connection& connection = *find(id);
  End& end = connection.ends[index];
  if (!std::exchange(end.fin_sent, true) && !end.swallows && !end.reset_arrived) {
    push(id, connection, index, {.fin = true});
  }
}

void TcpNet::close(uint64_t id, uint32_t index, Death how) {
  Connection* connection = find(id);
  if (connection == nullptr) {
    return;
  }
  End& end = connection->ends[index];
  const EndState peer = connection->ends[1 - index].state;
  // A caller that gives up before it hears that it is connected has a peer already.
  const bool was_open =
      end.state == EndState::kOpen || end.state == EndState::kBacklog ||
      (index == 0 && end.state == EndState::kConnecting && (peer == EndState::kBacklog || peer == EndState::kOpen));
  end.stream.reset();
  end.state = how == Death::kSilent ? EndState::kSilent : EndState::kClosed;
  if (was_open && !end.reset_arrived) {
    if (how == Death::kSilent) {
      end.flight.clear();
      post(now_ + options_.user_timeout, id, 1 - index, EventKind::kTimeout);
    } else if (how == Death::kReset || !end.arrived.empty()) {
      // What the kernel had not sent yet is gone.
      if (random_.next_below(2) == 0) {
        end.flight.clear();
      }
      push(id, *connection, index, {.reset = true});
    } else {
      finish(id, index);
    }
  }
  end.arrived.clear();
  erase_if_over(id);
}

void TcpNet::erase_if_over(uint64_t id) {
  const auto is_over = [](const End& end) { return end.state == EndState::kClosed || end.state == EndState::kSilent; };
  if (const Connection* connection = find(id); is_over(connection->ends[0]) && is_over(connection->ends[1])) {
    connections_.erase(id);
  }
}

// ---- Faults ----

bool TcpNet::acts(const Trouble& trouble, FaultKind kind, uint32_t direction) const {
  return trouble.fault.kind == kind && !trouble.is_over && concerns(trouble.fault.direction, direction) &&
         trouble.window.contains(now_);
}

bool TcpNet::has_trouble(uint32_t caller, FaultKind kind) {
  return std::ranges::any_of(paths_[caller].troubles,
                             [&](const Trouble& trouble) { return trouble.fault.kind == kind && trouble.window.contains(now_); });
}

// A stream that is there while resets or half-closes happen is hit once by each, at a byte that is drawn when it first writes.
void TcpNet::draw_cuts(Path& path, End& end, uint32_t direction) {
  for (size_t i = 0; i < path.troubles.size(); ++i) {
    Trouble& trouble = path.troubles[i];
    const bool cuts = acts(trouble, FaultKind::kStreamReset, direction) || acts(trouble, FaultKind::kStreamHalfClose, direction);
    if (!cuts || trouble.fault.at_frame > 0 || (end.faults_drawn >> i & 1) != 0) {
      continue;
    }
    end.faults_drawn |= uint64_t{1} << i;
    const uint64_t at = end.written + trouble.random.next_below(1u << trouble.random.next_below(kCutBits));
    if (at < end.cut_at) {
      end.cut_at = at;
      end.cut = trouble.fault.kind;
    }
  }
}

uint64_t TcpNet::cut_in(Path& path, const End& end, uint32_t direction, Trouble*& by) {
  uint64_t until = end.cut_at - std::min(end.cut_at, end.written);
  for (Trouble& trouble : path.troubles) {
    const bool cuts = acts(trouble, FaultKind::kStreamReset, direction) || acts(trouble, FaultKind::kStreamHalfClose, direction);
    if (cuts && trouble.fault.at_frame > 0) {
      const uint64_t left = trouble.fault.at_frame - 1 - std::min(trouble.fault.at_frame - 1, path.bytes[direction]);
      if (left < until) {
        until = left;
        by = &trouble;
      }
    }
  }
  return until;
}

uint32_t TcpNet::segment_bytes(Path& path, uint32_t direction, uint32_t number, bool& is_tiny) {
  for (Trouble& trouble : path.troubles) {
    if (acts(trouble, FaultKind::kStreamStall, direction)) {
      return 1 + trouble.random.next_below(options_.mss_bytes);  // it may begin in the middle of an FPDU
    }
    if (acts(trouble, FaultKind::kStreamTiny, direction)) {
      is_tiny = true;
      const bool is_short = number < kTinySegmentsMax && trouble.random.next_below(1000) < trouble.fault.amount;
      return 1 + trouble.random.next_below(is_short ? 8 : options_.mss_bytes);
    }
  }
  return options_.mss_bytes;
}

Duration TcpNet::hold_of(Path& path, uint32_t direction) {
  Duration hold;
  for (Trouble& trouble : path.troubles) {
    if (acts(trouble, FaultKind::kStreamStall, direction) && trouble.random.next_below(2) == 0) {
      hold = std::max(hold, trouble.window.until - now_);
    }
    if (acts(trouble, FaultKind::kStreamJitter, direction)) {
      hold = hold + Duration::ns(trouble.random.next_below(static_cast<uint32_t>(trouble.fault.time.to_ns())));
    }
  }
  return hold;
}

uint64_t TcpNet::buffer_bytes(Path& path) const {
  uint64_t bytes = options_.buffer_bytes;
  for (const Trouble& trouble : path.troubles) {
    if (acts(trouble, FaultKind::kStreamWindow, 0) || acts(trouble, FaultKind::kStreamWindow, 1)) {
      bytes = std::min<uint64_t>(bytes, trouble.fault.amount);
    }
  }
  return bytes;
}

}  // namespace cw::sim
