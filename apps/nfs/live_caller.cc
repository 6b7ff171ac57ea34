#include "apps/nfs/live_caller.h"

#include <fmt/format.h>

#include <algorithm>

#include "rpcrdma/ulb/arguments.h"

namespace cw::nfs {
namespace {

constexpr Duration kFarewellMax = Duration::seconds(1);
constexpr uint8_t kUntouched = 0;  // peers::pattern_at() never gives it
constexpr size_t kGuardBytes = 64;

// Memory that the server may write `room` bytes of, and what is behind it that it may not.
struct Sink {
  ByteVector raw;
  size_t room = 0;
  explicit Sink(size_t bytes) : raw(bytes > 0 ? bytes + kGuardBytes : 0, kUntouched), room(bytes) {}
  [[nodiscard]] MutableBytes memory() { return MutableBytes(raw).first(room); }
  // RFC 8166 4.3.2.2 lets a server write to what it offers back as unused, but not behind the chunk.
  [[nodiscard]] bool is_overrun() const {
    return std::any_of(raw.begin() + static_cast<ptrdiff_t>(room), raw.end(), [](uint8_t byte) { return byte != kUntouched; });
  }
  [[nodiscard]] ByteVector first(size_t used) const { return {raw.begin(), raw.begin() + static_cast<ptrdiff_t>(used)}; }
};

}  // namespace

struct LiveCaller::Sent {
  ByteVector whole;  // the call's stream: Read chunks lie in it
  ByteVector kept;   // what is left of it
  std::vector<rpcrdma::ReadChunkSource> reads;
  std::vector<Sink> writes;
  std::vector<MutableBytes> write_memory;
  Sink reply_chunk{0};
  bool position_zero = false;
  std::optional<uint32_t> resent_xid;
  bool answered = false;
  Reply reply;

  explicit Sent(const Request& request);
};

LiveCaller::Sent::Sent(const Request& request)
    : reply_chunk(request.placement.reply_bytes), position_zero(request.placement.position_zero), resent_xid(request.resent_xid) {
  const Bytes stream = request.call->stream();
  whole.assign(stream.begin(), stream.end());
  size_t done = 0;
  if (request.placement.read_chunks) {
    // The binding says what may leave the stream.
    rpcrdma::CallContext context;
    rpcrdma::inspect_call(rpcrdma::XdrReader(stream), context);
    rpcrdma::ReducibleItems items;
    rpcrdma::XdrReader reader(stream);
    rpcrdma::find_eligible_arguments(reader, context.header, items);
    for (uint32_t i = 0; i < items.count; ++i) {
      const rpcrdma::ReducibleItem& item = items.items[i];
      if (item.length == 0) {
        continue;
      }
      const size_t offset = static_cast<size_t>(item.offset);
      kept.insert(kept.end(), whole.begin() + static_cast<ptrdiff_t>(done), whole.begin() + static_cast<ptrdiff_t>(offset));
      reads.push_back({static_cast<uint32_t>(offset), MutableBytes(whole).subspan(offset, item.length)});
      done = offset + rpcrdma::xdr_padded(item.length);
    }
  }
  kept.insert(kept.end(), whole.begin() + static_cast<ptrdiff_t>(done), whole.end());
  for (const uint32_t bytes : request.placement.writes) {
    writes.emplace_back(bytes);
    reply.offered.push_back(bytes > 0);
  }
  for (Sink& sink : writes) {
    write_memory.push_back(sink.memory());
  }
}

LiveCaller::LiveCaller(client::ClientWire& wire, uint32_t path_mtu_bytes, uint32_t calls_max)
    : wire_(wire), path_mtu_bytes_(path_mtu_bytes), calls_max_(calls_max), loop_(wire.make_loop(clock_, *this, wakeup_, {})) {}

LiveCaller::~LiveCaller() {
  disconnect();
}

std::string LiveCaller::connect(const IpAddress& server, uint16_t port, const Profile& profile) {
  disconnect();
  client::ClientOptions options;
  options.connections_max = 1;
  options.rpc.credits_wanted = calls_max_;
  options.rpc.call_timeout = profile.call_timeout;
  options.rpc.segment_bytes_max = profile.segment_bytes;
  options.inline_bytes = profile.inline_bytes;
  options.remote_invalidate = profile.remote_invalidate && wire_.takes_invalidation();
  if (profile.silent) {
    options.private_data.emplace();
  }
  node::RoceOptions roce;
  roce.connections_max = 1;
  roce.path_mtu_bytes = path_mtu_bytes_;
  roce.rc.responder_resources_max = 16;
  client_.reset();
  transport_.reset();
  transport_ = wire_.make_transport(roce);
  client_.emplace(options, *transport_, wire_.registry(), wire_.packets(), wire_.random());
  const auto id = client_->connect(clock_.now(), server, port);
  if (!id.ok()) {
    return "no own address of the server's family";
  }
  id_ = *id;
  problem_.clear();
  stop_.store(false);
  loop_->run(stop_);
  const Instant settled = clock_.now() + wire_.settling_time();
  while (connected_ && clock_.now() < settled) {
    (void)loop_->turn(clock_.now());
  }
  return problem_;
}

void LiveCaller::disconnect() {
  if (connected_) {
    connected_ = false;
    client_->disconnect(clock_.now(), id_);
    const Instant end = clock_.now() + kFarewellMax;
    while (clock_.now() < end && transport_->live_count() > 0) {
      (void)loop_->turn(clock_.now());
    }
  }
}

std::vector<Reply> LiveCaller::exchange(std::span<const Request> requests) {
  sent_.clear();
  sent_.reserve(requests.size());
  for (const Request& request : requests) {
    sent_.emplace_back(request);
  }
  next_ = 0;
  open_ = sent_.size();
  stop_.store(open_ == 0 || !connected_);
  loop_->run(stop_);
  std::vector<Reply> replies;
  replies.reserve(sent_.size());
  for (Sent& one : sent_) {
    replies.push_back(std::move(one.reply));
  }
  sent_.clear();
  return replies;
}

uint32_t LiveCaller::send_and_leave(const Request& request, Duration stay) {
  sent_.clear();
  sent_.emplace_back(request);
  next_ = 0;
  open_ = 1;
  const Instant end = clock_.now() + stay;
  while (connected_ && (next_ == 0 || clock_.now() < end)) {
    (void)loop_->turn(clock_.now());
  }
  const uint32_t xid = sent_.front().reply.xid;
  disconnect();
  sent_.clear();
  return xid;
}

bool LiveCaller::turn(Instant now) {
  if (!client_) {
    return false;
  }
  client_->run(now);
  bool worked = false;
  while (client_->poll_ready()) {
    worked = true;
    rpcrdma::ClientEndpoint& endpoint = *client_->endpoint(id_);
    rpcrdma::ClientReply reply;
    while (endpoint.poll_reply(reply)) {
      finish(reply);
    }
    credits_ = endpoint.credits();
  }
  client::ClientEvent event;
  while (client_->poll_event(event)) {
    worked = true;
    if (event.kind == client::ClientEvent::Kind::kConnected) {
      connected_ = true;
      thresholds_ = client_->endpoint(id_)->thresholds();
      stop_.store(true);
      continue;
    }
    problem_ = event.kind == client::ClientEvent::Kind::kRefused ? fmt::format("refused: {}", event.rejection.name)
                                                                 : fmt::format("lost: {}", event.qp_error.cause);
    lose();
  }
  if (interrupted_.load(std::memory_order_relaxed)) {
    problem_ = "interrupted";
    lose();
  }
  if (connected_) {
    submit(now);
  }
  if (connected_ && open_ == 0 && !sent_.empty()) {
    stop_.store(true);
  }
  return worked;
}

Instant LiveCaller::next_deadline() const {
  return client_ ? client_->next_deadline() : Instant::never();
}

// Whatever waits gets no answer: outcomes stay as they were set at first, kConnectionLost.
void LiveCaller::lose() {
  connected_ = false;
  open_ = 0;
  stop_.store(true);
}

void LiveCaller::submit(Instant now) {
  rpcrdma::ClientEndpoint* endpoint = client_->endpoint(id_);
  while (endpoint != nullptr && next_ < sent_.size() && endpoint->calls_allowed() > 0) {
    Sent& one = sent_[next_];
    rpcrdma::ClientCall call;
    call.user_data = next_;
    call.resent_xid = one.resent_xid;
    call.reads = one.reads;
    call.writes = one.write_memory;
    call.reply_memory = one.reply_chunk.memory();
    call.long_call = one.position_zero;
    if (one.position_zero) {
      call.long_call_memory = one.kept;
    } else if (!call.message.append_copy(wire_.packets(), one.kept)) {
      return;
    }
    const Status submitted = endpoint->submit(now, std::move(call));
    if (!submitted.ok() && submitted.error() == Error::kNoResources) {
      return;
    }
    ++next_;
    one.reply.xid = endpoint->last_xid();
    if (!submitted.ok()) {
      one.reply.refused = to_string(submitted.error());
      --open_;
    }
    in_flight_max_ = std::max(in_flight_max_, endpoint->calls_in_flight());
  }
}

void LiveCaller::finish(rpcrdma::ClientReply& reply) {
  Sent& one = sent_[static_cast<size_t>(reply.user_data)];
  one.reply.status = reply.status;
  one.reply.in_reply_chunk = reply.reply_chunk_bytes > 0;
  if (one.reply.in_reply_chunk) {
    one.reply.stream = one.reply_chunk.first(reply.reply_chunk_bytes);
  } else {
    one.reply.stream.resize(static_cast<size_t>(reply.message.bytes()));
    reply.message.copy_to(0, one.reply.stream);
  }
  one.reply.overrun = one.reply_chunk.is_overrun();
  for (size_t i = 0; i < one.writes.size(); ++i) {
    one.reply.placed.push_back(one.writes[i].first(reply.write_bytes[i]));
    one.reply.overrun |= one.writes[i].is_overrun();
  }
  --open_;
}

}  // namespace cw::nfs
