#include "tests/peers/rping.h"

#include <algorithm>
#include <array>
#include <utility>

namespace cw::peers {
namespace {

// Printable, so that `rping -v` shows it; the last byte is the text's zero.
void write_text(uint64_t round, std::vector<uint8_t>& text) {
  for (size_t i = 0; i + 1 < text.size(); ++i) {
    text[i] = static_cast<uint8_t>('!' + (round * 7 + i + i / 90) % 90);
  }
  text.back() = 0;
}

// Bytes up to and with the first zero; all of them when there is none.
uint64_t text_bytes(const Chain& chain) {
  uint64_t bytes = 0;
  for (const Buffer* buffer = chain.head(); buffer != nullptr; buffer = buffer->next) {
    const Bytes raw = buffer->bytes();
    const auto zero = std::find(raw.begin(), raw.end(), uint8_t{0});
    bytes += static_cast<uint64_t>(zero - raw.begin());
    if (zero != raw.end()) {
      return bytes + 1;
    }
  }
  return bytes;
}

}  // namespace

void RpingPeer::attach(uint32_t /*index*/, verbs::QueuePair& qp) {
  qp_ = &qp;
  qp.post_receives(2);
}

void RpingPeer::refused(const char* what) {
  fail(std::string("the queue pair refused to post a ") + what);
}

void RpingPeer::send(const RpingMessage& message) {
  waiting_ = message;
  sends_waiting_ = true;
  post_waiting();
}

void RpingPeer::post_waiting() {
  std::array<uint8_t, RpingMessage::kSize> raw{};
  waiting_.write(raw);
  verbs::SendRequest request;
  if (!request.payload.append_copy(pool_, raw)) {
    return;
  }
  const Status posted = qp_->post_send(std::move(request));
  if (posted.ok()) {
    sends_waiting_ = false;
  } else if (posted.error() != Error::kNoResources) {
    refused("SEND");
  }
}

void RpingPeer::run(Instant /*now*/) {
  verbs::Completion done;
  while (outcome() == Outcome::kRunning && qp_ != nullptr && qp_->poll_completion(done)) {
    on_completion(done);
  }
  if (outcome() == Outcome::kRunning && sends_waiting_) {
    post_waiting();
  }
}

void RpingPeer::on_completion(verbs::Completion& done) {
  if (done.status != verbs::WcStatus::kSuccess) {
    fail(std::string(to_string(done.opcode)) + " completed with " + to_string(done.status));
    return;
  }
  if (done.opcode != verbs::WcOpcode::kReceive) {
    on_work_done(done);
    return;
  }
  std::array<uint8_t, RpingMessage::kSize + 1> raw{};
  const size_t bytes = std::min<uint64_t>(done.payload.bytes(), raw.size());
  done.payload.copy_to(0, MutableBytes(raw).first(bytes));
  const auto message = RpingMessage::parse(Bytes(raw).first(bytes));
  if (!message.ok()) {
    fail("a message of " + std::to_string(done.payload.bytes()) + " bytes instead of 16");
    return;
  }
  qp_->post_receives(1);
  on_message(*message);
}

QpProfile RpingServer::profile(uint32_t /*index*/) const {
  return QpProfile{.receive_bytes_max = RpingMessage::kSize, .send_queue_depth = 16, .initiator_depth = 1};
}

void RpingServer::on_message(const RpingMessage& message) {
  if (message.size == 0 || message.size > kRpingBytesMax) {
    fail("the client offers " + std::to_string(message.size) + " bytes of memory");
    return;
  }
  if (state_ == State::kWaitSource) {
    state_ = State::kReading;
    verbs::ReadRequest read;
    read.rkey = message.rkey;
    read.remote_address = message.address;
    read.length = message.size;
    if (!qp_->post_read(std::move(read)).ok()) {
      refused("READ");
    }
  } else if (state_ == State::kWaitSink) {
    state_ = State::kWriting;
    verbs::WriteRequest write;
    write.rkey = message.rkey;
    write.remote_address = message.address;
    write.payload = std::move(text_);
    if (!qp_->post_write(std::move(write)).ok()) {
      refused("WRITE");
    }
  } else {
    fail("the client sent a message out of turn");
  }
}

void RpingServer::on_work_done(verbs::Completion& done) {
  if (done.opcode == verbs::WcOpcode::kRdmaRead) {
    text_ = std::move(done.payload);
    text_.trim_back(text_.bytes() - text_bytes(text_));
    state_ = State::kWaitSink;
    send(RpingMessage{});
  } else if (done.opcode == verbs::WcOpcode::kRdmaWrite) {
    ++pings_;
    state_ = State::kWaitSource;
    send(RpingMessage{});
  }
}

void RpingServer::on_disconnected(Instant /*now*/, uint32_t /*index*/) {
  qp_ = nullptr;
  if (state_ == State::kWaitSource && pings_ > 0 && !is_sending()) {
    finish();
  } else {
    fail("the client left after " + std::to_string(pings_) + " pings, in the middle of the next");
  }
}

RpingClient::RpingClient(const Options& options, verbs::MemoryTable& memory, BufferPool& pool)
    : RpingPeer(pool), options_(options), memory_(memory), source_(options.bytes), sink_(options.bytes) {
  const auto source = memory_.register_region(options_.domain, source_, verbs::RemoteAccess::kRead);
  const auto sink = memory_.register_region(options_.domain, sink_, verbs::RemoteAccess::kWrite);
  if (!source.ok() || !sink.ok()) {
    fail("no memory region left");
    return;
  }
  source_key_ = *source;
  sink_key_ = *sink;
}

RpingClient::~RpingClient() {
  (void)memory_.invalidate_all(options_.domain);
}

QpProfile RpingClient::profile(uint32_t /*index*/) const {
  return QpProfile{.receive_bytes_max = RpingMessage::kSize,
                   .send_queue_depth = 16,
                   .remote_access = verbs::RemoteAccess::kReadWrite,
                   .responder_resources = 1,
                   .domain = options_.domain};
}

void RpingClient::on_connected(Instant /*now*/, uint32_t /*index*/) {
  begin_round();
}

void RpingClient::begin_round() {
  write_text(pings_, source_);
  std::fill(sink_.begin(), sink_.end(), uint8_t{0xff});
  state_ = State::kOffersSource;
  offer(source_key_);
}

void RpingClient::offer(verbs::Rkey key) {
  send(RpingMessage{memory_.address_of(key), key, options_.bytes});
}

void RpingClient::on_message(const RpingMessage& /*signal*/) {
  if (state_ == State::kOffersSource) {
    state_ = State::kOffersSink;
    offer(sink_key_);
    return;
  }
  if (source_ != sink_) {
    const auto place = std::mismatch(source_.begin(), source_.end(), sink_.begin()).first - source_.begin();
    fail("ping " + std::to_string(pings_) + " came back changed from byte " + std::to_string(place) + " on");
    return;
  }
  if (++pings_ == options_.count) {
    finish();
  } else {
    begin_round();
  }
}

void RpingClient::on_disconnected(Instant /*now*/, uint32_t /*index*/) {
  qp_ = nullptr;
  fail("the server left after " + std::to_string(pings_) + " pings");
}

}  // namespace cw::peers
