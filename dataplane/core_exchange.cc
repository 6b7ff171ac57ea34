#include "dataplane/core_exchange.h"

#include <utility>

namespace cw::dataplane {
namespace {

constexpr uint32_t kFrames = 1023;
constexpr uint32_t kMessages = 1023;

}  // namespace

CoreExchange::Pair::Pair()
    : received("cw_received", kFrames, RingProducers::kOne),
      to_send("cw_to_send", kFrames, RingProducers::kOne),
      messages("cw_messages", kMessages, RingProducers::kOne) {}

CoreExchange::CoreExchange(std::vector<Wakeup*> wakeups) : wakeups_(std::move(wakeups)), givers_(wakeups_.size()) {
  for (uint32_t from = 0; from < cores(); ++from) {
    givers_[from].touched.resize(cores());
    for (uint32_t to = 0; to < cores(); ++to) {
      pairs_.push_back(from == to ? nullptr : std::make_unique<Pair>());
    }
  }
}

CoreExchange::~CoreExchange() {
  for (const auto& pair : pairs_) {
    Frame frame;
    while (pair != nullptr && (pair->received.pop({&frame, 1}) == 1 || pair->to_send.pop({&frame, 1}) == 1)) {
      rte_pktmbuf_free(frame.mbuf);
    }
  }
}

bool CoreExchange::give_received(uint32_t from, uint32_t to, const Frame& frame) {
  givers_[from].touched[to] = true;
  return pair(from, to).received.push(frame);
}

bool CoreExchange::give_to_send(uint32_t from, uint32_t to, const Frame& frame) {
  givers_[from].touched[to] = true;
  return pair(from, to).to_send.push(frame);
}

bool CoreExchange::give_message(uint32_t from, uint32_t to, const gateway::CoreMessage& message) {
  givers_[from].touched[to] = true;
  return pair(from, to).messages.push(message);
}

void CoreExchange::kick(uint32_t from) {
  std::vector<bool>& touched = givers_[from].touched;
  for (uint32_t to = 0; to < cores(); ++to) {
    if (touched[to]) {
      touched[to] = false;
      wakeups_[to]->wake();
    }
  }
}

uint32_t CoreExchange::take_received(uint32_t to, uint32_t from, std::span<Frame> out) {
  return from == to ? 0 : pair(from, to).received.pop(out);
}

bool CoreExchange::take_to_send(uint32_t to, uint32_t from, Frame& out) {
  return from != to && pair(from, to).to_send.pop({&out, 1}) == 1;
}

bool CoreExchange::take_message(uint32_t to, uint32_t from, gateway::CoreMessage& out) {
  return from != to && pair(from, to).messages.pop({&out, 1}) == 1;
}

bool CoreExchange::has_input(uint32_t to) const {
  for (uint32_t from = 0; from < cores(); ++from) {
    const auto& pair = pairs_[from * cores() + to];
    if (pair != nullptr && !(pair->received.empty() && pair->to_send.empty() && pair->messages.empty())) {
      return true;
    }
  }
  return false;
}

}  // namespace cw::dataplane
