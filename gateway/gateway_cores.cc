// What a gateway has to know of its client's connections on other cores: which of its calls are still at a backend (ReplayGuard),
// and which have broken their connections (BrokenCalls). And whether a backend takes connections, as the last core to ask found,
// or as its checks have found.
#include "gateway/gateway_connection.h"

namespace cw::gateway {
namespace {

// How long a backend that could not be reached counts as down.
constexpr Duration kRetryBackend = Duration::seconds(1);

}  // namespace

void Gateway::tell_other_cores(const CoreMessage& message) {
  for (uint32_t core = 0; core < options_.core.count; ++core) {
    if (core != options_.core.index) {
      core_mail_.push_back({core, message});
    }
  }
}

void Gateway::tell_fence_done(LinkId link, bool waited) {
  core_mail_.push_back(
      {core_of(link), {.kind = CoreMessage::Kind::kFenceDone, .link = link, .value = waited ? uint32_t{1} : uint32_t{0}}});
}

// The other core's link stands in the guard as a connection of this core would.
void Gateway::answer_fence(const CoreMessage& fence) {
  ReplayGuard::Client* client = guard_.find(fence.client, fence.index);
  if (client == nullptr || !guard_.hold(*client, fence.link)) {
    tell_fence_done(fence.link, false);
  }
}

void Gateway::remember_broken_call(Instant now, const Connection& connection, uint32_t xid) {
  broken_calls_.remember(now, connection.peer, connection.listener_index, xid);
  tell_other_cores(
      {.kind = CoreMessage::Kind::kBrokenCall, .index = connection.listener_index, .client = connection.peer, .xid = xid});
}

// A client's connection could not be made. Its own address may be why (a firewall, no way back to it), and then it comes again
// for ever: such a failure closes the backend to nobody else. Two clients that fail would prove no more, since one host may have
// many addresses.
bool Gateway::speaks_for_all(uint32_t backend) const {
  const BackendOptions& options = options_.backends[backend];
  return !options.from_client && !(options.checked && servers_[backend].any_up());
}

void Gateway::note_backend(Instant now, uint32_t backend, bool up) {
  if (up) {
    down_until_[backend] = Instant();
  } else if (speaks_for_all(backend)) {
    down_until_[backend] = now + kRetryBackend;
  }
  if (options_.backends[backend].checked || options_.backends[backend].removed) {
    return;  // that is for the checks to say, or for nobody
  }
  const uint64_t value = up ? 1 : 0;
  if (stats_.backends[backend].up != value) {
    stats_.backends[backend].up = value;
    tell_other_cores({.kind = CoreMessage::Kind::kBackendUp, .index = backend, .value = static_cast<uint32_t>(value)});
  }
}

void Gateway::on_server_state(Instant now, uint32_t backend, uint32_t server, control::ServerState state) {
  if (backend >= servers_.size()) {
    return;  // of a reload that this core has not taken
  }
  servers_[backend].set(server, state);
  if (options_.backends[backend].checked) {
    judge_by_checks(backend);
    down_until_[backend] = servers_[backend].any_up() ? Instant() : now + kRetryBackend;
  }
}

// A client learns in a REJ what it would otherwise learn from a connection that ends at once. Not for long: the next one tries,
// so that a check which is wrong, or a backend that came back, keeps nobody out.
bool Gateway::is_known_down(Instant now, uint32_t backend) const {
  return backend != ListenerOptions::kNoBackend && options_.backends[backend].kind == BackendKind::kTcp &&
         now < down_until_[backend];
}

void Gateway::judge_by_checks(uint32_t backend) {
  const ServerChoice& servers = servers_[backend];
  stats_.backends[backend].up = servers.any_up() ? 1 : 0;
  stats_.backends[backend].checked = servers.is_checked() ? 1 : 0;
}

void Gateway::on_core_message(Instant now, const CoreMessage& message) {
  switch (message.kind) {
    case CoreMessage::Kind::kFence:
      answer_fence(message);
      return;
    case CoreMessage::Kind::kFenceDone:
      if (Connection* connection = find(message.link); connection != nullptr && connection->holds > 0) {
        if (message.value != 0 && !connection->has_waited) {
          connection->has_waited = true;
          ++stats_.connections_held;
        }
        let_go(now, *connection);
      }
      return;
    case CoreMessage::Kind::kBrokenCall:
      broken_calls_.remember(now, message.client, message.index, message.xid);
      return;
    case CoreMessage::Kind::kBackendUp:
      if (message.index >= options_.backends.size() || !options_.backends[message.index].removed) {
        stats_.backends[message.index].up = message.value;
        if (message.value != 0 || speaks_for_all(message.index)) {
          down_until_[message.index] = message.value != 0 ? Instant() : now + kRetryBackend;
        }
      }
      return;
    case CoreMessage::Kind::kServerState:
      on_server_state(now, message.index, message.server, static_cast<control::ServerState>(message.value));
      return;
  }
}

}  // namespace cw::gateway
