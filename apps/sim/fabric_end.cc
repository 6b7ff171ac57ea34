// What is asked of the installation between and after the phases of a run.
#include <algorithm>

#include "apps/sim/fabric.h"

namespace cw::sim {

bool Fabric::all_answered() const {
  return std::all_of(clients_.begin(), clients_.end(), [](const ClientSlot& slot) {
    return slot.pending.empty() && slot.caller != nullptr && slot.caller->is_idle();
  });
}

bool Fabric::faults_over() const {
  const bool over = std::all_of(happenings_.begin(), happenings_.end(), [](const Happening& happening) {
    return happening.over || (!happening.begun && happening.begins.is_never());
  });
  return over && !draining_ && now_ >= start_ + scenario_.phase_one;
}

void Fabric::stop_repeating() {
  for (ClientSlot& slot : clients_) {
    if (slot.caller != nullptr) {
      slot.caller->stop_repeating();
    }
  }
}

std::vector<Service> Fabric::services() const {
  std::vector<Service> out;
  for (uint32_t i = 0; i < clients_.size(); ++i) {
    out.push_back(clients_[i].caller != nullptr ? clients_[i].caller->service(clock_of(1 + i)) : Service{});
  }
  return out;
}

void Fabric::close_clients() {
  clients_close_ = true;
  for (uint32_t i = 0; i < clients_.size(); ++i) {
    if (clients_[i].caller != nullptr) {
      clients_[i].caller->finish(clock_of(1 + i));
      hosts_[1 + i].dirty = true;
    }
  }
}

void Fabric::close_gateway() {
  gateway_closes_ = true;
  if (gateway_ != nullptr) {
    left_over_ += gateway_->gateway.stats().connections_open;
    gateway_->gateway.shut_down(clock_of(kGateway));
    hosts_[kGateway].dirty = true;
  }
}

bool Fabric::gateway_is_empty() const {
  return gateway_ != nullptr && gateway_->gateway.stats().connections_open == 0;
}

bool Fabric::is_quiet() const {
  if (gateway_ == nullptr || draining_) {
    return false;
  }
  // What the gateway said to its workers when it shut down is heard in its next turn, and nothing else may take time on iWARP.
  if (!tcp_.is_quiet() || hosts_[kGateway].dirty) {
    return false;
  }
  const auto rests = [](node::Node& node) { return node.cm().live_count() == 0 && node.cm().timewait_count() == 0; };
  return flight_.empty() && gateway_->gateway.is_quiet() && rests(gateway_->node) && gateway_->backend.next_at().is_never() &&
         std::all_of(clients_.begin(), clients_.end(),
                     [&](const ClientSlot& slot) { return slot.stack != nullptr && rests(slot.stack->node); });
}

void Fabric::check_end() {
  for (const ClientSlot& slot : clients_) {
    clients_timed_out_ = clients_timed_out_ || slot.caller->gave_up_calls();
  }
  watch_.check_end(*gateway_, clients_timed_out_, hostiles_.empty());
  verdict_.expect(gateway_->backend.callbacks().wrong == 0, Oracle::kPayload, "a call of the server was answered wrongly");
  for (const ClientSlot& slot : clients_) {
    sim::check_end(*slot.stack, clients_timed_out_, verdict_);
    verdict_.expect(slot.caller->retired_memory().is_untouched(), Oracle::kMemory, "memory was written after its keys had ended");
  }
  ledger_.check_end();
}

void Fabric::collect(Coverage& coverage) {
  kill_gateway();
  for (uint32_t i = 0; i < clients_.size(); ++i) {
    kill_client(i);
  }
  coverage_.add(scenario_);
  coverage_.add_fabric(undelivered_, left_over_, reads_refused_, segments_, ledger_);
  coverage.add(coverage_);
}

std::string Fabric::unfinished() const {
  std::string out;
  for (size_t i = 0; i < clients_.size(); ++i) {
    const ClientSlot& slot = clients_[i];
    out += "client " + std::to_string(i) + ": " + std::to_string(slot.pending.size()) + " calls to do";
    out += slot.caller == nullptr ? ", down; " : slot.caller->is_idle() ? "; " : ", some in flight; ";
  }
  if (gateway_ != nullptr) {
    out += "gateway: " + std::to_string(gateway_->gateway.stats().connections_open) + " connections, " +
           std::to_string(gateway_->gateway.rpcrdma_stats().credits_in_use) + " calls";
  } else {
    out += "gateway down";
  }
  return out;
}

}  // namespace cw::sim
