#include "rpcrdma/rpc/record_mark.h"

#include <algorithm>
#include <utility>

namespace cw::rpcrdma {

RecordReader::RecordReader(RecordAdmission& admission, const RecordLimits& limits, uint32_t source, uint64_t owner)
    : admission_(admission), limits_(limits) {
  demand_.source = source;
  demand_.owner = owner;
}

MutableBytes RecordReader::space() {
  reads_mark_ = false;
  if (failed_ || is_waiting() || (messages_ready_ > 0 && held_bytes_ > limits_.message_bytes_max)) {
    return {};
  }
  const bool may_read_ahead = admission_.may_read_ahead(demand_.source);
  if (tail_open_ && (tail_is_spent() || (scan_.between_messages() && !may_read_ahead))) {
    close_tail();
  }
  if (tail_open_) {
    return may_read_ahead ? tail_->tailroom() : marks_only(tail_->tailroom());
  }
  if (!knows_length()) {
    if (unstored_ == 0 && may_read_ahead) {
      if (Buffer* fresh = admission_.take_open(); fresh != nullptr) {
        attach(fresh);
        return tail_->tailroom();
      }
    }
    reads_mark_ = true;
    return MutableBytes(scan_.mark).subspan(scan_.mark_bytes);
  }
  if (demand_.spare == nullptr && !ensure_memory()) {
    return {};
  }
  Buffer* spare = demand_.spare;
  demand_.spare = std::exchange(spare->next, nullptr);
  --demand_.spare_count;
  attach(spare);
  return may_read_ahead ? tail_->tailroom() : marks_only(tail_->tailroom());
}

// Of `room`, as much as the present fragment or mark still takes.
MutableBytes RecordReader::marks_only(MutableBytes room) const {
  const uint32_t wanted = scan_.fragment_left > 0 ? scan_.fragment_left : kRecordMarkBytes - scan_.mark_bytes;
  return room.first(std::min<size_t>(room.size(), wanted));
}

void RecordReader::attach(Buffer* buffer) {
  CW_DASSERT(buffer->size == 0);
  if (tail_ == nullptr) {
    head_ = buffer;
    consumed_ = 0;
  } else {
    tail_->next = buffer;
  }
  tail_ = buffer;
  tail_open_ = true;
  if (unstored_ > 0) {
    const uint32_t stored = buffer->append(Bytes(scan_.mark).last(unstored_));
    CW_ASSERT(stored == unstored_);
    unstored_ = 0;
  }
}

void RecordReader::close_tail() {
  tail_open_ = false;
  if (head_ == tail_ && consumed_ == head_->size) {
    Buffer* gone = head_;
    head_ = nullptr;
    tail_ = nullptr;
    consumed_ = 0;
    admission_.give_open(gone);
  }
}

void RecordReader::end_turn() {
  if (failed_ || is_waiting()) {
    return;
  }
  if (scan_.between_messages()) {
    if (tail_open_ && messages_ready_ == 0) {
      close_tail();
    }
  } else if (knows_length() || tail_open_) {
    (void)ensure_memory();
  }
}

Instant RecordReader::due(Instant now) {
  if (pace_.message != messages_read_) {
    pace_ = {.message = messages_read_, .bytes = read_bytes_, .begun = now, .moved = now};
  } else if (pace_.bytes != read_bytes_) {
    pace_.bytes = read_bytes_;
    pace_.moved = now;
  }
  return earlier(pace_.moved + limits_.stall_max, pace_.begun + limits_.record_time_max);
}

// That have to be stored still, at most, until the present message is complete.
uint64_t RecordReader::rest_bytes() const {
  if (!knows_length()) {
    return unstored_;
  }
  if (scan_.last_fragment) {
    return unstored_ + scan_.fragment_left;
  }
  return unstored_ + scan_.fragment_left + (limits_.message_bytes_max - scan_.message_bytes) +
         uint64_t{kRecordMarkBytes} * (limits_.fragments_max - scan_.fragments);
}

// Buffers behind the tail that the rest may take. Of each, tail_is_spent() may leave some bytes unused.
uint32_t RecordReader::spare_needed() const {
  const uint32_t capacity = admission_.buffer_bytes();
  const uint32_t unused = std::max(capacity / 64, 1u) - 1;
  const uint64_t rest = rest_bytes();
  const uint32_t room = tail_open_ ? tail_->capacity_bytes - tail_->size : 0;
  if (rest <= room - std::min(room, unused)) {
    return 0;
  }
  const uint64_t each = capacity - unused;
  return static_cast<uint32_t>((rest - (room - std::min(room, unused)) + each - 1) / each);
}

// For the rest of the present message. False: it waits.
bool RecordReader::ensure_memory() {
  const uint32_t needed = spare_needed();
  const uint32_t spare = needed > demand_.spare_count ? needed - demand_.spare_count : 0;
  const uint32_t units = spare + (demand_.units == 0 && tail_open_ ? 1 : 0);
  if (units == 0) {
    return true;
  }
  demand_.is_small = !tail_open_ && rest_bytes() <= admission_.buffer_bytes() / 4;
  if (admission_.admit(demand_, units, spare)) {
    return true;
  }
  pace_.message = UINT64_MAX;  // time begins when it is admitted
  return false;
}

// A new Buffer is begun early so that a large message is read into few pieces: between messages when under a quarter is left,
// within one when what is left is not worth a read.
bool RecordReader::tail_is_spent() const {
  const uint32_t room = tail_->capacity_bytes - tail_->size;
  const uint32_t whole = admission_.buffer_bytes();
  return room == 0 || room < whole / (scan_.between_messages() ? 4 : 64);
}

Status RecordReader::on_bytes(uint32_t count) {
  if (failed_) {
    return fail(Error::kBadState);
  }
  const uint8_t* at = nullptr;
  if (reads_mark_) {
    CW_ASSERT(count <= kRecordMarkBytes - scan_.mark_bytes);
    at = scan_.mark + scan_.mark_bytes;
    unstored_ += count;
  } else {
    CW_ASSERT(tail_open_ && count <= tail_->capacity_bytes - tail_->size);
    at = tail_->data + tail_->size;
    tail_->size += count;
  }
  read_bytes_ += count;
  held_bytes_ += count;
  while (count > 0) {
    if (scan_.fragment_left > 0) {
      const uint32_t step = std::min(count, scan_.fragment_left);
      at += step;
      count -= step;
      scan_.fragment_left -= step;
      if (scan_.fragment_left == 0) {
        end_fragment();
      }
      continue;
    }
    scan_.mark[scan_.mark_bytes++] = *at++;
    --count;
    if (scan_.mark_bytes == kRecordMarkBytes) {
      if (const Status mark = on_mark(); !mark.ok()) {
        failed_ = true;
        return mark;
      }
    }
  }
  return {};
}

Status RecordReader::on_mark() {
  const uint32_t mark = load_be32(scan_.mark);
  const uint32_t fragment_bytes = mark & ~kLastFragment;
  scan_.mark_bytes = 0;
  scan_.last_fragment = (mark & kLastFragment) != 0;
  scan_.message_bytes += fragment_bytes;
  if (++scan_.fragments > limits_.fragments_max || scan_.message_bytes > limits_.message_bytes_max) {
    return fail(Error::kLimit);
  }
  if (scan_.last_fragment && scan_.message_bytes == 0) {
    return fail(Error::kBadValue);
  }
  scan_.fragment_left = fragment_bytes;
  if (scan_.last_fragment && demand_.spare_count > 0) {
    if (const uint32_t needed = spare_needed(); needed < demand_.spare_count) {
      admission_.give_back(demand_, demand_.spare_count - needed, demand_.spare_count - needed);
    }
  }
  if (fragment_bytes == 0) {
    end_fragment();
  }
  return {};
}

void RecordReader::end_fragment() {
  if (scan_.last_fragment) {
    ++messages_ready_;
    ++messages_read_;
    scan_ = {};
    admission_.forget(demand_);  // from here on its memory is for whoever gets the message
  }
}

bool RecordReader::poll_message(Chain& out) {
  out.clear();
  if (messages_ready_ == 0) {
    return false;
  }
  // Views first: when one is missing nothing has been touched yet.
  Chain views;
  if (!share_pieces(views)) {
    return false;
  }
  assemble(views, out);
  --messages_ready_;
  return true;
}

bool RecordReader::share_pieces(Chain& views) {
  bool complete = true;
  walk_message([&](const Place& place, uint32_t count) {
    if (is_last_use(place, count)) {
      return true;
    }
    Buffer* view = place.buffer->pool->share(*place.buffer, place.offset, count);
    if (view == nullptr) {
      complete = false;
      return false;
    }
    views.push_back(view);
    return true;
  });
  return complete;
}

void RecordReader::assemble(Chain& views, Chain& out) {
  Buffer* view = views.detach();
  const Walk walk = walk_message([&](const Place& place, uint32_t count) {
    if (!is_last_use(place, count)) {
      Buffer* next = std::exchange(view->next, nullptr);
      out.push_back(std::exchange(view, next));
      return true;
    }
    while (head_ != place.buffer) {
      drop_front();
    }
    Buffer* taken = head_;
    head_ = std::exchange(taken->next, nullptr);
    if (head_ == nullptr) {
      tail_ = nullptr;
      tail_open_ = false;
    }
    taken->trim_front(place.offset);
    out.push_back(taken);
    return true;
  });
  while (head_ != walk.end.buffer) {
    drop_front();
  }
  consumed_ = walk.end.offset;
  held_bytes_ -= walk.octets;
  if (head_ != nullptr && consumed_ == head_->size && !(head_ == tail_ && tail_open_)) {
    drop_front();
  }
}

template <typename OnPiece>
RecordReader::Walk RecordReader::walk_message(OnPiece&& on_piece) {
  Place place{head_, consumed_};
  uint64_t octets = 0;
  bool last = false;
  while (!last) {
    const uint32_t mark = take_mark(place);
    octets += kRecordMarkBytes;
    last = (mark & kLastFragment) != 0;
    uint32_t left = mark & ~kLastFragment;
    while (left > 0) {
      while (place.offset == place.buffer->size) {
        place = {place.buffer->next, 0};
      }
      const uint32_t count = std::min(left, place.buffer->size - place.offset);
      // on_piece may unlink the Buffer: where to go on is settled before.
      const Place next = behind(place, count);
      if (!on_piece(place, count)) {
        return {next, octets};
      }
      place = next;
      octets += count;
      left -= count;
    }
  }
  return {place, octets};
}

bool RecordReader::is_last_use(const Place& place, uint32_t count) const {
  const bool may_grow = place.buffer == tail_ && tail_open_ && tail_->size < tail_->capacity_bytes;
  return place.offset + count == place.buffer->size && !may_grow;
}

RecordReader::Place RecordReader::behind(const Place& place, uint32_t count) const {
  if (is_last_use(place, count)) {
    return {place.buffer->next, 0};
  }
  return {place.buffer, place.offset + count};
}

uint32_t RecordReader::take_mark(Place& place) {
  uint32_t mark = 0;
  for (uint32_t i = 0; i < kRecordMarkBytes; ++i) {
    while (place.offset == place.buffer->size) {
      place = {place.buffer->next, 0};
    }
    mark = (mark << 8) | place.buffer->data[place.offset++];
  }
  return mark;
}

void RecordReader::drop_front() {
  Buffer* gone = head_;
  head_ = std::exchange(gone->next, nullptr);
  if (head_ == nullptr) {
    tail_ = nullptr;
    tail_open_ = false;
  }
  consumed_ = 0;
  release_buffers(gone);
}

void RecordReader::reset() {
  admission_.forget(demand_);
  if (head_ != nullptr) {
    release_buffers(head_);
  }
  head_ = nullptr;
  tail_ = nullptr;
  tail_open_ = false;
  consumed_ = 0;
  held_bytes_ = 0;
  messages_ready_ = 0;
  unstored_ = 0;
  failed_ = false;
  scan_ = {};
}

}  // namespace cw::rpcrdma
