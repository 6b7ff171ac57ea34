#include "tests/peers/perftest_peer.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>
#include <utility>

#include "control/cm/path_mtu.h"

namespace cw::peers {
namespace {

using Kind = PerftestStep::Kind;

constexpr uint32_t kControlReceives = 4;
constexpr uint8_t kReadsMax = 16;

// The least that the other side needs.
verbs::RemoteAccess access_of(const PerftestOptions& options) {
  const PerftestOperation operation = options.operation;
  return options.uses_credits() || is_write(operation) ? verbs::RemoteAccess::kWrite
         : is_send(operation)                          ? verbs::RemoteAccess::kNone
         : is_read(operation)                          ? verbs::RemoteAccess::kRead
                                                       : verbs::RemoteAccess::kAtomic;
}

constexpr size_t bytes_of(Kind kind) {
  switch (kind) {
    case Kind::kVersion:
      return PerftestVersion::kSize;
    case Kind::kCycleBuffer:
    case Kind::kCacheLine:
      return 4;
    case Kind::kMtu:
      return 2;
    case Kind::kKey:
      return PerftestKey::kSize;
    case Kind::kReportField:
      return 8;
    case Kind::kConnect:
    case Kind::kPrepare:
    case Kind::kTraffic:
      return 0;
  }
  return 0;
}

}  // namespace

PerftestPeer::PerftestPeer(const PerftestOptions& options, uint32_t path_mtu_bytes, verbs::ProtectionDomain domain,
                           verbs::MemoryTable& memory, BufferPool& pool, BufferPool& large)
    : options_(options),
      path_mtu_bytes_(path_mtu_bytes),
      domain_(domain),
      memory_(memory),
      pool_(pool),
      plan_(plan(options)),
      keys_(options.qps),
      lanes_(options.qps) {
  if (!source_.fill(large, options_.bytes_max())) {
    fail("not enough buffers for one message");
  }
  if (!is_send(options_.operation) || options_.uses_credits()) {
    make_memory();
  }
}

PerftestPeer::~PerftestPeer() {
  (void)memory_.invalidate_all(domain_);
}

void PerftestPeer::make_memory() {
  const uint64_t bytes =
      options_.uses_credits() ? kPerftestCreditBytes : std::max<uint64_t>(options_.bytes_max(), kPerftestCycleBytes);
  regions_.resize(options_.qps);
  for (uint32_t qp = 0; qp < options_.qps; ++qp) {
    regions_[qp].resize(bytes);
    if (is_read(options_.operation)) {
      fill_pattern(regions_[qp], 0);
    }
    const auto key = memory_.register_region(domain_, regions_[qp], access_of(options_));
    if (!key.ok()) {
      fail("no memory region left");
      return;
    }
    keys_[qp] = *key;
    lanes_[qp].memory = regions_[qp];
  }
}

QpProfile PerftestPeer::profile(uint32_t index) const {
  QpProfile profile{.receive_bytes_max = kPerftestMessageMax, .send_queue_depth = 16, .domain = domain_};
  if (index > 0) {
    const bool reads = is_read(options_.operation) || is_atomic(options_.operation);
    profile.receive_bytes_max = is_send(options_.operation) ? static_cast<uint32_t>(options_.bytes_max()) : 0;
    profile.send_queue_depth = options_.depth;
    profile.remote_access = access_of(options_);
    profile.responder_resources = reads ? kReadsMax : 0;
    profile.initiator_depth = reads ? kReadsMax : 0;
  }
  return profile;
}

void PerftestPeer::attach(uint32_t index, verbs::QueuePair& qp) {
  if (index == 0) {
    control_ = &qp;
    qp.post_receives(kControlReceives);
  } else {
    lanes_[index - 1].qp = &qp;
  }
}

void PerftestPeer::detach(uint32_t index) {
  (index == 0 ? control_ : lanes_[index - 1].qp) = nullptr;
}

void PerftestPeer::on_connected(Instant /*now*/, uint32_t index) {
  if (index == 0) {
    control_connected_ = true;
  } else {
    ++data_connected_;
  }
}

void PerftestPeer::on_disconnected(Instant /*now*/, uint32_t index) {
  detach(index);
  if (outcome() != Outcome::kRunning) {
    return;
  }
  // write_lat has no last word: whoever has the last message in leaves, acknowledged or not.
  const bool last = position_ + 1 == plan_.size() && traffic_ != nullptr && traffic_->is_complete_but_for_acknowledgement();
  if (last) {
    end_plan();
  } else {
    fail("the other side left connection " + std::to_string(index) + " during the " + to_string(plan_[position_].kind) +
         " (step " + std::to_string(position_) + ")");
  }
}

void PerftestPeer::run(Instant now) {
  collect_control();
  while (outcome() == Outcome::kRunning && control_connected_ && control_ != nullptr) {
    if (position_ == plan_.size()) {
      end_plan();
      return;
    }
    if (!advance(now)) {
      return;
    }
    ++position_;
    spoken_ = false;
    listened_ = false;
  }
}

void PerftestPeer::end_plan() {
  check_memory();
  check_sum();
  finish();
}

bool PerftestPeer::advance(Instant now) {
  const PerftestStep& step = plan_[position_];
  switch (step.kind) {
    case Kind::kConnect:
      wants_data_ = true;
      return data_connected_ == options_.qps;
    case Kind::kPrepare:
      traffic_ = make_perftest_traffic(options_, step.value, lanes_, source_, pool_);
      traffic_->prepare();
      return true;
    case Kind::kTraffic:
      return run_traffic(now);
    default:
      return exchange();
  }
}

bool PerftestPeer::run_traffic(Instant now) {
  const uint64_t size = plan_[position_].value;
  if (traffic_begin_.is_never()) {
    traffic_begin_ = now;
    if (!is_send(options_.operation)) {
      traffic_ = make_perftest_traffic(options_, size, lanes_, source_, pool_);
    }
  }
  const bool through = traffic_->advance();
  if (!traffic_->failure().empty()) {
    fail(traffic_->failure() + ", " + std::to_string(size) + " bytes each");
    return false;
  }
  if (!through) {
    return false;
  }
  results_.push_back(PerftestResult{size, options_.iterations * options_.qps, now - traffic_begin_});
  traffic_begin_ = Instant::never();
  return true;
}

// Client: speaks, then listens. Server: the other way round.
bool PerftestPeer::exchange() {
  const bool may_speak = options_.role == PerftestRole::kClient || listened_;
  if (!spoken_ && may_speak) {
    spoken_ = speak();
  }
  const bool may_listen = options_.role == PerftestRole::kServer || spoken_;
  if (!listened_ && may_listen && !inbox_.empty()) {
    const Message message = inbox_.front();
    inbox_.pop_front();
    if (!take(message)) {
      return false;
    }
    listened_ = true;
  }
  if (!spoken_ && listened_) {
    spoken_ = speak();
  }
  return spoken_ && listened_;
}

bool PerftestPeer::speak() {
  verbs::SendRequest request;
  if (!request.payload.append_copy(pool_, ours().view())) {
    return false;
  }
  const Status posted = control_->post_send(std::move(request));
  if (!posted.ok() && posted.error() != Error::kNoResources) {
    fail("the control connection takes no message");
  }
  return posted.ok();
}

void PerftestPeer::collect_control() {
  verbs::Completion done;
  while (outcome() == Outcome::kRunning && control_ != nullptr && control_->poll_completion(done)) {
    if (done.status != verbs::WcStatus::kSuccess) {
      fail(std::string("control: ") + to_string(done.opcode) + " completed with " + to_string(done.status));
    } else if (done.opcode == verbs::WcOpcode::kReceive) {
      if (inbox_.size() == kControlReceives) {
        fail("control: the other side does not wait for answers");
        return;
      }
      Message& message = inbox_.emplace_back();
      message.bytes = static_cast<uint32_t>(done.payload.bytes());  // at most the queue pair's receive_bytes_max
      done.payload.copy_to(0, MutableBytes(message.raw).first(message.bytes));
      control_->post_receives(1);
    }
  }
}

PerftestPeer::Message PerftestPeer::ours() const {
  const PerftestStep& step = plan_[position_];
  Message message;
  message.bytes = static_cast<uint32_t>(bytes_of(step.kind));
  uint8_t* raw = message.raw.data();
  switch (step.kind) {
    case Kind::kVersion:
      PerftestVersion::ours().write(std::span(message.raw).first<PerftestVersion::kSize>());
      break;
    case Kind::kCycleBuffer:
      store_be32(raw, kPerftestCycleBytes);
      break;
    case Kind::kCacheLine:
      store_be32(raw, kPerftestCacheLineBytes);
      break;
    case Kind::kMtu:
      raw[0] = static_cast<uint8_t>('0' + static_cast<uint8_t>(cm::path_mtu_for(path_mtu_bytes_)));
      break;
    case Kind::kKey: {
      PerftestKey key;
      key.reads_outstanding = kReadsMax;
      key.rkey = keys_[step.value];
      key.address = memory_.address_of(key.rkey);
      key.write(std::span(message.raw).first<PerftestKey::kSize>());
      break;
    }
    case Kind::kReportField:
      return report_field(step.value);
    default:
      break;
  }
  return message;
}

PerftestPeer::Message PerftestPeer::report_field(uint64_t field) const {
  constexpr double kMebi = 1 << 20;
  double mebibytes = 0;
  double messages = 0;
  if (!results_.empty() && results_.back().time > Duration()) {
    const PerftestResult& last = results_.back();
    const double seconds = last.time.to_seconds();
    mebibytes = static_cast<double>(last.message_bytes * last.messages) / seconds / kMebi;
    messages = static_cast<double>(last.messages) / seconds / 1e6;
  }
  const std::array<uint64_t, kPerftestReportFields> fields = {
      options_.bytes_max(), options_.iterations, std::bit_cast<uint64_t>(mebibytes), std::bit_cast<uint64_t>(mebibytes),
      std::bit_cast<uint64_t>(messages)};
  Message message;
  message.bytes = 8;
  store_be64(message.raw.data(), fields[field]);
  return message;
}

bool PerftestPeer::take(const Message& message) {
  const PerftestStep& step = plan_[position_];
  if (message.bytes != bytes_of(step.kind)) {
    fail(std::string("a message of ") + std::to_string(message.bytes) + " bytes during the " + to_string(step.kind));
    return false;
  }
  if (step.kind == Kind::kVersion) {
    const auto version = PerftestVersion::parse(message.view());
    if (!version.ok()) {
      fail("the other side's version is too old or none");
      return false;
    }
    other_version_ = *version;
  } else if (step.kind == Kind::kKey) {
    const auto key = PerftestKey::parse(message.view());
    lanes_[step.value].remote_key = key->rkey;
    lanes_[step.value].remote_address = key->address;
  }
  return true;
}

// What the other side of ours wrote to us. (write_lat looks at each message instead.)
void PerftestPeer::check_memory() {
  if (!options_.verify || options_.role != PerftestRole::kServer || options_.operation != PerftestOperation::kWriteBw) {
    return;
  }
  for (const std::vector<uint8_t>& region : regions_) {
    if (!is_pattern(Bytes(region).first(options_.bytes_max()), 0)) {
      fail("a WRITE left other bytes than it carried");
    }
  }
}

// Fetch-and-add of one: our words together say how often it was executed, wherever perftest's round of addresses led it.
void PerftestPeer::check_sum() {
  if (!options_.verify_sum || options_.role != PerftestRole::kServer || !is_atomic(options_.operation)) {
    return;
  }
  uint64_t sum = 0;
  for (const std::vector<uint8_t>& region : regions_) {
    for (size_t at = 0; at + 8 <= region.size(); at += 8) {
      uint64_t word = 0;
      std::memcpy(&word, region.data() + at, sizeof word);
      sum += word;
    }
  }
  const uint64_t wanted = options_.iterations * options_.qps;
  if (sum != wanted) {
    fail("fetch-and-add was executed " + std::to_string(sum) + " times instead of " + std::to_string(wanted));
  }
}

}  // namespace cw::peers
