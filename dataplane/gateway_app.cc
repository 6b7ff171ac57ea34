#include "dataplane/gateway_app.h"

#include <chrono>
#include <thread>

namespace cw::dataplane {
namespace {

constexpr uint32_t kNotices = 1024;
constexpr uint32_t kTold = 255;
// Connections looked at in one turn, some ten microseconds' worth.
constexpr uint32_t kDescribedAtOnce = 64;
// Clients copied in one turn: each is a kilobyte.
constexpr uint32_t kClientsAtOnce = 16;
constexpr auto kDescribeTimeout = std::chrono::seconds(1);

}  // namespace

GatewayApp::GatewayApp(uint32_t core, gateway::Gateway& gateway, const CoreWires& wires, node::Node& node, WorkerPool& workers,
                       CoreExchange* exchange, std::span<const std::unique_ptr<PortQueue>> queues, BufferPools& pools,
                       Wakeup& wakeup)
    : core_(core),
      gateway_(gateway),
      wires_(wires),
      node_(node),
      workers_(workers),
      exchange_(exchange),
      queues_(queues),
      pools_(pools),
      wakeup_(wakeup),
      snapshot_([&wakeup] { wakeup.wake(); }),
      durations_(std::make_unique<telemetry::RpcDurations>()),
      notices_("cw_notices", kNotices, RingProducers::kOne),
      told_("cw_told", kTold, RingProducers::kOne),
      ping_(core, pools.packets()) {}

bool GatewayApp::turn(Instant now) {
  bool worked = false;
  gateway::BackendEvent event;
  while (workers_.poll(core_, event)) {
    worked = true;
    if (gateway::BackendPing::owns(event.link)) [[unlikely]] {
      ping_.on_event(now, std::move(event));
    } else {
      gateway_.on_backend_event(now, std::move(event));
    }
  }
  if (exchange_ != nullptr) {
    worked |= exchange_messages(now);
  }
  if (!told_.empty()) [[unlikely]] {
    gateway::CoreMessage message;
    while (told_.pop(std::span(&message, 1)) == 1) {
      gateway_.on_core_message(now, message);
    }
    worked = true;
  }
  gateway_.run(now);
  while (holds_ || gateway_.poll_backend_request(held_)) {
    holds_ = !workers_.submit(core_, held_);
    if (holds_) {
      break;
    }
    worked = true;
  }
  if (const PingState ping = ping_state_.load(std::memory_order_relaxed);
      ping == PingState::kWanted || ping == PingState::kUnderWay) [[unlikely]] {
    worked |= serve_ping(now);
  }
  workers_.kick(core_);
  rpcrdma::CallDone done;
  while (gateway_.poll_done(done)) {
    durations_->calls[done.procedure].record(done.replied - done.received, done.count);
  }
  while (const gateway::Notice* notice = gateway_.next_notice()) {
    (void)notices_.push(*notice);
    gateway_.pop_notice();
  }
  return serve_control(now) || worked;
}

bool GatewayApp::exchange_messages(Instant now) {
  bool worked = false;
  for (uint32_t from = 0; from < exchange_->cores(); ++from) {
    gateway::CoreMessage message;
    while (exchange_->take_message(core_, from, message)) {
      worked = true;
      gateway_.on_core_message(now, message);
    }
  }
  // What finds no room now goes with a later turn.
  while (const gateway::CoreMails::Mail* mail = gateway_.next_core_message()) {
    if (!exchange_->give_message(core_, mail->to, mail->message)) {
      break;
    }
    worked = true;
    gateway_.pop_core_message();
  }
  return worked;
}

bool GatewayApp::has_input() const {
  const bool has_order = drain_order_.load(std::memory_order_relaxed) != drain_acted_on_.load(std::memory_order_relaxed) ||
                         (shutdown_.load(std::memory_order_relaxed) && !shutdown_begun_);
  return workers_.has_events(core_) || question_.load(std::memory_order_relaxed) != nullptr || snapshot_.is_wanted() ||
         ping_state_.load(std::memory_order_relaxed) == PingState::kWanted || !told_.empty() || has_order;
}

bool GatewayApp::serve_control(Instant now) {
  if (heartbeat_.is_asked()) [[unlikely]] {
    heartbeat_.answer(static_cast<uint32_t>(gateway_.stats().connections_open));
    publish_progress();
  }
  if (drain_order_.load(std::memory_order_relaxed) != DrainOrder::kServe || gateway_.is_draining()) [[unlikely]] {
    drain(now);
  }
  if (snapshot_.is_wanted()) [[unlikely]] {
    snapshot_.publish([this](telemetry::CoreSnapshot& out) { fill(out); });
  }
  if (question_.load(std::memory_order_relaxed) != nullptr) [[unlikely]] {
    answer_some(now);
  }
  if (shutdown_.load(std::memory_order_acquire)) [[unlikely]] {
    if (!shutdown_begun_) {
      shutdown_begun_ = true;
      gateway_.shut_down(now);
      return true;
    }
    if (gateway_.is_quiet()) {
      quiet_.store(true, std::memory_order_release);
    }
  }
  return false;
}

void GatewayApp::drain(Instant now) {
  const DrainOrder order = drain_order_.load(std::memory_order_acquire);
  const DrainOrder before = drain_acted_on_.load(std::memory_order_relaxed);
  if (order != before) {
    if (order == DrainOrder::kServe) {
      gateway_.end_drain(now);
    } else if (order == DrainOrder::kHandOver) {
      gateway_.hand_over(now);
    } else {
      gateway_.drain(now);
      if (order == DrainOrder::kForce) {
        gateway_.close_all(now);
      }
    }
  }
  publish_progress();
  drain_acted_on_.store(order, std::memory_order_release);
}

// Between requests of the gateway: the one that waits for room in its ring keeps its place.
bool GatewayApp::serve_ping(Instant now) {
  if (ping_state_.load(std::memory_order_acquire) == PingState::kWanted) {
    ping_state_.store(PingState::kUnderWay, std::memory_order_relaxed);
    ping_order_.server = gateway_.preferred_server(ping_order_.backend);
    ping_.start(now, ping_order_);
  }
  ping_.on_deadline(now);
  bool worked = false;
  while (!holds_ && ping_.poll_request(held_)) {
    holds_ = !workers_.submit(core_, held_);
    worked = true;
  }
  if (gateway::PingResult result; !holds_ && ping_.poll_result(result)) {
    ping_result_ = result;
    ping_state_.store(PingState::kDone, std::memory_order_release);
  }
  return worked;
}

bool GatewayApp::start_ping(const gateway::PingOrder& order) {
  const PingState state = ping_state_.load(std::memory_order_acquire);
  if (state == PingState::kWanted || state == PingState::kUnderWay) {
    return false;
  }
  ping_order_ = order;
  ping_state_.store(PingState::kWanted, std::memory_order_release);
  wakeup_.wake();
  return true;
}

bool GatewayApp::tell(const gateway::CoreMessage& message) {
  const bool is_told = told_.push(message);
  wakeup_.wake();
  return is_told;
}

void GatewayApp::order_drain(DrainOrder order) {
  drain_order_.store(order, std::memory_order_release);
  wakeup_.wake();
}

uint32_t GatewayApp::take_over(Instant now, std::span<const std::vector<uint8_t>> saved) {
  uint32_t count = 0;
  for (const std::vector<uint8_t>& each : saved) {
    count += gateway_.take_over(now, each) ? 1 : 0;
  }
  return count;
}

void GatewayApp::request_shutdown() {
  shutdown_.store(true, std::memory_order_release);
  wakeup_.wake();
}

bool GatewayApp::ping_result(gateway::PingResult& out) const {
  if (ping_state_.load(std::memory_order_acquire) != PingState::kDone) {
    return false;
  }
  out = ping_result_;
  return true;
}

void GatewayApp::publish_progress() {
  const gateway::GatewayStats& stats = gateway_.stats();
  open_.store(static_cast<uint32_t>(stats.connections_open), std::memory_order_relaxed);
  drained_.store(stats.connections[static_cast<size_t>(gateway::ConnectionResult::kDrained)], std::memory_order_relaxed);
  forced_.store(stats.connections[static_cast<size_t>(gateway::ConnectionResult::kClosedByUs)], std::memory_order_relaxed);
}

DrainProgress GatewayApp::drain_progress() const {
  const bool is_current = drain_acted_on_.load(std::memory_order_acquire) == drain_order_.load(std::memory_order_relaxed);
  return {open_.load(std::memory_order_relaxed), drained_.load(std::memory_order_relaxed),
          forced_.load(std::memory_order_relaxed), is_current};
}

// A question is the core's while it is not in `question_`: between two instalments who asks can take it back.
void GatewayApp::answer_some(Instant now) {
  Question* question = question_.exchange(nullptr, std::memory_order_acquire);
  if (question == nullptr) {
    return;
  }
  if (question->options != nullptr) {
    wires_.roce.reconfigure(question->wires->roce);
    wires_.iwarp.reconfigure(question->wires->iwarp);
    wires_.tcp.reconfigure(question->wires->tcp);
    wires_.rnic.reconfigure(question->wires->rnic);
    wires_.rdma.reconfigure(question->wires->rdma);
    question->all_listen = gateway_.reconfigure(*question->options);  // behind the wires, which know the listeners' addresses
    question->answered.store(true, std::memory_order_release);
    return;
  }
  if (!question->log.empty()) {
    const std::array<const verbs::Transport*, 3> transports = {&wires_.roce, &wires_.iwarp, &wires_.rnic};
    for (const verbs::Transport* transport : transports) {
      const std::span<verbs::TransportEvent> rest = question->log.subspan(question->count);
      question->count += transport->copy_log(rest.first(std::min<size_t>(rest.size(), question->each_max)));
    }
    question->now = now;
    question->answered.store(true, std::memory_order_release);
    return;
  }
  question->place = question->clients.empty()
                        ? gateway_.describe_some(now, question->place, kDescribedAtOnce, question->out, question->count)
                        : gateway_.activity().describe_some(question->place, kClientsAtOnce, question->clients, question->count);
  if (question->place != 0) {
    question_.store(question, std::memory_order_release);
  } else {
    question->answered.store(true, std::memory_order_release);
  }
}

bool GatewayApp::ask(Question& question) {
  const std::lock_guard lock(asking_);
  question_.store(&question, std::memory_order_release);
  wakeup_.wake();
  const auto deadline = std::chrono::steady_clock::now() + kDescribeTimeout;
  while (!question.answered.load(std::memory_order_acquire)) {
    if (std::chrono::steady_clock::now() > deadline && question_.exchange(nullptr, std::memory_order_acq_rel) == &question) {
      return false;
    }
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  return true;
}

bool GatewayApp::describe(std::vector<gateway::ConnectionInfo>& out, uint32_t connections_max) {
  out.assign(connections_max, gateway::ConnectionInfo{});
  Question question;
  question.out = out;
  const bool answered = ask(question);
  out.resize(answered ? std::min<size_t>(question.count, out.size()) : 0);
  return answered;
}

bool GatewayApp::describe_clients(std::vector<gateway::ClientInfo>& out, uint32_t connections_max) {
  out.assign(connections_max + gateway::ClientActivity::kGoneMax, gateway::ClientInfo{});
  Question question;
  question.clients = out;
  const bool answered = ask(question);
  out.resize(answered ? std::min<size_t>(question.count, out.size()) : 0);
  return answered;
}

Reconfigured GatewayApp::reconfigure(gateway::GatewayOptions& options, const WireOptions& wires) {
  Question question;
  question.options = &options;
  question.wires = &wires;
  if (!ask(question)) {
    return Reconfigured::kNoAnswer;
  }
  return question.all_listen ? Reconfigured::kDone : Reconfigured::kNotAllListen;
}

bool GatewayApp::copy_log(uint32_t each_max, std::vector<verbs::TransportEvent>& out, Instant& now) {
  out.assign(std::min(wires_.roce.log_capacity(), each_max) + std::min(wires_.iwarp.log_capacity(), each_max) +
                 std::min(wires_.rnic.log_capacity(), each_max),
             verbs::TransportEvent{});
  Question question;
  question.log = out;
  question.each_max = each_max;
  const bool answered = ask(question);
  out.resize(answered ? question.count : 0);
  now = question.now;
  return answered;
}

void GatewayApp::fill(telemetry::CoreSnapshot& out) const {
  if (loop_ != nullptr) {
    out.loop = loop_->stats();
  }
  Endpoint& endpoint = node_.endpoint();
  cm::ConnectionManager& cm = node_.cm();
  out.rc = endpoint.stats();
  out.gsi = node_.gsi_stats();
  out.cm = cm.stats();
  out.iwarp = wires_.iwarp.stats();
  out.iwarp_streams = wires_.iwarp.stream_stats();
  out.iwarp_tcp = wires_.iwarp.tcp_stats();
  out.rnic = wires_.rnic.stats();
  out.rnic_works = wires_.rnic.work_stats();
  out.rpcrdma = gateway_.rpcrdma_stats();
  out.gateway = gateway_.stats();
  out.connections.half_open = cm.half_open_count() + wires_.iwarp.half_open_count() + wires_.rnic.half_open_count();
  out.connections.timewait = cm.timewait_count();
  for (uint16_t i = 0; i < queues_.size(); ++i) {
    const PortQueueStats& queue = queues_[i]->stats();
    const link::StationStats& station = node_.station(i).stats();
    telemetry::PortStats& row = out.ports[i];
    row.rx_packets = queue.rx_packets;
    row.rx_bytes = queue.rx_bytes;
    row.tx_packets = queue.tx_packets;
    row.tx_bytes = queue.tx_bytes;
    row.rx_errors = queue.rx_oversize;
    row.tx_dropped = queue.tx_dropped + queue.tx_no_view;
    row.to_kernel = queue.to_kernel;
    row.from_kernel = queue.from_kernel;
    row.to_kernel_dropped = queue.to_kernel_dropped;
    row.from_kernel_dropped = queue.from_kernel_dropped;
    row.arp_rx = station.arp_in;
    row.arp_tx = station.arp_out;
    row.nd_rx = station.nd_in;
    row.nd_tx = station.nd_out;
    row.icmp_rx = station.echo_in;
    row.icmp_tx = station.echo_out;
    row.other_rx = station.other_in;
    const node::NodePortStats& node = node_.port_stats(i);
    row.roce_rx_packets = node.roce_in;
    row.roce_rx_bytes = node.roce_bytes_in;
    row.roce_tx_packets = node.roce_out;
    row.roce_tx_bytes = node.roce_bytes_out;
    row.discards = node.discards;
  }
  if (core_ == 0) {
    fill_shared(out);
  }
  out.durations = *durations_;
  out.durations.stages = gateway_.stage_durations();
}

// What belongs to no core: one of them tells it.
void GatewayApp::fill_shared(telemetry::CoreSnapshot& out) const {
  for (uint16_t i = 0; i < queues_.size(); ++i) {
    const Port& port = queues_[i]->port();
    telemetry::PortStats& row = out.ports[i];
    row.rx_missed = port.rx_missed();
    row.rx_no_mbuf = port.rx_no_mbuf();
    row.rx_errors += port.rx_errors();
    row.links_refused = port.links_refused();
    row.link_up = port.link_up() ? 1 : 0;
    if (const ExceptionPath* exception = port.exception(); exception != nullptr) {
      row.to_kernel_dropped += exception->refused();
      row.from_kernel_dropped += exception->no_buffer();
    }
  }
  const auto pool = [&](uint32_t index, const BufferPools::Usage& usage) {
    out.pools[index].objects = usage.size;
    out.pools[index].available = usage.available;
    out.pools[index].empty = usage.refused;
  };
  pool(0, pools_.packet_usage());
  pool(1, pools_.large_usage());
  pool(2, pools_.view_usage());
  out.workers = workers_.stats();
  wires_.rdma.describe(out.verbs_listeners);
}

}  // namespace cw::dataplane
