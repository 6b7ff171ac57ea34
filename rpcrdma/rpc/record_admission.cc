#include "rpcrdma/rpc/record_admission.h"

#include <algorithm>
#include <utility>

namespace cw::rpcrdma {

RecordAdmission::RecordAdmission(RecordBudget& budget, uint32_t reserve)
    : budget_(budget), lines_(budget.sources_max()), reserve_max_(reserve) {
  for (uint32_t i = 0; i < reserve; ++i) {
    begin_turn();
  }
}

RecordAdmission::RecordAdmission(BufferPool& pool)
    : own_(std::in_place, pool), budget_(*own_), lines_(budget_.sources_max()), reserve_max_(0) {}

RecordAdmission::~RecordAdmission() {
  CW_ASSERT(waiting_ == 0);
  pass_ticket();
  if (open_ != nullptr) {
    release_buffers(open_);
  }
  for (Buffer* buffer : reserve_) {
    release_buffers(buffer);
  }
}

// The reserve gets one Buffer, unless it had the last one that came back while others collect.
void RecordAdmission::begin_turn() {
  const bool may_take = !budget_.someone_collects() || budget_.collected() != collected_seen_;
  if (reserve_.size() >= reserve_max_ || !may_take) {
    return;
  }
  if (Buffer* buffer = budget_.pool().allocate_one(); buffer != nullptr) {
    reserve_.push_back(buffer);
    collected_seen_ = budget_.collected();
  }
}

Buffer* RecordAdmission::take_open() {
  if (open_ != nullptr) {
    return std::exchange(open_, nullptr);
  }
  return budget_.pool().allocate_one();
}

void RecordAdmission::give_open(Buffer* buffer) {
  buffer->trim_front(buffer->size);  // views of others may cover it
  if (open_ != nullptr && open_->capacity_bytes > buffer->capacity_bytes) {
    std::swap(open_, buffer);
  }
  if (open_ != nullptr) {
    release_buffers(std::exchange(open_, nullptr));
  }
  if (buffer->capacity_bytes < buffer_bytes() / 4) {
    release_buffers(buffer);
  } else {
    open_ = buffer;
  }
}

void RecordAdmission::add_spare(RecordDemand& demand, Buffer* buffer) {
  buffer->next = demand.spare;
  demand.spare = buffer;
  ++demand.spare_count;
}

bool RecordAdmission::take_growing(RecordDemand& demand) {
  CW_DASSERT(demand.is_growing || demand.units == 0);
  if (!budget_.take_growing(demand.source, demand.units_wanted)) {
    return false;
  }
  demand.is_growing = true;
  demand.units += std::exchange(demand.units_wanted, 0);
  demand.rest_wanted = 0;
  return true;
}

// Who may not grow asks for the longest record that it may become.
bool RecordAdmission::take_wanted_share(RecordDemand& demand) {
  if (demand.units_wanted == 0 || (demand.rest_wanted > 0 && take_growing(demand))) {
    return true;
  }
  const uint32_t units = demand.units_wanted + demand.rest_wanted;
  if (!budget_.take_share(demand.source, units, demand.is_growing ? demand.units : 0)) {
    return false;
  }
  demand.is_growing = false;
  demand.units += units;
  demand.units_wanted = 0;
  demand.spare_wanted += std::exchange(demand.rest_wanted, 0);
  return true;
}

// A quarter of a Buffer is free in any that is open.
bool RecordAdmission::take_reserved(RecordDemand& demand) {
  Buffer* buffer = nullptr;
  if (open_ != nullptr) {
    buffer = std::exchange(open_, nullptr);
  } else if (!reserve_.empty()) {
    buffer = reserve_.back();
    reserve_.pop_back();
  } else {
    return false;
  }
  add_spare(demand, buffer);
  demand.spare_wanted = 0;
  return true;
}

// All that is wanted, or nothing.
bool RecordAdmission::collect_all(RecordDemand& demand) {
  const uint32_t before = demand.spare_count;
  if (collect(demand)) {
    return true;
  }
  const uint32_t some = demand.spare_count - before;
  demand.spare_wanted += some;
  give_spare(demand, some);
  return false;
}

// All that is wanted, or as many as there are.
bool RecordAdmission::collect(RecordDemand& demand) {
  std::array<Buffer*, 64> burst;
  while (demand.spare_wanted > 0) {
    const std::span<Buffer*> wanted = std::span(burst).first(std::min<size_t>(burst.size(), demand.spare_wanted));
    if (budget_.pool().allocate(wanted)) {
      for (Buffer* buffer : wanted) {
        add_spare(demand, buffer);
      }
      demand.spare_wanted -= static_cast<uint32_t>(wanted.size());
      budget_.note_collected(static_cast<uint32_t>(wanted.size()));
    } else if (Buffer* one = budget_.pool().allocate_one(); one != nullptr) {
      add_spare(demand, one);
      --demand.spare_wanted;
      budget_.note_collected(1);
    } else {
      return false;
    }
  }
  return true;
}

bool RecordAdmission::admit(RecordDemand& demand, uint32_t units, uint32_t buffers, uint32_t rest) {
  CW_DASSERT(!demand.is_linked());
  demand.units_wanted = units;
  demand.spare_wanted = buffers;
  demand.rest_wanted = rest;
  demand.has_begun = demand.units > 0;
  Line& line = lines_[demand.source];
  if (line.empty() && take_wanted_share(demand)) {
    if (demand.spare_wanted == 0 || (!budget_.someone_collects() && collect_all(demand))) {
      return true;
    }
    if (is_reserved_for(demand) && take_reserved(demand)) {
      return true;
    }
  }
  join(demand);
  ++waiting_;
  ++waited_;
  return false;
}

void RecordAdmission::join(RecordDemand& demand) {
  Line& line = lines_[demand.source];
  (is_reserved_for(demand) ? line.small : demand.has_begun ? line.begun : line.fresh).push_back(demand);
}

void RecordAdmission::forget(RecordDemand& demand) {
  if (demand.is_linked()) {
    demand.unlink();
    --waiting_;
  }
  demand.units_wanted = 0;
  demand.spare_wanted = 0;
  demand.rest_wanted = 0;
  give_back(demand, demand.units, demand.spare_count);
  demand.is_growing = false;
}

void RecordAdmission::give_spare(RecordDemand& demand, uint32_t buffers) {
  for (; buffers > 0; --buffers) {
    Buffer* buffer = demand.spare;
    demand.spare = std::exchange(buffer->next, nullptr);
    --demand.spare_count;
    release_buffers(buffer);
  }
}

void RecordAdmission::give_back(RecordDemand& demand, uint32_t units, uint32_t buffers) {
  give_spare(demand, buffers);
  if (units > 0) {
    demand.units -= units;
    budget_.give_share(demand.source, units, demand.is_growing);
  }
}

RecordDemand* RecordAdmission::grant(RecordDemand& demand) {
  demand.unlink();
  --waiting_;
  return &demand;
}

RecordDemand* RecordAdmission::serve_small(uint32_t source) {
  RecordDemand* first = lines_[source].small.front();
  while (first != nullptr && first->units_wanted > 0 && first->rest_wanted > 0 && !take_growing(*first)) {
    // It may need more than is kept back.
    first->unlink();
    first->is_small = false;
    join(*first);
    first = lines_[source].small.front();
  }
  if (first == nullptr || !take_wanted_share(*first)) {
    return nullptr;
  }
  return first->spare_wanted == 0 || take_reserved(*first) ? grant(*first) : nullptr;
}

// The sources take turns, each for one record. One whose share is used up is passed over.
RecordDemand* RecordAdmission::serve_large() {
  const uint32_t sources = static_cast<uint32_t>(lines_.size());
  for (uint32_t looks = 0; looks < sources; ++looks) {
    RecordDemand* first = lines_[collecting_].first();
    if (first == nullptr || !take_wanted_share(*first)) {
      collecting_ = (collecting_ + 1) % sources;
      continue;
    }
    if (first->spare_wanted > 0) {
      if (!ticket_) {
        ticket_ = budget_.draw_ticket();
      }
      if (!budget_.is_served(*ticket_) || !collect(*first)) {
        return nullptr;
      }
      pass_ticket();
    }
    collecting_ = (collecting_ + 1) % sources;
    return grant(*first);
  }
  pass_ticket();  // nobody is left who could collect
  return nullptr;
}

void RecordAdmission::pass_ticket() {
  if (ticket_ && budget_.is_served(*ticket_)) {
    budget_.serve_next(*ticket_);
    ticket_.reset();
  }
}

RecordDemand* RecordAdmission::poll() {
  if (waiting_ > 0) {
    for (uint32_t source = 0; source < lines_.size(); ++source) {
      if (RecordDemand* served = serve_small(source); served != nullptr) {
        return served;
      }
    }
  }
  return serve_large();
}

}  // namespace cw::rpcrdma
