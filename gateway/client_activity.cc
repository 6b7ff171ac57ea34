#include "gateway/client_activity.h"

#include <algorithm>

#include "base/assert.h"
#include "base/usdt.h"
#include "rpcrdma/ulb/procedures.h"

namespace cw::gateway {

ActiveClient& ClientActivity::join(const IpAddress& address, std::optional<uint32_t> section) {
  const auto [found, is_new] = clients_.try_emplace(address.raw);
  ActiveClient& client = found->second;
  if (is_new) {
    client.address = address;
    if (free_numbers_.empty()) {
      client.number = static_cast<uint32_t>(by_number_.size());
      by_number_.push_back(&client);
    } else {
      client.number = free_numbers_.front();
      free_numbers_.pop_front();
      by_number_[client.number] = &client;
    }
  } else if (client.is_linked()) {
    client.unlink();
    --gone_count_;
  }
  client.section = section;
  ++client.connections;
  return client;
}

void ClientActivity::leave(ActiveClient& client) {
  CW_ASSERT(client.connections > 0);
  if (--client.connections > 0) {
    return;
  }
  gone_.push_back(client);
  if (++gone_count_ > kGoneMax) {
    const ActiveClient& oldest = *gone_.pop_front();
    --gone_count_;
    by_number_[oldest.number] = nullptr;
    free_numbers_.push_back(oldest.number);
    clients_.erase(oldest.address.raw);
  }
}

void ClientActivity::on_done(const rpcrdma::CallDone& done) {
  ActiveClient* client = done.client < by_number_.size() ? by_number_[done.client] : nullptr;
  const Duration took = done.replied - done.received;
  if (usdt::watches_calls()) [[unlikely]] {
    const rpcrdma::ProcedureName& name = rpcrdma::procedure_name(done.procedure);
    for (uint32_t i = 0; i < done.count; ++i) {
      usdt::fire(usdt::CallDone{.client = client != nullptr ? client->address : IpAddress(),
                                .program = name.program,
                                .procedure = name.procedure,
                                .ns = took.to_ns()});
    }
  }
  if (client == nullptr) {
    return;
  }
  if (client->procedures == nullptr) [[unlikely]] {
    client->procedures = std::make_unique<ProcedureUses>();
  }
  ProcedureUse& use = (*client->procedures)[done.procedure];
  use.calls += done.count;
  use.ns += static_cast<uint64_t>(std::max<int64_t>(took.to_ns(), 0)) * done.count;
}

uint32_t ClientActivity::describe_some(uint32_t place, uint32_t places, std::span<ClientInfo> out, uint32_t& count) const {
  const auto end = static_cast<uint32_t>(std::min<size_t>(by_number_.size(), size_t{place} + places));
  for (uint32_t number = place; number < end; ++number) {
    const ActiveClient* client = by_number_[number];
    if (client == nullptr) {
      continue;
    }
    if (count < out.size()) {
      ClientInfo& info = out[count];
      info.address = client->address;
      info.section = client->section;
      info.connections = client->connections;
      info.use = client->use;
      if (client->procedures != nullptr) {
        info.procedures = *client->procedures;
      }
    }
    ++count;
  }
  return end >= by_number_.size() ? 0 : end;
}

}  // namespace cw::gateway
